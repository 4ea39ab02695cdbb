"""From a scenario to jobs: one for each scheme, size and replication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pssim.cluster import Jitter, JitterSource, Placement, fill_nodes
from pssim.engine.guard import asked
from pssim.engine.job import Job, server_nodes
from pssim.network import Link, Network
from pssim.program import Scheme
from pssim.workload.device import load_device
from pssim.workload.profile import load_profile
from pssim.workload.step import StepWorkload, build_step

if TYPE_CHECKING:
    from pssim.scenario import Loaded, SchemeEntry, Size

__all__ = ["JobMaker"]


@dataclass(frozen=True)
class _Sized:
    """What all jobs of one size share."""

    workload: StepWorkload
    placement: Placement


class JobMaker:
    """Makes the jobs of one scenario; reads its profile and device once."""

    def __init__(self, loaded: Loaded) -> None:
        scenario = loaded.scenario
        self._scenario = scenario
        self._profile = load_profile(loaded.profile_path)
        self._device = None
        self._share = 1.0
        if loaded.device_path is not None:
            self._device = load_device(loaded.device_path)
            self._share = scenario.cluster.cores_per_rank / self._device.cores
        cluster = scenario.cluster
        self._network = Network(
            link=Link(cluster.link.latency_s, cluster.link.bandwidth_bytes_per_s),
            local_link=None
            if cluster.local_link is None
            else Link(cluster.local_link.latency_s, cluster.local_link.bandwidth_bytes_per_s),
            algorithm=cluster.collective,
            channel_width=cluster.channel.width,
            holds_completion=cluster.channel.holds == "completion",
        )
        self.jitter = Jitter(cluster.jitter.persistent, cluster.jitter.node, cluster.jitter.independent)
        self._sized: dict[int, _Sized] = {}
        self._workloads: dict[int, StepWorkload] = {}
        self._built: dict[int, tuple[Scheme, str]] = {}

    def _at(self, size: Size) -> _Sized:
        if size.ranks not in self._sized:
            workload = self._step(self._scenario.micro_batch(size.ranks))
            placement = fill_nodes(size.ranks, self._scenario.cluster.ranks_per_node)
            self._sized[size.ranks] = _Sized(workload, placement)
        return self._sized[size.ranks]

    def _step(self, batch: int) -> StepWorkload:
        """One step at this batch; under weak scaling that is the same at every size."""
        if batch not in self._workloads:
            settings = self._scenario.workload
            self._workloads[batch] = build_step(
                self._profile,
                batch=batch,
                device=self._device,
                device_share=self._share,
                bucket_cap_bytes=settings.bucket_cap_bytes,
                gradient_dtype=settings.gradient_dtype,
                accumulation_steps=settings.accumulation_steps,
                update_s=settings.update_s,
            )
        return self._workloads[batch]

    def _scheme(self, entry: SchemeEntry) -> tuple[Scheme, str]:
        """The scheme of an entry and its label, built once."""
        if id(entry) not in self._built:
            self._built[id(entry)] = entry.build(), entry.label
        return self._built[id(entry)]

    def workload(self, size: Size) -> StepWorkload:
        """One step of one rank at this size."""
        return self._at(size).workload

    def label(self, entry: SchemeEntry) -> str:
        """The label of a scheme: its name, and the options that differ from what the name stands for."""
        return self._scheme(entry)[1]

    def job(self, entry: SchemeEntry, size: Size, replication: int = 0) -> Job:
        """One replication of one scheme at one size."""
        sized = self._at(size)
        scheme, label = self._scheme(entry)
        servers: tuple[int, ...] = ()
        if scheme.has_server:
            servers = server_nodes(asked(scheme, "server_count", 1), scheme.dedicated_servers(), size.nodes)
        return Job(
            label=label,
            scheme=scheme,
            placement=sized.placement,
            workload=sized.workload,
            network=self._network,
            jitter=JitterSource(
                self.jitter, sized.placement, seed=self._scenario.training.seed, replication=replication
            ),
            steps=self._scenario.steps_of(entry),
            server_nodes=servers,
        )
