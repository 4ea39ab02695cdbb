"""Mutated scenarios end in a scenario or in a message, never in any other way."""

from __future__ import annotations

import re
import subprocess
import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pssim.catalogue import find_scenario, scenario_names
from pssim.errors import PssimError
from pssim.scenario import explain_rows, load, resolved, to_toml

TEXTS = [find_scenario(name).read_text(encoding="utf-8") for name in scenario_names()]
LINES = [[line for line in text.splitlines() if line and not line.startswith("#")] for text in TEXTS]

VALUES = [
    "", "0", "-1", "1.5", "nan", "inf", "-inf", "true", "1e999", "9" * 400, '""', '"6 GB/s"', '"-1 us"',
    '"25"', '"1e9999 B/s"', "[]", "[0]", "[[1]]", "[1, true]", "{}", "{ a = 1 }", "1979-05-27", "'''\n'''",
    "0x1F", '"µ"', '"\\u0000"', '"resnet50"', '"../"', '"x.py:Y"', '"ssp"', "[1, 1]", '"' + "x" * 500 + '"',
]  # fmt: skip


HEADERS = ["[cluster]", "[[scheme]]", "[scheme]", "[a.b]", "[[training]]"]


@st.composite
def mutated(draw):
    """A bundled scenario with up to three mutations of its lines or its bytes."""
    index = draw(st.integers(0, len(LINES) - 1))
    lines = list(LINES[index])
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        kind = draw(
            st.sampled_from(
                ["value", "value", "value", "key", "drop", "double", "swap", "cut", "byte", "header"]
            )
        )
        if kind == "value" and "=" in line:
            lines[at] = f"{line.split('=')[0]}= {draw(st.sampled_from(VALUES))}"
        elif kind == "key":
            lines[at] = re.sub(
                r"[a-z](?=[a-z_]* *=)", draw(st.sampled_from(["", "x", "_", "."])), line, count=1
            )
        elif kind == "drop" and len(lines) > 1:
            del lines[at]
        elif kind == "double":
            lines.insert(at, line)
        elif kind == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == "header":
            lines.insert(
                at, draw(st.sampled_from(["[cluster]", "[[scheme]]", "[scheme]", "[a.b]", "[[training]]"]))
            )
        elif kind == "cut":
            return "\n".join(lines)[: draw(st.integers(0, 400))].encode()
        elif kind == "byte":
            content = bytearray("\n".join(lines).encode())
            content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
            return bytes(content)
    return "\n".join(lines).encode()


KEYS = [
    "training.nodes", "training", "scheme.0.delay", "scheme", "scheme.9", "cluster.link.bandwidth", "x", "",
    "cluster.jitter.independent", "workload.profile", "training.ranks", "scheme.0", ".",
]  # fmt: skip
LABELS = ["sync", "snyc", "sync,sync", "ssp[bound=1]", "ssp[bound=[", "[", ",", "a.py:B", "x[a]"]

assignments = st.builds("{}={}".format, st.sampled_from(KEYS), st.sampled_from(VALUES)) | st.text(max_size=20)
options = st.fixed_dictionaries(
    {},
    optional={
        "overrides": st.lists(assignments, max_size=2),
        "schemes": st.sampled_from(LABELS) | st.text(max_size=20),
        "replications": st.integers(-1, 10**9),
        "seed": st.integers(-1, 2**70),
        "engine": st.sampled_from(["analytic", "nothing"]),
    },
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=mutated(), options=options)
def test_a_mutated_scenario_loads_or_is_refused(tmp_path_factory, content, options):
    """In one process, over 300 examples: a scenario that can be explained, or a PssimError with a place."""
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_bytes(content)
    try:
        loaded = load(path, **options)
    except PssimError as error:
        refusal = error
    else:
        assert explain_rows(loaded)
        assert resolved(loaded)["sizes"]
        assert to_toml(loaded)
        return
    assert str(refusal)
    assert refusal.exit_code == 2


@settings(max_examples=10, deadline=None)
@given(content=mutated())
def test_the_command_line_ends_with_0_or_2(tmp_path_factory, content):
    """In a process of its own: a message on standard error and no traceback."""
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_bytes(content)
    command = [sys.executable, "-m", "pssim", "list", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=path.parent, check=False)
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr
    assert bool(done.stderr) == (done.returncode == 2)
