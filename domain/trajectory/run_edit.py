"""How a run's graph grows and changes: queries, nodes, edges, pointers, and earlier rounds."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..canonical import Without
from ..context.journal import OPENING
from ..errors import InvalidInputError
from ..ids import split_stream_id
from ..spans import Segment
from .drawing import drawn
from .events import NodeRegistered, QueryRegistered, RoundsRestored
from .identity import RunId, flushed_end, is_run_id, run_id_of
from .nodes import node_name
from .rules.commands import AddEdge, ModifyNode, MovePointers, RegisterNode, RegisterQuery, RemoveNode, RestoreRounds
from .run_view import ShownRun
from .state.attributes import attributes_of
from .state.graph import RunGraph
from .state.loading import past_rounds
from .state.parts import type_of
from .trajectory import Trajectory

log = logging.getLogger("refold.trajectory")


class ShapedRun(ShownRun):
    """A run whose graph can be changed. Every call is one event, or nothing."""

    def register_query(
        self,
        query: Any,
        additional_files: Any = (),
        *,
        label: str | None = None,
        description: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        **extra: Any,
    ) -> str:
        """
        Register the question of this round, and return its name: `Query(query00000)` at first.

        It becomes a pointer, and is bridged to the leaves of the round before.

        Raises:
            RunStateError: the run has a query, or is closed (a RuntimeError).
            InvalidInputError: a value that is no JSON.
        """
        command = RegisterQuery(
            fields={"query": query, "additional_files": additional_files, **extra},
            created_at=self._home.system.now(),
            label=label,
            description=description,
        )
        call = Without(command, "created_at")
        outcome = self._change(command, expected_version, idempotency_key, catch_up=True, call=call)
        return _registered_name(outcome.events)

    def register_node(
        self,
        node_type: str,
        description: str,
        predecessor_node: Sequence[str],
        edge_type: str | None = None,
        label: str | None = None,
        add_pt: bool = False,
        remove_pt: bool = False,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> str:
        """
        Register a node behind others, and return its name.

        `edge_type` may be left out where there is a usual one. A state or an action takes the place of its
        predecessors among the pointers; with `add_pt` they stay pointers beside it, with `remove_pt` they go and it
        is none. Data whose label is known are met again: a new version, which keeps what is not given anew.

        Raises:
            RunStateError: there is no query yet, or the run is closed (a RuntimeError).
            InvalidInputError: no such type, no predecessor, a field that is missing or no JSON, a label that is
                taken, or no edge type where there is no usual one.
            NodeNotFoundError: a predecessor that is not in the graph (a ValueError).
        """
        command = RegisterNode(
            type=node_type,
            description=description,
            predecessors=_names(predecessor_node or (), "predecessor_node"),
            fields=fields,
            created_at=self._home.system.now(),
            edge=edge_type,
            label=label,
            add_pointer=add_pt,
            remove_pointers=remove_pt,
        )
        call = Without(command, "created_at")
        outcome = self._change(command, expected_version, idempotency_key, catch_up=True, call=call)
        return _registered_name(outcome.events)

    def modify_node(
        self,
        graph_node_label: str,
        changes: Mapping[str, Any],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Give attributes of a node other values; the old ones stay in its history.

        Raises:
            NodeNotFoundError: no such node (a ValueError).
            UnknownAttributeError: it has no such attribute, or none that can be changed; nothing was changed.
            InvalidInputError: a value that is no JSON.
            ConcurrencyError: another writer came first.
        """
        command = ModifyNode(graph_node_label, dict(changes))
        self._warn_of_types(command)
        self._change(command, expected_version, idempotency_key, catch_up=False)

    def _warn_of_types(self, command: ModifyNode) -> None:
        """Say in the log where a value gets another type, which is allowed."""
        graph = self._graph
        ref = graph.find(command.name)
        before = {} if ref is None else attributes_of(graph, ref)
        for name, value in command.changes.items():
            old = before.get(name)
            if old is not None and value is not None and type(old) is not type(value):
                given, had = type(value).__name__, type(old).__name__
                log.warning("%s: %s becomes a %s, and was a %s", command.name, name, given, had)

    def remove_node(
        self,
        name: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Take a node and its edges out of the graph; its history stays. Its predecessors take its place as pointers.

        Raises:
            NodeNotFoundError: no such node (a ValueError).
            ConcurrencyError: another writer came first.
        """
        self._change(RemoveNode(name, reason), expected_version, idempotency_key, catch_up=False)

    def add_edge(
        self,
        source: str,
        target: str,
        edge_type: str | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Join two nodes that are there; nothing happens where they are joined so already.

        Raises:
            NodeNotFoundError: no such node (a ValueError).
            InvalidInputError: no edge type where there is no usual one.
            DecisionRefusedError: the edge would close a cycle, or lead into a node of an earlier round.
        """
        self._change(AddEdge(source, target, edge_type), expected_version, idempotency_key, catch_up=True)

    def move_pointers(
        self,
        *,
        leave: Iterable[str] = (),
        join: Iterable[str] = (),
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Let nodes be pointers no longer, and others become some.

        Raises:
            NodeNotFoundError: no such node (a ValueError).
            ConcurrencyError: another writer came first.
        """
        command = MovePointers(_names(leave, "leave"), _names(join, "join"))
        self._change(command, expected_version, idempotency_key, catch_up=False)

    # Earlier rounds

    def restore_previous_runs(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        current_run_id: int | None = None,
        sub_id: int | None = None,
    ) -> list[int]:
        """
        Let the graph go back over the earlier rounds of this session, as they are now, and return their numbers.

        They are those of the same agent, or of `sub_id`. Rounds that were never run are bridged over. It is an event
        that names them; asked again, it is one only where they have changed.

        Raises:
            InvalidInputError: another user's rounds, or another session's.
        """
        for what, given, own in (("user_id", user_id, self.user_id), ("session_id", session_id, self.session_id)):
            if given not in (None, own):
                raise InvalidInputError(f"this run has the {what} {own!r}, and {given!r} was asked for: open that run")
        until = self.run_id if current_run_id is None else min(current_run_id, self.run_id)
        agent = self.sub_id if sub_id is None else sub_id
        found = self._rounds_before(until, agent)
        if found or self._state.pins:
            event = RoundsRestored(rounds=tuple(found.values()))
            if event.rounds != self._state.pins:
                past = past_rounds(self._journal.log, event)
                # What else is done is not another call for it: where nothing has changed it is not made at all.
                self._change(RestoreRounds(event, past), None, None, catch_up=True, call=OPENING)
        return list(found)

    def _rounds_before(self, until: int, agent: int) -> dict[int, Segment]:
        """Return the rounds of an agent of this session that there are, by number, each as far as it goes now."""
        log, own = self._journal.log, self.identity
        ids = (split_stream_id(stream)[1] for stream in log.streams(own.session_prefix))
        # What was taken in with an adopted run has an id made from that.
        runs = [run_id_of(context_id) for context_id in ids if is_run_id(context_id)]
        numbers = sorted(run.run_id for run in runs if run.sub_id == agent and run.run_id < until)
        streams = {number: own._replace(run_id=number, sub_id=agent).stream for number in numbers}
        return {number: Segment(stream, flushed_end(self._home, stream).version) for number, stream in streams.items()}

    def get_historical_trajectory(self, run_id: int) -> Trajectory | None:
        """Return the graph of an earlier round alone, None where it was not restored."""
        return self.get_all_historical_trajectories().get(run_id)

    def get_all_historical_trajectories(self) -> dict[int, Trajectory]:
        """Return the graphs of the earlier rounds, each alone, by their numbers."""
        return {
            opened.round: drawn(RunGraph(past.state), RunId(self.user_id, self.session_id, opened.round, opened.sub))
            for past in self._state.past
            if (opened := past.state.opened) is not None
        }


def _names(given: object, what: str) -> tuple[str, ...]:
    """Return names of nodes; one alone is meant as one."""
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (None,)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(f"{what} is {given!r}: it is a list of names of nodes, like ['Query(query00000)']")
    return names


def _registered_name(events: Iterable[Any]) -> str:
    event = next(event for event in events if isinstance(event, NodeRegistered | QueryRegistered))
    return node_name(type_of(event), event.label)
