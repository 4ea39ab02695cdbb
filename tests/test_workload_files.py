"""Profiles and devices in files: what is written is read back, and what is wrong is said."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pssim.catalogue import device_names, find_device, find_profile, profile_names
from pssim.errors import OutputError, ProfileError
from pssim.workload import load_device, load_profile, save_profile

PROFILE = {
    "format": "pssim-profile",
    "version": 1,
    "name": "tiny",
    "sample": "one number",
    "provenance": {"evidence": "assumed"},
    "totals": [
        {"batch": batch, "forward_s": [1.0, 2.0, 3.0], "backward_s": [2.0, 4.0, 6.0], "hook_overhead": -0.01}
        for batch in (1, 8)
    ],
    "update_s": [0.1, 0.2, 0.3],
    "layers": [
        {
            "name": "fc",
            "kind": "Linear",
            "forward_flops": 10,
            "backward_flops": 20,
            "forward_s": [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],
            "backward_s": [[2.0, 4.0, 6.0], [2.0, 4.0, 6.0]],
        }
    ],
    "gradients": [{"name": "fc.weight", "elements": 7, "layer": "fc"}],
}

DEVICE = """
format = "pssim-device"
version = 1
name = "abacus"
description = "beads"
cores = 4
peak = { value = "100 GFLOP/s", evidence = "computed", source = "beads x hands" }
memory_bandwidth = { value = "10 GB/s", evidence = "read", source = "the box" }
[sustained]
value = "40 GFLOP/s"
low = "20 GFLOP/s"
high = "60 GFLOP/s"
evidence = "assumed"
source = "40 %"
"""


def write(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    data = json.loads(json.dumps(PROFILE))
    change(data)
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(data))
    return path


# ------------------------------------------------------------------------------ profiles


@pytest.mark.parametrize("name", profile_names())
def test_bundled_profiles_can_be_used(name: str) -> None:
    """Each says how it came about, and is written in the form that save_profile writes."""
    made = load_profile(find_profile(name))
    assert made.name == name
    assert made.provenance["evidence"] == "measured"
    assert {"processor", "cores", "threads", "torch", "date", "command"} <= made.provenance.keys()


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    """The bundled file, saved again, is the same file."""
    made = load_profile(find_profile("resnet50"))
    save_profile(made, tmp_path / "again.json")
    assert load_profile(tmp_path / "again.json") == made
    assert (tmp_path / "again.json").read_bytes() == find_profile("resnet50").read_bytes()
    assert list(tmp_path.iterdir()) == [tmp_path / "again.json"]


def test_floats_keep_nine_digits(tmp_path: Path) -> None:
    made = load_profile(write(tmp_path, lambda data: data.update(update_s=[1 / 3, 1 / 3, 2 / 3])))
    save_profile(made, tmp_path / "rounded.json")
    assert load_profile(tmp_path / "rounded.json").update_s == (0.333333333, 0.333333333, 0.666666667)


def test_a_profile_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    made = load_profile(write(tmp_path, lambda data: None))
    with pytest.raises(OutputError, match="taken: the profile cannot be written"):
        save_profile(made, tmp_path / "taken")
    with pytest.raises(OutputError, match="No such file or directory"):
        save_profile(made, tmp_path / "nowhere" / "tiny.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken", "tiny.json"]


def _first_layer(**change: object) -> Callable[[dict[str, Any]], object]:
    return lambda data: data["layers"][0].update(change)


def test_unknown_keys_come_with_the_nearest_known_one(tmp_path: Path) -> None:
    """Also where that key would be right somewhere else in the file."""
    with pytest.raises(ProfileError, match=r"layer: unknown key, did you mean 'layers'\?"):
        load_profile(write(tmp_path, lambda data: data.update(layer=[])))
    with pytest.raises(ProfileError, match=r"layers\.0\.forwards_s: unknown key, did you mean 'forward_s'\?"):
        load_profile(write(tmp_path, _first_layer(forwards_s=[])))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_first_layer(forward_s=[[1.0, -2.0, 3.0]] * 2), r"s\.0\.1: .* than or equal to 0, it is -2\.0"),
        (_first_layer(backward_s=[[1.0, math.nan, 3.0]] * 2), r"s\.0\.1: .*finite number, it is nan"),
        (_first_layer(backward_s=[[1.0, math.inf, 3.0]] * 2), r"s\.0\.1: .*finite number, it is inf"),
        (_first_layer(forward_s=[[1.0, 1e300, 3.0]] * 2), r"less than or equal to 1000000, it is 1e\+300"),
        (_first_layer(forward_s=[[1.0, 3.0]] * 2), r"forward_s\.0\.2: missing"),
        (_first_layer(forward_s=[[1.0, 2.0, 3.0]]), r"'fc': forward_s must have 2 rows, it has 1"),
        (_first_layer(forward_flops=10**30), r"forward_flops: .* less than or equal to 10+, it is 10+"),
        (_first_layer(forward_flops="10"), r"forward_flops: .*valid integer, it is '10'"),
        (_first_layer(name="conv"), r"gradients: 'fc.weight' must belong to a layer, 'fc' is none"),
        (lambda data: data.pop("layers"), r"layers: missing"),
        (lambda data: data["layers"].extend(data["layers"]), r"'fc' must stand once, it stands 2 times"),
        (lambda data: data["layers"].clear(), r"layers: .*at least 1 item"),
        (lambda data: data["totals"].pop(), r"batch 1 and at least one larger, these are \[1\]"),
        (lambda data: data["totals"][0].update(batch=2), r"batch 1 and .* larger, these are \[2, 8\]"),
        (lambda data: data["totals"].reverse(), r"must ascend without repeats, they are \[8, 1\]"),
        (lambda data: data["totals"][1].update(batch=1), r"ascend without repeats, they are \[1, 1\]"),
        (lambda data: data["totals"][0].update(batch=0), r"totals\.0\.batch: .* equal to 1, it is 0"),
        (lambda data: data["gradients"][0].update(elements=-1), r"gradients\.0\.elements: .*it is -1"),
        (lambda data: data.update(version=2), r"version: Input should be 1, it is 2"),
        (lambda data: data.pop("format"), r"format: missing"),
        (lambda data: data.update(format="pssim-device"), r"'pssim-profile', it is 'pssim-device'"),
    ],
)
def test_a_faulty_profile_says_where_and_what(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = write(tmp_path, change)
    with pytest.raises(ProfileError, match=message) as caught:
        load_profile(path)
    assert str(caught.value).startswith(f"{path}: this profile cannot be used: ")
    assert "\n" not in str(caught.value)


def test_all_faults_come_at_once_but_not_without_end(tmp_path: Path) -> None:
    def spoil(data: dict[str, Any]) -> None:
        data["gradients"] = [{"name": "fc.weight", "elements": -1, "layer": "fc"}] * 25

    with pytest.raises(ProfileError) as caught:
        load_profile(write(tmp_path, spoil))
    assert str(caught.value).count("gradients.") == 10
    assert str(caught.value).endswith("; and 15 more")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON: EOF"),
        (b'{"format": "pssim-prof', "not valid JSON: EOF"),
        (b"[1, 2]", "an object"),
        (b"null", "an object"),
        (b"[" * 100_000, "not valid JSON: recursion limit"),
        (bytes(range(256)), "must be UTF-8 text"),
        (b"\x00\x01\x02", "not valid JSON"),
    ],
)
def test_a_file_that_is_no_profile_at_all(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match=message) as caught:
        load_profile(path)
    assert str(path) in str(caught.value)


def test_every_truncation_of_a_profile_is_an_error(tmp_path: Path) -> None:
    """Wherever a copy broke off."""
    text = json.dumps(PROFILE)
    path = tmp_path / "cut.json"
    for length in range(len(text)):
        path.write_text(text[:length])
        with pytest.raises(ProfileError):
            load_profile(path)


def test_a_missing_profile_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"nowhere.json: this profile cannot be read: No such file"):
        load_profile(tmp_path / "nowhere.json")
    with pytest.raises(ProfileError, match="cannot be read: Is a directory"):
        load_profile(tmp_path)


# ------------------------------------------------------------------------------ devices


def device_file(tmp_path: Path, old: str = "", new: str = "") -> Path:
    assert old in DEVICE
    path = tmp_path / "abacus.toml"
    path.write_text(DEVICE.replace(old, new, 1) if old else DEVICE)
    return path


@pytest.mark.parametrize("name", device_names())
def test_bundled_devices_can_be_used(name: str) -> None:
    assert load_device(find_device(name)).name == name


def test_tianhe2_node_is_what_was_published() -> None:
    """24 cores x 2.2 GHz x 16 FLOP a cycle; 40 % of it assumed, between 20 % and 60 %."""
    node = load_device(find_device("tianhe2-node"))
    assert node.cores == 24
    assert node.peak_flops_per_s.value == pytest.approx(24 * 2.2e9 * 16)
    known = node.sustained_flops_per_s
    parts = [rate / node.peak_flops_per_s.value for rate in (known.low, known.value, known.high)]
    assert parts == pytest.approx([0.2, 0.4, 0.6], abs=1e-3)
    assert (node.peak_flops_per_s.evidence, known.evidence) == ("computed", "assumed")


def test_a_device_is_read_in_si(tmp_path: Path) -> None:
    """Without low and high the value is all there is."""
    device = load_device(device_file(tmp_path))
    assert device.sustained_flops_per_s.value == 4e10
    bandwidth = device.memory_bandwidth_bytes_per_s
    assert (bandwidth.low, bandwidth.value, bandwidth.high) == (1e10, 1e10, 1e10)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cores = 4", "", r"cores: missing"),
        ("cores = 4", "cores = 0", r"cores: .*greater than or equal to 1, it is 0"),
        ("cores = 4", "cores = 4\nthreads = 8", r"threads: unknown key"),
        ("[sustained]", "[sustain]", r"sustain: unknown key, did you mean 'sustained'\?"),
        ('"40 GFLOP/s"', '"40 GB/s"', r"sustained\.value: must be a compute rate with a unit"),
        ('"40 GFLOP/s"', "40e9", r"sustained\.value: must be a compute rate with a unit.*did you mean"),
        ('"40 GFLOP/s"', '"-1 GFLOP/s"', r"sustained\.value: must .* that is greater than zero"),
        ('"40 GFLOP/s"', '"nan GFLOP/s"', r"sustained\.value: must be a compute rate that is finite"),
        ('"10 GB/s"', '"10"', r"memory_bandwidth\.value: must be a bandwidth with a unit"),
        ('"20 GFLOP/s"', '"50 GFLOP/s"', r"sustained: must have low <= value <= high"),
        ('"60 GFLOP/s"', '"600 GFLOP/s"', r"sustained.high must not be above the peak, which is 100 GFLOP/s"),
        ('"assumed"', '"guessed"', r"sustained\.evidence: .*'assumed', it is 'guessed'"),
        (', source = "the box"', "", r"memory_bandwidth\.source: missing"),
        ("version = 1", "version = 9", r"version: Input should be 1, it is 9"),
    ],
)
def test_a_faulty_device_says_where_and_what(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = device_file(tmp_path, old, new)
    with pytest.raises(ProfileError, match=message) as caught:
        load_device(path)
    assert str(caught.value).startswith(f"{path}: this device cannot be used: ")


@pytest.mark.parametrize(
    "content", [b"cores = ", b"\xff\xfe", b"cores = 1\ncores = 2", b"a = " + b"[" * 100_000]
)
def test_a_file_that_is_no_toml(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match=r"broken.toml: this device (is not valid TOML|must be UTF-8)"):
        load_device(path)


def test_the_notes_in_the_bundled_device_do_not_hide_a_key() -> None:
    """Everything in the file that is not a comment is used."""
    data = tomllib.loads(find_device("tianhe2-node").read_text(encoding="utf-8"))
    quantities = {"cores", "peak", "sustained", "memory_bandwidth"}
    assert set(data) == {"format", "version", "name", "description"} | quantities
