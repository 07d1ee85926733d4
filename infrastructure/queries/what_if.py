"""What-if: branches of several contexts at one moment, to be discarded or kept together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ...domain.arguments import refuse_copy
from ...domain.chat.context import ChatContext
from ...domain.chat.rules.decide import CHAT
from ...domain.clock import System, time_of
from ...domain.concurrency.locks import renew_in_child, synchronized
from ...domain.context.context import Attachment, Context
from ...domain.context.decider import Decider
from ...domain.context.folded_stream import Place
from ...domain.context.journal import Journal
from ...domain.context.transaction import require_no_transaction
from ...domain.erasure.events import STREAM as ERASURES
from ...domain.erasure.events import events_of_store
from ...domain.erasure.foreign_erasures import erased_since, look
from ...domain.errors import ConcurrencyError, DecisionRefusedError, InvalidInputError, NotFoundError, RefoldError
from ...domain.ids import stream_id
from ...domain.log.gate import behind_gate
from ...domain.log.overlay_log import OverlayLog
from ...domain.log.ports import LiveLog, NewEvents
from ...domain.pool.pool import ContextPool
from ...domain.pool.queue import ContextQueue
from ...domain.positions import Moment
from ..context_streams import first_event, named_versions, root_of
from .cuts import Cut

C = TypeVar("C", bound=Context[Any])


class WhatIf:
    """
    Branches of contexts as they were at one moment. They are in memory, and the store does not show them.

    `keep()` writes all of them into the store in one transaction. A WhatIf that is not kept is lost with its objects.
    """

    __reduce__ = refuse_copy

    def __init__(self, log: LiveLog, cut: Cut, system: System) -> None:
        self._log, self._system = log, system
        self._at = cut if isinstance(cut, Moment) else time_of(cut)
        self._overlay = OverlayLog(log, cut, system)
        self._erasures = look(log)
        self._is_kept = self._is_interrupted = False
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"WhatIf({self._at})"

    def chat(self, context_id: str, new_id: str | None = None, *, agent: str | None = None) -> ChatContext:
        """
        Return a fork of a chat context as it was, under `new_id` or a generated id.

        Raises:
            NotFoundError: the context did not exist then.
            InvalidInputError: the id cannot be one, or is taken.
            DecisionRefusedError: everything was kept already.
        """
        then = self._then(ChatContext, "chat", context_id, CHAT)
        return then.fork(self._free("chat", new_id), agent=agent)

    def queue(self, context_id: str, new_id: str | None = None) -> ContextQueue[Any]:
        """
        Return a branch of a context queue as it was.

        Raises:
            NotFoundError, InvalidInputError, DecisionRefusedError: as for `chat`.
        """
        then: ContextQueue[Any] = self._then(ContextQueue, "queue", context_id, ContextQueue.decider)
        return then.branch(context_id=self._free("queue", new_id))

    def pool(self, context_id: str, new_id: str | None = None) -> ContextPool[Any]:
        """
        Return a branch of a context pool as it was.

        Raises:
            NotFoundError, InvalidInputError, DecisionRefusedError: as for `chat`.
        """
        then: ContextPool[Any] = self._then(ContextPool, "pool", context_id, ContextPool.decider)
        return then.branch(context_id=self._free("pool", new_id))

    @synchronized
    def keep(self) -> list[str]:
        """
        Write all branches with their changes into the store in one transaction; return their streams (`kind:id`).

        To go on with them, open them in the store by their ids: the objects that were made here accept no changes.

        Raises:
            InvalidInputError: one of the ids was taken in the meantime, or a transaction is open; nothing was written.
            StorageError: the database refused; nothing was written, so try again.
            DecisionRefusedError: everything was kept already, or texts that the branches may have were erased.
        """
        self._require_open()
        require_no_transaction(self._log, "no branches are kept")
        appended = self._overlay.finish()
        try:
            self._record(appended)
        except BaseException as error:
            # The log may have taken them before an interrupt: of this call, or of an earlier one.
            self._is_interrupted |= not isinstance(error, Exception)
            self._is_kept = self._is_interrupted and self._are_recorded(appended)
            if not self._is_kept:
                self._overlay.reopen()
            if not isinstance(error, ConcurrencyError):
                raise
            if not self._is_kept:
                raise InvalidInputError(f"{error.stream} exists already: branch again, under another id") from error
        self._is_kept = True
        return [new.stream for new in appended]

    def _record(self, appended: Sequence[NewEvents]) -> None:
        """Append the branches, unless something that they come from was erased, or is erased at the same moment."""
        while True:
            unerased = events_of_store((), look(self._log))
            self._require_unerased(appended)
            try:
                if appended:
                    self._log.append([*appended, unerased]).result()
            except ConcurrencyError as error:
                if error.stream == ERASURES:
                    continue
                raise
            return

    def _require_unerased(self, appended: Sequence[NewEvents]) -> None:
        """Require that nothing was erased of what the branches come from: a fork has a copy of a configuration."""
        named = {name for new in appended for event in new.events for name, _ in named_versions(event, new.stream)}
        for stream in sorted(named & erased_since(self._log, self._erasures)):
            raise DecisionRefusedError(
                f"texts of {stream} were erased since, and the branches may have them: branch again"
            )

    def _are_recorded(self, appended: Sequence[NewEvents]) -> bool:
        """Return whether the log has these events."""
        log = behind_gate(self._log)
        with suppress(RefoldError):
            return all([*log.read_events(one.stream, until=len(one.events))] == [*one.events] for one in appended)
        return False

    def _then(self, cls: type[C], kind: str, context_id: str, decider: Decider[Any]) -> C:
        """Return a context as it was at the moment."""
        self._require_open()
        stream = stream_id(kind, context_id)
        version = self._overlay.head(stream)
        if not version:
            raise NotFoundError(f"there was no {kind} context {context_id!r} at that moment")
        first: Any = first_event(self._overlay, stream)
        place = Place(stream, root_of(first, stream), first.agent)
        attachment = Attachment(
            self._overlay, system=self._system, durability="commit", unflushed=None, is_detached=False
        )
        return cls.standing_on(Journal(self._overlay, place, decider, version=version), attachment)

    def _free(self, kind: str, new_id: str | None) -> str | None:
        if new_id is not None and self._log.head(stream_id(kind, new_id)):
            raise InvalidInputError(f"{kind}:{new_id} exists already: branch under another id")
        return new_id

    def _require_open(self) -> None:
        if self._is_kept:
            raise DecisionRefusedError("these branches were kept: open them in the store, or ask what_if() again")
