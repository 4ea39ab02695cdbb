"""Plots: what is in the axes, and that files are the same bytes every time."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from pssim.report.plots import breakdown_figure, efficiency_figure, image_bytes
from pssim.results import COLUMNS


def row(scheme="sync", nodes=1, efficiency=0.9, half=None, **cells):
    """A step of 2 s, of which half a second is exposed wait."""
    given = {
        "scheme": scheme, "nodes": nodes, "ranks": nodes, "cores": 24 * nodes, "engine": "vector",
        "samples_per_step": 32, "extrapolated": False, "efficiency": efficiency,
        "step_s": 2.0, "compute_s": 1.5, "interference_s": 0.0, "update_s": 0.0,
        "exposed_wait_s": 0.5, "exposed_queue_s": 0.0, "exposed_transfer_s": 0.0,
    }
    if half is not None:
        given |= {"efficiency_ci_low": efficiency - half, "efficiency_ci_high": efficiency + half}
    return {**dict.fromkeys(COLUMNS), **given, **cells}


def lines_of(figure):
    """The labelled lines of the one set of axes: label to (x, y)."""
    (axes,) = figure.axes
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines() if not line.get_label().startswith("_")
    }


def test_each_scheme_is_a_line_through_its_sizes():
    """In order of size, whatever the order of the rows."""
    figure = efficiency_figure(
        [row(nodes=4, efficiency=0.8), row(nodes=1, efficiency=1.0), row("async", nodes=1)], title="?"
    )
    assert lines_of(figure) == {"sync": ([1, 4], [1.0, 0.8]), "async": ([1], [0.9])}


def test_the_band_is_the_interval():
    """It spans from the lower to the upper end of the 95 % interval at every size that has one."""
    figure = efficiency_figure([row(nodes=1, half=0.01), row(nodes=2, half=0.02)], title="?")
    (band,) = figure.axes[0].collections
    corners = band.get_paths()[0].vertices
    assert {(round(x, 9), round(y, 9)) for x, y in corners} >= {(1, 0.89), (1, 0.91), (2, 0.88), (2, 0.92)}


def test_without_replications_there_is_no_band():
    """And nothing in the legend that speaks of one."""
    figure = efficiency_figure([row(), row(nodes=2)], title="?")
    assert not figure.axes[0].collections
    assert figure.axes[0].get_legend().get_title().get_text() == ""


def test_a_closed_form_is_a_dashed_line_in_the_colour_of_its_scheme():
    """So that it can be compared with the simulation of the same scheme."""
    figure = efficiency_figure([row(), row(nodes=2), row(engine="analytic")], title="?")
    _, simulated, analytic = figure.axes[0].get_lines()
    assert analytic.get_label() == "sync (closed form)"
    assert (simulated.get_linestyle(), analytic.get_linestyle()) == ("-", "--")
    assert simulated.get_color() == analytic.get_color()


def test_schemes_keep_their_colours_when_one_is_left_out_at_the_end():
    """The order of appearance decides, not the names."""
    def colours(*schemes):
        figure = efficiency_figure([row(scheme) for scheme in schemes], title="?")
        return [line.get_color() for line in figure.axes[0].get_lines()[1:]]

    assert colours("a", "b", "c")[:2] == colours("x", "y")


def test_sizes_are_ticks_with_their_cores():
    """On a log axis; the labels are the sizes that were run."""
    (axes,) = efficiency_figure([row(nodes=nodes) for nodes in (1, 2, 512)], title="?").axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1\n24", "2\n48", "512\n12,288"]


def test_sizes_within_one_node_are_told_apart_by_ranks():
    """1, 2 and 4 ranks on one node are three places, not one."""
    rows = [row(nodes=1, ranks=ranks, cores=ranks) for ranks in (1, 2, 4)]
    figure = efficiency_figure(rows, title="?")
    assert lines_of(figure)["sync"][0] == [1, 2, 4]
    assert figure.axes[0].get_xlabel() == "ranks"


@pytest.mark.parametrize(("lowest", "limit"), [(0.98, 0.9), (0.83, 0.8), (0.8, 0.7), (0.45, 0.0)])
def test_small_losses_are_magnified_and_large_ones_are_not(lowest, limit):
    """The axis begins at a tenth below the lowest point, or at nothing."""
    (axes,) = efficiency_figure([row(efficiency=1.0), row(nodes=2, efficiency=lowest)], title="?").axes
    assert axes.get_ylim()[0] == pytest.approx(limit)


def test_bars_stack_the_parts_to_the_whole_step():
    """Three quarters computation, one quarter waiting; parts that are nothing everywhere have no bar."""
    (axes,) = breakdown_figure([row()], title="?").axes
    heights = {bars.get_label(): bars[0].get_height() for bars in axes.containers}
    assert heights == {"computation": 0.75, "exposed wait": 0.25}
    assert axes.containers[1][0].get_y() == 0.75


def test_each_scheme_has_its_panel_with_the_step_on_each_bar():
    """Titles are the schemes."""
    axes = breakdown_figure([row(), row(nodes=2, step_s=1.5e-3), row("async")], title="?").axes
    assert [each.get_title(loc="left") for each in axes] == ["sync", "async"]
    assert [text.get_text() for text in axes[0].texts] == ["2.00 s", "1.50 ms"]


def test_many_sizes_are_thinned_out_from_the_largest():
    """The smallest and the largest stay."""
    (axes,) = breakdown_figure([row(nodes=2**power) for power in range(10)], title="?").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "8", "32", "128", "512"]


def test_rows_without_parts_have_no_bar():
    """A closed form that gives bounds only cannot be broken down; the others still are."""
    axes = breakdown_figure([row(), row("async", exposed_queue_s=None, engine="analytic")], title="?").axes
    assert [each.get_title(loc="left") for each in axes] == ["sync"]


@pytest.mark.parametrize("draw", [efficiency_figure, breakdown_figure])
@pytest.mark.parametrize("count", [0, 1, 3, 5, 9])
def test_any_number_of_schemes_can_be_drawn(draw, count):
    """Also none, and more than there are colours."""
    assert image_bytes(draw([row(f"scheme {place}") for place in range(count)], title="?"), "png")


def test_the_question_is_the_title_to_the_letter():
    """A dollar is a dollar, not mathematics."""
    figure = efficiency_figure([row()], title="What costs $1 a node, and what $2?")
    assert figure.get_suptitle().replace("\\", "") == "What costs $1 a node, and what $2?"
    assert image_bytes(figure, "svg")


@pytest.mark.parametrize("kind", ["png", "svg"])
@pytest.mark.parametrize("draw", [efficiency_figure, breakdown_figure])
def test_the_same_rows_give_the_same_bytes(draw, kind):
    """Drawn once or twice, first or second."""
    rows = [row(scheme, nodes, half=0.01) for scheme in ("sync", "async") for nodes in (1, 8)]
    figure = draw(rows, title="?")
    first = image_bytes(figure, kind)
    image_bytes(figure, "svg")
    assert image_bytes(figure, kind) == first == image_bytes(draw(rows, title="?"), kind)


def test_files_name_neither_date_nor_software():
    """They would change from day to day and from machine to machine."""
    figure = efficiency_figure([row()], title="?")
    assert b"Software" not in image_bytes(figure, "png")
    svg = image_bytes(figure, "svg").decode()
    assert not re.search(r"<dc:date>|matplotlib.org", svg.lower())


def test_drawing_leaves_matplotlib_as_it_was():
    """No pyplot, no settings that stay changed, and none taken over from the user's."""
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plain = image_bytes(efficiency_figure([row()], title="?"), "svg")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        assert image_bytes(efficiency_figure([row()], title="?"), "svg") == plain
    assert dict(mpl.rcParams) == before


def test_pyplot_is_never_imported():
    """It would pick a display and keep every figure alive."""
    script = (
        "import sys; from pssim.report.plots import *; from pssim.results import COLUMNS;"
        "image_bytes(efficiency_figure([], title='?'), 'png'); sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
