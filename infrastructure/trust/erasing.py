"""
Erasing: how selected texts leave the log, all data that was made from it, and the bytes of the database.

The events of the log change in the transaction that records the erasure, so it has happened as a whole, or not at all.
Data made from events follows: rows, indexes, memory, bytes of old rows. Another event says when that is done. A
process that was killed between the two leaves an unfinished erasure, and the next one that opens the store finishes it.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from ...domain.arguments import require_optional
from ...domain.canonical import require_unicode
from ...domain.clock import System
from ...domain.context.decider import Decider
from ...domain.context.description import counted
from ...domain.context.folded_stream import Place
from ...domain.context.journal import Journal
from ...domain.context.transaction import require_no_transaction
from ...domain.erasure import forgetting
from ...domain.erasure.events import (
    STREAM,
    ErasureEvent,
    ErasureFinished,
    Erasures,
    StoreErased,
    contexts_owned,
    decide,
    erased_events,
    events_of_store,
    fold,
    subject_hash,
)
from ...domain.erasure.foreign_erasures import note_own
from ...domain.erasure.skeleton import ERASED, Mask
from ...domain.errors import (
    ConcurrencyError,
    HeldError,
    InvalidInputError,
    NotFoundError,
    ProjectionError,
    RefoldError,
    StorageError,
)
from ...domain.ids import encoded_id, split_stream_id, stream_id
from ...domain.log.envelope import acting, acting_actor, current_meta
from ...domain.log.ports import LiveLog, NewEvents
from ...domain.positions import BEGINNING
from ...domain.trajectory.identity import run_id_of
from ...projections.catalogue import CATALOGUE
from ...projections.contract import Projection
from ...projections.lineage import LINEAGE
from ..context_streams import context_named
from ..projecting.folding import FAULT
from ..projecting.partitions import forget_partitions
from ..projecting.runner import ProjectionRunner
from ..projecting.shadow import shadow_of
from ..projecting.store import ProjectionStore, kept_by
from .receipts import Receipt, Signer, receipt_of
from .selection import Sealed, Selection, is_folded, item_versions, reached

ERASURES: Decider[Erasures] = Decider(decide, fold, Erasures(), is_opened=False)
# Each event that others record in a held context meanwhile costs an attempt, too.
ATTEMPTS_MAX = 100
SALT_BYTES = 16
# How many of the last events of the stream are read when a store is opened: an unfinished erasure is among them.
RECENT_EVENTS = 64
# Places that no erasure of a store reaches.
OUTSIDE = ("exports, copies and backups that were made before", "objects, texts and logs of programs that read them")
UNFINISHED = (
    "{}. The texts are erased from the log already, and not from all that was made of it: the next program that opens"
    " the store to write does that. There is no receipt"
)
BROKEN_OFF = (
    "{}. Texts of {:,} events are erased from the log already, and not from all that was made of it; others are not"
    " erased: call it again, which does the rest. There is no receipt"
)
CUT_OFF = "what others made of the texts meanwhile, as the process ended before it looked for that: erase again"
LOGGER = logging.getLogger("refold")


@runtime_checkable
class DestroysKeys(Protocol):
    """A log that encrypts what it stores, with keys of each user."""

    def streams_of_user(self, user: str) -> tuple[set[str], set[str]]:
        """Return the streams that are encrypted with keys of a user, and the streams whose user nobody can find out."""

    def newest_key(self, user: str) -> str:
        """Return the id of the newest key of a user."""

    def retire_keys(self, user: str) -> None:
        """Retire the keys of a user: a new key encrypts the next events, and what erasures leave of earlier ones."""

    def close_retired_keys(self) -> None:
        """Close retired keys: from now on, the log refuses events that are encrypted with them."""

    def destroy_retired_keys(self) -> int:
        """Close retired keys, destroy those that encrypt no event any more, and return how many were destroyed."""


class ErasedContext(msgspec.Struct, frozen=True):
    """A context, and the number of its events whose texts are erased."""

    context: str
    events: int


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """
    The result of an erasure, or (`is_dry_run`) of one that was not made.

    `held` are contexts that must be kept and would lose texts: such an erasure is refused. `copies` are other events
    with the same texts, at most 100 of `copied`; they stay. `mentions` are events with the name of the user in a text
    of somebody else, or in a name that stays, at most 100 of `mentioned`. `unreached` says where texts may still be.
    `receipt` proves the erasure without naming anybody; a dry run has none.
    """

    is_dry_run: bool
    scope: str
    contexts: tuple[ErasedContext, ...]
    events: int
    held: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    copied: int = 0
    mentions: tuple[str, ...] = ()
    mentioned: int = 0
    unreached: tuple[str, ...] = ()
    receipt: Receipt | None = None


class ErasureRequest(NamedTuple):
    """
    The reason, and what is to be erased: a user, contexts, or an item (of a context, or a `stream@version`).

    `check` raises an error if the contexts have changed; with it, events that others record meanwhile are not erased.
    """

    why: str
    user: str | None = None
    contexts: Sequence[str] | None = None
    item: str | None = None
    check: Callable[[], None] | None = None


class Eraser:
    """Erases from one store."""

    def __init__(self, log: LiveLog, runner: ProjectionRunner, rows: ProjectionStore, system: System) -> None:
        self._log, self._runner, self._rows, self._system = log, runner, rows, system
        version, digest = log.end(STREAM)
        self.journal: Journal[Erasures] = Journal(log, Place(STREAM, STREAM), ERASURES, version=version, digest=digest)

    @property
    def state(self) -> Erasures:
        """The present holds, policies, unfinished erasures and archives."""
        self.journal.refresh()
        return self.journal.state

    def record(self, event: ErasureEvent) -> None:
        """Record an event of the store, unless it changes nothing; in a transaction it is refused."""
        require_no_transaction(self._log, "nothing is held, released or retained")
        _ = self.state
        self.journal.execute(event)

    def erase(self, wanted: ErasureRequest, *, dry_run: bool = True, signer: Signer | None = None) -> Erasure:
        """
        Erase what is wanted, or return what would be erased.

        Raises:
            InvalidInputError: not exactly one thing is wanted, no reason is given, or a transaction is open.
            NotFoundError: there is no such context or item, or nothing of the user.
            HeldError: a context that must be kept would lose texts.
            StorageError: the database refused. If texts are erased from the log already, the message says so.
        """
        # The event of the erasure must not name a user who erases their own texts.
        is_own = wanted.user is not None and acting_actor() == wanted.user
        with acting(actor=ERASED if is_own else None):
            return self._erase(wanted, dry_run, signer)

    def _erase(self, wanted: ErasureRequest, dry_run: bool, signer: Signer | None) -> Erasure:
        scopes = {"user": wanted.user, "context": wanted.contexts, "item": wanted.item}
        given = [name for name, value in scopes.items() if value is not None]
        if given not in (["user"], ["context"], ["item"], ["context", "item"]):
            raise InvalidInputError("say what is to be erased: user=, context=, or item= with its context")
        scope = given[-1]
        require_reason(wanted.why)
        if wanted.user is not None and not require_unicode(wanted.user, "the user"):
            raise InvalidInputError("the user is empty: give the name of one")
        require_optional(wanted.item, "the item")
        require_no_transaction(self._log, "nothing is erased")
        if not dry_run and (left := self.state.unfinished):
            # Rows may still have texts that an earlier call took out of the log; this selection does not find them.
            self.finish(left)
        salt = secrets.token_bytes(SALT_BYTES)
        mask = Mask(wanted.user, salt)
        selection = self._selected(wanted, mask)
        selection.complete()
        held = self.held(selection)
        if dry_run:
            return _erasure(scope, [*selection.sealed()], selection, held)
        if held:
            raise HeldError(held)
        erasure, user = self._system.new_id("erasure-"), wanted.user
        event = StoreErased(erasure=erasure, scope=scope, why=wanted.why, erased=())
        if user is not None:
            event = replace(event, subject=subject_hash(user, salt), salt=salt)
        keys = self._log if user is not None and isinstance(self._log, DestroysKeys) else None
        if user is not None and keys is not None:
            keys.retire_keys(user)
            _use_newest_key(selection, keys, user)
        done: list[Sealed] = []
        self._replace(wanted, selection, event, done)
        late = 0
        if keys is not None:
            with _unfinished():
                # Closing keys waits for other processes, and rows must not have the texts for so long.
                self._remove_derived(self.made_of(done))
                keys.close_retired_keys()
            late = len(done)
            # Other processes may have recorded events with these keys until they were closed.
            self._replace(wanted, selection, event, done)
        with _unfinished():
            unreached = self.finish([erasure], self.made_of(done[late:]))
        unreached += (
            *self._archives_of(done),
            *self._unknown_contexts(user),
            *selection.unreached(),
            *self._ids_with_name(user),
            *OUTSIDE,
        )
        actor, end = current_meta(default_actor=None, idempotency_key=None).actor, self._log.end(STREAM)
        now = self._system.now()
        receipt = receipt_of(event, done, actor=actor, erased_at=now, end=end, unreached=unreached, signer=signer)
        return replace(_erasure(scope, done, selection), is_dry_run=False, unreached=unreached, receipt=receipt)

    # What is taken

    def _selected(self, wanted: ErasureRequest, mask: Mask) -> Selection:
        selection = Selection(self._log, mask, archived=self.state.archives.keys())
        selection.lost = set()
        if wanted.user is not None:
            selection.take_whole(self._streams_of(wanted.user))
            if not selection.whole:
                none = f"there is no context of the user {wanted.user!r}"
                raise NotFoundError("; ".join([none, *self._unknown_contexts(wanted.user)]))
            return selection
        streams = [context_named(self._log, one) for one in wanted.contexts or ()]
        if wanted.item is None:
            selection.whole.update(streams)
            if wanted.check is not None:
                selection.ends = {stream: self._log.head(stream) for stream in streams}
        else:
            selection.versions = item_versions(self._log, [*streams, *self._sources(streams)], wanted.item)
        return selection

    def _streams_of(self, user: str) -> set[str]:
        """Return the contexts of a user, and the scopes of the user's memory."""
        streams = {row.key for row in self._runner.rows(CATALOGUE) if row.user == user}
        for scope in (user, f"user:{user}", f"user/{user}"):
            # A name that is too long for an id has no memory.
            with suppress(InvalidInputError):
                memory = stream_id("memory", encoded_id(scope, "the user"))
                streams |= {memory} if self._log.head(memory) else set()
        streams |= contexts_owned(self._log.read_events(STREAM), user)
        streams |= {stream for stream in self._log.streams("run:") if _is_run_of(stream, user)}
        if isinstance(self._log, DestroysKeys):
            owned, lost = self._log.streams_of_user(user)
            streams |= owned
            # Nobody can read those whose keys are gone. If there are no others, reading them says why.
            streams = streams - lost or streams
        return streams

    def _sources(self, streams: Iterable[str]) -> list[str]:
        """Return the contexts from which these took something, and those from which they did."""
        return reached(streams, ((row.target, row.source) for row in self._runner.rows(LINEAGE)))

    def takers(self, streams: Iterable[str]) -> list[str]:
        """Return the contexts that took something from these, and those that took from them."""
        return reached(streams, ((row.source, row.target) for row in self._runner.rows(LINEAGE)))

    def held(self, selection: Selection) -> list[str]:
        """Return the contexts that must be kept and show something that is to be erased."""
        held = self.state.held
        return sorted(held.keys() & {*selection.streams, *self.takers(selection.streams)}) if held else []

    def shown_in(self, contexts: Collection[str]) -> set[str]:
        """Return the contexts of which these may show something, themselves included."""
        return {*contexts, *self._sources(contexts)}

    def _archives_of(self, done: Iterable[Sealed]) -> Iterator[str]:
        """
        Say which archives still have texts that were erased, and that can never come back from there. Such a file may
        be the only place with the texts of other contexts, or with the other texts of the same ones.
        """
        archives, gone = self.state.archives, set[str]()
        for event in self._log.read_events(STREAM):
            if isinstance(event, StoreErased):
                archived = {one.stream for one in event.erased} if event.scope == "archive" else set()
                gone = gone - archived | {*event.whole}
        for file in sorted(
            {archives[stream].file for stream in {one.remnant.stream for one in done} & archives.keys()}
        ):
            left = sum(one.file == file and stream not in gone for stream, one in archives.items())
            first = f"take {counted(left, 'context')} with other texts back (unarchive), then " if left else ""
            yield f"the archive {file}, from which nothing of it comes back: {first}delete it"

    def _unknown_contexts(self, user: str | None) -> list[str]:
        """Say how many contexts may be those of a user, which nobody can find out."""
        if user is None or not isinstance(self._log, DestroysKeys):
            return []
        _, lost = self._log.streams_of_user(user)
        if not lost:
            return []
        what = "whose keys are not in the table data_key, or were changed there: nobody knows whose they are"
        return [f"{counted(len(lost), 'context')} {what}"]

    def _ids_with_name(self, user: str | None) -> list[str]:
        """Say how many ids of contexts have the name of a user; no erasure changes an id."""
        count = 0 if user is None else sum(user in stream for stream in self._log.streams())
        return [f"the user's name in the id of {counted(count, 'context')}"] if count else []

    # How it leaves

    def _replace(self, wanted: ErasureRequest, selection: Selection, event: StoreErased, done: list[Sealed]) -> None:
        """
        Replace the events in the log, also those that others record meanwhile; `done` gets what is left of each.

        Raises:
            StorageError: some are replaced, and others not.
            RefoldError: none is.
        """
        try:
            self._replace_all(wanted, selection, event, done)
        except RefoldError as error:
            if not done:
                raise
            raise StorageError(BROKEN_OFF.format(error, len(done))) from error

    def _replace_all(
        self, wanted: ErasureRequest, selection: Selection, event: StoreErased, done: list[Sealed]
    ) -> None:
        for _ in range(ATTEMPTS_MAX):
            # Others may have made something of the texts meanwhile; after the erasure nobody can read them.
            selection.complete()
            left = [*selection.sealed()]
            if not left:
                return
            seals = [(one.remnant.stream, one.remnant.version, one.seal) for one in left]
            events = [
                replace(one, whole=tuple(part.stream for part in one.erased if part.stream in selection.whole))
                for one in erased_events(event, seals)
            ]
            if wanted.check is not None and not done:
                wanted.check()
            # A held context must not go on meanwhile: a merge may bring into it what is to be erased.
            holds, head = self.state.held, self._log.head
            kept = [NewEvents(stream=one, expected_version=head(one), events=(), metas=()) for one in holds if not done]
            new = events_of_store(events, self.journal.version)
            if not done and (held := self.held(selection)):
                raise HeldError(held)
            try:
                self._log.erase([one.remnant for one in left], [new, *kept])
            except ConcurrencyError:
                continue
            done += left
            # The archived events are named now; nothing else is to be done about them.
            selection.archived = ()
            if wanted.user is not None:
                selection.take_whole(self._streams_of(wanted.user))
                if isinstance(self._log, DestroysKeys):
                    # Another erasure of the user may have retired the key, and made the next one.
                    _use_newest_key(selection, self._log, wanted.user)
        raise StorageError("others recorded all the time what was to be erased: try again when they pause")

    def made_of(self, done: Iterable[Sealed]) -> list[Projection]:
        """Return the projections whose rows were made of erased events."""
        return [one for one in self._runner.projections.values() if any(is_folded(one, each) for each in done)]

    def finish(
        self, erasures: Iterable[str], made: Iterable[Projection] | None = None, unreached: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """
        Remove erased texts from all that is made from events, and record that, by the ids of the erasures; `made` are
        the projections concerned, by default all. Return where texts may still be, with what is `unreached` already.

        Raises:
            StorageError: the database refused; the next process that opens the store tries again.
        """
        self._remove_derived([*self._runner.projections.values()] if made is None else [*made])
        if isinstance(self._log, DestroysKeys):
            self._log.destroy_retired_keys()
        unreached = (*unreached, *self._log.scrub())
        for erasure in erasures:
            self.record(ErasureFinished(erasure=erasure, unreached=unreached))
        note_own(self._log, self._log.head(STREAM))
        return unreached

    def _remove_derived(self, made: Sequence[Projection]) -> None:
        """Drop erased texts from memory, and make rows anew that were made of them."""
        self._log.forget()
        forgetting.forget(self._log)
        if kept_by(self._rows) is self._rows:
            self._make_anew(made)

    def finish_what_is_left(self) -> None:
        """Finish the erasures that a process left unfinished; if the database refuses, the next opening tries again."""
        try:
            version = self._log.head(STREAM)
            recent: Any = self._log.read_events(STREAM, after=max(0, version - RECENT_EVENTS))
            unfinished = fold(Erasures(), recent).unfinished
            if unfinished:
                self.finish(unfinished, unreached=(CUT_OFF,))
                LOGGER.warning("an erasure that was cut off is finished; it has not reached %s", CUT_OFF)
        except RefoldError as error:
            LOGGER.warning("whether an erasure is finished will be looked at when the store is opened again: %s", error)

    def _make_anew(self, made: Sequence[Projection]) -> None:
        """Drop the rows that were made of erased events, and make them again where there were some."""
        self._rows.note_erasure()
        used = [one for one in made if self._has_rows(one)]
        for one in made:
            # In this order: another process may be making the shadow of the partitions, and the rows of the shadow.
            forget_partitions(self._rows, one)
            self._rows.drop(shadow_of(one))
            self._rows.drop(one)
        # The reason why a projection stopped may have a text of the event. This program may not know the projection.
        for name, noted in self._rows.notes(FAULT).items():
            self._rows.set_note(name, before=noted, after=None)
        self._rows.drop_others(*self._runner.projections.values())
        if used:
            # A projection that stops reports its event when its rows are asked for. No row of an erased event is left.
            with suppress(ProjectionError):
                self._runner.catch_up(*used)

    def _has_rows(self, projection: Projection) -> bool:
        with suppress(RefoldError):
            return self._rows.checkpoint(projection) != BEGINNING
        return True


def require_reason(why: str) -> None:
    """
    Require a reason for what is erased, archived or kept for a time.

    Raises:
        InvalidInputError: it is no text, or an empty one.
    """
    if not require_unicode(why, "why").strip():
        raise InvalidInputError("say why: the reason is recorded, so name no person in it")


def contexts_of(streams: Iterable[str]) -> tuple[ErasedContext, ...]:
    """Return contexts with the number of their events, given the stream of each event."""
    return tuple(ErasedContext(stream, count) for stream, count in sorted(Counter(streams).items()))


def _erasure(scope: str, left: Sequence[Sealed], selection: Selection, held: Sequence[str] = ()) -> Erasure:
    return Erasure(
        is_dry_run=True,
        scope=scope,
        contexts=contexts_of(one.remnant.stream for one in left),
        events=len(left),
        held=tuple(held),
        copies=tuple(selection.copies),
        copied=selection.copied,
        mentions=tuple(selection.mentions),
        mentioned=selection.mentioned,
    )


def _use_newest_key(selection: Selection, keys: DestroysKeys, user: str) -> None:
    selection.new_key = keys.newest_key(user)
    selection.renewed, _ = keys.streams_of_user(user)


@contextmanager
def _unfinished() -> Iterator[None]:
    """Add to an error of the database that the texts have left the log, and that the next program does the rest."""
    try:
        yield
    except StorageError as error:
        raise StorageError(UNFINISHED.format(error)) from error


def _is_run_of(stream: str, user: str) -> bool:
    with suppress(InvalidInputError):
        return run_id_of(split_stream_id(stream)[1]).user_id == user
    return False
