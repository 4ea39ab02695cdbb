"""Two pictures of a table: efficiency against size, and what the steps consist of.

Figures are made without pyplot, so that nothing global changes and no display is needed.  Files of
the same figure are the same bytes: no dates, no software versions, and fixed ids in SVG.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from pssim.results.columns import PARTS
from pssim.results.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["breakdown_figure", "efficiency_figure", "image_bytes"]

# Okabe and Ito's palette: distinct with every common form of colour blindness.
_SCHEME_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # one more, so that no pair repeats for long

# Grey for what has to be, colour for what is lost; luminance differs too, for print.
_PART_LOOKS = {
    "compute_s": ("computation", "#D5D9DE"),
    "interference_s": ("interference", "#CC79A7"),
    "update_s": ("update", "#7B8794"),
    "exposed_wait_s": ("exposed wait", "#D55E00"),
    "exposed_queue_s": ("exposed queue", "#F0C24B"),
    "exposed_transfer_s": ("exposed transfer", "#0072B2"),
}

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that files do not depend on the machine's fonts
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#E3E6EA",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "pssim",
    "svg.fonttype": "path",
}

_BARS = 6
"""Sizes shown in the breakdown: more would be too thin to read."""


def image_bytes(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    """The figure as a file; the same figure always gives the same bytes."""
    import io

    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": "pssim"}
    data = io.BytesIO()
    with _style():
        figure.savefig(data, format=kind, metadata=metadata)
    return data.getvalue()


# ---------------------------------------------------------------------------------------- efficiency


def efficiency_figure(rows: Sequence[Row], *, title: str) -> Figure:
    """Efficiency against size, a line per scheme, with its 95 % interval as a band.

    Closed forms are dashed lines in the colour of their scheme, without a band.
    """
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

    drawn = [row for row in rows if row["efficiency"] is not None]
    size = _size_column(rows)
    colours = _colours(rows)
    with _style():
        figure = Figure(figsize=(7.0, 3.9), layout="constrained")
        axes = figure.add_subplot()
        axes.axhline(1.0, color="#9AA3AD", linewidth=0.8, zorder=1)
        for place, ((scheme, analytic), series) in enumerate(_series(drawn).items()):
            colour, marker = colours[scheme]
            width = max(7.5 - place, 4)  # so that equal lines show below each other
            (line,) = axes.plot(
                [_number(row[size]) for row in series],
                [_number(row["efficiency"]) for row in series],
                color=colour, marker=marker, markersize=width, label=_name(scheme, analytic), zorder=3,
            )
            if analytic:
                line.set(linestyle="--", linewidth=1.0, marker="")
            _band(axes, series, size, colour)
        _size_axis(axes, rows, size)
        axes.set_ylabel("scaling efficiency")
        axes.set_ylim(_lower_limit(drawn), _upper_limit(drawn))
        axes.grid(axis="y")
        _title(figure, title, 88)
        if drawn:
            legend = axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
            if any(row["efficiency_ci_low"] is not None for row in drawn):
                small = FontProperties(size=7)
                legend.set_title("band: 95 % interval\nover replications", prop=small)
                legend.set_alignment("left")
        _freeze(figure)
    return figure


def _band(axes: Axes, series: Sequence[Row], size: str, colour: str) -> None:
    banded = [row for row in series if row["efficiency_ci_low"] is not None]
    if banded:
        axes.fill_between(
            [_number(row[size]) for row in banded],
            [_number(row["efficiency_ci_low"]) for row in banded],
            [_number(row["efficiency_ci_high"]) for row in banded],
            color=colour, alpha=0.25, linewidth=0, zorder=2,
        )


def _lower_limit(rows: Sequence[Row]) -> float:
    """0 where much is lost; else the tenth below the lowest point, so that small losses can be seen."""
    lowest = min((_number(row["efficiency_ci_low"] or row["efficiency"]) for row in rows), default=0.0)
    return 0.0 if lowest < 0.5 else min(math.floor(10 * lowest - 0.1) / 10, 0.9)


def _upper_limit(rows: Sequence[Row]) -> float:
    highest = max((_number(row["efficiency_ci_high"] or row["efficiency"]) for row in rows), default=1.0)
    return max(highest, 1.0) + 0.04 * (1 - _lower_limit(rows))


# ----------------------------------------------------------------------------------------- breakdown


def breakdown_figure(rows: Sequence[Row], *, title: str) -> Figure:
    """What a step consists of: for each scheme a panel with a bar per size, parts as shares of the step.

    Shares, not seconds: sizes and schemes stay comparable where steps differ by orders of magnitude.
    The step itself is written on top of each bar.
    """
    from matplotlib.figure import Figure

    size = _size_column(rows)
    whole = [row for row in rows if row["step_s"] and all(row[part] is not None for part in PARTS)]
    panels = {key: _chosen(series) for key, series in _series(whole).items()}
    across = 3 if len(panels) in (5, 6, 9) else max(min(len(panels), 4), 1)
    down = max(math.ceil(len(panels) / across), 1)
    shown = [part for part in PARTS if any(row[part] for row in whole)]
    with _style():
        figure = Figure(figsize=(max(1.6 + 2.1 * across, 5.0), 0.8 + 2.7 * down), layout="constrained")
        grid = figure.subplots(down, across, sharey=True, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes, (key, bars) in zip(grid.flat, panels.items(), strict=False):
            _panel(axes, bars, shown, size)
            axes.set_title(_name(*key), loc="left", pad=38)
        for axes in grid[:, 0]:
            axes.set_ylabel("share of the step")
        _title(figure, title, 30 * across + 20)
        if panels:
            handles, labels = grid.flat[0].get_legend_handles_labels()
            grid[0, -1].legend(
                handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.03, 1.0), borderaxespad=0
            )
        _freeze(figure)
    return figure


def _panel(axes: Axes, bars: Sequence[Row], shown: Sequence[str], size: str) -> None:
    places = list(range(len(bars)))
    base = [0.0] * len(bars)
    for part in shown:
        label, colour = _PART_LOOKS[part]
        shares = [_number(row[part]) / _number(row["step_s"]) for row in bars]
        axes.bar(places, shares, bottom=base, width=0.78, color=colour, label=label)
        base = [low + share for low, share in zip(base, shares, strict=True)]
    for place, row in zip(places, bars, strict=True):
        step = _duration(_number(row["step_s"]))
        axes.text(place, 1.025, step, ha="center", va="bottom", rotation=90, fontsize=7, color="#4A5461")
    axes.set_xticks(places, [f"{row[size]:,}" for row in bars])
    axes.set_xlabel(size)
    axes.set_ylim(0, 1)
    axes.tick_params(axis="x", length=0)


def _chosen(series: Sequence[Row]) -> list[Row]:
    """Every so many sizes down from the largest, and the smallest."""
    stride = max(math.ceil((len(series) - 1) / (_BARS - 1)), 1)
    chosen = list(series[::-stride])
    if chosen[-1] is not series[0]:
        chosen.append(series[0])
    return chosen[::-1]


def _duration(seconds: float) -> str:
    """Three significant digits and a unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            digits = max(2 - math.floor(math.log10(seconds * factor)), 0) if seconds > 0 else 0
            return f"{seconds * factor:,.{digits}f} {unit}"
    raise AssertionError(seconds)


# -------------------------------------------------------------------------------------------- common


def _series(rows: Sequence[Row]) -> dict[tuple[str, bool], list[Row]]:
    """Rows by scheme and whether a closed form gave them, each in order of size."""
    series: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        series.setdefault((str(row["scheme"]), row["engine"] == "analytic"), []).append(row)
    return {key: sorted(found, key=lambda row: _number(row["ranks"])) for key, found in series.items()}


def _colours(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each scheme, by the order in which schemes appear."""
    schemes = dict.fromkeys(str(row["scheme"]) for row in rows)
    return {
        scheme: (_SCHEME_COLOURS[place % len(_SCHEME_COLOURS)], _MARKERS[place % len(_MARKERS)])
        for place, scheme in enumerate(schemes)
    }


def _size_column(rows: Sequence[Row]) -> str:
    """Nodes, unless several sizes share a number of nodes: then ranks."""
    sizes = {(row["nodes"], row["ranks"]) for row in rows}
    return "nodes" if len({nodes for nodes, _ in sizes}) == len(sizes) else "ranks"


def _size_axis(axes: Axes, rows: Sequence[Row], size: str) -> None:
    """A log axis with the sizes that were run as its ticks, and the cores they have below."""
    from matplotlib.ticker import FixedLocator, NullLocator

    cores = {int(_number(row[size])): int(_number(row["cores"])) for row in rows}
    sizes = sorted(cores)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    ticks = _apart(sizes)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    same = all(number == at for at, number in cores.items())
    axes.set_xticklabels([f"{at:,}" if same else f"{at:,}\n{cores[at]:,}" for at in ticks])
    axes.set_xlabel(size if same else f"{size} (below: cores)")


def _apart(sizes: Sequence[int]) -> list[int]:
    """Those of the sizes whose labels have room on a log axis, always the largest."""
    kept: list[int] = []
    room = math.log2(max(sizes) / min(sizes)) / 11 if sizes else 0.0
    for at in reversed(sizes):
        if not kept or math.log2(kept[-1] / at) >= room:
            kept.append(at)
    return kept[::-1]


def _name(scheme: str, analytic: bool) -> str:
    return f"{scheme} (closed form)" if analytic else scheme


def _title(figure: Figure, text: str, width: int) -> None:
    """The question, at the left edge; a dollar sign in it is no mathematics."""
    figure.suptitle(textwrap.fill(text.replace("$", r"\$"), width), x=0.01, ha="left", fontsize=10)


def _freeze(figure: Figure) -> None:
    """Lay the figure out once, so that drawing it again, in whatever format, gives the same picture."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _number(cell: Any) -> float:
    return float(cell)


def _style() -> AbstractContextManager[None]:
    """A context in which matplotlib has our settings and not those of the user's matplotlibrc."""
    from matplotlib.style import context

    return context(["default", _STYLE])
