"""Settings that cannot matter: each rule warns where it holds, and is silent where it does not."""

from __future__ import annotations

import pytest

from pssim.catalogue import scenario_names
from pssim.scenario import load

TEXT = """\
question = "Does it matter?"
[workload]
profile = "resnet50"
[cluster]
link = { latency = "1 us", bandwidth = "1 GB/s" }
[training]
batch_per_rank = 8
nodes = [1, 2]
[[scheme]]
name = "sync"
[[scheme]]
name = "async"
"""

JITTER = "cluster.jitter.independent=0.1"
ONE_RANK = "every size is one rank, which communicates with nobody"

# overrides, other options, and the setting that is warned about, with the reason
CASES = [
    (
        ['cluster.local_link={latency = "1 us", bandwidth = "1 GB/s"}'],
        {},
        ["cluster.local_link", "there is one rank a node"],
    ),
    (["training.nodes=[1]"], {}, ["cluster.link", ONE_RANK]),
    (["training.nodes=[1]", "workload.bucket_cap=1 MB"], {}, ["workload.bucket_cap", ONE_RANK]),
    (
        [
            "training.nodes=[1]",
            "cluster.ranks_per_node=2",
            'cluster.local_link={latency = "1 us", bandwidth = "1 GB/s"}',
        ],
        {},
        ["cluster.link", "every size is one node"],
    ),
    (
        ["cluster.collective=ring"],
        {"schemes": "async"},
        ["cluster.collective", "no scheme here uses all-reduce"],
    ),
    (["cluster.channel.width=2"], {"schemes": "ssp"}, ["cluster.channel", "no scheme here uses all-reduce"]),
    ([], {"seed": 3}, ["training.seed", "without cluster.jitter nothing is random"]),
    ([], {"replications": 3}, ["training.replications", "without cluster.jitter nothing is random"]),
    (
        ["scheme.0.replications=3"],
        {},
        ["scheme.0.replications", "without cluster.jitter nothing is random"],
    ),
    (
        ["training.steps=9", "scheme.0.steps=5", "scheme.1.steps=5"],
        {},
        ["training.steps", "every scheme has its own number of steps"],
    ),
    (
        [JITTER, "training.replications=9", "scheme.0.replications=5", "scheme.1.replications=5"],
        {},
        ["training.replications", "every scheme has its own number of replications"],
    ),
    (
        [JITTER],
        {"engine": "analytic", "seed": 3},
        ["training.seed", "closed forms have no steps to simulate, and nothing random"],
    ),
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("overrides", "options", "expected"), CASES, ids=[" ".join(case[2]) for case in CASES]
)
def test_what_changes_nothing_is_warned_about(file, overrides, options, expected):
    """The warning has the place, the setting and the reason."""
    key, reason = expected
    warnings = load(file, overrides=overrides, **options).warnings
    assert sum(warning.endswith(f": {key} cannot matter: {reason}") for warning in warnings) == 1, warnings


@pytest.mark.parametrize(
    ("overrides", "options"),
    [
        ([], {}),
        (["cluster.collective=ring", "cluster.channel.width=2"], {}),
        ([JITTER, "training.steps=9", "scheme.0.steps=5"], {"seed": 3, "replications": 4}),
        (["training.nodes=[1]", "scheme.1.placement=dedicated"], {}),
        ([JITTER, "training.seed=2", "training.replications=2"], {"engine": "vector"}),
    ],
)
def test_what_may_matter_is_not(file, overrides, options):
    """No warning where the setting changes a result of any scheme."""
    assert load(file, overrides=overrides, **options).warnings == ()


def test_defaults_are_never_warned_about(file):
    """Nobody wrote them: ten replications without jitter are the default's fault."""
    assert load(file).scenario.training.replications == 10
    assert load(file).warnings == ()


def test_the_place_of_a_warning_is_the_line_or_the_option(file):
    """As with faults."""
    file.write_text(TEXT.replace("nodes = [1, 2]", "nodes = [1, 2]\nseed = 3"))
    [warning] = load(file).warnings
    assert warning.endswith("a.toml:9: training.seed cannot matter: without cluster.jitter nothing is random")
    [warning] = load(file, seed=4).warnings
    assert warning.startswith("--seed: training.seed")


@pytest.mark.parametrize("name", scenario_names())
def test_the_bundled_scenarios_have_nothing_idle(name):
    """They are what people copy from."""
    assert load(name).warnings == ()


def test_more_co_located_servers_than_nodes():
    """A node has one at most; on nodes of their own there may be as many as one likes."""
    crowded = ["training.nodes=[1,2]", "scheme.3.servers=3"]
    loaded = load("tianhe2-resnet50", overrides=crowded)
    assert any("scheme.3.servers: more than 2 cannot matter" in warning for warning in loaded.warnings)
    apart = load("tianhe2-resnet50", overrides=[*crowded, "scheme.3.placement=dedicated"])
    assert not any("servers" in warning for warning in apart.warnings)
