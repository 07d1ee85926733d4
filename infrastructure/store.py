"""
The store: what `refold.open()` gives, and the one place where contexts, log and projections come together.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from ..domain.canonical import canonical_json
from ..domain.chat.context import ChatContext
from ..domain.chat.events import Forked, Opened
from ..domain.chat.rules.commands import Open
from ..domain.chat.rules.decide import CHAT
from ..domain.chat.state.fold import ChatState
from ..domain.errors import ConcurrencyError, InvalidInputError, NotFoundError, StorageError
from ..domain.journal import Durability, Journal, Place, require_durability
from ..domain.ports import LiveLog
from ..domain.positions import BEGINNING, Moment
from ..domain.streams import stream_id
from ..domain.threads import in_thread
from ..domain.transaction import Transaction, transaction
from ..projections.catalogue import CATALOGUE, CatalogueRow
from ..projections.rollup import ROLLUP, RollupRow
from .projecting.runner import ProjectionRunner
from .projecting.store import ProjectionStore
from .subscription import Subscription

__all__ = ["Store"]


class Store:
    """
    Contexts that are kept, in an SQLite file, in PostgreSQL or in memory: the calls are the same.

    Its methods may be called from any thread. Those that touch the disk have a twin with an `a` in front for
    use in a running event loop.
    """

    def __init__(self, log: LiveLog, projections: ProjectionStore, *, durability: Durability = "commit") -> None:
        self.log = log
        self._durability = durability
        self._runner = ProjectionRunner(log, projections, [CATALOGUE, ROLLUP])
        self._unflushed: set[Journal[Any]] = set()

    def chat(
        self,
        context_id: str,
        *,
        user: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        source: str | None = None,
        attributes: dict[str, Any] | None = None,
        create: bool = True,
        durability: Durability | None = None,
    ) -> ChatContext:
        """
        Open a chat context, or create it.

        `session` decides with whom a new context shares a slice; `agent` is the default actor of its events.

        Raises:
            InvalidInputError: the id cannot be one, or the context has another user, session or agent.
            NotFoundError: it does not exist and `create` is False.
        """
        stream = stream_id("chat", context_id)
        version = self.log.head(stream)
        wanted = Opened(
            user=user,
            session=session,
            agent=agent,
            source=source,
            attributes=canonical_json(attributes, what=f"attributes of {context_id!r}") if attributes else b"",
        )
        opened: Opened | Forked = wanted
        if version:
            opened = self._check_opened(stream, wanted)
        elif not create:
            raise NotFoundError(f"there is no chat context {context_id!r}: `refold contexts` lists them")
        root = opened.root if isinstance(opened, Forked) else opened.session or context_id
        place = Place(stream, root, opened.agent)
        journal: Journal[ChatState] = Journal(self.log, place, CHAT, version=version, unflushed=self._unflushed)
        if not version:
            self._create(journal, wanted)
        # That a context exists is never queued: everything that is queued on it hangs on that.
        journal.durability = require_durability(durability or self._durability)
        return ChatContext(journal=journal)

    async def achat(self, context_id: str, **options: Any) -> ChatContext:
        """
        `chat()` for a running event loop.
        """
        return await in_thread(self.chat, context_id, **options)

    def _check_opened(self, stream: str, wanted: Opened) -> Opened | Forked:
        opened = self.log.read(stream, until=1)[0].event
        for field in ("user", "session", "agent"):
            given, kept = getattr(wanted, field), getattr(opened, field, None)
            if given is not None and given != kept:
                raise InvalidInputError(f"{stream} was opened with {field} {kept!r}, not {given!r}: leave it out")
        return opened if isinstance(opened, Opened | Forked) else wanted

    def _create(self, journal: Journal[ChatState], opened: Opened) -> None:
        try:
            journal.execute(Open(opened), catch_up=False)
        except ConcurrencyError:
            # Somebody created it at the same moment, so it is only to be opened.
            self._check_opened(journal.place.stream, opened)
            journal.forget()

    def adopt(self, context: ChatContext, context_id: str) -> ChatContext:
        """
        Write a detached context, with its whole past, into this store; from then on it is kept here.

        What it was forked from, and what was merged into it, comes along under ids made from `context_id`.

        Raises:
            InvalidInputError: it is kept in a store already, or the id cannot be one.
            ConcurrencyError: there is a context with this id.
        """
        if not context.is_detached:
            raise InvalidInputError(f"chat context {context.id!r} is kept in a store already: fork it instead")
        place = Place(stream_id("chat", context_id), context_id)
        context.flush()
        self.log.append(context.adopted_events(place.stream, root=place.root)).result()
        context.attach(self.log, place, self._durability, self._unflushed)
        return context

    async def aadopt(self, context: ChatContext, context_id: str) -> ChatContext:
        """
        `adopt()` for a running event loop.
        """
        return await in_thread(self.adopt, context, context_id)

    def transaction(self, *, idempotency_key: str | None = None) -> AbstractContextManager[Transaction]:
        """
        Commit all changes to contexts of this store made within the block as one, or none of them.

        A rolled-back transaction restores every view.
        """
        return transaction(self.log, idempotency_key=idempotency_key)

    def contexts(self) -> list[CatalogueRow]:
        """
        Return what is known of every context, ordered by kind and id.
        """
        return self._runner.rows(CATALOGUE)

    async def acontexts(self) -> list[CatalogueRow]:
        """
        `contexts()` for a running event loop.
        """
        return await in_thread(self.contexts)

    def rollup(self) -> list[RollupRow]:
        """
        Return the summary of the log, one row for every 1,024 positions of a slice.
        """
        return self._runner.rows(ROLLUP)

    def now(self) -> Moment:
        """
        Return the moment of the last event: where a subscription to everything new would start.
        """
        return self.log.now()

    def subscribe(self, *, after: Moment = BEGINNING) -> Subscription:
        """
        Return an endless iterator over the events behind `after`, from the past into the present.
        """
        return Subscription(self.log, after=after)

    def flush(self) -> None:
        """
        Wait until everything queued by contexts of this store is on disk.

        Raises:
            ConcurrencyError, StorageError: with `refused`, the events that did not get in.
        """
        failures: list[ConcurrencyError | StorageError] = []
        for journal in list(self._unflushed):
            try:
                journal.flush()
            except (ConcurrencyError, StorageError) as error:
                failures.append(error)
        if failures:
            # One error goes out; it tells of everything that did not get in, whichever context it was for.
            failures[0].refused = tuple(event for failure in failures for event in failure.refused)
            raise failures[0]

    async def aflush(self) -> None:
        """
        `flush()` for a running event loop.
        """
        await in_thread(self.flush)

    def close(self) -> None:
        """
        Finish what was queued, then let go of the database; may be called twice.
        """
        try:
            self.flush()
        finally:
            self.log.close()

    async def aclose(self) -> None:
        """
        `close()` for a running event loop.
        """
        await in_thread(self.close)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
