"""Faulty scenarios: all faults at once, each with file, line, setting, what it must be and what it is."""

# ruff: noqa: E501  (whole messages on one line are easier to compare)

from __future__ import annotations

import re

import pytest

from pssim.errors import CatalogueError, InputError, ScenarioError
from pssim.scenario import load

SOUND = """\
question = "Is this right?"

[workload]
profile = "resnet50"
device = "tianhe2-node"

[cluster]
cores_per_rank = 24
link = { latency = "1.5 us", bandwidth = "6 GB/s" }
jitter.independent = 0.02

[training]
batch_per_rank = 32
nodes = [1, 2, 4]
steps = 50

[[scheme]]
name = "sync"

[[scheme]]
name = "pseudo-sync"
delay = 2
"""


def faults_of(path, text, **options):
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as raised:
        load(path, **options)
    return str(raised.value).splitlines()


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "a.toml"


def test_the_sound_one_is_sound(file):
    """What the faults below are put into has none."""
    file.write_text(SOUND)
    assert load(file).warnings == ()


BASIC = [
    # what is replaced, by what, and the whole message
    ('"1.5 us", bandwidth', '"1.5 us", bandwith', "9: cluster.link.bandwith: is not a known setting; did you mean 'bandwidth'?"),
    ("steps = 50", "step = 50", "15: training.step: is not a known setting; did you mean 'steps'?"),
    ("cores_per_rank = 24", "nodes = [1]", "8: cluster.nodes: is not a known setting; did you mean 'training.nodes'?"),
    ("steps = 50", "flavour = 50", "15: training.flavour: is not a known setting; there are scaling, "),
    ("delay = 2", "dealy = 2", "22: scheme.1.dealy: is not a known setting; did you mean 'delay'?"),
    ("delay = 2", "step = 20", "22: scheme.1.step: is not a known setting; did you mean 'steps'?"),
    ("[workload]", "[worklod]", "3: worklod: is not a known setting; did you mean 'workload'?"),
    ('"6 GB/s"', '"6 GB"', "9: cluster.link.bandwidth: must be a bandwidth with a unit, such as '25 Gbit/s', it is '6 GB', "
                           "which is an amount of data; did you mean '6 GB/s'?"),
    ('"6 GB/s"', "6", "9: cluster.link.bandwidth: must be a bandwidth with a unit, such as '25 Gbit/s', it is 6; "
                      "did you mean '6 GB/s' or '6 Gbit/s'?"),
    ('"6 GB/s"', '"0 GB/s"', "9: cluster.link.bandwidth: must be a bandwidth that is greater than zero, it is '0 GB/s'"),
    ('"6 GB/s"', '"-6 GB/s"', "9: cluster.link.bandwidth: must be a bandwidth that is greater than zero, it is '-6 GB/s'"),
    ('"1.5 us"', "nan", "9: cluster.link.latency: must be a duration that is finite, it is nan"),
    ('"1.5 us"', "true", "9: cluster.link.latency: must be a duration with a unit, such as '1.5 us', it is true"),
    ("0.02", "inf", "10: cluster.jitter.independent: must be a number that is finite, it is inf"),
    ("0.02", "-0.1", "10: cluster.jitter.independent: must be 0 or more, it is -0.1"),
    ("0.02", "5", "10: cluster.jitter.independent: must be less than 5, it is 5"),
    ("0.02", "true", "10: cluster.jitter.independent: must be a number, it is true"),
    ("steps = 50", "steps = true", "15: training.steps: must be a whole number, it is true"),
    ("steps = 50", "steps = 50.0", "15: training.steps: must be a whole number, it is 50.0"),
    ("steps = 50", "steps = 1", "15: training.steps: must be 2 or more, it is 1"),
    ("steps = 50", "scaling = 'week'", "15: training.scaling: must be 'weak' or 'strong', it is 'week'; did you mean 'weak'?"),
    ("steps = 50", "seed = -1", "15: training.seed: must be 0 or more, it is -1"),
    ("[1, 2, 4]", "[1,\n0]", "15: training.nodes.1: must be 1 or more, it is 0"),
    ("[1, 2, 4]", "[]", "14: training.nodes: must be a list that is not empty, it is []"),
    ("[1, 2, 4]", "4", "14: training.nodes: must be a list, it is 4; did you mean [4]?"),
    ("[1, 2, 4]", "[1, '2']", "14: training.nodes.1: must be a whole number, it is '2'"),
    ("[1, 2, 4]", "[99999999999]", "14: training.nodes.0: must be 10000000 or less, it is 99999999999"),
    ("batch_per_rank = 32", "batch_per_rank = 0", "13: training.batch_per_rank: must be 1 or more, it is 0"),
    ('question = "Is this right?"', "question = 3", "1: question: must be text in quotes, it is 3"),
    ('question = "Is this right?"', "", "1: question: must be given: the question this scenario answers"),
    ("delay = 2", "delay = -1", "22: scheme.1.delay: must be 0 or more, it is -1"),
    ("delay = 2", "delay = true", "22: scheme.1.delay: must be a number, it is true"),
    ("delay = 2", "delay = '2'", "22: scheme.1.delay: must be a number, it is '2'"),
    ("delay = 2", "overlap = 1", "22: scheme.1.overlap: must be true or false, it is 1"),
    ("delay = 2", "options = { delay = 2 }", "22: scheme.1.options: is not a known setting"),
    ("delay = 2", "base = '/'", "22: scheme.1.base: is not a known setting"),
    ('name = "sync"', 'name = "snyc"', "18: scheme.0.name: scheme 'snyc' must be one of async, "),
    ('name = "sync"', "name = 1", "18: scheme.0.name: must be text in quotes, it is 1"),
    ('name = "sync"', "delay = 0", "17: scheme.0.name: must be given: a scheme's name, or file.py:Class"),
    ('name = "sync"', 'name = "no.py:X"', "18: scheme.0.name: scheme 'no.py:X': there is no file "),
    ('"resnet50"', '"resnet5"', "4: workload.profile: no profile 'resnet5': it must be the path of a .json file or one of "),
    ('"tianhe2-node"', '"tianhe-node"', "5: workload.device: no device 'tianhe-node': "),
    ('"tianhe2-node"', '"./b.toml"', "5: workload.device: no device './b.toml': there is no such file; did you mean 'a.toml'?"),
    ("batch_per_rank = 32", "accumulation_steps = 0", "13: training.accumulation_steps: is not a known setting; "
                            "did you mean 'workload.accumulation_steps'?"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), BASIC, ids=[f"{old}->{new}" for old, new, _ in BASIC])
def test_a_setting_that_is_wrong_by_itself(file, old, new, message):
    """One slip gives its line, its key, what it must be, what it is, and a hint."""
    lines = faults_of(file, SOUND.replace(old, new, 1))
    others = [line for line in lines if not line.startswith(f"a.toml:{message}")]
    assert len(others) == len(lines) - 1, lines
    # A misspelt key is also a missing one.
    assert all(": must be given" in line for line in others)


TOGETHER = [
    ("steps = 50", "ranks = [3]", "15: training.ranks: must not be given beside training.nodes"),
    ("nodes = [1, 2, 4]", "", "12: training.nodes: must be given (or training.ranks)"),
    ("steps = 50", "global_batch = 64", "15: training.global_batch: must not be given for weak scaling, it is 64; did you mean 'batch_per_rank'?"),
    ("batch_per_rank = 32", "", "12: training.batch_per_rank: must be given for weak scaling"),
    ("batch_per_rank = 32", "scaling = 'strong'", "12: training.global_batch: must be given for strong scaling"),
    ("batch_per_rank = 32", "scaling = 'strong'\nglobal_batch = 30",
     "14: training.global_batch: must be a multiple of ranks x accumulation_steps at every size, it is 30, which is no multiple of 4 x 1; did you mean 32?"),
    ("cores_per_rank = 24", "cores_per_rank = 25", "8: cluster.cores_per_rank: must be at most 24, the cores of device 'tianhe2-node', it is 25"),
    ("cores_per_rank = 24", "cores_per_rank = 24\ncores_per_node = 20",
     "9: cluster.cores_per_node: must hold ranks_per_node x cores_per_rank = 1 x 24 = 24 cores, it is 20"),
    ("cores_per_rank = 24", "ranks_per_node = 2", "7: cluster.local_link: must be given when ranks_per_node is above 1, it is 2"),
    ("cores_per_rank = 24", "nodes_available = 3", "14: training.nodes.2: must fit the 3 nodes of cluster.nodes_available, it is 4"),
    ("delay = 2", "warmup_steps = 49", "20: scheme.1.steps: must be 51 or more, 49 of warm-up and two to measure, it is 50"),
    ("delay = 2", "delay = 2\n[[scheme]]\nname = 'pseudo-sync'\ndelay = 2",
     "24: scheme.2.name: must differ from the schemes before it, 'pseudo-sync[delay=2]' is there already"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), TOGETHER, ids=[new for _, new, _ in TOGETHER])
def test_settings_that_do_not_fit_together(file, old, new, message):
    """The message names both sides, at the line of the one that is easier to change."""
    [line] = faults_of(file, SOUND.replace(old, new, 1))
    assert line.startswith(f"a.toml:{message}")


def test_dedicated_servers_need_nodes_too(file):
    """Servers with nodes of their own count among the machine's nodes."""
    text = SOUND.replace("cores_per_rank = 24", "nodes_available = 5")
    text = text.replace('"pseudo-sync"\ndelay = 2', '"async"\nplacement = "dedicated"\nservers = 2')
    assert faults_of(file, text) == [
        "a.toml:23: scheme.1.servers: must fit the 5 nodes of cluster.nodes_available: with its dedicated "
        "servers the largest size needs 6"
    ]


def test_all_faults_come_at_once_and_in_the_order_of_the_file(file):
    """A fault in one section hides none in another, nor what does not fit together."""
    text = SOUND
    for old, new in [
        ('"Is this right?"', "3"),
        ('"resnet50"', '"resnet5"'),
        ('"6 GB/s"', '"6"'),
        ("batch_per_rank = 32", "batch_per_rank = 32\nglobal_batch = 3"),
        ('"sync"', '"snyc"'),
        ("delay = 2", "delay = 1.5"),
    ]:
        text = text.replace(old, new, 1)
    lines = faults_of(file, text)
    assert [line.split(": ")[1] for line in lines] == [
        "question",
        "workload.profile",
        "cluster.link.bandwidth",
        "training.global_batch",
        "scheme.0.name",
        "scheme.1.delay",
    ]
    numbers = [int(re.match(r"a\.toml:(\d+): ", line)[1]) for line in lines]
    assert numbers == sorted(numbers)


def test_many_faults_are_cut_off_and_counted(file):
    """Twenty are shown, the rest is a number."""
    keys = "\n".join(f"wrong_{number} = 1" for number in range(30))
    lines = faults_of(file, SOUND.replace("[workload]\n", f"[workload]\n{keys}\n"))
    assert len(lines) == 21
    assert lines[-1] == "... and 10 more"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"6 GB/s"', "6 GB/s", "9: must be TOML: unclosed inline table in column 44; did you mean \"6 GB/s\", in quotes?"),
        ("steps = 50", "steps = ", "15: must be TOML: invalid value in column 9"),
        ("[training]", "[training", "12: must be TOML: "),
        ("[training]", "[cluster]", "12: must be TOML: cannot declare ('cluster',) twice"),
        ("steps = 50", "nodes = [2]", "15: must be TOML: cannot overwrite a value"),
        ("delay = 2\n", 'delay = """', "22: must be TOML: unterminated string at the end"),
    ],
)  # fmt: skip
def test_text_that_is_no_toml(file, old, new, message):
    """Syntax errors have their line too."""
    [line] = faults_of(file, SOUND.replace(old, new, 1))
    assert line.startswith(f"a.toml:{message}")


def test_every_truncation_is_a_fault_or_a_scenario(file):
    """A file that was cut off anywhere never fails in another way."""
    for length in range(0, len(SOUND), 7):
        file.write_text(SOUND[:length])
        message = "a.toml: none"
        try:
            load(file)
        except ScenarioError as error:
            message = str(error)
        assert message.startswith("a.toml:")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"question = 1\n\xff\xfe", "a.toml:2: must be UTF-8 text, it has byte 0xff"),
        (b"\x7fELF\x02\x01\x01\x00", "a.toml:1: must be TOML: "),
        (b"a = " + b"[" * 100_000, "a.toml:1: must be TOML: "),
        (b"#" * (2**20 + 1), "a.toml: must be a scenario of at most 1 MiB, it is larger"),
        (b"a = 1" + b"0" * 5000, "a.toml:1: must be TOML: "),
        (b"", "a.toml:1: question: must be given"),
    ],
    ids=["latin", "binary", "deep", "large", "long number", "empty"],
)
def test_files_that_are_something_else(file, content, message):
    """Binary, huge, deeply nested or empty files get one message."""
    file.write_bytes(content)
    with pytest.raises(ScenarioError) as raised:
        load(file)
    assert str(raised.value).startswith(message)


def test_a_byte_order_mark_is_no_fault(file):
    """Some editors write one."""
    file.write_bytes(b"\xef\xbb\xbf" + SOUND.encode())
    assert load(file).scenario.training.steps == 50


def test_missing_files_and_folders(file):
    """There is no scenario there, and the message says why."""
    for name, message in [
        ("nothing.toml", "no scenario 'nothing.toml': there is no such file"),
        (".", "no scenario '.': it must be the path"),
        (f"{file.parent}/", "that is a folder"),
        ("tianhe2-resnet5", "did you mean 'tianhe2-resnet50'?"),
        ("a\0b", "no scenario"),
        ("x" * 5000, "no scenario"),
    ]:
        with pytest.raises(CatalogueError, match=re.escape(message)):
            load(name)


def test_a_profile_that_cannot_be_used(file):
    """A corrupt profile is a fault of the line that names it; its path is relative to the scenario."""
    (file.parent / "mine.json").write_text('{"format": "pssim-profile"')
    [line] = faults_of(file, SOUND.replace('"resnet50"', '"mine.json"'))
    assert line.startswith("a.toml:4: workload.profile: ")
    assert "mine.json" in line


def test_scheme_files_with_faults(file):
    """Whatever a scheme file does wrong is a fault with the place in that file."""
    (file.parent / "bad.py").write_text("import pssim\n\n1 / 0\n")
    [line] = faults_of(file, SOUND.replace('name = "sync"', 'name = "bad.py:Mine"'))
    assert line.startswith("a.toml:18: scheme.0.name: ")
    assert "bad.py:3: ZeroDivisionError" in line
    (file.parent / "odd.py").write_text(
        "import pssim\n\nclass Odd(pssim.Scheme):\n    def warm_up(self):\n        raise KeyError('odd')\n"
    )
    [line] = faults_of(file, SOUND.replace('name = "sync"', 'name = "odd.py:Odd"'))
    assert line == "a.toml:17: scheme.0: cannot be made: KeyError: 'odd'"


def test_an_engine_that_does_not_exist(file):
    """Engines are checked with everything else."""
    assert faults_of(file, SOUND, engine="vectr") == [
        "--engine: must be one of auto, events, vector, analytic, it is 'vectr'; did you mean 'vector'?"
    ]


def test_scenario_errors_are_input_errors():
    """So that the command line ends with code 2."""
    assert issubclass(ScenarioError, InputError)
    assert ScenarioError("x").exit_code == 2
