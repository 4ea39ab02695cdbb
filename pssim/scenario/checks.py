"""Settings that are right by themselves and wrong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import lcm
from typing import TYPE_CHECKING

from pssim.scenario.locate import KeyPath
from pssim.scenario.schema import MOST_RANKS, Cluster, Training, Workload
from pssim.workload.device import Device

if TYPE_CHECKING:
    from pssim.scenario.entries import Chosen

__all__ = ["core_fault", "cross_faults", "scheme_faults"]


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
    culprits = ", ".join(f"{count} x {accumulation}" for count in uneven[:4])
    culprits += ", ..." if len(uneven) > 4 else ""
    each = lcm(*parts)
    nearest = max(1, (batch + each // 2) // each) * each
    yield (
        ("training", "global_batch"),
        f"must be a multiple of ranks x accumulation_steps at every size, it is {batch}, which is no "
        f"multiple of {culprits}" + (f"; did you mean {nearest}?" if nearest <= 4 * batch else ""),
    )


def scheme_faults(
    chosen: Sequence[Chosen], cluster: Cluster | None, training: Training | None
) -> Iterator[tuple[KeyPath, str]]:
    """Schemes that leave nothing to measure, or whose servers find no room."""
    for one in chosen:
        if training is not None:
            steps = training.steps if one.entry.steps is None else one.entry.steps
            least = one.warm_up + 2
            if steps < least:
                yield (
                    (*one.path, "steps"),
                    f"must be {least} or more, {one.warm_up} of warm-up and two to measure, it is {steps}",
                )
        if training is None or cluster is None or cluster.nodes_available is None or not one.server_nodes:
            continue
        nodes = [
            *(training.nodes or ()),
            *(-(-ranks // cluster.ranks_per_node) for ranks in training.ranks or ()),
        ]
        needed = max(nodes, default=0) + one.server_nodes
        if needed > cluster.nodes_available >= max(nodes, default=0):
            yield (
                (*one.path, "servers"),
                f"must fit the {cluster.nodes_available} nodes of cluster.nodes_available: with its "
                f"dedicated servers the largest size needs {needed}",
            )


def core_fault(cluster: Cluster, device: Device) -> Iterator[tuple[KeyPath, str]]:
    """Ranks that are larger than the device they run on."""
    if cluster.cores_per_rank > device.cores:
        yield (
            ("cluster", "cores_per_rank"),
            f"must be at most {device.cores}, the cores of device {device.name!r}, "
            f"it is {cluster.cores_per_rank}",
        )
