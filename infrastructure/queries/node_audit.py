"""
The audit of a node: every change of its attributes, from the rows of the projection of transitions.

A data node is the same node in all rounds and for all agents of a session, so all its vertices are read, round by
round. The result has the form of `run.history`. Its cost depends on the number of changes, not on the length of the
log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.positions import Position
from ...domain.spans import Ref
from ...domain.trajectory.events import NodeRemoved
from ...domain.trajectory.identity import RunId
from ...domain.trajectory.nodes import DATA, NODE_TYPES, NodeNotFoundError, parse_node_name
from ...projections.rows import place_in, reference_of, run_of
from ...projections.transitions import TRANSITIONS, TransitionRow, changes_prefix, node_prefix, removal_prefix
from ..log.row_faults import REBUILD, opening
from ..projecting.runner import ProjectionRunner
from ..projecting.store import ProjectionStore
from .audit import AuditEntry
from .one_moment import at_one_moment
from .origins import first_events


class AttributeTransition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    A change of an attribute from `old` to `new`; None if there was no value before, or is none after.

    `kind` is `registered`, `met_again`, `changed`, `portrait` or `removed`. `recorded_at` is in microseconds since
    1970, UTC. `cause` is `stream@version` of the event that caused the change, `reference` that of the change itself,
    `vertex` that of the event that registered this vertex of the node. `made_at` is in seconds, and earlier than
    `recorded_at` if the change was imported.
    """

    attribute: str
    old: Any
    new: Any
    kind: str
    recorded_at: int
    actor: str | None
    cause: str | None
    correlation_id: str | None
    position: Position
    reference: str
    made_at: float
    vertex: str


class SeveralNodesError(InvalidInputError):
    """Several nodes match a question: data of several sessions, or others of several runs; `runs` has one of each."""

    def __init__(self, message: str, runs: Iterable[RunId]) -> None:
        super().__init__(message)
        self.runs = tuple(sorted(runs))


class AskedNode(NamedTuple):
    """The node of a question; None means any."""

    name: str
    user_id: str | None = None
    session_id: str | None = None
    run_id: int | None = None
    sub_id: int | None = None


# The row of a vertex, and the run that registered it.
_Found = tuple[RunId, TransitionRow]


@opening("the table of transitions", remedy=REBUILD)
def audit_node(runner: ProjectionRunner, asked: AskedNode, attribute: str | None) -> list[AttributeTransition]:
    """Return what `Store.audit_node` does."""
    trail = at_one_moment(runner, [TRANSITIONS], partial(_read, asked=asked, attribute=attribute))
    if attribute is not None and attribute not in trail.names:
        raise NotFoundError(f"{asked.name} never had an attribute {attribute!r}: it has {', '.join(trail.names)}")
    return trail.transitions


def _read(store: ProjectionStore, asked: AskedNode, attribute: str | None) -> _Trail:
    births = _births(store, asked)
    after: dict[str, list[TransitionRow]] = {birth.vertex: [] for birth in births}
    for row in store.rows_under(TRANSITIONS, *(one for vertex in after for one in _prefixes(vertex, attribute))):
        after[row.vertex].append(row)
    trail = _Trail(attribute)
    for birth in births:
        trail.add(birth, after[birth.vertex])
    return trail


def _prefixes(vertex: str, attribute: str | None) -> tuple[str, ...]:
    return (f"{vertex}/",) if attribute is None else (changes_prefix(vertex, attribute), removal_prefix(vertex))


def _births(store: ProjectionStore, asked: AskedNode) -> list[TransitionRow]:
    """Return the rows of the vertices of the node, oldest round first."""
    name = parse_node_name(asked.name)
    is_data = name.type in DATA
    found: list[_Found] = []
    if name.type in NODE_TYPES:
        prefix = node_prefix(name.type, name.label, asked.user_id, asked.session_id)
        rows = store.rows_under(TRANSITIONS, prefix)
        # Numbers count over all rounds, as in the graph of a run: a round selects among the numbered ones.
        any_round = asked if name.number is None else asked._replace(run_id=None)
        found = sorted((pair for pair in map(_with_run, rows) if _is_meant(pair[0], any_round, is_data)), key=_age)
    if name.number is not None:
        numbered = _numbered(found, name.number, is_data)
        found = [pair for pair in numbered if _is_meant(pair[0], asked, is_data)]
    _require_one(asked.name, [run for run, _ in found], is_data)
    if not found:
        raise NodeNotFoundError(f"there is no node {asked.name!r} in the runs that were asked for")
    if not is_data:
        # A computation node with the same label can only be registered after the first one was removed.
        found = found[-1:]
    return [row for _, row in found]


def _with_run(row: TransitionRow) -> _Found:
    identity = run_of(place_in(row.vertex)[0])
    assert identity is not None, "only the vertices of runs have rows"
    return identity, row


def _is_meant(run: RunId, asked: AskedNode, is_data: bool) -> bool:
    """Return whether a run matches the question; a data node is the same in all rounds and for all agents."""
    parts = 2 if is_data else 4
    return all(wanted in (None, own) for wanted, own in zip(asked[1 : 1 + parts], run, strict=False))


def _age(found: _Found) -> tuple[RunId, int]:
    return found[0], place_in(found[1].vertex)[1]


def _require_one(name: str, runs: Sequence[RunId], is_data: bool) -> None:
    sessions, places = {run[:2]: run for run in reversed(runs)}, set(runs)
    if len(sessions) > 1:
        what = f"{len(sessions)} sessions: give user_id and session_id"
        raise SeveralNodesError(f"there is {name!r} in {what}", sessions.values() if is_data else places)
    if len(places) > 1 and not is_data:
        raise SeveralNodesError(f"there is {name!r} in {len(places)} runs: give run_id and sub_id", places)


def _numbered(found: Sequence[_Found], number: int, is_data: bool) -> list[_Found]:
    """
    Return the vertex with a number of each agent of each session; for data return all vertices of each session that has
    at least that many.
    """
    counted: dict[tuple[Any, ...], list[_Found]] = {}
    for pair in found:
        user, session, _, sub = pair[0]
        counted.setdefault((user, session) if is_data else (user, session, sub), []).append(pair)
    chosen = [pairs if is_data else pairs[number - 1 : number] for pairs in counted.values() if len(pairs) >= number]
    return [pair for pairs in chosen for pair in pairs]


class _Trail:
    """The changes of a node, or of one attribute, while its vertices are read."""

    def __init__(self, attribute: str | None) -> None:
        self._attribute = attribute
        # The values of each vertex that is not removed, the newest last; the newest ones are the node's values.
        self._living: list[dict[str, Any]] = []
        self._is_known = False
        self._vertex = ""
        self.names: dict[str, None] = {}
        self.transitions: list[AttributeTransition] = []

    def add(self, birth: TransitionRow, after: Sequence[TransitionRow]) -> None:
        """Add a vertex: its differences from the vertex before it, then its own changes and its removal."""
        self._vertex = reference_of(birth.vertex)
        self._register(birth)
        place = {name: number for number, name in enumerate(self._living[-1])}
        changes = [row for row in after if row.kind != "removed"]
        changes.sort(key=lambda row: (*_moment(row), place.get(row.attribute, 0)))
        # Parsed as one text: to parse a thousand short texts one by one takes four times as long.
        values = json.loads(f"[{','.join([row.new for row in changes])}]")
        for row, new in zip(changes, values, strict=True):
            self._change(row, new)
        # If two rounds removed it independently, the first removal counts.
        removal = min((row for row in after if row.kind == "removed"), key=_moment, default=None)
        if removal is not None:
            self._remove(removal)

    def _register(self, row: TransitionRow) -> None:
        before = self._values
        given: dict[str, Any] = json.loads(row.new)
        self.names.update(dict.fromkeys(given))
        self._living.append({name: value for name, value in given.items() if self._attribute in (None, name)})
        self._add_differences(row, "met_again" if self._is_known else "registered", before)
        self._is_known = True

    def _change(self, row: TransitionRow, new: Any) -> None:
        values, name = self._living[-1], row.attribute
        old = values.get(name)
        values[name] = new
        # A recorded change counts even if it set the value that was there already.
        if row.kind == "changed" or old != new:
            self._add_transition(row, row.kind, name, old, new)

    def _remove(self, row: TransitionRow) -> None:
        before = self._living.pop()
        self._add_differences(row, row.kind, before)

    @property
    def _values(self) -> dict[str, Any]:
        return self._living[-1] if self._living else {}

    def _add_differences(self, row: TransitionRow, kind: str, before: dict[str, Any]) -> None:
        after = self._values
        for name in {**before, **after}:
            if name not in before or name not in after or before[name] != after[name]:
                self._add_transition(row, kind, name, before.get(name), after.get(name))

    def _add_transition(self, row: TransitionRow, kind: str, name: str, old: Any, new: Any) -> None:
        self.transitions.append(
            AttributeTransition(
                attribute=name,
                old=old,
                new=new,
                kind=kind,
                recorded_at=row.recorded_at,
                actor=row.actor or None,
                cause=row.cause or None,
                correlation_id=row.correlation_id or None,
                position=Position(row.lane, row.number),
                reference=row.reference,
                made_at=row.made_at,
                vertex=self._vertex,
            )
        )


def _moment(row: TransitionRow) -> tuple[RunId | None, int]:
    """Return the sort key of a row among the rows of a vertex: rounds in order, and positions within a round."""
    # Within a run the positions rise with the versions.
    return run_of(Ref.parse(row.reference).stream), row.number


def is_node_name(text: str) -> bool:
    """Return whether a text is the name of a node, `Type(label)`, rather than the id of a context."""
    try:
        return parse_node_name(text).type in NODE_TYPES
    except InvalidInputError:
        return False


def node_changes(log: Log, name: str, transitions: Sequence[AttributeTransition]) -> list[AuditEntry]:
    """Return the result of `audit_node` as audit entries, each with the event that made the change."""
    refs = [Ref.parse(one.reference) for one in transitions]
    recorded = first_events(log, refs)
    return [_change(name, one, recorded[ref]) for one, ref in zip(transitions, refs, strict=True)]


def _change(name: str, made: AttributeTransition, recorded: RecordedEvent) -> AuditEntry:
    reason = recorded.event.reason if isinstance(recorded.event, NodeRemoved) else None
    return AuditEntry(recorded, Ref.parse(made.vertex), name, made.attribute, made.old, made.new, reason)
