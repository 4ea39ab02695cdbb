"""Point-to-point messages under the events engine: links, mailboxes, and what a receiver waited for.

A message between nodes takes its bytes over the sender's and the receiver's NIC, which all messages
there share fairly, then the latency; inside a node it is free.  With a single server node the
server's NIC is the only bottleneck (every other link carries a subset of its messages at the same
bandwidth), so its two directions are shared links in virtual time; otherwise rates are max-min fair.

A worker that blocks for an answer is charged along the way its push took: its own messages alone,
and the server's update of its own push, are transfer (update, where all of that happened inside its
node); what sharing a link added, and the server's work for others, is queue; an answer that was
held back, or not yet offered, is wait.  On a shared link a blocked interval is split in proportion.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, cast

from simpy import Event
from simpy.events import Timeout

from pssim.clocks import WorkerClocks
from pssim.engine.clock import to_ps
from pssim.engine.environment import PicosecondEnvironment, process_now, trigger
from pssim.engine.job import Job
from pssim.engine.rank import EventRank
from pssim.engine.record import QUEUE, SENT, TRANSFER, UPDATE, WAIT
from pssim.network import MaxMinLinks, SharedLink
from pssim.program import ANY

__all__ = ["Delivery", "Messages"]

class Delivery:
    """A message on its way, and when it got where."""

    __slots__ = ("alone_ps", "arrived_ps", "local", "sent_ps", "service", "source", "target", "value")

    def __init__(
        self, source: EventRank, target: EventRank, value: Any, sent_ps: int, alone_ps: int, local: bool
    ) -> None:
        self.source = source
        self.target = target
        self.value = value
        self.sent_ps = sent_ps
        self.alone_ps = alone_ps
        self.local = local
        self.arrived_ps = -1
        self.service: _Service | None = None


class _Service:
    """What a server did for one worker between two answers: its last push, and the updates of its pushes."""

    __slots__ = ("applied_ps", "begun_ps", "earlier", "push")

    def __init__(self) -> None:
        self.push: Delivery | None = None
        self.begun_ps = self.applied_ps = 0
        self.earlier: list[tuple[int, int]] = []  # all updates but the last


class _Links:
    """A set of shared links with a timer for its next change."""

    __slots__ = ("links", "set_for_ps", "stamp")

    def __init__(self, links: SharedLink | MaxMinLinks) -> None:
        self.links = links
        self.set_for_ps: int | None = None
        self.stamp = 0


class Messages:
    """All messages of a run."""

    def __init__(self, env: PicosecondEnvironment, ranks: list[EventRank], job: Job) -> None:
        self._env = env
        self._link = job.network.link
        self._latency_ps = to_ps(self._link.latency_s)
        self._workers = job.ranks
        self._mail: list[list[tuple[int, int, int, Delivery]]] = [[] for _ in ranks]
        self._waiting: list[tuple[Event, Any] | None] = [None] * len(ranks)
        self._serial = 0
        self._work_ps: dict[int, int] = {}
        servers = [rank for rank in ranks if rank.holds]
        self._server_nodes = {rank.node for rank in servers}
        self._single = len(self._server_nodes) == 1
        self._directions = (_Links(SharedLink()), _Links(SharedLink()))  # to the server, from the server
        self._mesh = _Links(MaxMinLinks())
        self._clocks = {rank.index: WorkerClocks(range(job.ranks)) for rank in servers}
        self._applied = {rank.index: [0] * job.ranks for rank in servers}
        self._services = {rank.index: [_Service() for _ in range(job.ranks)] for rank in servers}
        self._serving: dict[int, Delivery] = {}
        self.log: list[tuple[int, int, int, int]] = []

    # ---------------------------------------------------------------------------------------- sending

    def send(self, source: EventRank, target: EventRank, value: Any) -> int | None:
        """Put a message on its way.  For a server's answer, gives the worker's lead over the slowest."""
        now = self._env.now
        size = value.size_bytes
        local = source.node == target.node
        alone = 0 if local else self._alone_ps(size)
        delivery = Delivery(source, target, value, now, alone + (0 if local else self._latency_ps), local)
        gap = None
        if source.holds and target.index < self._workers:
            gap = self._clocks[source.index].gap(target.index)
            delivery.service = self._services[source.index][target.index]
            self._services[source.index][target.index] = _Service()
        if local:
            self._deliver(delivery, now)
            return gap
        source.total[SENT] += size
        if self._single and (source.holds or target.holds):
            links = self._directions[0 if target.holds else 1]
            route: tuple[int, ...] = ()
        else:
            links = self._mesh
            route = (2 * source.node, 2 * target.node + 1)
        if links.links.start(now, route, alone, delivery):
            self._arm(links, now)
        return gap

    def _alone_ps(self, size_bytes: int) -> int:
        if size_bytes not in self._work_ps:
            self._work_ps[size_bytes] = to_ps(self._link.transfer_s(size_bytes))
        return self._work_ps[size_bytes]

    def _arm(self, links: _Links, now: int) -> None:
        """Make sure a timer goes off no later than the next change; one that is early is set again then."""
        change = links.links.next_change_ps()
        if change is None or (links.set_for_ps is not None and links.set_for_ps <= change):
            return
        links.set_for_ps = change
        links.stamp += 1
        timer = Timeout(self._env, change - now, (links, links.stamp))
        timer.callbacks.append(self._on_change)

    def _on_change(self, timer: Event) -> None:
        links, stamp = cast("tuple[_Links, int]", timer.value)
        if stamp == links.stamp:
            links.set_for_ps = None
            now = self._env.now
            through = links.links.finish(now)
            for delivery in through:
                if self._latency_ps:
                    arrival = Timeout(self._env, self._latency_ps, delivery)
                    arrival.callbacks.append(self._on_arrival)
                else:
                    self._post(delivery, now)
            self._arm(links, now)
            if not self._latency_ps:  # only now: who is woken first must see all that came in with it
                for delivery in through:
                    self._notify(delivery, now)

    def _on_arrival(self, timer: Event) -> None:
        self._deliver(cast(Delivery, timer.value), self._env.now)

    # -------------------------------------------------------------------------------------- receiving

    def _deliver(self, delivery: Delivery, now: int) -> None:
        self._post(delivery, now)
        self._notify(delivery, now)

    def _post(self, delivery: Delivery, now: int) -> None:
        """Put a message into its receiver's mailbox."""
        delivery.arrived_ps = now
        if not delivery.local:
            for end in (delivery.source.index, delivery.target.index):
                if end < self._workers:
                    self.log.append((end, delivery.sent_ps, now, delivery.alone_ps))
        self._serial += 1
        entry = (now, delivery.source.index, self._serial, delivery)
        heappush(self._mail[delivery.target.index], entry)

    def _notify(self, delivery: Delivery, now: int) -> None:
        """Wake the receiver if it waits for this message."""
        target = delivery.target.index
        waiting = self._waiting[target]
        if waiting is not None and (waiting[1] is ANY or waiting[1] == delivery.source.index):
            self._waiting[target] = None
            if waiting[1] is ANY and self._env.peek() == now:
                trigger(self._env, waiting[0])  # rank breaks ties between arrivals
            else:
                process_now(waiting[0])

    def take(self, rank: EventRank, source: Any, *, settled: bool = False) -> Delivery | None:
        """The first message for this rank, by arrival, then by sender; None if it has to wait for one.

        One that arrived this very instant may not be the first of its instant yet: unless this
        instant is ``settled``, its receiver waits until all else has happened.
        """
        mail = self._mail[rank.index]
        if source is ANY:
            if not mail or (mail[0][0] == self._env.now and not settled):
                return None
            delivery = heappop(mail)[3]
        else:
            mine = [entry for entry in mail if entry[1] == source]
            if not mine:
                return None
            first = min(mine)
            mail.remove(first)
            heapify(mail)
            delivery = first[3]
        if rank.holds and delivery.source.index < self._workers:
            self._serving[rank.index] = delivery
        return delivery

    def arrival(self, rank: EventRank, source: Any) -> Event:
        """An event for when a message is there to take."""
        event = Event(self._env)
        if source is ANY and self._mail[rank.index]:
            trigger(self._env, event)
        else:
            self._waiting[rank.index] = (event, source)
        return event

    # ------------------------------------------------------------------------------------- bookkeeping

    def updated(self, server: EventRank, started_ps: int, pushes: int) -> None:
        """The server has applied so many pushes of the worker whose message it took last."""
        push = self._serving.get(server.index)
        if push is None:
            return
        worker = push.source.index
        service = self._services[server.index][worker]
        if service.push is not None:
            service.earlier.append((service.begun_ps, service.applied_ps))
        service.push, service.begun_ps, service.applied_ps = push, started_ps, self._env.now
        applied = self._applied[server.index]
        applied[worker] += pushes
        if applied[worker] >= len(server.holds):
            applied[worker] -= len(server.holds)
            self._clocks[server.index].tick(worker)

    def charge(self, rank: EventRank, answer: Delivery, since_ps: int) -> None:
        """Charge what the rank blocked for from ``since_ps`` until now."""
        total, clock = rank.total, since_ps
        alone = queue = 0
        service = answer.service
        push = service.push if service is not None else None
        if service is not None and push is not None:
            # The push on its way, then waiting for the server, being applied, and held back.
            if push.arrived_ps > clock:
                alone, queue = _pro_rata(push, clock)
                clock = push.arrived_ps
            begun, applied = service.begun_ps, service.applied_ps
            mine = 0
            for start, end in service.earlier:
                mine += max(0, min(end, begun) - max(start, clock))
            if begun > clock:
                queue += begun - clock - mine
                clock = begun
            if applied > clock:
                mine += applied - clock
                clock = applied
            if push.local and answer.local:
                total[UPDATE] += mine
            else:
                alone += mine
                for start, end in (*service.earlier, (begun, applied)):
                    self.log.append((rank.index, start, end, end - start))
        if answer.sent_ps > clock:
            total[WAIT] += answer.sent_ps - clock
            clock = answer.sent_ps
        if answer.arrived_ps > clock:
            own, shared = _pro_rata(answer, clock)
            alone += own
            queue += shared
        total[TRANSFER] += alone
        total[QUEUE] += queue


def _pro_rata(delivery: Delivery, clock_ps: int) -> tuple[int, int]:
    """The rest of a message's way after ``clock_ps``, as what it takes alone and what sharing added."""
    took = delivery.arrived_ps - delivery.sent_ps
    left = delivery.arrived_ps - clock_ps
    own = min(left, left * delivery.alone_ps // took)
    return own, left - own

