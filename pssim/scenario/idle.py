"""Settings that cannot matter in the scenario they stand in.

Whoever sets a number expects it to change something.  Each rule says which settings change nothing,
when, and why; only settings that somebody wrote are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pssim.program import Scheme
from pssim.scenario.locate import KeyPath
from pssim.scenario.origin import Origin, dotted
from pssim.scenario.schema import Scenario

__all__ = ["idle_settings"]


@dataclass(frozen=True, slots=True)
class _Case:
    """The scenario, as far as the rules ask about it."""

    scenario: Scenario
    schemes: Sequence[Scheme]

    def one_rank_a_node(self) -> bool:
        return self.scenario.cluster.ranks_per_node == 1

    def one_node(self) -> bool:
        return all(size.nodes == 1 for size in self.scenario.sizes) and not self.servers_apart()

    def one_rank(self) -> bool:
        return all(size.ranks == 1 for size in self.scenario.sizes) and not self.servers_apart()

    def servers_apart(self) -> bool:
        """Whether any servers have nodes of their own, so that even one worker uses the network."""
        return any(scheme.has_server and scheme.dedicated_servers() for scheme in self.schemes)

    def only_servers(self) -> bool:
        return all(scheme.has_server for scheme in self.schemes)

    def no_jitter(self) -> bool:
        jitter = self.scenario.cluster.jitter
        return not (jitter.persistent or jitter.node or jitter.independent)

    def own_steps(self) -> bool:
        return all(entry.steps is not None for entry in self.scenario.schemes)

    def own_replications(self) -> bool:
        return all(entry.replications is not None for entry in self.scenario.schemes)


@dataclass(frozen=True, slots=True)
class _Rule:
    keys: tuple[KeyPath, ...]
    holds: Callable[[_Case], bool]
    reason: str


_COLLECTIVES: tuple[KeyPath, ...] = (("cluster", "collective"), ("cluster", "channel"))

# The first rule that holds for a setting gives the reason.
_RULES = (
    _Rule((("cluster", "local_link"),), _Case.one_rank_a_node, "there is one rank a node"),
    _Rule(
        (
            ("cluster", "link"),
            ("cluster", "local_link"),
            *_COLLECTIVES,
            ("workload", "bucket_cap"),
            ("workload", "gradient_dtype"),
        ),
        _Case.one_rank,
        "every size is one rank, which communicates with nobody",
    ),
    _Rule((("cluster", "link"),), _Case.one_node, "every size is one node"),
    _Rule(_COLLECTIVES, _Case.only_servers, "no scheme here uses all-reduce"),
    _Rule(
        (("training", "seed"), ("training", "replications")),
        _Case.no_jitter,
        "without cluster.jitter nothing is random",
    ),
    _Rule((("training", "steps"),), _Case.own_steps, "every scheme has its own number of steps"),
    _Rule(
        (("training", "replications"),),
        _Case.own_replications,
        "every scheme has its own number of replications",
    ),
)


def idle_settings(
    scenario: Scenario, schemes: Sequence[Scheme], origin: Origin, engine: str | None = None
) -> Iterator[str]:
    """A warning for each setting that was written and cannot change any result."""
    case = _Case(scenario, schemes)
    said: set[KeyPath] = set()
    rules = [(key, rule.reason) for rule in _RULES if rule.holds(case) for key in rule.keys]
    if case.no_jitter():
        rules += [
            (("scheme", position, "replications"), "without cluster.jitter nothing is random")
            for position in range(len(schemes))
        ]
    if engine == "analytic":
        # Those in the file are there for the other engines.
        rules += [
            (("training", key), "closed forms have no steps to simulate, and nothing random")
            for key in ("seed", "replications", "steps")
            if origin.mark(("training", key)).option
        ]
    for key, reason in rules:
        if key not in said and origin.is_given(key):
            said.add(key)
            yield f"{origin.place(key)}: {dotted(key)} cannot matter: {reason}"
    yield from _sizes(scenario, origin)
    yield from _servers(scenario, schemes, origin)


def _servers(scenario: Scenario, schemes: Sequence[Scheme], origin: Origin) -> Iterator[str]:
    most = max(size.nodes for size in scenario.sizes)
    for position, scheme in enumerate(schemes):
        servers = getattr(scheme, "servers", None)
        key: KeyPath = ("scheme", position, "servers")
        if not isinstance(servers, int) or servers <= most or not origin.is_given(key):
            continue
        if not scheme.dedicated_servers():
            yield (
                f"{origin.place(key)}: {dotted(key)}: more than {most} cannot matter: a node has one "
                "co-located server at most"
            )


def _sizes(scenario: Scenario, origin: Origin) -> Iterator[str]:
    for kind in ("nodes", "ranks"):
        sizes = getattr(scenario.training, kind)
        if sizes is not None and list(sizes) != sorted(set(sizes)):
            yield (
                f"{origin.place(('training', kind))}: training.{kind}: order and repetition cannot matter: "
                "sizes are run smallest first, each once"
            )
