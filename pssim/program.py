"""What a training scheme is written in: actions, the rank a program sees, and the scheme itself.

A scheme is written once, as the program one rank follows.  A program is a generator: it yields
actions, and what it gets back are opaque values it may pass on but never look into.  Simulation on
an event queue, simulation in lock step and real execution are different ways of running the same
program, so nothing in here knows about any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from pssim.errors import SchemeError

__all__ = [
    "ANY",
    "REGISTRY",
    "Action",
    "AllReduce",
    "Backward",
    "BucketView",
    "Compute",
    "Expectation",
    "Forward",
    "Load",
    "Message",
    "NoClosedForm",
    "Program",
    "Rank",
    "Receive",
    "Scheme",
    "Send",
    "ServerCosts",
    "StepCosts",
    "Update",
    "Variant",
    "Wait",
    "register",
]


# --------------------------------------------------------------------------------------- actions


class Action:
    """Something a program asks the engine to do; made by the program, consumed by the engine."""

    __slots__ = ()

    def __repr__(self) -> str:
        names: tuple[str, ...] = self.__slots__
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({fields})"


class Forward(Action):
    """The forward pass of this step's batch; with accumulation, every micro-batch but the last whole."""

    __slots__ = ()


class Backward(Action):
    """One backward segment, up to the gradient of ``bucket``; gives that gradient."""

    __slots__ = ("bucket",)

    def __init__(self, bucket: BucketView) -> None:
        self.bucket = bucket


class Compute(Action):
    """Anything else that keeps the device busy for ``cost_s`` seconds, called ``name`` in a timeline."""

    __slots__ = ("cost_s", "name")

    def __init__(self, name: str, cost_s: float) -> None:
        self.name = name
        self.cost_s = cost_s


class AllReduce(Action):
    """Begins the averaging of ``value`` over all workers; gives a handle at once."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Wait(Action):
    """Blocks until every handle is done, in the order given; gives their values as a tuple."""

    __slots__ = ("handles",)

    def __init__(self, *handles: Any) -> None:
        self.handles = handles


class Send(Action):
    """Sends ``value`` to the address ``to``; returns at once: the link is busy, not the rank."""

    __slots__ = ("to", "value")

    def __init__(self, value: Any, to: int) -> None:
        self.value = value
        self.to = to


class _Any:
    """The source of a Receive that takes a message from anybody."""

    def __repr__(self) -> str:
        return "ANY"


ANY = _Any()


class Receive(Action):
    """Blocks until a message from ``source`` (an address, or ANY) is here; gives a :class:`Message`."""

    __slots__ = ("source",)

    def __init__(self, source: int | _Any = ANY) -> None:
        self.source = source


class Update(Action):
    """The weights move by these gradients; costs the update's time, and one version of their buckets."""

    __slots__ = ("gradients",)

    def __init__(self, gradients: Sequence[Any]) -> None:
        self.gradients = gradients


class Load(Action):
    """The rank takes over weights that arrived."""

    __slots__ = ("weights",)

    def __init__(self, weights: Any) -> None:
        self.weights = weights


class Message:
    """What a Receive gives: who sent it, and the value."""

    __slots__ = ("source", "value")

    def __init__(self, source: int, value: Any) -> None:
        self.source = source
        self.value = value


Program = Generator[Action, Any, None]


# --------------------------------------------------------------------------------- what a program sees


class BucketView(Protocol):
    """A gradient bucket as a program sees it: its place in the order backward completes them."""

    @property
    def index(self) -> int:
        """Position in the order of completion, from 0."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of gradient in the bucket."""
        ...


class Rank(Protocol):
    """The one rank a program runs on.

    ``index``, ``node`` and everything else that differs between ranks may be read under the
    ``events`` engine only: a program that reads them does not run in lock step.
    """

    @property
    def index(self) -> int:
        """This rank's number: workers are 0 .. world - 1, servers follow."""
        ...

    @property
    def node(self) -> int:
        """The node this rank is placed on."""
        ...

    @property
    def world(self) -> int:
        """How many workers there are."""
        ...

    @property
    def buckets(self) -> Sequence[BucketView]:
        """The gradient buckets, in the order backward completes them."""
        ...

    @property
    def weights(self) -> Any:
        """The weights this rank holds (on a server: its shard), to send to somebody."""
        ...

    @property
    def workers(self) -> Sequence[int]:
        """The addresses of all workers."""
        ...

    @property
    def servers(self) -> Sequence[int]:
        """The addresses of all servers that hold at least one bucket."""
        ...

    def server(self, bucket: BucketView) -> int:
        """The address of the server that holds ``bucket``."""
        ...

    def pushes(self) -> int:
        """On a server: how many pushes make up one step of one worker, that is, its buckets."""
        ...

    def steps(self) -> Iterator[int]:
        """The steps to take; each ``next`` is the step boundary."""
        ...


# --------------------------------------------------------------------------------------- schemes


@dataclass(frozen=True)
class ServerCosts:
    """What a closed form gets to know of parameter servers; lists have an entry a server, in seconds.

    ``push_s`` and ``pull_s`` are one worker's bytes of a step alone on a link, ``serve_s`` the update
    for them; ``local`` counts the workers on the server's own node, whose access is free.
    ``bucket_server`` and ``bucket_push_s`` have an entry a bucket.
    """

    latency_s: float
    push_s: tuple[float, ...]
    pull_s: tuple[float, ...]
    serve_s: tuple[float, ...]
    local: tuple[int, ...]
    bucket_server: tuple[int, ...]
    bucket_push_s: tuple[float, ...]


class Expectation(Protocol):
    """A random factor, as far as closed forms need it."""

    @property
    def mean(self) -> float:
        """The expected factor."""
        ...

    def mean_of(self, function: Callable[[float], float]) -> float:
        """The expected value of ``function`` of the factor."""
        ...

    def mean_of_largest(self, lines: Sequence[tuple[float, float]]) -> float:
        """The expected value of the largest of linear functions, given as (slope, value at 0)."""
        ...


@dataclass(frozen=True)
class StepCosts:
    """What a closed form gets: one step of one rank and its communication, in seconds.

    ``ready_s`` is when each bucket's gradient is ready, counted from the start of the step and without
    jitter; the last is all of compute.  Each all-reduce has its bytes under way for ``transfer_s`` and
    completes ``latency_s`` later.  ``slowest_of(m)`` is the distribution of the slowest
    rank's jitter factor when what varies in time is averaged over m steps (inf: averaged out).
    """

    ranks: int
    ready_s: tuple[float, ...]
    update_s: float
    transfer_s: tuple[float, ...]
    latency_s: tuple[float, ...]
    channel_width: int
    holds_completion: bool
    slowest_of: Callable[[float], Expectation]
    variance_per_step: float = 0.0
    """Variance from step to step of a rank's jitter factor, whose mean is 1."""
    servers: ServerCosts | None = None


class NoClosedForm(Exception):
    """There is no closed form for this; the message says why."""


S = TypeVar("S", bound="type[Scheme]")


class Scheme(BaseModel):
    """A way to train in parallel: options (annotated fields) and the program of each role.

    Instances are frozen; everything that changes lives in the generator.  A subclass writes
    ``worker`` and, where it has one, ``server``.  ``step_time`` is the closed form, if there is one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    has_server: ClassVar[bool] = False

    def worker(self, rank: Rank) -> Program:
        """The program of a worker."""
        raise SchemeError(f"{type(self).__name__}: a scheme must define worker(self, rank)")

    def server(self, rank: Rank) -> Program:
        """The program of a server; it lives until all workers have ended."""
        raise SchemeError(f"{type(self).__name__}: this scheme has no server")

    def step_time(self, costs: StepCosts) -> tuple[float, float, float]:
        """The mean step, and a lower and an upper bound of it, in seconds; all equal where it is exact.

        Raise NoClosedForm with the reason where there is none.
        """
        raise NoClosedForm(f"scheme {type(self).__name__} defines no step_time(self, costs)")

    def server_count(self) -> int:
        """How many servers there are, for a scheme that has a server program."""
        return 1 if self.has_server else 0

    def dedicated_servers(self) -> bool:
        """Whether servers have nodes of their own, rather than sharing those of the first workers."""
        return False

    def pattern(self) -> int:
        """How many steps make up the pattern that steps repeat in; a measured window is whole patterns."""
        return 1

    def warm_up(self) -> int:
        """Steps at the start that follow another rule and must not be measured."""
        return 0


@dataclass(frozen=True, slots=True)
class Variant:
    """A name under which a scheme class is known, and the options the name stands for."""

    name: str
    scheme: type[Scheme]
    presets: tuple[tuple[str, Any], ...] = ()

    def build(self, options: dict[str, Any]) -> Scheme:
        """The scheme with these options over the presets.  Raise ValidationError for a bad one."""
        return self.scheme(**{**dict(self.presets), **options})

    def label(self, scheme: Scheme) -> str:
        """The name, and in brackets the options that differ from what the name stands for."""
        presets = dict(self.presets)
        differing = [
            f"{key}={_spell(getattr(scheme, key))}"
            for key, field in type(scheme).model_fields.items()
            if getattr(scheme, key) != presets.get(key, field.default)
        ]
        return self.name + (f"[{','.join(differing)}]" if differing else "")


def _spell(value: Any) -> str:
    """An option's value as TOML, so that a label can be read back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


REGISTRY: dict[str, Variant] = {}


def register(name: str, **presets: Any) -> Callable[[S], S]:
    """Class decorator: make a scheme known as ``name``, with these options preset."""

    def decorate(cls: S) -> S:
        REGISTRY[name] = Variant(name, cls, tuple(presets.items()))
        return cls

    return decorate
