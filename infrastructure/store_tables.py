"""The part of a store that answers from the relational tables of runs, and from the audit of their nodes."""

from __future__ import annotations

from typing import Any

from ..domain.concurrency.threads import in_thread
from ..domain.trajectory import Trajectory
from ..projections.trajectory_tables import EdgeRow, NodeRow
from .projecting.runner import ProjectionRunner
from .queries.node_audit import AskedNode, AttributeTransition, audit_node
from .queries.runs import Selected, run_edges, run_graph, run_nodes


class TablesOfStore:
    """Asks the tables of a store for runs, by user, session, round and sub-agent; they are brought up to date first."""

    _runner: ProjectionRunner

    def run_nodes(
        self,
        user_id: str,
        session_id: str,
        run_id: int | None = None,
        sub_id: int | None = None,
        *,
        node_type: str | None = None,
    ) -> list[NodeRow]:
        """
        Return the nodes of a session, of one round or one agent of it, or those of a type (SPEC D13.9).

        They come as they are now, round after round in the order of registration. What was removed is not among them.

        Raises:
            InvalidInputError: a part that cannot be one, or no such type.
        """
        return run_nodes(self._runner, Selected(user_id, session_id, run_id, sub_id), node_type)

    async def arun_nodes(self, user_id: str, session_id: str, *place: int | None, **options: Any) -> list[NodeRow]:
        """`run_nodes()` for a running event loop."""
        return await in_thread(self.run_nodes, user_id, session_id, *place, **options)

    def run_edges(
        self, user_id: str, session_id: str, run_id: int | None = None, sub_id: int | None = None
    ) -> list[EdgeRow]:
        """
        Return the edges between nodes of one round each; those between rounds follow from the rounds (SPEC D13.2).

        Raises:
            InvalidInputError: a part that cannot be one.
        """
        return run_edges(self._runner, Selected(user_id, session_id, run_id, sub_id))

    async def arun_edges(self, user_id: str, session_id: str, *place: int | None) -> list[EdgeRow]:
        """`run_edges()` for a running event loop."""
        return await in_thread(self.run_edges, user_id, session_id, *place)

    def run_graph(self, user_id: str, session_id: str, run_id: int | None = None, sub_id: int = 0) -> Trajectory:
        """
        Restore the graph of one agent from the tables: all its rounds with the bridges between them, or one round.

        Edges that lead from a round to another and are no bridges are not in the tables (SPEC D13.2); `run.graph()`
        has them.

        Raises:
            InvalidInputError: a part that cannot be one.
            NotFoundError: there is no node.
        """
        return run_graph(self._runner, Selected(user_id, session_id, run_id, sub_id))

    async def arun_graph(self, user_id: str, session_id: str, *place: int, **options: Any) -> Trajectory:
        """`run_graph()` for a running event loop."""
        return await in_thread(self.run_graph, user_id, session_id, *place, **options)

    def audit_node(
        self,
        node: str,
        attribute: str | None = None,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        run_id: int | None = None,
        sub_id: int | None = None,
    ) -> list[AttributeTransition]:
        """
        Return every change of a node's attributes, or of one: old, new, who, when, and because of what.

        A data node is one in all rounds of its session, and to all its agents. User and session may be left out where
        only one session has such a node; round and agent say which run a query, action or state is of.

        Raises:
            InvalidInputError: the name is not of the form `Type(label)`, or there are several such nodes.
            NodeNotFoundError: there is none.
            NotFoundError: the node never had that attribute.
        """
        return audit_node(self._runner, AskedNode(node, user_id, session_id, run_id, sub_id), attribute)

    async def aaudit_node(self, node: str, attribute: str | None = None, **options: Any) -> list[AttributeTransition]:
        """`audit_node()` for a running event loop."""
        return await in_thread(self.audit_node, node, attribute, **options)
