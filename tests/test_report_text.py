"""The table in the terminal and the line that says what binds."""

from __future__ import annotations

import pytest

from pssim.report.binds import binding_line
from pssim.report.text import table_text
from pssim.results import COLUMNS


def row(scheme="sync", nodes=1, step_s=2.0, parts=None, **cells):
    """A simulated row whose step is computation, but for ``parts``."""
    names = ("interference", "update", "exposed_wait", "exposed_queue", "exposed_transfer")
    parts = {f"{name}_s": (parts or {}).get(name, 0.0) for name in names}
    given = {
        "scheme": scheme, "nodes": nodes, "ranks": nodes, "cores": 24 * nodes, "engine": "vector",
        "samples_per_step": 32, "extrapolated": False, "overlap": 0.25, "staleness_mean": 1.0,
        "step_s": step_s, "compute_s": step_s - sum(parts.values()), **parts,
        "throughput_samples_per_s": 32 * nodes / step_s, "efficiency": 0.9734,
    }
    return {**dict.fromkeys(COLUMNS), **given, **cells}


def lines(*rows, width=110):
    return table_text(rows, width=width).splitlines()


def test_one_line_per_scheme_and_size():
    """Below the header and its rule; a blank line sets schemes apart."""
    printed = lines(row(nodes=1), row(nodes=2), row("async", nodes=1))
    assert [line.split()[:3] for line in printed[3:]] == [
        ["sync", "1", "24"], ["sync", "2", "48"], [], ["async", "1", "24"],
    ]


def test_labels_are_printed_to_the_letter():
    """Brackets in a label are no markup."""
    assert lines(row("ssp[bound=0]"))[3].startswith("ssp[bound=0] ")


def test_times_share_the_unit_of_the_header():
    """A step of 2 s and one of 20 s are both in ms, with the same decimals."""
    printed = lines(row(step_s=2.0), row(nodes=2, step_s=20.0))
    assert printed[1].split().count("ms") == 6  # the step and the five parts shown
    assert "2000.0" in printed[3]
    assert "20000.0" in printed[4]


@pytest.mark.parametrize(("step_s", "unit"), [(25e-6, "us"), (2e-3, "ms"), (30.0, "s")])
def test_the_unit_suits_the_shortest_step(step_s, unit):
    """Four digits of it can be read."""
    printed = lines(row(step_s=step_s, parts={}))
    assert unit in printed[1].split()
    assert any(len(word.replace(".", "").lstrip("0")) >= 4 for word in printed[3].split())


def test_the_efficiency_shows_half_its_interval():
    """97.34 % within 0.41 points; and without an interval nothing is claimed."""
    assert "97.34 ±0.41" in lines(row(efficiency_ci_low=0.9693, efficiency_ci_high=0.9775))[3]
    assert "±" not in lines(row())[3]


def test_exactly_nothing_is_a_bare_zero():
    """So that the smallest wait stands out from none."""
    assert "0.0" not in lines(row(parts={}, overlap=None, staleness_mean=0.0))[3].split()


def test_a_column_of_ranks_appears_only_where_it_says_something():
    """One rank a node: the header of nodes says so; 24 ranks of one core a node: that of cores."""
    header = lines(row(nodes=2))[:2]
    assert "ranks" not in header[0].split()
    assert header[1].split()[0] == "=ranks"
    assert "ranks" in lines(row(nodes=2, ranks=4))[0].split()


@pytest.mark.parametrize("width", [60, 80, 100, 110, 200])
def test_lines_never_exceed_the_width(width):
    """Nor are cells cut: columns are left out as a whole, and named."""
    many = [row("pseudo-sync[delay=2]", 512, step_s=123.4, parts={"interference": 1.0, "update": 2.0},
                throughput_samples_per_s=1e7, efficiency_ci_low=0.9, efficiency_ci_high=1.0)]
    text = table_text(many, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert ("no room for" in text) == (width < 200)


def test_most_of_a_usual_table_fits_where_there_is_no_terminal():
    """The four schemes of a first scenario: nothing is left out."""
    text = table_text([
        row(scheme, 512, step_s=10.0, parts={"update": 0.005, "exposed_queue": 7.0},
            efficiency_ci_low=0.9, efficiency_ci_high=1.0, staleness_mean=511.0)
        for scheme in ("sync", "sync-overlap", "pseudo-sync", "async")
    ])
    assert "no room" not in text


def test_the_table_is_plain_whatever_the_terminal(monkeypatch):
    """report.txt has no escape codes, also where colours are forced."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    assert "\x1b" not in table_text([row()])
    assert len(table_text([row()]).splitlines()[3]) > 40


def test_bounds_stand_in_for_a_step_that_is_not_known():
    """A closed form that gives no more than two bounds prints them."""
    unknown = dict.fromkeys(["step_s", "compute_s", "efficiency", "throughput_samples_per_s"])
    bounds = {"step_bound_low_s": 1.0, "step_bound_high_s": 2.0}
    assert "1000.0..2000.0" in lines(row(engine="analytic") | unknown | bounds)[3]


# -------------------------------------------------------------------------------------- what binds


def test_the_largest_part_beside_computation_is_named_with_its_share():
    """Waiting 6 %, transfer 2 %: waiting it is."""
    said = binding_line([row(nodes=512, step_s=1.0, parts={"exposed_wait": 0.06, "exposed_transfer": 0.02})])
    assert said == (
        "What binds at 512 nodes (12,288 cores): sync: waiting for slower ranks "
        "(6.0 % of the step; computation 92.0 %)."
    )


def test_below_one_percent_computation_binds():
    """What is lost altogether is not worth naming."""
    said = binding_line([row(step_s=1.0, parts={"update": 0.005})])
    assert "sync: computation (99.5 % of the step)" in said


def test_many_small_losses_are_not_passed_over():
    """0.6 % and 0.7 % are more than 1 % together."""
    said = binding_line([row(step_s=1.0, parts={"update": 0.006, "exposed_queue": 0.007})])
    assert "queueing for a busy channel, link or server (0.7 %" in said


@pytest.mark.parametrize(
    ("part", "meaning"),
    [
        ("interference", "slowed down by communication"), ("update", "weight update"),
        ("exposed_wait", "slower ranks"), ("exposed_queue", "busy"), ("exposed_transfer", "does not hide"),
    ],
)
def test_every_part_can_bind(part, meaning):
    """Half of the step each."""
    assert meaning in binding_line([row(step_s=1.0, parts={part: 0.5})])


def test_only_the_largest_size_of_each_scheme_counts():
    """A run that was cut short has schemes with different largest sizes, and says so."""
    said = binding_line([row(nodes=1), row(nodes=4), row("async", nodes=2), row("async", nodes=1)])
    assert "at 4 nodes (96 cores): sync:" in said
    assert "at 2 nodes (48 cores): async:" in said
    assert "at 1 node" not in said


def test_a_share_is_never_rounded_to_everything():
    """99.99 % is not 100.0 %."""
    assert "> 99.9 %" in binding_line([row(step_s=1.0, parts={"exposed_wait": 1e-4})])
    assert "100.0 %" in binding_line([row(step_s=1.0)])


def test_a_closed_form_that_does_not_split_the_rest_claims_nothing():
    """Only computation is known."""
    unknown = dict.fromkeys(["exposed_wait_s", "exposed_queue_s", "exposed_transfer_s"])
    said = binding_line([row(engine="analytic", step_s=1.0, compute_s=0.6, **unknown)])
    assert "sync (analytic): computation 60.0 % of the step, the rest not split" in said


def test_bounds_bind_nothing():
    """Without a step there are no shares, and no line."""
    assert binding_line([row(engine="analytic", step_s=1.0) | {"step_s": None}]) == ""
