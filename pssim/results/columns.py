"""The glossary: every column of a result, with what it means, how it is computed and in which unit.

The order here is the order of the columns everywhere: in tables, in ``results.csv`` and in JSON.
Ratios are fractions, never percent.  An empty cell means that the number does not exist for this
row (a single replication has no interval), never that it is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["COLUMNS", "PARTS", "Column", "Kind"]

Kind = Literal["text", "count", "number", "flag"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name carries the unit, ``optional`` says that cells may be empty."""

    name: str
    unit: str
    definition: str
    formula: str
    kind: Kind = "number"
    optional: bool = True


_ALL = (
    Column(
        name="scheme",
        unit="",
        definition=(
            "How the ranks train together: the scheme's name, and in brackets the options that differ "
            "from what the name stands for."
        ),
        formula="name[option=value,...]",
        kind="text",
        optional=False,
    ),
    Column(
        name="nodes",
        unit="1",
        definition="Nodes in use; the last one may be partly filled.",
        formula="ceil(ranks / ranks_per_node)",
        kind="count",
        optional=False,
    ),
    Column(
        name="ranks",
        unit="1",
        definition="Workers that train, each with its own batch.",
        formula="number of workers",
        kind="count",
        optional=False,
    ),
    Column(
        name="cores",
        unit="1",
        definition="Cores the workers occupy.",
        formula="ranks * cores_per_rank",
        kind="count",
        optional=False,
    ),
    Column(
        name="engine",
        unit="",
        definition=(
            "What computed the row: events and vector simulate, and agree to the bit; analytic is a "
            "closed form."
        ),
        formula="events | vector | analytic",
        kind="text",
        optional=False,
    ),
    Column(
        name="step_s",
        unit="s",
        definition=(
            "Time per step once the start is cut off: the slope of the step boundaries over the "
            "measured window, which is common to ranks in lock step and, for ranks that are not, lies "
            "where all of them run."
        ),
        formula=(
            "mean over ranks of (boundary[last] - boundary[first]) / (last - first); mean over "
            "replications"
        ),
    ),
    Column(
        name="step_p50_s",
        unit="s",
        definition="The median step: half of all measured steps took no longer.",
        formula=(
            "smallest observed duration with at least 50 % of the measured steps of all ranks at or "
            "below it; mean over replications"
        ),
    ),
    Column(
        name="step_p99_s",
        unit="s",
        definition="The slow tail: 99 of 100 measured steps took no longer.",
        formula=(
            "smallest observed duration with at least 99 % of the measured steps of all ranks at or "
            "below it; mean over replications"
        ),
    ),
    Column(
        name="step_ci_low_s",
        unit="s",
        definition=(
            "Lower end of the two-sided 95 % confidence interval of step_s; empty for a single "
            "replication."
        ),
        formula=(
            "mean - t(0.975, n - 1) * s / sqrt(n) over the step_s of n replications, s their standard "
            "deviation"
        ),
    ),
    Column(
        name="step_ci_high_s",
        unit="s",
        definition=(
            "Upper end of the two-sided 95 % confidence interval of step_s; empty for a single "
            "replication."
        ),
        formula=(
            "mean + t(0.975, n - 1) * s / sqrt(n) over the step_s of n replications, s their standard "
            "deviation"
        ),
    ),
    Column(
        name="compute_s",
        unit="s",
        definition=(
            "Per step, a rank's own computation: forward, backward and whatever else its program "
            "computes, with its jitter."
        ),
        formula="mean over ranks of computing time / steps of that rank; mean over replications",
    ),
    Column(
        name="interference_s",
        unit="s",
        definition="Per step, what communication in the background adds to computation.",
        formula=(
            "mean over ranks of (computing time with communication - without) / steps of that rank; "
            "mean over replications"
        ),
    ),
    Column(
        name="update_s",
        unit="s",
        definition="Per step, the rank's own weight update.",
        formula="mean over ranks of updating time / steps of that rank; mean over replications",
    ),
    Column(
        name="exposed_wait_s",
        unit="s",
        definition=(
            "Per step, time a rank stands still because a peer has not arrived yet, the message has "
            "not been sent, or a bound on staleness holds it back."
        ),
        formula=(
            "mean over ranks of blocked time before the operation can start / steps of that rank; "
            "mean over replications"
        ),
    ),
    Column(
        name="exposed_queue_s",
        unit="s",
        definition=(
            "Per step, time a rank stands still because the channel, link or server it needs is busy "
            "with something else, such as another rank's push."
        ),
        formula=(
            "mean over ranks of blocked time between ready and begun / steps of that rank; mean over "
            "replications"
        ),
    ),
    Column(
        name="exposed_transfer_s",
        unit="s",
        definition=(
            "Per step, time a rank stands still during the operation itself: communication that "
            "computation does not hide. A server's update of the rank's own push counts here."
        ),
        formula=(
            "mean over ranks of blocked time while in transfer / steps of that rank; mean over "
            "replications"
        ),
    ),
    Column(
        name="overlap",
        unit="fraction",
        definition=(
            "How much of the communication is hidden behind other work of the rank; empty where there "
            "is no communication."
        ),
        formula=(
            "1 - exposed_transfer_s / (time per step with an operation of the rank in transfer, "
            "operations at the same time counted once)"
        ),
    ),
    Column(
        name="throughput_samples_per_s",
        unit="samples/s",
        definition="Samples that all ranks together process per second.",
        formula=(
            "sum over ranks of samples_per_step * (last - first) / (boundary[last] - boundary[first]); "
            "mean over replications"
        ),
    ),
    Column(
        name="efficiency",
        unit="fraction",
        definition=(
            "Scaling efficiency: the throughput, compared with that of the same ranks if each took "
            "the same steps alone, with the same jitter and its own update, but without "
            "communication."
        ),
        formula=(
            "throughput / sum over ranks of samples_per_step * (last - first) / time alone, each "
            "replication by itself; mean over replications"
        ),
    ),
    Column(
        name="efficiency_ci_low",
        unit="fraction",
        definition=(
            "Lower end of the two-sided 95 % confidence interval of efficiency; empty for a single "
            "replication."
        ),
        formula="mean - t(0.975, n - 1) * s / sqrt(n) over the efficiency of n replications",
    ),
    Column(
        name="efficiency_ci_high",
        unit="fraction",
        definition=(
            "Upper end of the two-sided 95 % confidence interval of efficiency; empty for a single "
            "replication."
        ),
        formula="mean + t(0.975, n - 1) * s / sqrt(n) over the efficiency of n replications",
    ),
    Column(
        name="efficiency_own_baseline",
        unit="fraction",
        definition=(
            "Scaling efficiency as papers often state it: against the same scheme at the smallest "
            "size of this run."
        ),
        formula="(throughput / ranks) / (throughput / ranks at the scheme's smallest size)",
    ),
    Column(
        name="staleness_mean",
        unit="updates",
        definition=(
            "Updates between the weights a gradient was computed on and the weights it was applied "
            "to, each bucket weighted by its bytes."
        ),
        formula=(
            "sum of bytes * (version applied to - version computed on) / sum of bytes, over the "
            "window; mean over replications"
        ),
    ),
    Column(
        name="staleness_max",
        unit="updates",
        definition="The largest staleness of any bucket.",
        formula="max of (version applied to - version computed on) over the window and all replications",
        kind="count",
    ),
    Column(
        name="clock_gap_max",
        unit="steps",
        definition=(
            "The furthest a rank was ahead of the slowest one when a server answered it; what ssp "
            "bounds. Empty for schemes without a server."
        ),
        formula="max of (own completed steps - slowest rank's) over all answers and replications",
        kind="count",
    ),
    Column(
        name="bytes_per_rank",
        unit="bytes",
        definition="Bytes a rank sends per step.",
        formula="mean over ranks of bytes sent / steps of that rank; mean over replications",
    ),
    Column(
        name="samples_per_step",
        unit="samples",
        definition="Samples a rank processes per optimiser step, all its micro-batches together.",
        formula="weak scaling: as configured; strong scaling: global batch / ranks",
        kind="count",
        optional=False,
    ),
    Column(
        name="replications",
        unit="1",
        definition="Simulated repetitions with their own random numbers; empty for a closed form.",
        formula="number of replications",
        kind="count",
    ),
    Column(
        name="steps_measured",
        unit="steps",
        definition="Steps in the measured window, of the rank that has the fewest; empty for a closed form.",
        formula="min over ranks and replications of (last - first)",
        kind="count",
    ),
    Column(
        name="steady",
        unit="true/false",
        definition=(
            "Whether the run was long enough for the start to be cut off where theory says that steps "
            "have settled. False means that the numbers of this row may still drift."
        ),
        formula="all replications reached their steady window",
        kind="flag",
    ),
    Column(
        name="extrapolated",
        unit="true/false",
        definition="Whether the row needed compute times outside the batches that the profile measured.",
        formula="batch outside the measured range",
        kind="flag",
        optional=False,
    ),
    Column(
        name="step_bound_low_s",
        unit="s",
        definition=(
            "Lower bound of the expected step, which a simulation of this row does not fall below; analytic "
            "rows only, and equal to step_s where the closed form is exact."
        ),
        formula="see the scheme's closed form",
    ),
    Column(
        name="step_bound_high_s",
        unit="s",
        definition=(
            "Upper bound of the expected step, which a simulation of this row does not exceed; analytic "
            "rows only, and equal to step_s where the closed form is exact."
        ),
        formula="see the scheme's closed form",
    ),
)

COLUMNS: dict[str, Column] = {column.name: column for column in _ALL}

PARTS = (
    "compute_s",
    "interference_s",
    "update_s",
    "exposed_wait_s",
    "exposed_queue_s",
    "exposed_transfer_s",
)
"""The six parts of a step; they add up to ``step_s``."""
