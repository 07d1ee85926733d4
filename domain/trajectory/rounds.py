"""
One round of one agent as a value: its own nodes, the edges between them, its pointers and messages.

A run is exported as a round, and imported from one. Nodes are named within the round: `Type(label)` is the newest of
that name in it, `Type(label)#1` the oldest of several. Nodes of earlier rounds, and bridges between rounds, are not in
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from operator import attrgetter
from typing import Any, Literal

import msgspec

from ..canonical import canonical_json, parse_json, require_json, require_unicode
from ..clock import require_time
from ..errors import DecisionRefusedError, InvalidInputError
from ..log.envelope import RecordedEvent, acting
from ..spans import Ref
from .commands import AddEdge, ImportNode, ModifyNode, MovePointers, WritePortrait
from .events import QUERY, PortraitWritten, made_at
from .graph import RunGraph
from .nodes import COMPUTATION, DATA, DESCRIPTION, node_name, require_fields
from .rules import stored_fields
from .run import Run
from .state import EMPTY, fold
from .trajectory import TrajectoryEdge, by_end

# The name of the version at which a run had exactly the imported content.
IMPORTED = "imported"


class RoundChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A change of a node: the old values of attributes, the actor, and the time in seconds since 1970, where known.

    A change of kind `portrait` is a description by a model, `model`; one of kind `registered` begins the history of a
    node, and changes no attribute.
    """

    kind: Literal["registered", "changed", "portrait"]
    actor: str | None = None
    at: float | None = None
    old: dict[str, Any] = msgspec.field(default_factory=dict)
    model: str | None = None


class RoundNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its present attributes, including the description, and the changes that led to them."""

    name: str
    type: str
    label: str
    attributes: dict[str, Any]
    created_at: float | None = None
    actor: str | None = None
    changes: tuple[RoundChange, ...] = ()


class RoundRecord(msgspec.Struct, frozen=True, kw_only=True):
    """
    A round: nodes in the order of their registration; `version` is the version of the exported run.

    User, session and version are None where they are not known. `messages` are records.
    """

    run_id: int
    sub_id: int
    nodes: tuple[RoundNode, ...]
    edges: tuple[TrajectoryEdge, ...]
    pointers: frozenset[str]
    messages: tuple[dict[str, Any], ...] = ()
    user_id: str | None = None
    session_id: str | None = None
    agent: str | None = None
    version: int | None = None

    @property
    def initial(self) -> str | None:
        """The name of the round's query."""
        return next((node.name for node in self.nodes if node.type == QUERY), None)


def names_in_round(nodes: Sequence[tuple[str, str]]) -> Iterator[str]:
    """
    Yield the names of nodes, given by type and label: the last node of each name has the plain name, the others a
    number.
    """
    total = Counter(nodes)
    seen: Counter[tuple[str, str]] = Counter()
    for key in nodes:
        seen[key] += 1
        yield node_name(*key, seen[key] if seen[key] < total[key] else None)


def are_same(given: RoundRecord, present: RoundRecord) -> bool:
    """Return whether two records have the same content; actors are ignored, and times that one of them lacks."""
    return (
        len(given.nodes) == len(present.nodes)
        and all(map(_is_same_node, *(sorted(one.nodes, key=attrgetter("name")) for one in (given, present))))
        and set(given.edges) == set(present.edges)
        and given.pointers == present.pointers
        and _is_same(given.messages, present.messages)
    )


def _is_same_node(given: RoundNode, present: RoundNode) -> bool:
    times = ((node.created_at, *(change.at for change in node.changes)) for node in (given, present))
    return (
        given.name == present.name
        and _is_same(given.attributes, present.attributes)
        and _is_same([change.old for change in given.changes], [change.old for change in present.changes])
        and all(None in pair or pair[0] == pair[1] for pair in zip(*times, strict=True))
    )


def _is_same(given: Any, present: Any) -> bool:
    return canonical_json(given, what="a round") == canonical_json(present, what="a round")


def export_round(run: Run) -> RoundRecord:
    """
    Return the round of a run, or of a view of its past, without the content of other rounds.

    Raises:
        DecisionRefusedError: a part of it is not recorded yet, since a transaction is open.
    """
    version = run.version
    recorded = run.recorded_events(until=version)
    # The log may have events of another writer under the versions that the transaction decided on.
    if version > min(len(recorded), run._journal.known.version):
        raise DecisionRefusedError(f"{run.stream_id} is being changed by a transaction: export it when that has ended")
    # The state of the run has the earlier rounds, too. This state has none, so edges from them are left out.
    state = fold(EMPTY, (one.event for one in recorded))
    graph = RunGraph(state)
    refs = list(graph.vertices())
    keys = [(graph.type_of(ref), graph.event(ref).label) for ref in refs]
    names = dict(zip(refs, names_in_round(keys), strict=True))
    return RoundRecord(
        run_id=run.run_id,
        sub_id=run.sub_id,
        nodes=tuple(_node(graph, ref, name, recorded) for ref, name in names.items()),
        edges=tuple(
            dict.fromkeys(
                TrajectoryEdge(names[edge.end], name, edge.type)
                for ref, name in names.items()
                for edge in graph.predecessors(ref)
            )
        ),
        pointers=frozenset(names[ref] for ref in state.pointers if ref in names),
        messages=tuple(parse_json(one.event.record) for one in state.messages.values()),
        user_id=run.user_id,
        session_id=run.session_id,
        agent=run.agent,
        version=version,
    )


def _node(graph: RunGraph, ref: Ref, name: str, recorded: Sequence[RecordedEvent]) -> RoundNode:
    event = graph.event(ref)
    changes = zip(graph.changes_of(ref), graph.old_values_of(ref), strict=True)
    return RoundNode(
        name=name,
        type=graph.type_of(ref),
        label=event.label,
        attributes=graph.attributes_of(ref),
        created_at=event.created_at,
        actor=recorded[ref.version - 1].meta.actor,
        changes=tuple(_change(recorded[change.version - 1], old) for (_, change), old in changes),
    )


def _change(recorded: RecordedEvent, old: dict[str, Any]) -> RoundChange:
    event, actor, at = recorded.event, recorded.meta.actor, made_at(recorded)
    if isinstance(event, PortraitWritten):
        return RoundChange(kind="portrait", actor=actor, at=at, old=old, model=event.model)
    return RoundChange(kind="changed", actor=actor, at=at, old=old)


def checked_round(record: RoundRecord) -> RoundRecord:
    """
    Return a round after checking that a run can be made from it.

    Raises:
        InvalidInputError: the record is not valid; the message names the node or the edge.
    """
    require_unicode(record.agent or "", "the agent")
    for node in record.nodes:
        _require_node(node)
        _require_changes(node)
    _require_names(record)
    _require_ends(record)
    _require_acyclic(record)
    for index, message in enumerate(record.messages):
        require_json(message, what=f"message {index}")
    return record


def _require_node(node: RoundNode) -> None:
    if not node.label:
        raise InvalidInputError(f"the label of the node {node.name!r} is empty: it is a text of at least one character")
    require_unicode(node.label, f"the label of the node {node.name!r}")
    fields = dict(node.attributes)
    description = fields.pop(DESCRIPTION, None)
    if not isinstance(description, str):
        raise InvalidInputError(f"the description of {node.name} is {description!r}: it is a text")
    require_unicode(description, f"the description of {node.name}")
    try:
        require_fields(node.type, fields)
    except InvalidInputError as error:
        raise InvalidInputError(f"the node {node.name!r} is not valid: {error}") from error
    stored_fields(fields, node.name)
    _require_origin(node.actor, node.created_at, node.name)


def _require_changes(node: RoundNode) -> None:
    for number, change in enumerate(node.changes):
        what = f"change {number} of {node.name}"
        require_json(change.old, what=what)
        _require_origin(change.actor, change.at, what)
        require_unicode(change.model or "", f"the model of {what}")
        for name in change.old:
            if name not in node.attributes:
                raise InvalidInputError(f"{what} has the attribute {name!r}, which the node does not have")


def _require_origin(actor: str | None, at: float | None, what: str) -> None:
    require_unicode(actor or "", f"the actor of {what}")
    if at is not None:
        require_time(at, f"the time of {what}")


def _require_names(record: RoundRecord) -> None:
    keys = [(node.type, node.label) for node in record.nodes]
    twice = [key for key, count in Counter(keys).items() if count > 1 and key[0] in COMPUTATION]
    if twice:
        raise InvalidInputError(f"it holds {twice[0][0]}({twice[0][1]}) more than once: only data can be met again")
    for node, name in zip(record.nodes, names_in_round(keys), strict=True):
        if node.name != name:
            raise InvalidInputError(
                f"it holds {node.name!r} in the place of {name!r}: of several nodes with one name the newest comes "
                "last, and its name has no number"
            )
    queries = [node.name for node in record.nodes if node.type == QUERY]
    if len(queries) > 1:
        raise InvalidInputError(f"it holds {len(queries)} queries, {', '.join(queries)}: a round has one")


def _require_ends(record: RoundRecord) -> None:
    names = {node.name for node in record.nodes}
    for edge in record.edges:
        require_unicode(edge.type, f"the type of the edge from {edge.source} to {edge.target}")
        for end in (edge.source, edge.target):
            if end not in names:
                raise InvalidInputError(
                    f"it holds an edge from {edge.source!r} to {edge.target!r}, and no node {end!r}"
                )
    for name in record.pointers - names:
        raise InvalidInputError(f"it holds the pointer {name!r}, and no such node")


def _require_acyclic(record: RoundRecord) -> None:
    sources = by_end((node.name for node in record.nodes), ((edge.target, edge.source) for edge in record.edges))
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as error:
        source, target = error.args[1][:2]
        raise InvalidInputError(
            f"its edges close a cycle, as the edge from {source!r} to {target!r} does: a trajectory has no cycle"
        ) from error


def import_round(run: Run, record: RoundRecord) -> None:
    """
    Record a checked round in an empty run; the caller's transaction makes this atomic.

    Raises:
        DecisionRefusedError: the run has nodes or messages.
    """
    if run._state.vertices or run._state.messages:
        raise DecisionRefusedError(
            f"{run.stream_id} has nodes or messages already: a round can be imported only into an empty run"
        )
    _RoundImport(run, record).carry_out()


class _RoundImport:
    """The import of a round; `_refs` has the vertices imported so far, by their names in the round."""

    def __init__(self, run: Run, record: RoundRecord) -> None:
        self._run, self._record = run, record
        self._refs: dict[str, Ref] = {}
        self._edges_to = by_end((node.name for node in record.nodes), ((edge.target, edge) for edge in record.edges))

    def carry_out(self) -> None:
        """Record the round, and name the version after it."""
        late = [edge for node in self._record.nodes for edge in self._register(node)]
        for edge in late:
            self._do(AddEdge(self._name_of(edge.source), self._name_of(edge.target), edge.type))
        self._move_pointers()
        self._run.record_messages(*self._record.messages)
        self._run.name_version(IMPORTED)

    def _do(self, command: object) -> None:
        self._run._record(command, catch_up=False)

    def _name_of(self, name: str) -> str:
        """Return the present name of a node in the run."""
        return self._run._graph.name_of(self._refs[name])

    def _register(self, node: RoundNode) -> list[TrajectoryEdge]:
        """Register a node and record its changes; return the edges to it that must be recorded separately."""
        edges = dict.fromkeys(self._edges_to[node.name])
        known = [edge for edge in edges if edge.source in self._refs and node.type != QUERY]
        own = {edge: self._refs[edge.source] for edge in known if edge.type == known[0].type}
        changes = _changes(node)
        fields = dict(changes[0][2] if changes else node.attributes)
        created_at = self._run._attachment.system.now() if node.created_at is None else node.created_at
        with acting(actor=node.actor):
            self._do(
                ImportNode(
                    type=node.type,
                    label=node.label,
                    description=fields.pop(DESCRIPTION),
                    fields=fields,
                    created_at=created_at,
                    sources=tuple(own.values()),
                    edge=known[0].type if known else "",
                )
            )
        self._refs[node.name] = Ref(self._run.version)
        for change, new, _ in changes:
            self._change(node, change, new)
        return [edge for edge in edges if edge not in own]

    def _change(self, node: RoundNode, change: RoundChange, new: dict[str, Any]) -> None:
        # A model can describe only data, and only if the description was empty.
        is_portrait = change.kind == "portrait" and node.type in DATA and change.old == {DESCRIPTION: ""}
        with acting(actor=change.actor):
            if is_portrait:
                self._do(WritePortrait(self._refs[node.name], new[DESCRIPTION], change.model, change.at))
            else:
                self._do(ModifyNode(self._name_of(node.name), new, change.at))

    def _move_pointers(self) -> None:
        wanted = [self._refs[node.name] for node in self._record.nodes if node.name in self._record.pointers]
        graph = self._run._graph
        left = tuple(graph.name_of(ref) for ref in graph.state.pointers if ref not in wanted)
        self._do(MovePointers(left, tuple(graph.name_of(ref) for ref in wanted)))


def _changes(node: RoundNode) -> list[tuple[RoundChange, dict[str, Any], dict[str, Any]]]:
    """Return each change, the oldest first, with the values that it set and all attributes before it."""
    after = node.attributes
    found: list[tuple[RoundChange, dict[str, Any], dict[str, Any]]] = []
    for change in reversed(node.changes):
        found.append((change, {name: after[name] for name in change.old}, {**after, **change.old}))
        after = found[-1][2]
    return found[::-1]
