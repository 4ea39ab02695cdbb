"""Settings that are right by themselves and wrong together."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from pssim.program import Scheme
from pssim.scenario.locate import KeyPath
from pssim.scenario.schema import MOST_RANKS, Cluster, Training, Workload

__all__ = ["cross_faults", "warm_up_fault"]


def cross_faults(
    workload: Workload | None, cluster: Cluster | None, training: Training | None
) -> list[tuple[KeyPath, str]]:
    """What does not fit together, as (key, what is wrong); a section that is None is not looked at."""
    faults: list[tuple[KeyPath, str]] = []
    if cluster is not None:
        faults += _cluster(cluster)
    if training is not None:
        faults += _training(training)
    if cluster is not None and training is not None:
        faults += _sizes(cluster, training)
        if workload is not None:
            faults += _global_batch(workload, cluster, training)
    return faults


def _cluster(cluster: Cluster) -> Iterator[tuple[KeyPath, str]]:
    per_node, per_rank = cluster.ranks_per_node, cluster.cores_per_rank
    if cluster.cores_per_node is not None and per_node * per_rank > cluster.cores_per_node:
        yield (
            ("cluster", "cores_per_node"),
            f"must hold ranks_per_node x cores_per_rank = {per_node} x {per_rank} = {per_node * per_rank} "
            f"cores, it is {cluster.cores_per_node}",
        )
    if per_node > 1 and cluster.local_link is None:
        yield (
            ("cluster", "local_link"),
            f"must be given when ranks_per_node is above 1, it is {per_node}: how the ranks of a node reach "
            'each other, such as { latency = "0.5 us", bandwidth = "10 GB/s" }',
        )


def _training(training: Training) -> Iterator[tuple[KeyPath, str]]:
    if training.nodes is not None and training.ranks is not None:
        yield ("training", "ranks"), "must not be given beside training.nodes: sizes are in nodes or in ranks"
    if training.nodes is None and training.ranks is None:
        yield ("training", "nodes"), "must be given (or training.ranks): cluster sizes, such as [1, 2, 4, 8]"
    wanted, other = ("batch_per_rank", "global_batch")
    if training.scaling == "strong":
        wanted, other = other, wanted
    if getattr(training, wanted) is None:
        yield ("training", wanted), f"must be given for {training.scaling} scaling"
    if getattr(training, other) is not None:
        yield (
            ("training", other),
            f"must not be given for {training.scaling} scaling, it is {getattr(training, other)}; "
            f"did you mean {wanted!r}?",
        )


def _sizes(cluster: Cluster, training: Training) -> Iterator[tuple[KeyPath, str]]:
    """Every size, whether in nodes or ranks, against what there is."""
    for kind, sizes in (("nodes", training.nodes), ("ranks", training.ranks)):
        for position, size in enumerate(sizes or ()):
            nodes = size if kind == "nodes" else -(-size // cluster.ranks_per_node)
            if cluster.nodes_available is not None and nodes > cluster.nodes_available:
                needs = f"it is {size}" if kind == "nodes" else f"{size} ranks need {nodes}"
                yield (
                    ("training", kind, position),
                    f"must fit the {cluster.nodes_available} nodes of cluster.nodes_available, {needs}",
                )
            if nodes * cluster.ranks_per_node > MOST_RANKS:
                yield (
                    ("training", kind, position),
                    f"must be at most {MOST_RANKS:,} ranks in all, it is {nodes} nodes of "
                    f"{cluster.ranks_per_node}",
                )


def _global_batch(workload: Workload, cluster: Cluster, training: Training) -> Iterator[tuple[KeyPath, str]]:
    batch, accumulation = training.global_batch, workload.accumulation_steps
    if batch is None or training.scaling != "strong":
        return
    ranks = [nodes * cluster.ranks_per_node for nodes in training.nodes or ()] + list(training.ranks or ())
    parts = [count * accumulation for count in ranks]
    uneven = [count for count, part in zip(ranks, parts, strict=True) if batch % part]
    if not uneven:
        return
    culprits = ", ".join(map(str, uneven[:4])) + (", ..." if len(uneven) > 4 else "")
    each = lcm(*parts)
    nearest = max(1, (batch + each // 2) // each) * each
    yield (
        ("training", "global_batch"),
        f"must be a multiple of ranks x accumulation_steps at every size, it is {batch}, which is none of "
        f"{culprits} x {accumulation}" + (f"; did you mean {nearest}?" if nearest <= 4 * batch else ""),
    )


def warm_up_fault(scheme: Scheme, steps: int) -> Iterator[str]:
    """Whether anything is left to measure after the steps that a scheme itself sets apart."""
    warm_up = scheme.warm_up()
    if steps < warm_up + 2:
        yield f"must be {warm_up + 2} or more, {warm_up} of warm-up and two to measure, it is {steps}"
