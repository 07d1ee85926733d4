"""
The errors Refold raises, grouped by what the caller can do about them.

    RefoldError
    ├── RefusedError                 the request is wrong: change it
    │   ├── InvalidInputError        a value that cannot be taken (also a ValueError)
    │   ├── NotFoundError            no such stream, version, name or item (also a KeyError)
    │   │   ├── ContextNotFoundError  no context has this name
    │   │   └── MissingFieldError    a field is missing in plain data (also an InvalidInputError)
    │   ├── DuplicateItemError       another item already has this id
    │   ├── DecisionRefusedError     the rules of the context forbid it
    │   │   ├── ReadOnlyError        a view that can be read only was asked to change (also a RuntimeError)
    │   │   ├── PendingCallsError    calls have no output, and the request was to be refused then
    │   │   ├── ApprovalPendingError  the call waits for a person's decision: make it first
    │   │   ├── HeldError            contexts that must be kept were to be erased: release them first
    │   │   └── CallSettledError     the call has another output, or another decision was made on it
    │   ├── IdempotencyError         the idempotency key stands for another call
    │   ├── NotAllowedError          the actor may not do this: ask somebody who may (also a PermissionError)
    │   │   └── ActorMissingError    the store takes changes only of an actor, and none is set
    │   └── LimitExceededError       a named limit was reached
    ├── ConcurrencyError             somebody else wrote first: refresh and try again
    │   └── CheckpointSupersededError  another run of a framework went on from a checkpoint: load the newest one
    ├── StorageError                 the database said no: look at it, then try again
    │   ├── StorageBusyError         locked for longer than the wait that was allowed
    │   ├── StorageFullError         no room left on the disk
    │   ├── StorageReadOnlyError     the file or its folder cannot be written
    │   ├── StorageUnavailableError  missing, unreachable or not a Refold database
    │   ├── StorageClosedError       used after close()
    │   └── LogWentBackError         an older copy took its place, or its file was taken away: look what is gone
    ├── KeyUnavailableError          a key of a store cannot be used: provide the right one
    │   ├── KeyMissingError          no key of this name is there
    │   ├── WrongKeyError            the key of this name is another one, or the bytes under it were changed
    │   └── KeyDestroyedError        the key was destroyed on purpose: its subject was erased
    ├── ProjectionError              an event that a projection cannot fold: mend the projection, and rebuild it
    └── DamagedError                 stored bytes are not what was written: repair or restore
        ├── DamagedFileError         those of a backup or an archive, not of the store: take another copy of the file
        └── TamperedError            the store is another one than its witness saw: somebody changed it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

MESSAGE_CHARACTERS_MAX = 2_000
# Python raises these if a stored value has another shape than the code expects.
MISSHAPEN = (LookupError, TypeError, ValueError, AttributeError)
LOST_NAMED = 5
CALLS_NAMED = 5


class RefoldError(Exception):
    """
    The root of every error that Refold raises on purpose; all of them can be sent to another process.

    A message that contains a long text is shortened in the middle; attributes are complete. `refused` are the queued
    events that were not recorded because of it.
    """

    refused: tuple[Any, ...] = ()

    def __init__(self, *args: object) -> None:
        super().__init__(*[_shortened(one) if isinstance(one, str) else one for one in args])

    def __reduce__(self) -> tuple[Any, ...]:
        # `Exception.__reduce__` would call the class with only the message.
        return _received, (type(self), self.args, self.__dict__)


def _shortened(message: str) -> str:
    if len(message) <= MESSAGE_CHARACTERS_MAX:
        return message
    left_out = len(message) - MESSAGE_CHARACTERS_MAX
    # Both ends are kept: a message begins with the fault and ends with the remedy.
    half = MESSAGE_CHARACTERS_MAX // 2
    return f"{message[:half]} ... ({left_out:,} characters left out) ... {message[-half:]}"


def shown(value: object) -> str:
    """Return the repr of a value for a message; of one that is nested too deep, its type."""
    try:
        return repr(value)
    except RecursionError:
        return f"a {type(value).__name__}"


def first_named(names: Sequence[str], most: int) -> str:
    """Return the first names for a message, at most so many, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def reason_of(error: BaseException) -> str:
    """Return the text of an error for a message; of one without a text, its type."""
    return str(error) or type(error).__name__


def _received(kind: type[RefoldError], args: tuple[object, ...], fields: dict[str, object]) -> RefoldError:
    # `__init__` would build the message again, from arguments that are not there any more.
    error = kind.__new__(kind, *args)
    # An error that is also an OSError takes its arguments only in `__init__`.
    error.args = args
    error.__dict__.update(fields)
    return error


class RefusedError(RefoldError):
    """The request cannot be carried out in its present form; nothing was changed."""


class InvalidInputError(RefusedError, ValueError):
    """An invalid value; the message names it and describes a valid one."""


class NotFoundError(RefusedError, KeyError):
    """A name, id, version or position that was asked for does not exist."""

    def __str__(self) -> str:
        # KeyError would show the message in quotation marks.
        return str(self.args[0]) if self.args else ""


class ContextNotFoundError(NotFoundError):
    """
    No context has the name `name`, or none of the `kinds`; empty for any kind. Some names that are `near` may be meant.
    """

    def __init__(self, name: str, kinds: Sequence[str] = (), *, near: Sequence[str] = ()) -> None:
        self.name, self.kinds, self.near = name, tuple(kinds), tuple(near)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        super().__init__(f"{self.fault}: {meant}`refold contexts` lists them")

    @property
    def fault(self) -> str:
        """The fault alone, for readers to whom the advice to use the command line is of no help."""
        first, last = ", ".join(self.kinds[:-1]), self.kinds[-1:]
        return f"there is no {' or '.join(filter(None, (first, *last))) or 'context'} {self.name!r}"


class MissingFieldError(NotFoundError, InvalidInputError):
    """A field is missing in plain data; the message names its place."""


class DuplicateItemError(RefusedError):
    """The id of an item belongs to another item with other content."""

    def __init__(self, stream: str, item_id: str, *, is_evicted: bool = False) -> None:
        self.stream, self.item_id = stream, item_id
        what = f"{stream} already has another item with the id {item_id!r}; give this one an id of its own"
        if is_evicted:
            what = f"{stream} has the item {item_id!r} already, but it left the view: restore it, or give it another id"
        super().__init__(what)


class DecisionRefusedError(RefusedError):
    """The rules of the context forbid the command in its present state."""


class ReadOnlyError(DecisionRefusedError, RuntimeError):
    """A change was requested of a view that can only be read."""


class HeldError(DecisionRefusedError):
    """`contexts` must be kept, and a part of them was to be erased; nothing was changed."""

    def __init__(self, contexts: Sequence[str]) -> None:
        self.contexts = tuple(contexts)
        named = first_named(self.contexts, CALLS_NAMED)
        super().__init__(f"{named} must be kept, and what was to be erased is shown there: `refold hold` releases it")


HAND_IN_OUTPUTS = (
    "run what pending_calls() lists and hand it in with answer_call(), or convert with pending='omit' or 'stub'"
)


class PendingCallsError(DecisionRefusedError):
    """`calls`, each a PendingCall, have no output, and the conversion was to refuse them (`pending="refuse"`)."""

    def __init__(self, calls: Sequence[Any]) -> None:
        self.calls = tuple(calls)
        named = first_named([f"{one.name} ({one.call_id})" for one in self.calls], CALLS_NAMED)
        super().__init__(f"no output is recorded for {named}: {HAND_IN_OUTPUTS}")


class ApprovalPendingError(DecisionRefusedError):
    """The call `call_id` of `stream` waits for a decision, which was asked for at `version`; it has no output yet."""

    def __init__(self, stream: str, call_id: str, version: int) -> None:
        self.stream, self.call_id, self.version = stream, call_id, version
        super().__init__(
            f"the call {call_id!r} of {stream} waits for a decision since version {version}: approve, change or reject "
            "it with chat.approvals, or refresh() if somebody did so elsewhere; add_function_output() records an "
            "output all the same"
        )


class CallSettledError(DecisionRefusedError):
    """The call `call_id` of `stream` is settled already: it has another output, or another decision was made on it."""

    def __init__(self, stream: str, call_id: str, reason: str) -> None:
        self.stream, self.call_id = stream, call_id
        super().__init__(f"the call {call_id!r} of {stream} {reason}")


class IdempotencyError(RefusedError):
    """
    The idempotency key of `stream` belongs to another call.

    `recorded` are the events of that call, with their envelopes. `refused` are the events of queued calls that were not
    recorded.
    """

    def __init__(self, stream: str, key: str, recorded: Sequence[Any], *, refused: Sequence[object] = ()) -> None:
        self.stream, self.key = stream, key
        self.recorded, self.refused = tuple(recorded), tuple(refused)
        events = [f"{one.event.__struct_config__.tag} at version {one.version}" for one in self.recorded]
        super().__init__(
            f"the idempotency key {key!r} of {stream} stands for another call, which recorded "
            f"{first_named(events, 3)}: take another key, or repeat the same call"
        )


class NotAllowedError(RefusedError, PermissionError):
    """`actor` (None: not set) may not do `action` with `context` (None: with the whole store); nothing was changed."""

    def __init__(self, actor: str | None, action: str, context: str | None) -> None:
        self.actor, self.action, self.context = actor, action, context
        named = "nobody (no actor is set)" if actor is None else repr(actor)
        where = context or "in the whole store"
        super().__init__(f"{named} may not {action} {where}: the allow() of this store says no")


class ActorMissingError(NotAllowedError):
    """The store takes changes only of an actor (`acting="required"`), and none is set."""

    def __init__(self, action: str, context: str | None) -> None:
        self.actor, self.action, self.context = None, action, context
        RefoldError.__init__(
            self,
            f"{action} of {context or 'the store'} has no actor, and this store requires one: "
            "make the call within `with refold.acting(actor=...):`",
        )


class LimitExceededError(RefusedError):
    """A named limit was reached."""

    def __init__(self, limit: str, *, allowed: int, actual: int) -> None:
        self.limit, self.allowed, self.actual = limit, allowed, actual
        super().__init__(f"{limit} is {allowed:,}, and this would take {actual:,}")


class ConcurrencyError(RefoldError):
    """Another writer came first: `stream` is at `actual`, not at `expected`."""

    def __init__(
        self,
        stream: str,
        *,
        expected: int,
        actual: int,
        refused: Sequence[object] = (),
        remedy: str = "refresh() and decide again, or use rebase(fn)",
    ) -> None:
        self.stream, self.expected, self.actual = stream, expected, actual
        self.refused = tuple(refused)
        if self.is_ahead:
            super().__init__(
                f"{stream} is at version {actual} and has no version {expected} yet: "
                "expected_version is the version that the context had when you decided"
            )
            return
        super().__init__(f"{stream} is at version {actual}, this was decided on version {expected}: {remedy}")

    @property
    def is_ahead(self) -> bool:
        """Whether a version was expected that the stream has not reached; trying again does not help."""
        return self.expected > self.actual


class CheckpointSupersededError(ConcurrencyError):
    """
    A run of a framework goes on from `checkpoint`, and `newest` was saved since; None stands for no checkpoint.

    Nothing was recorded.
    """

    def __init__(self, stream: str, checkpoint: str | None, newest: str | None) -> None:
        self.stream, self.checkpoint, self.newest = stream, checkpoint, newest
        self.expected, self.actual, self.refused = 0, 0, ()
        began = f"from checkpoint {checkpoint}" if checkpoint else "without a checkpoint"
        now = f"{newest} was saved since" if newest else "all checkpoints were deleted since"
        RefoldError.__init__(
            self,
            f"a run went on {began} of {stream}, and {now}: another run works on it; load the newest checkpoint and "
            "run again, or name the checkpoint to branch off",
        )


class StorageError(RefoldError):
    """The database could not do what was asked; `refused` holds the events that were not recorded."""

    def __init__(self, message: str, *, refused: Sequence[object] = ()) -> None:
        self.refused = tuple(refused)
        super().__init__(message)


class StorageBusyError(StorageError):
    """The database, or a context in a transaction of another thread, stayed locked for longer than the allowed wait."""


class StorageFullError(StorageError):
    """There is no space left on the disk."""


class StorageReadOnlyError(StorageError):
    """The database, its file or the folder of the file cannot be written."""


class StorageUnavailableError(StorageError):
    """The database is missing, cannot be reached, or is not one of Refold's."""


class StorageClosedError(StorageError):
    """The store was used after it was closed."""


class Lost(NamedTuple):
    """An acknowledged event that is gone: `stream@version`, and the event if this process still has it."""

    reference: str
    event: object | None = None


class LogWentBackError(StorageError):
    """
    The database lacks events that it had acknowledged to this process, for example after an older copy was restored.

    `stream` (empty if the log as a whole is meant) was acknowledged at version `acknowledged`, and the database has
    `found`. `lost` lists the events that this process knows to be gone, with their content if it still has it. Nothing
    was recorded, and views are unchanged; after `cleanup()` a context continues from the state of the database.
    """

    def __init__(
        self,
        where: str,
        *,
        stream: str = "",
        acknowledged: int = 0,
        found: int = 0,
        lost: Sequence[Lost] = (),
        reason: str = "it lacks what it had acknowledged",
        remedy: str = "cleanup() the context, or open it again, to go on from what there is",
    ) -> None:
        self.where, self.stream, self.acknowledged, self.found = where, stream, acknowledged, found
        self.lost = tuple(lost)
        if stream:
            there = f"is at version {found}" if found < acknowledged else "has another event there"
            reason = f"{stream} was at version {acknowledged}, and {there} now"
        gone = f" (gone: {first_named([one.reference for one in self.lost], LOST_NAMED)})" if lost else ""
        super().__init__(f"{where} went back: {reason}{gone}; {remedy}")


class ProjectionError(RefoldError):
    """A projection cannot fold an event, `stream@version`: it stops before it, and other projections continue."""

    def __init__(self, projection: str, event: str, reason: str) -> None:
        self.projection, self.event, self.reason = projection, event, reason
        super().__init__(
            f"the projection {projection} cannot fold {event}: {reason}; mend the projection, then rebuild it"
        )


class KeyUnavailableError(RefoldError):
    """A store cannot be read or written without `key`, the name of a key; nothing was changed."""

    key = ""


OPEN_WITH_KEYS = "open the store with the keys that it was made with"


class KeyMissingError(KeyUnavailableError):
    """There is no key named `key` in `where`."""

    def __init__(
        self,
        key: str,
        where: str,
        *,
        reason: str = "",
        remedy: str = OPEN_WITH_KEYS,
    ) -> None:
        self.key, self.where = key, where
        missing = reason or f"the key {key!r} is not in {where}"
        super().__init__(f"{missing}: {remedy}")


class WrongKeyError(KeyUnavailableError):
    """Data that was encrypted with the key named `key` cannot be decrypted with the key that has this name now."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(
            f"what was encrypted with the key {key!r} does not open with it: give the keys that the store was made"
            " with, or restore it from a copy if its bytes were changed"
        )


class KeyDestroyedError(KeyUnavailableError):
    """The key named `key` was destroyed when its subject was erased; what it encrypted cannot be read any more."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the key {key!r} was destroyed, since its subject was erased: nobody can read this any more")


class DamagedError(RefoldError):
    """Stored bytes do not match their digest or cannot be read; `what` names them, and `remedy` is the advice."""

    _verdict: ClassVar[str] = "is damaged"

    def __init__(self, what: str, reason: str, *, remedy: str = "restore it from a copy, nothing was changed") -> None:
        self.what, self.reason, self.remedy = what, reason, remedy
        super().__init__(f"{what} {self._verdict}: {reason}; {remedy}")


class DamagedFileError(DamagedError):
    """The file of a backup or an archive, which `what` names, is not as it was written; the store may be whole."""

    def __init__(
        self, what: str, reason: str, *, remedy: str = "take another copy of the file, nothing was changed"
    ) -> None:
        super().__init__(what, reason, remedy=remedy)


class TamperedError(DamagedError):
    """
    A store lacks what its witness saw, or has something else in its place; `what` names the place.

    Its own bytes may be consistent, since whoever may write to a database can compute digests and checksums anew.
    """

    _verdict = "is not what its witness saw"

    def __init__(
        self,
        what: str,
        reason: str,
        *,
        remedy: str = "look who may write to the store, and restore it from a copy that its witness knows",
    ) -> None:
        super().__init__(what, reason, remedy=remedy)
