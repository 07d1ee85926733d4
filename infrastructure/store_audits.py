"""The part of a store that says what became of contexts, of items and of nodes, who did it, and why."""

from __future__ import annotations

from typing import Any

from ..domain.concurrency.threads import in_thread
from ..domain.context.decider import trusted
from ..domain.errors import InvalidInputError
from ..domain.ids import split_stream_id
from ..domain.trajectory.identity import run_id_of
from ..projections.validity import VALIDITY
from .named_contexts import ITEM_KINDS, context_named
from .projecting.store import ProjectionStore
from .queries.audit import context_changes
from .queries.audit_trail import Change
from .queries.config_history import config_changes
from .queries.intervals import intervals
from .queries.node_audit import is_node_name, node_changes
from .queries.run_audit import run_changes
from .queries.transitions import Transition, of_attribute, of_item, transitions_of
from .queries.why_gone import WhyGone, why_gone
from .store_contexts import ContextsOfStore
from .store_tables import TablesOfStore


class AuditsOfStore(ContextsOfStore, TablesOfStore):
    """Looks back at what was done in a store."""

    _projections: ProjectionStore

    def audit(
        self,
        subject: str,
        attribute: str | None = None,
        *,
        item: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
        run_id: int | None = None,
        sub_id: int | None = None,
    ) -> list[Transition]:
        """
        Return every change of a context, or of a node (`Type(label)`), oldest first; of one attribute, or of one item.

        A context is named with its kind or without, an item by its id or key, or by its birth, `stream@version`. A
        chat's `instructions` and `tools` are attributes of it, as are the settings of other contexts; a fork has the
        changes since it was forked. User, session, round and agent say which node is meant, as for `audit_node`.

        Raises:
            NotFoundError: there is no such context or node, or it never had that item, or no change of that attribute.
            InvalidInputError: several could be meant; an item of a node, or a session of a context, was asked for.
        """
        where = {"user_id": user_id, "session_id": session_id, "run_id": run_id, "sub_id": sub_id}
        if is_node_name(subject):
            if item is not None:
                raise InvalidInputError(f"{subject} is a node, and items are in contexts: leave out item={item!r}")
            told = self.audit_node(subject, attribute, **where)  # type: ignore[arg-type]  # each has its own type
            return transitions_of(self.log, node_changes(self.log, subject, told))
        if any(value is not None for value in where.values()):
            raise InvalidInputError(f"{subject} is a context: user, session, round and agent say which node is meant")
        stream = context_named(self.log, subject)
        changes = self._changes(stream)
        if item is not None:
            changes = of_item(changes, item, stream)
        if attribute is not None:
            changes = of_attribute(changes, attribute, stream)
        with trusted(stream):
            return transitions_of(self.log, changes)

    async def aaudit(self, subject: str, attribute: str | None = None, **options: Any) -> list[Transition]:
        """`audit()` for a running event loop."""
        return await in_thread(self.audit, subject, attribute, **options)

    def why_gone(self, context: str, item: str) -> WhyGone:
        """
        Return why an item is not in a context: the event that took it out, here or in what the context was forked from.

        The context is named with its kind or without, the item by its id or key, or by its birth, `stream@version`. The
        answer may also be that the item is there, or never was.

        Raises:
            NotFoundError: there is no such context.
            InvalidInputError: several could be meant, or it holds no items, as a run.
        """
        stream = context_named(self.log, context)
        if split_stream_id(stream)[0] not in ITEM_KINDS:
            raise InvalidInputError(f"{stream} holds no items: `audit` tells what became of its nodes")
        self._runner.catch_up(VALIDITY)
        return why_gone(self.log, self._projections, stream, item)

    async def awhy_gone(self, context: str, item: str) -> WhyGone:
        """`why_gone()` for a running event loop."""
        return await in_thread(self.why_gone, context, item)

    def _changes(self, stream: str) -> list[Change]:
        kind, context_id = split_stream_id(stream)
        head = self.log.head(stream)
        if kind == "run":
            return list(run_changes(self.log, self.run(*run_id_of(context_id), create=False), head))
        changes = list(context_changes(self.log, stream, head))
        if kind != "chat":
            return changes
        self._runner.catch_up(VALIDITY)
        changes += config_changes(self.log, stream, intervals(self._projections, stream))
        return sorted(changes, key=lambda change: change.recorded.version)
