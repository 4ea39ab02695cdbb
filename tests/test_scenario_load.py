"""Loading: texts become SI, the command line is laid over the file, and every setting knows its place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pssim.catalogue import find_scenario, scenario_names
from pssim.errors import ScenarioError
from pssim.scenario import Scenario, explain_rows, load, resolved, to_toml

TEXT = """\
question = "How?"
[workload]
profile = "resnet50"
bucket_cap = "25 MiB"
update = "3 ms"
[cluster]
ranks_per_node = 2
link = { latency = "1.5 us", bandwidth = "25 Gbit/s" }
local_link.latency = "0 s"
local_link.bandwidth = "10 GB/s"
[cluster.jitter]
independent = 0.05
[training]
batch_per_rank = 8
nodes = [4, 1, 2, 2]
steps = 40
replications = 3
[[scheme]]
name = "sync"
[[scheme]]
name = "pseudo-sync"
delay = 2
[[scheme]]
name = "async"
steps = 24
replications = 2
servers = 2
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    return path


def labels(loaded):
    return [entry.label for entry in loaded.scenario.schemes]


def test_values_are_in_si(file):
    """Attributes carry their unit in the name, and hold plain numbers."""
    scenario = load(file).scenario
    assert scenario.cluster.link.latency_s == 1.5e-6
    assert scenario.cluster.link.bandwidth_bytes_per_s == 3.125e9
    assert scenario.cluster.local_link.latency_s == 0.0
    assert scenario.workload.bucket_cap_bytes == 25 * 2**20
    assert scenario.workload.update_s == 0.003
    assert scenario.cluster.jitter.node == 0.0


def test_sizes_are_sorted_and_each_comes_once(file):
    """Sizes in nodes are full nodes; there is a warning that order and repetition say nothing."""
    loaded = load(file)
    assert [(s.nodes, s.ranks, s.cores) for s in loaded.scenario.sizes] == [(1, 2, 2), (2, 4, 4), (4, 8, 8)]
    [warning] = loaded.warnings
    assert warning == (
        "mine.toml:15: training.nodes: order and repetition cannot matter: "
        "sizes are run smallest first, each once"
    )


def test_sizes_in_ranks_may_leave_a_node_partly_empty(file):
    """Three ranks, two to a node, need two nodes."""
    scenario = load(file, overrides=["training.ranks=[1, 3]", "cluster.cores_per_rank=12"]).scenario
    assert [(s.nodes, s.ranks, s.cores) for s in scenario.sizes] == [(1, 1, 12), (2, 3, 36)]


def test_strong_scaling_divides_the_global_batch(file):
    """Among ranks, and among micro-batches."""
    overrides = ["training.scaling=strong", "training.global_batch=64", "workload.accumulation_steps=2"]
    scenario = load(file, overrides=overrides).scenario
    assert [scenario.micro_batch(size.ranks) for size in scenario.sizes] == [16, 8, 4]


def test_steps_and_replications_of_a_scheme(file):
    """A scheme's own numbers, else the training's."""
    scenario = load(file).scenario
    assert [scenario.steps_of(entry) for entry in scenario.schemes] == [40, 40, 24]
    assert [scenario.replications_of(entry) for entry in scenario.schemes] == [3, 3, 2]


def test_scenarios_are_frozen_and_compare(file):
    """So that nothing changes one behind the back of whoever holds it."""
    scenario = load(file).scenario
    assert scenario == load(file).scenario
    with pytest.raises(ValidationError):
        scenario.training.steps = 3


def test_a_scenario_made_in_python_is_checked_too():
    """The same rules, as one pydantic error."""
    link = {"latency": "1 us", "bandwidth": "1 GB/s"}
    parts = {"workload": {"profile": "resnet50"}, "cluster": {"link": link}, "scheme": [{"name": "sync"}]}
    with pytest.raises(ValidationError, match=r"training\.batch_per_rank: must be given for weak scaling"):
        Scenario.model_validate({"question": "?", **parts, "training": {"nodes": [1]}})


# ------------------------------------------------------------------------------------------- --set


def test_set_reads_toml_else_text(file):
    """Numbers, lists and tables are read as TOML; a quantity needs no quotes."""
    overrides = [
        "training.steps=99",
        "training.nodes=[1, 8]",
        "cluster.link.bandwidth=100 Gbit/s",
        "cluster.jitter={persistent = 0.1}",
        "question=Why?",
    ]
    loaded = load(file, overrides=overrides)
    assert loaded.scenario.training.steps == 99
    assert loaded.scenario.training.nodes == (1, 8)
    assert loaded.scenario.cluster.link.bandwidth_bytes_per_s == 12.5e9
    assert loaded.scenario.cluster.jitter.persistent == 0.1
    assert loaded.scenario.cluster.jitter.independent == 0.0
    assert loaded.scenario.question == "Why?"
    assert loaded.sources["training.steps"] == "--set"
    assert loaded.sources["cluster.jitter.persistent"] == "--set"
    assert loaded.sources["cluster.jitter.independent"] == "default"


def test_set_reaches_schemes_by_position(file):
    """Positions are those in the file, from 0."""
    loaded = load(file, overrides=["scheme.1.delay=3", "scheme.2.servers=4"])
    assert labels(loaded) == ["sync", "pseudo-sync[delay=3]", "async[servers=4]"]
    assert loaded.sources["scheme.1.delay"] == "--set"


def test_set_with_nothing_takes_a_setting_out(file):
    """The default holds then."""
    loaded = load(file, overrides=["workload.bucket_cap=", "scheme.1.delay="])
    assert loaded.scenario.workload.bucket_cap_bytes is None
    assert labels(loaded)[1] == "pseudo-sync"
    assert loaded.sources["scheme.1.delay"] == "scheme pseudo-sync"


def test_set_replaces_the_other_of_a_pair(file):
    """Sizes in ranks take the place of the file's sizes in nodes; two from the command line collide."""
    assert load(file, overrides=["training.ranks=[2]"]).scenario.training.nodes is None
    with pytest.raises(
        ScenarioError, match=r"^--set: training.ranks: must not be given beside training.nodes"
    ):
        load(file, overrides=["training.nodes=[2]", "training.ranks=[2]"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.stepps=3", "--set: training.stepps: is not a known setting; did you mean 'steps'?"),
        ("steps=3", "--set: steps: is not a known setting; did you mean 'training.steps'?"),
        ("clustr.link.latency=3 us", "--set: clustr: is not a known setting; did you mean 'cluster'?"),
        ("training.steps=many", "--set: training.steps: must be a whole number, it is 'many'"),
        ("cluster.link.latency=3", "--set: cluster.link.latency: must be a duration with a unit"),
        ("training.steps", "--set: must be key=value, such as training.steps=50, it is 'training.steps'"),
        ("=3", "--set: must be key=value"),
        ("training..steps=3", "--set: must be key=value"),
        ("scheme.3.delay=1", "--set: scheme.3: must be a position from 0 to 2, it is '3'"),
        ("scheme.sync.delay=1", "--set: scheme.sync: must be a position from 0 to 2, it is 'sync'"),
        (
            "workload.profile.x=1",
            "--set: workload.profile: must be a table to have a 'x' in it, it is 'resnet50'",
        ),
        ("scheme.1.dealy=1", "--set: scheme.1.dealy: is not a known setting; did you mean 'delay'?"),
        ("scheme=sync", "--set: scheme: must be a list of tables that is not empty, it is 'sync'"),
        ("workload=3", "--set: workload: must be a table, it is 3"),
        ("training.seed=" + "9" * 5000, "--set: training.seed: must be a whole number, it is '999"),
    ],
)
def test_faults_of_set_name_set(file, text, message):
    """The place of a fault is the option, not a line of the file."""
    with pytest.raises(ScenarioError) as raised:
        load(file, overrides=[text])
    assert any(line.startswith(message) for line in str(raised.value).splitlines()), str(raised.value)


# ---------------------------------------------------------------------------------------- --scheme


def test_scheme_replaces_the_list_and_keeps_options_it_finds(file):
    """By label or by name; what is not there is new."""
    loaded = load(file, schemes="sync-overlap, async,pseudo-sync")
    assert labels(loaded) == ["sync-overlap", "async[servers=2]", "pseudo-sync[delay=2]"]
    assert [loaded.scenario.steps_of(entry) for entry in loaded.scenario.schemes] == [40, 24, 40]
    assert loaded.sources["scheme.0.name"] == "--scheme"
    assert loaded.sources["scheme.1.servers"] == "mine.toml:27"
    assert loaded.sources["scheme.2.delay"] == "mine.toml:22"


def test_scheme_takes_labels_whose_commas_do_not_split(file):
    """A label stands for exactly the options it names; steps are those of its name in the scenario."""
    loaded = load(file, schemes="pseudo-sync[delay=3,warmup_steps=5],async[placement=dedicated]")
    assert labels(loaded) == ["pseudo-sync[delay=3,warmup_steps=5]", "async[placement=dedicated]"]
    assert loaded.scenario.steps_of(loaded.scenario.schemes[1]) == 24


def test_a_label_chooses_one_of_several_and_a_name_all(file):
    """Two entries of one name are told apart by their labels."""
    file.write_text(TEXT + '[[scheme]]\nname = "ssp"\nbound = 0\n[[scheme]]\nname = "ssp"\nbound = 9\n')
    assert labels(load(file, schemes="ssp")) == ["ssp[bound=0]", "ssp[bound=9]"]
    assert labels(load(file, schemes="ssp[bound=9]")) == ["ssp[bound=9]"]
    assert labels(load(file, schemes="ssp[bound=5]")) == ["ssp[bound=5]"]


def test_scheme_works_where_the_scenario_names_none(file):
    """The list may come from the command line alone."""
    file.write_text(TEXT[: TEXT.index("[[scheme]]")])
    assert labels(load(file, schemes="sync")) == ["sync"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("snyc", "--scheme: scheme.0.name: scheme 'snyc' must be one of"),
        (
            "sync,pseudo-sync[dealy=1]",
            "--scheme: scheme.1.dealy: is not a known setting; did you mean 'delay'?",
        ),
        ("pseudo-sync[delay=-1]", "--scheme: scheme.0.delay: must be 0 or more, it is -1"),
        ("pseudo-sync[delay", "--scheme: scheme label 'pseudo-sync[delay' must end with ']'"),
        (
            "sync,sync",
            "--scheme: scheme.1.name: must differ from the schemes before it, 'sync' is there already",
        ),
        (" , ", "--scheme: must name a scheme, it is ' , '"),
        ("my.py:Mine", "--scheme: scheme.0.name: scheme 'my.py:Mine': there is no file"),
    ],
)
def test_faults_of_scheme_name_scheme(file, text, message):
    """As with --set."""
    with pytest.raises(ScenarioError) as raised:
        load(file, schemes=text)
    assert str(raised.value).startswith(message)


def test_scheme_files_are_beside_the_scenario_or_where_the_command_is_typed(file, monkeypatch):
    """A name in the file is relative to the file, one on the command line to the working directory."""
    scheme = "import pssim\n\nclass Mine(pssim.Scheme):\n    '''Mine.'''\n    width: int = {}\n"
    (file.parent / "my.py").write_text(scheme.format(1))
    elsewhere = file.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "my.py").write_text(scheme.format(2))
    monkeypatch.chdir(elsewhere)
    file.write_text(TEXT.replace('"pseudo-sync"\ndelay = 2', '"my.py:Mine"'))
    assert load(file).scenario.schemes[1].build().width == 1
    assert load(file, schemes="my.py:Mine").scenario.schemes[0].build().width == 1  # the scenario's own entry
    assert load(file, overrides=["scheme.1.name=my.py:Mine"]).scenario.schemes[1].build().width == 2
    file.write_text(TEXT)
    assert load(file, schemes="my.py:Mine[width=3]").scenario.schemes[0].label == "my.py:Mine[width=3]"
    assert load(file, schemes="my.py:Mine").scenario.schemes[0].build().width == 2


# --------------------------------------------------------------------------- replications and seed


def test_replications_hold_for_every_scheme(file):
    """Also for one that has its own number in the file."""
    loaded = load(file, replications=7, seed=5)
    assert [loaded.scenario.replications_of(entry) for entry in loaded.scenario.schemes] == [7, 7, 7]
    assert loaded.scenario.training.seed == 5
    assert loaded.sources["scheme.2.replications"] == "--replications"
    assert loaded.sources["training.seed"] == "--seed"
    with pytest.raises(
        ScenarioError, match=r"^--replications: training.replications: must be 1 or more, it is 0"
    ):
        load(file, replications=0)


# -------------------------------------------------------------------------- explained and resolved


def test_every_setting_knows_where_it_came_from(file):
    """File and line, the name of the scheme that presets it, or default."""
    sources = load(file).sources
    assert sources["cluster.link.bandwidth"] == "mine.toml:8"
    assert sources["cluster.local_link.latency"] == "mine.toml:9"
    assert sources["cluster.jitter.independent"] == "mine.toml:12"
    assert sources["cluster.jitter.node"] == "default"
    assert sources["training.scaling"] == "default"
    assert sources["scheme.0.delay"] == "scheme sync"
    assert sources["scheme.0.warmup_steps"] == "default"
    assert sources["scheme.1.delay"] == "mine.toml:22"
    assert sources["scheme.0.steps"] == "mine.toml:16"
    assert sources["scheme.2.steps"] == "mine.toml:25"


def test_explained_rows(file):
    """Key, value in SI, text, source; what is not set says what holds instead."""
    rows = {row.key: row for row in explain_rows(load(file))}
    assert rows["cluster.link.bandwidth"][1:] == (3.125e9, "3.125 GB/s", "mine.toml:8")
    assert rows["workload.bucket_cap"].text == "25 MiB"
    assert rows["workload.device"].text == "the machine the profile was measured on"
    assert rows["profile.parameters"].value == 25_557_032
    assert rows["sizes.ranks"].value == [2, 4, 8]
    assert "training.global_batch" not in rows


def test_explained_rows_with_a_device():
    """What the device assumes is shown, with its range."""
    rows = {row.key: row for row in explain_rows(load("tianhe2-resnet50"))}
    assert rows["device.sustained"].source == "device tianhe2-node, assumed"
    assert "to" in rows["device.sustained"].text
    assert rows["workload.update"].source == "device tianhe2-node"


def test_resolved_is_plain_and_complete(file):
    """Units in the keys, every option filled in, nothing but JSON."""
    values = resolved(load(file))
    assert values["cluster"]["link"] == {"latency_s": 1.5e-6, "bandwidth_bytes_per_s": 3.125e9}
    assert values["schemes"][1]["label"] == "pseudo-sync[delay=2]"
    assert values["schemes"][1]["options"] == {"delay": 2, "overlap": True, "warmup_steps": 0}
    assert json.loads(json.dumps(values)) == values


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_survives_being_written(name, tmp_path):
    """What to_toml writes is the same scenario."""
    loaded = load(name)
    (tmp_path / f"{name}.toml").write_text(to_toml(loaded))
    assert resolved(load(tmp_path / f"{name}.toml")) == resolved(loaded)


@settings(max_examples=40, deadline=None)
@given(
    question=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    latency_s=st.floats(0, 1e3),
    bandwidth=st.floats(1e-3, 1e15),
    bucket_cap=st.integers(1, 2**40),
    persistent=st.floats(0, 4.9),
)
def test_any_numbers_survive_being_written(
    tmp_path_factory, question, latency_s, bandwidth, bucket_cap, persistent
):
    """Texts are exact, so the numbers that come back are the same."""
    link = f"{{ latency = '{latency_s!r} s', bandwidth = '{bandwidth!r} B/s' }}"
    overrides = [
        f"question={json.dumps(question, ensure_ascii=False)}",
        f"cluster.link={link}",
        f"workload.bucket_cap={bucket_cap} B",
        f"cluster.jitter.persistent={persistent!r}",
    ]
    loaded = load("tianhe2-resnet50", overrides=overrides)
    file = tmp_path_factory.getbasetemp() / "tianhe2-resnet50.toml"
    file.write_text(to_toml(loaded), encoding="utf-8")
    assert resolved(load(file)) == resolved(loaded)


def test_paths_survive_being_written(file, monkeypatch):
    """Files of the user's are named absolutely, so that the copy runs from anywhere."""
    (file.parent / "my.py").write_text("import pssim\n\nclass Mine(pssim.Scheme):\n    pass\n")
    file.write_text(TEXT.replace('"pseudo-sync"\ndelay = 2', '"my.py:Mine"'))
    copy = file.parent / "runs" / "copy.toml"
    copy.parent.mkdir()
    copy.write_text(to_toml(load("mine.toml")))
    monkeypatch.chdir("/")
    assert load(copy).scenario.schemes[1].name == f"{file.parent}/my.py:Mine"


def test_two_hash_seeds_give_the_same_bytes(file):
    """Nothing depends on the order of a set or a dictionary of texts."""
    program = (
        "import json, sys; from pssim.scenario import *; loaded = load(sys.argv[1])\n"
        "print(json.dumps(resolved(loaded)), explain_rows(loaded), to_toml(loaded))\n"
        "print(loaded.sources, loaded.warnings)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, str(file)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            cwd=file.parent,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_loading_is_fast():
    """Under 0.2 s to read and check a scenario: the best of three, since others use the machine too."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        load(find_scenario("tianhe2-resnet50"))
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.2


def test_options_of_the_command_line_meet_a_section_that_is_none(file):
    """The section is the fault, not what was to be put into it."""
    for value in ("[]", "3", "[1]"):
        with pytest.raises(ScenarioError, match=r"^--set: training: must be a table, it is"):
            load(file, overrides=[f"training={value}"], replications=3, seed=4)
