"""
The folded state of a run, and the fold.

A state is a value: it never changes. The cost of a change does not depend on the size of the state. Vertices are named
by `Ref`s; a `Ref` without a stream is in the run itself, others are in the earlier rounds that the run goes back over.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple, Never, TypeVar

import msgspec
from msgspec.structs import replace

from ..errors import DamagedError
from ..log.ports import Range
from ..named_events import EventSource, Resolved
from ..ordered_map import OrderedMap, draft_of, settled
from ..spans import Ref, Segment
from . import events as run
from .nodes import node_name
from .stored import Change, Held, StoredEvents, Vertex, hash_of

T = TypeVar("T")
# These fields differ between a folded state and the same state read from a snapshot, so they are not compared.
NOT_COMPARED = ("newest", "hashed", "stored")
# A linked list, the newest in front, so adding costs the same for any length. It consists of plain tuples: Python frees
# a long chain of tuples without a stack overflow, and the collector soon stops looking at them.
Row = tuple[T, "Row[T] | None"]


def row_of(row: Row[T] | None) -> list[T]:
    """Return the elements of a row in the order in which they were added; an empty list for None."""
    things: list[T] = []
    while row is not None:
        newest, row = row
        things.append(newest)
    return things[::-1]


class Edge(msgspec.Struct, frozen=True, gc=False):
    """An edge as stored at one of its ends: the other end, its type, and the version that recorded it."""

    end: Ref
    type: str
    version: int


Edges = OrderedMap[Ref, Row[Edge]]


class Steps(msgspec.Struct, frozen=True):
    """
    The steps of the three queues, by the version that queued them.

    `waiting` has the oldest first. `returned` has the steps that were put back, the last one first; they are taken
    before those in `waiting`.
    """

    waiting: dict[str, OrderedMap[int, Held]] = msgspec.field(default_factory=dict)
    returned: dict[str, tuple[Held, ...]] = msgspec.field(default_factory=dict)
    taken: OrderedMap[int, Held] = msgspec.field(default_factory=OrderedMap)

    def count(self, queue: str) -> int:
        """Return how many steps a queue has."""
        return len(self.waiting.get(queue, ())) + len(self.returned.get(queue, ()))

    def first(self, queue: str) -> Held | None:
        """Return the step that is taken next; None from an empty queue."""
        returned = self.returned.get(queue)
        if returned:
            return returned[0]
        waiting = self.waiting.get(queue)
        return waiting.first(1)[0][1] if waiting else None

    def all_in(self, queue: str) -> list[Held]:
        """Return the steps of a queue in the order in which they will be taken."""
        waiting = self.waiting.get(queue)
        return [*self.returned.get(queue, ()), *(waiting.values() if waiting else ())]

    def plus(self, queue: str, step: Held) -> Steps:
        """Return the queues with one more step at the end of a queue."""
        held = self.waiting.get(queue) or OrderedMap()
        return replace(self, waiting={**self.waiting, queue: held.plus(step.version, step)})

    def without_first(self, queue: str) -> Steps:
        """Return the queues after the first step of one was taken."""
        step = self.first(queue)
        if step is None:
            raise DamagedError(f"the queue {queue!r} of a run", "a step was taken from it, and there was none")
        taken = self.taken.plus(step.version, step)
        returned = self.returned.get(queue, ())
        if returned:
            return replace(self, taken=taken, returned={**self.returned, queue: returned[1:]})
        return replace(self, taken=taken, waiting={**self.waiting, queue: self.waiting[queue].minus(step.version)})

    def put_back(self, queue: str, version: int) -> Steps:
        """Return the queues after a taken step was put back as the first of its queue."""
        step = self.taken.get(version)
        if step is None:
            raise DamagedError(f"step {version} of a run", "it was put back, and had not been taken")
        returned = (step, *self.returned.get(queue, ()))
        return replace(self, taken=self.taken.minus(version), returned={**self.returned, queue: returned})

    def without(self, queues: Iterable[str]) -> Steps:
        """Return the queues after some of them were cleared."""
        left = set(queues)
        return replace(
            self,
            waiting={name: held for name, held in self.waiting.items() if name not in left},
            returned={name: held for name, held in self.returned.items() if name not in left},
        )


class Outgoing:
    """The edges out of vertices. They are collected at first use; later states then reuse them."""

    __slots__ = ("_into", "_made", "_vertices")

    def __init__(self, vertices: OrderedMap[int, Vertex], into: Edges, made: Edges | None = None) -> None:
        self._vertices, self._into, self._made = vertices, into, made

    @property
    def made(self) -> Edges | None:
        """The edges by their sources, if they are collected already."""
        return self._made or None

    @property
    def by_source(self) -> Edges:
        """The edges by their sources; those of each source are in the order in which they were added."""
        if self._made is None:
            self._made = OrderedMap.of(_by_source(self._vertices, self._into))
        return self._made

    def __eq__(self, other: object) -> bool:
        return self.by_source == other.by_source if isinstance(other, Outgoing) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal by value, as the maps are


def _by_source(vertices: OrderedMap[int, Vertex], into: Edges) -> dict[Ref, Row[Edge]]:
    edges = [
        (source, Edge(Ref(vertex.version), event.edge, vertex.version))
        for vertex in vertices.values()
        if isinstance(event := vertex.event, run.NodeRegistered)
        for source in event.sources
    ]
    edges += [(edge.end, Edge(target, edge.type, edge.version)) for target, row in into.items() for edge in row_of(row)]
    edges.sort(key=lambda pair: pair[1].version)
    found: dict[Ref, Row[Edge]] = {}
    for source, edge in edges:
        found[source] = edge, found.get(source)
    return found


class PastRound(NamedTuple):
    """An earlier round as of a version of its stream; `leaves` are its vertices without successors."""

    stream: str
    state: RunState
    leaves: tuple[Ref, ...]


class RunState(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The state of a run at one version. Maps by vertex also have vertices of earlier rounds."""

    version: int = 0
    opened: run.RunOpened | None = None
    is_closed: bool = False
    # The version that registered the query, or 0.
    query: int = 0
    # All registered vertices, including removed ones, by version; and the newest version of each name, in `hashed` if
    # the snapshot had only the hash of the name.
    vertices: OrderedMap[int, Vertex] = msgspec.field(default_factory=OrderedMap)
    newest: OrderedMap[str, int] = msgspec.field(default_factory=OrderedMap)
    hashed: dict[bytes, int] = msgspec.field(default_factory=dict)
    removed: OrderedMap[Ref, int] = msgspec.field(default_factory=OrderedMap)
    changes: OrderedMap[Ref, Row[Change]] = msgspec.field(default_factory=OrderedMap)
    # Edges by their targets, without the edges of registrations, which the node's event has. `out` has all edges.
    into: Edges = msgspec.field(default_factory=OrderedMap)
    pointers: OrderedMap[Ref, None] = msgspec.field(default_factory=OrderedMap)
    # How many nodes of a type there ever were.
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    steps: Steps = msgspec.field(default_factory=Steps)
    messages: OrderedMap[int, Held] = msgspec.field(default_factory=OrderedMap)
    names: dict[str, int] = msgspec.field(default_factory=dict)
    # Whether vertices of earlier rounds were changed or joined, and whether an edge leads into an older vertex.
    touches_past: bool = False
    goes_backward: bool = False
    # The earlier rounds, and their content; the content is empty where only the run itself was folded.
    pins: tuple[Segment, ...] = ()
    past: tuple[PastRound, ...] = ()
    out: Outgoing = msgspec.field(default_factory=lambda: Outgoing(OrderedMap(), OrderedMap()))
    # The source of the events that the state does not hold; None if it holds all.
    stored: StoredEvents | None = None

    def __eq__(self, other: object) -> bool:
        return self._compared == other._compared if isinstance(other, RunState) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal by value, as the maps are

    @property
    def _compared(self) -> list[Any]:
        newest = [self.newest_of(vertex.name) for vertex in self.vertices.values()]
        return [newest, *(getattr(self, name) for name in self.__struct_fields__ if name not in NOT_COMPARED)]

    def newest_of(self, name: str) -> int:
        """Return the newest version of a plain name; 0 if the run never had it."""
        return self.newest.get(name) or (self.hashed.get(hash_of(name), 0) if self.hashed else 0)


EMPTY = RunState()
# The events of a run in the form that `fold` takes: a restoration may come with the rounds that it names.
Completed = run.RunEvent | Resolved[PastRound]


def fold(state: RunState, events: Iterable[Completed]) -> RunState:
    """
    Return the state after `events`, which are not checked, since they are history.

    A restoration may come as `Resolved`, with the rounds that it names; without them `past` stays as it is.
    """
    step = _Fold(state)
    for event in events:
        step.apply(event)
    return step.state()


class _Fold:
    """A fold in progress."""

    def __init__(self, state: RunState) -> None:
        self._base = state
        self._version, self._query = state.version, state.query
        self._opened, self._is_closed = state.opened, state.is_closed
        self._vertices, self._newest = draft_of(state.vertices), draft_of(state.newest)
        self._removed, self._changes = draft_of(state.removed), draft_of(state.changes)
        self._into, made = draft_of(state.into), state.out.made
        # If nobody has used the outgoing edges yet, the fold leaves them uncollected.
        self._out = None if made is None else draft_of(made)
        self._pointers, self._counts, self._names = draft_of(state.pointers), dict(state.counts), state.names
        self._steps, self._messages = state.steps, draft_of(state.messages)
        self._touches_past, self._goes_backward = state.touches_past, state.goes_backward
        self._pins, self._past = state.pins, state.past

    def state(self) -> RunState:
        """Return the state at the end."""
        base, out = self._base, self._out
        vertices, into = settled(self._vertices, base.vertices), settled(self._into, base.into)
        # `hashed` and `stored` stay as they are.
        return replace(
            base,
            version=self._version,
            opened=self._opened,
            is_closed=self._is_closed,
            query=self._query,
            vertices=vertices,
            newest=settled(self._newest, base.newest),
            removed=settled(self._removed, base.removed),
            changes=settled(self._changes, base.changes),
            into=into,
            pointers=settled(self._pointers, base.pointers),
            counts=self._counts,
            steps=self._steps,
            messages=settled(self._messages, base.messages),
            names=self._names,
            touches_past=self._touches_past,
            goes_backward=self._goes_backward,
            pins=self._pins,
            past=self._past,
            out=Outgoing(vertices, into, None if out is None else settled(out, base.out.by_source)),
        )

    def apply(self, event: Completed) -> None:
        self._version += 1
        match event:
            case run.NodeRegistered():
                self._register(event)
            case run.QueryRegistered():
                self._add_vertex(run.QUERY, event)
                self._query = self._version
                self._pointers[Ref(self._version)] = None
            case run.NodeChanged() | run.PortraitWritten():
                self._change(event)
            case run.NodeRemoved():
                self._remove(event)
            case run.EdgeAdded():
                self._add_edge(event)
            case run.PointersMoved(left=left, joined=joined):
                self._move_pointers(left, joined)
            case run.MessageRecorded():
                self._messages[self._version] = Held(self._version, self._source_of(event))
            case run.StepQueued(queue=queue):
                self._steps = self._steps.plus(queue, Held(self._version, self._source_of(event)))
            case run.StepTaken(queue=queue):
                self._steps = self._steps.without_first(queue)
            case run.StepReturned(queue=queue, step=step):
                self._steps = self._steps.put_back(queue, step)
            case run.StepsCleared(queues=queues):
                self._steps = self._steps.without(queues)
            case Resolved(event=restored, taken=past):
                self._pins, self._past = restored.rounds, past
            case run.RoundsRestored(rounds=rounds):
                self._pins = rounds
            case run.RunNamed(name=name, version=version):
                self._names = {**self._names, name: version}
            case run.RunOpened():
                self._opened = event
            case run.RunClosed():
                self._is_closed = True
            case run.StepRefused() | run.PortraitRequested() | run.PortraitFailed() | run.PortraitDiscarded():
                pass  # These are recorded, and change nothing.
            case _:
                _: Never = event  # A type checker sees to it that each event is named. Others are passed over.

    def _register(self, event: run.NodeRegistered) -> None:
        self._add_vertex(event.type, event)
        for source in event.sources:
            self._touches_past |= bool(source.stream)
            if self._out is not None:
                edge = Edge(Ref(self._version), event.edge, self._version)
                self._out[source] = edge, self._out.get(source)
        for ref in event.left:
            self._pointers.pop(ref, None)
        if event.is_pointer:
            self._pointers[Ref(self._version)] = None

    def _add_vertex(self, node_type: str, event: run.NodeEvent) -> None:
        version, name = self._version, node_name(node_type, event.label)
        hashed = self._base.hashed
        before = self._newest.get(name) or (hashed.get(hash_of(name), 0) if hashed else 0)
        older = self._vertices.get(before) if before else None
        number = older.number + 1 if older else 1
        self._vertices[version] = Vertex(version, self._source_of(event), node_type, name, number, before)
        self._newest[name] = version
        self._counts[node_type] = self._counts.get(node_type, 0) + 1

    def _source_of(self, event: Any) -> Any:
        stored = self._base.stored
        return event if stored is None or stored.until is not None else stored

    def _change(self, event: run.NodeChanged | run.PortraitWritten) -> None:
        node = event.node
        self._changes[node] = Change(self._version, self._source_of(event)), self._changes.get(node)
        self._touches_past |= bool(node.stream)

    def _remove(self, event: run.NodeRemoved) -> None:
        self._removed[event.node] = self._version
        self._move_pointers((event.node,), event.joined)
        self._touches_past |= bool(event.node.stream)
        if event.node == Ref(self._query):
            self._query = 0

    def _add_edge(self, event: run.EdgeAdded) -> None:
        source, target = event.source, event.target
        if self._out is not None:
            self._out[source] = Edge(target, event.edge, self._version), self._out.get(source)
        self._into[target] = Edge(source, event.edge, self._version), self._into.get(target)
        self._touches_past |= bool(source.stream or target.stream)
        self._goes_backward |= not is_forward(source, target)

    def _move_pointers(self, left: Iterable[Ref], joined: Iterable[Ref]) -> None:
        for ref in left:
            self._pointers.pop(ref, None)
        for ref in joined:
            self._pointers[ref] = None


def is_forward(source: Ref, target: Ref) -> bool:
    """Return whether an edge surely leads from an older vertex to a newer one, as all edges of registrations do."""
    if source.stream == target.stream:
        return source.version < target.version
    return bool(source.stream) and not target.stream


def complete(log: EventSource, events: Sequence[Any]) -> Sequence[Completed]:
    """
    Return the events of a run in the form that `fold` takes: the last restoration comes with the rounds that it names.

    Raises:
        DamagedError: a stream does not hold the versions that an event names.
    """
    if run.RoundsRestored not in map(type, events):
        return events
    last = next(event for event in reversed(events) if isinstance(event, run.RoundsRestored))
    return [Resolved(last, past_rounds(log, last.rounds)) if event is last else event for event in events]


def past_rounds(log: EventSource, rounds: Sequence[Segment]) -> tuple[PastRound, ...]:
    """
    Return earlier rounds, each folded without the rounds before it.

    Raises:
        DamagedError: a stream does not hold the version that is named.
    """
    held: list[Any] = log.read_ranges([Range(one.stream, 0, one.version) for one in rounds])
    for one, events in zip(rounds, held, strict=True):
        if len(events) != one.version:
            raise DamagedError(f"{one.stream}@{one.version}", "a later round goes back over it, and it does not exist")
    states = [fold(EMPTY, events) for events in held]
    return tuple(PastRound(one.stream, state, leaves_of(state)) for one, state in zip(rounds, states, strict=True))


def leaves_of(state: RunState, gone_since: Container[Ref] = ()) -> tuple[Ref, ...]:
    """
    Return the vertices of one run, including data, that have no successor in it.

    `gone_since` names vertices that later rounds removed.
    """
    out = state.out.by_source

    def is_gone(ref: Ref) -> bool:
        return ref in state.removed or ref in gone_since

    def is_leaf(ref: Ref) -> bool:
        return all(edge.end.stream or is_gone(edge.end) for edge in row_of(out.get(ref)))

    return tuple(ref for ref in map(Ref, state.vertices) if not is_gone(ref) and is_leaf(ref))
