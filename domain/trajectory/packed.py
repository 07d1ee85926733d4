"""
Snapshots of runs: which event registered each vertex, changed it or queued a step; the events stay in the log.

A snapshot holds no texts. If the run chose the name of a vertex, the snapshot has the number in the name; if the caller
gave the name, the snapshot has its hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import accumulate

import msgspec

from ..concurrency.known_types import known
from ..context.snapshot import DIGEST_BYTES, Packing
from ..errors import DamagedError
from ..named_events import EventSource, read_named
from ..ordered_map import OrderedMap
from ..spans import Ref, Segment, Span
from .events import EdgeAdded, RunOpened
from .nodes import NODE_TYPES
from .state import Edge, Outgoing, Row, RunState, Steps, past_rounds, row_of
from .stored import HASH_BYTES, Change, Held, StoredEvents, Vertex, hash_of

TYPES = tuple(NODE_TYPES)
PLACES = {name: place for place, name in enumerate(TYPES)}
# The beginning of a name that a run chose; a number follows.
PREFIXES = tuple(f"{name}({name.lower()}" for name in TYPES)
GIVEN = -1
DIGITS_MIN, DIGITS_MAX = 5, 9


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """
    A state without its events.

    `opened` is the digest of the event that opened the run. The versions of vertices and messages are stored as
    differences to the version before. `labels` has the number in the label of each vertex, or GIVEN; `given` has the
    hashes of the names that callers gave. `changes` has nodes and the versions that changed them. `edges` has source,
    target, version, and an index into `edge_types`, which has the version of one edge of each type.
    """

    version: int
    opened: bytes
    is_closed: bool
    query: int
    vertices: tuple[int, ...]
    types: bytes
    labels: tuple[int, ...]
    given: bytes
    removed: tuple[tuple[Ref, int], ...]
    changes: tuple[tuple[Ref, int], ...]
    edges: tuple[tuple[Ref, Ref, int, int], ...]
    edge_types: tuple[int, ...]
    pointers: tuple[Ref, ...]
    waiting: dict[str, tuple[int, ...]]
    returned: dict[str, tuple[int, ...]]
    taken: tuple[int, ...]
    messages: tuple[int, ...]
    names: dict[str, int]
    touches_past: bool
    goes_backward: bool
    pins: tuple[Segment, ...]


def packed(state: RunState) -> bytes:
    """Return a state as a snapshot holds it."""
    vertices, steps = state.vertices.values(), state.steps
    labels = [_label_number(vertex) for vertex in vertices]
    edges, edge_types = _packed_edges(state)
    changes = [(ref, change.version) for ref, row in state.changes.items() for change in row_of(row)]
    return msgspec.msgpack.encode(
        _Packed(
            version=state.version,
            opened=_digest_of(state.opened),
            is_closed=state.is_closed,
            query=state.query,
            vertices=_distances(state.vertices),
            types=bytes([PLACES[vertex.type] for vertex in vertices]),
            labels=tuple(labels),
            given=b"".join(_hash_of(one) for one, number in zip(vertices, labels, strict=True) if number == GIVEN),
            removed=tuple(state.removed.items()),
            changes=tuple(changes),
            edges=edges,
            edge_types=edge_types,
            pointers=tuple(state.pointers),
            waiting={queue: tuple(held) for queue, held in sorted(steps.waiting.items())},
            returned={queue: tuple(one.version for one in held) for queue, held in sorted(steps.returned.items())},
            taken=tuple(steps.taken),
            messages=_distances(state.messages),
            names=dict(sorted(state.names.items())),
            touches_past=state.touches_past,
            goes_backward=state.goes_backward,
            pins=state.pins,
        )
    )


def _digest_of(opened: RunOpened | None) -> bytes:
    return blake2b(msgspec.msgpack.encode(opened), digest_size=DIGEST_BYTES).digest()


def _distances(versions: Iterable[int]) -> tuple[int, ...]:
    found = list(versions)
    return tuple([later - earlier for earlier, later in zip([0, *found], found, strict=False)])


def _label_number(vertex: Vertex) -> int:
    """Return the number in a label that the run chose; GIVEN for any other label."""
    prefix, name = PREFIXES[PLACES[vertex.type]], vertex.named
    if isinstance(name, bytes) or not name.startswith(prefix):
        return GIVEN
    digits = name[len(prefix) : -1]
    is_number = digits.isascii() and digits.isdecimal() and DIGITS_MIN <= len(digits) <= DIGITS_MAX
    return int(digits) if is_number and (len(digits) == DIGITS_MIN or digits[0] != "0") else GIVEN


def _hash_of(vertex: Vertex) -> bytes:
    return hash_of(vertex.named) if isinstance(vertex.named, str) else vertex.named


def _packed_edges(state: RunState) -> tuple[tuple[tuple[Ref, Ref, int, int], ...], tuple[int, ...]]:
    """Return the edges in the order in which they were added, and the versions of the first edge of each type."""
    added = [(edge.end, target, edge) for target, row in state.into.items() for edge in row_of(row)]
    added.sort(key=lambda one: one[2].version)
    first: dict[str, int] = {}
    for _, _, edge in added:
        first.setdefault(edge.type, edge.version)
    places = {name: place for place, name in enumerate(first)}
    return tuple((source, target, edge.version, places[edge.type]) for source, target, edge in added), (
        *first.values(),
    )


def unpacked(log: EventSource, stream: str, data: bytes) -> RunState:
    """
    Return the state that `packed` packed; its events are read from the log at their first use.

    Raises:
        DamagedError: the log does not hold an event that the snapshot names.
    """
    short = msgspec.msgpack.decode(data, type=known(_Packed))
    first = log.read_events(stream, until=1)
    opened = first[0] if first and isinstance(first[0], RunOpened) else None
    if _digest_of(opened) != short.opened:
        raise DamagedError(stream, "its snapshot belongs to a run that another event opened")
    stored = StoredEvents(log, stream, short.version)
    vertices, newest, hashed = _vertices(short, stored)
    changes: dict[Ref, Row[Change]] = {}
    for ref, version in short.changes:
        changes[ref] = Change(version, stored), changes.get(ref)
    own, edges = OrderedMap.of(vertices), OrderedMap.of(_edges(log, stream, short))
    return RunState(
        version=short.version,
        opened=opened,
        is_closed=short.is_closed,
        query=short.query,
        vertices=own,
        newest=OrderedMap.of(newest),
        hashed=hashed,
        removed=OrderedMap.of(dict(short.removed)),
        changes=OrderedMap.of(changes),
        into=edges,
        pointers=OrderedMap.of(dict.fromkeys(short.pointers)),
        counts={name: count for place, name in enumerate(TYPES) if (count := short.types.count(place))},
        steps=_steps(short, stored),
        messages=_held_by_version(accumulate(short.messages), stored),
        names=short.names,
        touches_past=short.touches_past,
        goes_backward=short.goes_backward,
        pins=short.pins,
        past=past_rounds(log, short.pins),
        out=Outgoing(own, edges),
        stored=stored,
    )


def _vertices(short: _Packed, stored: StoredEvents) -> tuple[dict[int, Vertex], dict[str, int], dict[bytes, int]]:
    """Return the vertices by version, and the newest version of each name: by the name, and by its hash."""
    vertices: dict[int, Vertex] = {}
    newest: dict[str, int] = {}
    hashed: dict[bytes, int] = {}
    hashes = (short.given[start : start + HASH_BYTES] for start in range(0, len(short.given), HASH_BYTES))
    for version, place, number in zip(accumulate(short.vertices), short.types, short.labels, strict=True):
        if number == GIVEN:
            named: str | bytes = (found := next(hashes))
            before, hashed[found] = hashed.get(found, 0), version
        else:
            named = name = f"{PREFIXES[place]}{number:05})"
            before, newest[name] = newest.get(name, 0), version
        count = vertices[before].number + 1 if before else 1
        vertices[version] = Vertex(version, stored, TYPES[place], named, count, before)
    return vertices, newest, hashed


def _edges(log: EventSource, stream: str, short: _Packed) -> dict[Ref, Row[Edge]]:
    """Return the edges that were added, by their targets."""
    spans = (Span.of(stream, short.edge_types),) if short.edge_types else ()
    types = [event.edge for _, event in read_named(log, spans, (EdgeAdded,))]
    into: dict[Ref, Row[Edge]] = {}
    for source, target, version, place in short.edges:
        into[target] = Edge(source, types[place], version), into.get(target)
    return into


def _steps(short: _Packed, stored: StoredEvents) -> Steps:
    return Steps(
        waiting={queue: _held_by_version(versions, stored) for queue, versions in short.waiting.items()},
        returned={
            queue: tuple(Held(version, stored) for version in versions) for queue, versions in short.returned.items()
        },
        taken=_held_by_version(short.taken, stored),
    )


def _held_by_version(versions: Iterable[int], stored: StoredEvents) -> OrderedMap[int, Held]:
    return OrderedMap.of({version: Held(version, stored) for version in versions})


def unread(log: EventSource, stream: str, state: RunState) -> RunState:
    """Return a state from which a fold leaves later events in the log, so that a long fold needs little memory."""
    if state.stored is not None:
        return state
    return msgspec.structs.replace(state, stored=StoredEvents(log, stream))


PACKING = Packing(
    packed,
    unpacked,
    "refold.domain.ordered_map",
    "refold.domain.trajectory.events",
    "refold.domain.trajectory.nodes",
    "refold.domain.trajectory.packed",
    "refold.domain.trajectory.state",
    "refold.domain.trajectory.stored",
    unread=unread,
    while_writing=False,
)
