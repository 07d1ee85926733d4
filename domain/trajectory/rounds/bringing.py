"""
From a round as a value to the events of a run, which are made by the run's own rules.

Each node is registered as it was at first, and its changes follow, each with who made it and when. Edges that lead
back to an older node, and those of a second kind, come as events of their own; so do the pointers.
"""

from __future__ import annotations

from typing import Any

from ...acting import acting
from ...errors import DecisionRefusedError
from ...spans import Ref
from ..nodes import DATA
from ..rules.commands import AddEdge, ImportNode, ModifyNode, MovePointers, WritePortrait
from ..run import Run
from ..state.attributes import DESCRIPTION
from ..state.parts import QUERY
from .record import RoundChange, RoundEdge, RoundNode, RoundRecord

# What the version is named at which a run held what was brought in, and nothing else.
IMPORTED = "imported"


def bring_in(run: Run, record: RoundRecord) -> None:
    """
    Record a checked round in a run that holds nothing yet; the caller's transaction makes it all or nothing.

    Raises:
        DecisionRefusedError: the run has nodes or messages.
    """
    if run._state.vertices or run._state.messages:
        raise DecisionRefusedError(f"{run.stream} holds something already: a round is brought into an empty run")
    _Bringing(run, record).carry_out()


class _Bringing:
    """A round on its way into a run; `_refs` are the vertices so far, by the names that the round has for them."""

    def __init__(self, run: Run, record: RoundRecord) -> None:
        self._run, self._record = run, record
        self._refs: dict[str, Ref] = {}
        self._edges_to: dict[str, list[RoundEdge]] = {node.name: [] for node in record.nodes}
        for edge in record.edges:
            self._edges_to[edge.target].append(edge)

    def carry_out(self) -> None:
        """Record everything, and name the version at which it was done."""
        late = [edge for node in self._record.nodes for edge in self._registered(node)]
        for edge in late:
            self._do(AddEdge(self._called(edge.source), self._called(edge.target), edge.type))
        self._move_pointers()
        self._run.record_messages(*self._record.messages)
        self._run.name_version(IMPORTED)

    def _do(self, command: object) -> None:
        self._run._change(command, None, None, catch_up=False)

    def _called(self, name: str) -> str:
        """Return what the run calls a node at this moment."""
        return self._run._graph.name_of(self._refs[name])

    def _registered(self, node: RoundNode) -> list[RoundEdge]:
        """Register a node and record its changes; return the edges to it that must be recorded by themselves."""
        edges = dict.fromkeys(self._edges_to[node.name])
        known = [edge for edge in edges if edge.source in self._refs and node.type != QUERY]
        own = {edge: self._refs[edge.source] for edge in known if edge.type == known[0].type}
        changes = _changes(node)
        fields = dict(changes[0][2] if changes else node.attributes)
        created_at = self._run._home.system.now() if node.created_at is None else node.created_at
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
        is_portrait = change.is_portrait and node.type in DATA and change.old == {DESCRIPTION: ""}
        with acting(actor=change.actor):
            if is_portrait:
                self._do(WritePortrait(self._refs[node.name], new[DESCRIPTION], change.model, change.at))
            else:
                self._do(ModifyNode(self._called(node.name), new, change.at))

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
