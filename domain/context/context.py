"""
The base of contexts of every kind: it shows, records and reads the past of a context in a log.

A context and its views are of the same class. They read through `Live` or `Past`. A view has no writer, which is the
journal that records; a change of a view raises a ReadOnlyError.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from ..arguments import refuse_copy, require_callable, require_done, require_limits, require_system, require_whole
from ..canonical import require_given_key
from ..clock import REAL_SYSTEM, System
from ..concurrency.threads import in_thread
from ..erasure.forgetting import watch
from ..errors import NotFoundError, ReadOnlyError, RefoldError
from ..frozen import freeze
from ..ids import derived_id, split_stream_id
from ..log.envelope import NO_TRACE, RecordedEvent, Trace
from ..log.memory_log import MemoryLog
from ..log.ports import Log, NewEvents
from ..positions import Moment
from ..spans import Segment
from .address import Find, resolve_version
from .adopt import adopted_events
from .decider import Decider, NameVersion
from .folded_stream import Durability, Place
from .journal import Journal, Outcome
from .transaction import current_transaction

# The types of attributes that a view gets as a read-only copy.
CHANGEABLE = (list, dict)
AWAITED = "the change is async: give an ordinary function; it is called with the sync context"

T = TypeVar("T")
V = TypeVar("V")


class Named(Protocol):
    """The folded state of any context."""

    @property
    def names(self) -> Mapping[str, int]:
        """The versions that have a name."""


S = TypeVar("S", bound=Named)


@dataclass(eq=False)
class Attachment:
    """Where a context is stored: its log, its system, and how its changes get to the disk; detached without a store."""

    log: Log
    _: KW_ONLY
    system: System
    durability: Durability
    unflushed: set[Journal[Any]] | None
    is_detached: bool

    def child_id(self, lineage: Sequence[Segment], key: str | None) -> str:
        """
        Return an id for a child with this lineage, its parent last.

        It is made from the root's id, since every descendant names all its ancestors. It is the same one when a call is
        repeated under its idempotency key, or under that of the transaction.
        """
        key = None if key is None else require_given_key(key)
        open_transaction = current_transaction(self.log) if key is None else None
        if open_transaction is not None:
            key = open_transaction.key_of_next_child()
        root, parent = (split_stream_id(lineage[place].stream)[1] for place in (0, -1))
        if key is None:
            return derived_id(root, self.system.new_id("-"))
        return derived_id(root, "-" + hashlib.blake2b(f"{parent}\0{key}".encode(), digest_size=6).hexdigest())

    async def waiting(self, work: Callable[[], T]) -> T:
        """Run work that may wait for a disk in a thread, so that the event loop goes on; run other work directly."""
        return work() if self.is_detached else await in_thread(work)


def detached_attachment(system: System = REAL_SYSTEM) -> Attachment:
    """Return a new detached attachment, with its own log in memory."""
    return Attachment(
        MemoryLog(require_system(system)), system=system, durability="commit", unflushed=None, is_detached=True
    )


def detached_journal(attachment: Attachment, kind: str, decider: Decider[S]) -> Journal[S]:
    """Return the journal of the only context in a detached log."""
    return Journal(attachment.log, Place(f"{kind}:detached", "detached"), decider, version=0)


def attachment_of(journal: Journal[Any], system: System = REAL_SYSTEM) -> Attachment:
    """Return the attachment of a context that a store opened."""
    return Attachment(
        journal.log, system=system, durability=journal.durability, unflushed=journal.unflushed, is_detached=False
    )


class Live(Generic[S]):
    """The present of a context, as its journal has it; its views share it, so that they follow an adoption."""

    def __init__(self, journal: Journal[S], attachment: Attachment) -> None:
        self.journal, self.attachment = journal, attachment

    @property
    def live(self) -> Live[S]:
        """Itself."""
        return self

    def require_readable(self) -> None:
        """
        Ask the gate of the log, if it has one, whether the context may be read now.

        Raises:
            NotAllowedError: it may not.
        """
        journal = self.journal
        if journal.gate is not None:
            journal.gate.ask("read", journal.place.stream)

    @property
    def version(self) -> int:
        """The version that the journal has reached."""
        journal = self.journal
        if journal.gate is not None:
            self.require_readable()
        return journal.version

    @property
    def is_loaded(self) -> bool:
        """Whether `state` costs nothing, or must be used because some events are not in the log yet."""
        return self.journal.is_loaded or self.journal.is_ahead

    @property
    def state(self) -> S:
        """The folded state at `version`."""
        journal = self.journal
        if journal.gate is not None:
            self.require_readable()
        return journal.state

    def settled(self) -> S:
        """Return the state when all its events are on disk, so that other streams may name them."""
        self.require_readable()
        return self.journal.settled()


class Past(Generic[S]):
    """A context as it was at one version. Its state is read once, at the first use."""

    def __init__(self, live: Live[S], version: int) -> None:
        self.live, self._version = live, version
        journal = live.journal
        is_at_hand = version == journal.version and journal.is_loaded
        # The state of a version in an open transaction is read now, since the transaction may be rolled back.
        self._state = journal.state if is_at_hand else journal.decided_past(version)

    @property
    def journal(self) -> Journal[S]:
        """The journal of the context."""
        return self.live.journal

    @property
    def version(self) -> int:
        """The version that is shown."""
        self.live.require_readable()
        return self._version

    @property
    def attachment(self) -> Attachment:
        """The log and the settings of the context."""
        return self.live.attachment

    @property
    def is_loaded(self) -> bool:
        """Whether `state` costs nothing."""
        return self._state is not None

    @property
    def state(self) -> S:
        """The folded state at `version`."""
        self.live.require_readable()
        state = self._state
        if state is None:
            state = self._state = self.live.journal.recorded_past(self._version)
        return state

    def settled(self) -> S:
        """Return the state: a past version is on disk already."""
        return self.state


class NoWriter:
    """The writer of a view, which raises an error. A changeable context has an attribute that hides it."""

    def __get__(self, context: Context[Any] | None, _kind: object) -> NoWriter:
        if context is None:
            return self
        raise ReadOnlyError(context._refusal())


class Context(Generic[S]):
    """A context of any kind: the present one, or a read-only view."""

    _source: Live[S] | Past[S]
    # The journal that records, an attribute of the object.
    if TYPE_CHECKING:
        _writer: Journal[S]
    else:
        _writer = NoWriter()
    # For a view: the context that it shows.
    _shows: Context[S]
    _trace: Trace = NO_TRACE

    def _stand_on(self, journal: Journal[S], attachment: Attachment) -> None:
        self._writer, self._source = journal, Live(journal, attachment)
        self._forget_shown()
        watch(journal.log, self)

    @classmethod
    def standing_on(cls, journal: Journal[S], attachment: Attachment) -> Self:
        """Return the context whose events a journal has; a store uses this to open a context."""
        made = cls.__new__(cls)
        made._stand_on(journal, attachment)
        return made

    def _forget_shown(self) -> None:
        """Drop the objects made for reading; the state is read again at the next use."""

    def _forget_erased(self) -> None:
        """Drop what is in memory of the events in the log, because texts of them may have been erased."""
        self._journal.forget_erased()
        # A state that exists only in an open transaction stays.
        if isinstance(self._source, Past) and self._source._version <= self._journal.known.version:
            self._source._state = None
        self._forget_shown()

    # Views

    def _view(self, views: type[V], version: int | None = None) -> V:
        """Return a view, of the class `views`: at a version, or of the present state, which it follows."""
        # A view of a user's subclass has that class, so that it fits where the subclass is asked for.
        cls: type[Any] = views if issubclass(views, type(self)) else type(self)
        view: Any = object.__new__(cls)
        view._show(self, version)
        shown: V = view
        return shown

    def _show(self, shown: Context[S], version: int | None = None) -> None:
        """Become a view of a context: with all its attributes, but no writer. Lists and dicts become read-only ones."""
        attributes = {name: freeze(it) if isinstance(it, CHANGEABLE) else it for name, it in vars(shown).items()}
        attributes.pop("_writer", None)
        source = shown._source if version is None else Past(shown._source.live, version)
        self.__dict__.update(attributes, _shows=attributes.get("_shows", shown), _source=source)
        self._forget_shown()
        watch(source.journal.log, self)

    def _refusal(self) -> str:
        return f"this {self.stream_kind} is a view and cannot be changed: change the one it shows"

    def _require_writer(self) -> None:
        """Raise an error if this is a view."""
        _ = self._writer

    @property
    def _version_asked(self) -> int | None:
        """The version of a view of the past; None for a live context."""
        return self._source.version if isinstance(self._source, Past) else None

    # Identity and log

    __reduce__ = refuse_copy

    def __repr__(self) -> str:
        identity = f"{self.id!r}, version={self.version}"
        try:
            shown = self._shown_by_repr(identity)
        except RefoldError:
            # Its store is closed, or cannot be read: a repr raises no error.
            shown = identity
        return f"{type(self).__name__}({shown})"

    def _shown_by_repr(self, identity: str) -> str:
        """Return what its repr shows, given its id and version."""
        return identity

    @property
    def _journal(self) -> Journal[S]:
        return self._source.journal

    @property
    def _attachment(self) -> Attachment:
        return self._source.attachment

    @property
    def _state(self) -> S:
        return self._source.state

    @property
    def id(self) -> str:
        """The context's id within its store; "detached" without one."""
        return split_stream_id(self.stream_id)[1]

    @property
    def stream_id(self) -> str:
        """The stream that holds the context's events."""
        return self._source.journal.place.stream

    @property
    def stream_kind(self) -> str:
        """The kind of context: the first part of its stream's id."""
        return split_stream_id(self.stream_id)[0]

    @property
    def root(self) -> str:
        """The id that decides the slice of the context and of its children: its session's, or its own."""
        return self._source.journal.place.root

    @property
    def version(self) -> int:
        """The stream version that is shown; 0 before the first event."""
        return self._source.version

    @property
    def is_detached(self) -> bool:
        """Whether the context has its own log in memory."""
        return self._attachment.is_detached

    @property
    def came_between(self) -> tuple[RecordedEvent, ...]:
        """The events that other writers recorded first, if the last call of this context came second; else empty."""
        self._source.live.require_readable()
        return self._journal.came_between

    def attach(self, log: Log, place: Place, durability: Durability, unflushed: set[Journal[Any]]) -> None:
        """Continue in a store's log, which holds the same events; `store.adopt` uses this."""
        self._writer.move_to(log, place, durability, unflushed)
        self._source.live.attachment = attachment_of(self._writer, self._attachment.system)
        self._forget_shown()
        watch(log, self)

    def adopted_events(self, stream: str, *, root: str) -> list[NewEvents]:
        """Return the events that a store must append to store this detached context as `stream`."""
        return adopted_events(self._writer.log, self.stream_id, stream, root=root)

    # Recording

    def _record(
        self,
        command: object,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        *,
        catch_up: bool = False,
        call: object = None,
    ) -> Outcome:
        """
        Decide on the folded state, which is read first if it is not in memory, and record the events.

        Raises:
            ReadOnlyError: this is a view.
        """
        writer = self._writer
        _ = writer.state
        with self._trace.recording():
            return writer.execute(
                command,
                call=call,
                expected_version=expected_version,
                idempotency_key=idempotency_key,
                catch_up=catch_up,
            )

    # The past

    def version_at(self, moment: int | str | datetime | Moment) -> int:
        """
        Return the version that an address means: a version, a time, a position of the log, or a name.

        An int is a version, negative from the head (-1: the version before it); an aware datetime, or ISO
        text with a zone, a time; a day its end, UTC; `"pos:P"` a position; any other text a name.

        Raises:
            NotFoundError: no such version or name.
            InvalidInputError: the text is none of these, or a time without a zone.
        """
        self.flush()
        journal = self._journal
        if not isinstance(moment, int):
            journal.require_known()
        stream, head, names = journal.place.stream, journal.version, lambda: journal.state.names
        return resolve_version(journal.log, stream, moment, head=head, names=names, find=self._find)

    # Returns the version of an item; only chats have it.
    _find: Find | None = None

    def name_version(
        self,
        name: str,
        version: int | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """
        Give a version (the present one by default) a name, and return the version.

        Naming another version with the same name moves it. A call repeated under an idempotency key returns the version
        that was named the first time.

        Raises:
            InvalidInputError: the name does not start with a letter, or holds `@`, `:`, `..` or a blank.
            NotFoundError: there is no such version.
        """
        self._require_writer()
        named = self.version if version is None else require_whole(version, "the version", least=None)
        if not 0 < named <= self.version:
            raise NotFoundError(
                f"{self.stream_id} has no version {named}: "
                + (f"it goes from 1 to {self.version}" if self.version else "nothing is recorded in it yet")
            )
        call = ("name_version", name, version)
        outcome = self._record(NameVersion(name, named), expected_version, idempotency_key, catch_up=True, call=call)
        first: Any = outcome.events[0] if outcome.replayed and outcome.events else None
        return named if first is None else int(first.version)

    def names(self) -> dict[str, int]:
        """Return the names given so far and their versions."""
        return dict(self._source.live.state.names)

    def recorded_events(self, *, after: int = 0, until: int | None = None) -> list[RecordedEvent]:
        """
        Return the recorded events: versions above `after`, up to and including `until`.

        Raises:
            InvalidInputError: `after` or `until` is no version.
        """
        require_whole(after, "after")
        require_limits(until=until)
        self.flush()
        journal = self._journal
        return journal.log.read(journal.place.stream, after=after, until=until, known=journal.known)

    # Other writers, and the disk

    def refresh(self) -> tuple[RecordedEvent, ...]:
        """
        Read the events that others recorded, and return them; none while a transaction changes this context.

        Raises:
            LogWentBackError: the database does not have events that this view shows, as after the restore of an older
                copy. The view is unchanged; after `cleanup()` it continues from the present database.
        """
        return self._journal.refresh()

    def rebase(self, change: Callable[[Self], T]) -> T:
        """
        Refresh, run `change(self)`, and repeat this as long as another writer comes first.

        Raises:
            InvalidInputError: the change is async.
            ConcurrencyError: another writer came first a hundred times, or the change expects a version that the
                context has not reached.
        """
        require_callable(change, "the change")
        result: T = self._writer.retry(lambda: require_done(change(self), AWAITED))
        return result

    def cleanup(self) -> None:
        """
        Drop the state of this view, and record nothing; the next use reads the context again from the log.

        So a context can continue after its database went back (LogWentBackError).

        To remove all items, use `clear()`.
        """
        self._writer.forget()
        self._forget_shown()

    def flush(self) -> None:
        """
        Wait until all queued events are on disk; does nothing with durability "commit".

        Raises:
            RefoldError: events were refused; it has them as `refused`, and the view was reset to the state on disk.
        """
        self._journal.flush()

    async def aflush(self) -> None:
        """`flush()` for a running event loop."""
        await in_thread(self.flush)
