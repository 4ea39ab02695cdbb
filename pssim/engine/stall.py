"""What to say when a run cannot progress: who waits for what, since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pssim.engine.clock import PS_PER_S
from pssim.errors import StalledError
from pssim.program import Scheme

if TYPE_CHECKING:
    from pssim.engine.collectives import Collective
    from pssim.engine.rank import EventRank

__all__ = ["stalled"]

_NAMED = 12


def stalled(
    scheme: Scheme,
    ranks: Sequence[EventRank],
    workers: int,
    now_ps: int,
    left_open: Collective | None = None,
) -> StalledError:
    """The error for a run in which nothing can happen any more."""
    lines = [f"the run of {type(scheme).__name__} cannot progress at {now_ps / PS_PER_S:.9g} s:"]
    waiting = [rank for rank in ranks if rank.blocked is not None]
    # Servers wait for pushes whenever they are idle: workers first, they are the ones that hang.
    waiting.sort(key=lambda rank: rank.index)
    lines += [f"  {_describe(rank, ranks, workers)}" for rank in waiting[:_NAMED]]
    if len(waiting) > _NAMED:
        lines.append(f"  and {len(waiting) - _NAMED} more ranks")
    if left_open is not None:
        missing = [rank.name for rank in ranks[:workers] if rank.issued <= left_open.index]
        lines.append(
            f"  all-reduce number {left_open.index}, begun in step {left_open.step} by "
            f"{left_open.issuer.name}, was never joined by {_some(missing)}"
        )
    return StalledError("\n".join(lines))


def _describe(rank: EventRank, ranks: Sequence[EventRank], workers: int) -> str:
    assert rank.blocked is not None
    kind, target, since = rank.blocked
    when = f"since {since / PS_PER_S:.9g} s, in step {rank.step}"
    if kind == "receive":
        source = ranks[target].name if isinstance(target, int) else "anybody"
        return f"{rank.name} waits for a message from {source} {when}"
    missing = [other.name for other in ranks[:workers] if other.issued <= target.index]
    return f"{rank.name} waits for all-reduce number {target.index}, which lacks {_some(missing)}, {when}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
