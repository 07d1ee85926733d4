"""
Folding the pages of a log into the rows that they change, and going on without events that cannot be folded.

Such an event is set aside. A projection stops before the event instead if it asks for this, or if it has set very many
events aside. Other projections go on. The event is noted as the fault of the projection that stopped.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec

from ...domain.concurrency.known_types import known
from ...domain.errors import DamagedError, LogWentBackError, ProjectionError, RefoldError, StorageError
from ...domain.log.admission import Number, require_few_named
from ...domain.log.envelope import RecordedEvent, Undecodable
from ...domain.log.ports import LiveLog, Page, PagedLog
from ...domain.positions import Moment
from ...projections.contract import BulkProjection, Projection, SelectiveProjection, StoppableProjection
from ...projections.rows import place_in
from .shape import code_of
from .store import Column, ProjectionStore, SetAside, columns_of

# Up to this number, a float can be every whole number.
WHOLE_FLOAT_MAX = 2**53
# The largest key that an index of PostgreSQL takes, with room for the rest of its entry.
KEY_BYTES_MAX = 2_500
# If more events cannot be folded, the projection itself is faulty, and its rows are of no use.
ASIDE_EVENTS_MAX = 1_000
ERROR_CHARACTERS_MAX = 200
# Notes of faults, by projection.
FAULT = "fault/"
log = logging.getLogger("refold.projections")
Float = Annotated[int, msgspec.Meta(ge=-WHOLE_FLOAT_MAX, le=WHOLE_FLOAT_MAX)] | float
NUMBERS: Mapping[type | None, Any] = {int: Number, float: Float}


class Groups(NamedTuple):
    """Some of the groups of slices, by their numbers; None means all groups."""

    numbers: frozenset[int] | None
    of_all: int

    def of(self, moment: Moment) -> Moment:
        """Return the part of a moment that belongs to these groups."""
        if self.numbers is None:
            return moment
        return Moment(tuple(head for head in moment.heads if head[0] % self.of_all in self.numbers))


class Read(NamedTuple):
    """A page, whether it is the last one, and the reasons why events of it cannot be decoded, by reference."""

    page: Page
    is_last: bool
    undecodable: Mapping[str, str]


class Pages:
    """
    The pages of a log up to a moment, or up to the log's end now.

    The end is fixed, because writers that never pause may be faster than the runner.
    """

    def __init__(self, log: PagedLog, until: Moment | None, groups: Groups) -> None:
        self._log, self._is_end = log, until is None
        self.until = groups.of(log.now() if until is None else until)

    def read(self, after: Moment, limit: int) -> Read:
        """Return the next page."""
        if self._is_end and not self.until.includes(after):
            # Another runner came first, and went further; or the log was cut.
            now = self._log.now()
            if not now.includes(after):
                raise LogWentBackError(
                    f"the log of {after.events:,} events that projections have seen",
                    reason=f"it has {now.events:,}",
                    remedy="look what is gone with verify(), then rebuild the projections",
                )
        page = Page([], after)
        if not after.includes(self.until):
            page = self._log.read_all(after=after, limit=limit, until=self.until, undecodable=True)
        is_last = not page.events or page.moment.includes(self.until)
        marked = [one for one in page.events if type(one.event) is Undecodable]
        return Read(page, is_last, {one.reference: one.event.reason for one in marked})


def require_keys(keys: Iterable[str]) -> None:
    """
    Require that rows can be stored under keys, and looked up.

    Raises:
        ValueError: one has a NUL in it, is larger than KEY_BYTES_MAX, or cannot be encoded.
    """
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"`keys` returned the key {key!r}, and keys are texts")
        if "\0" in key:
            raise ValueError(f"there is a NUL in the key {key!r}")
        # Checked here: an error while the rows are read would report damaged storage.
        if (len(key) if key.isascii() else len(key.encode())) > KEY_BYTES_MAX:
            raise ValueError(f"the key {key[:80]!r}... has more than KEY_BYTES_MAX ({KEY_BYTES_MAX:,}) bytes")


def require_storable(projection: Projection, rows: Mapping[str, Any]) -> None:
    """
    Require that rows can be stored.

    Raises:
        TypeError, ValueError: one cannot be; the message says what is wrong with it.
    """
    for key, row in rows.items():
        if type(row) is not projection.row:
            raise TypeError(f"under {key!r} it makes {row!r}, and its rows are of the type {projection.row.__name__}")
    values = [*map(msgspec.structs.astuple, rows.values())]
    floats = _floats_of(projection.row)
    for key, row in zip(rows, values, strict=True):
        if row[0] != key:
            raise ValueError(f"under {key!r} it makes a row with the key {row[0]!r}")
        for place in floats:
            if row[place] != row[place]:
                # SQLite stores NaN as NULL.
                raise ValueError(f"a number of the row {key!r} is NaN")
            if isinstance(row[place], Decimal):
                # msgspec takes it for a float, and SQLite does not.
                raise TypeError(f"{projection.row.__struct_fields__[place]} of the row {key!r} is {row[place]!r}")
    try:
        _convert(values, _values_of(projection.row))
    except msgspec.ValidationError:
        for key, row in rows.items():
            _require_values(key, row)
        raise


@cache
def _floats_of(row: type[msgspec.Struct]) -> tuple[int, ...]:
    """Return the places of the fields of floats in rows of a class."""
    return tuple(place for place, column in enumerate(columns_of(row)) if column.type is float)


def _convert(value: object, kind: Any) -> None:
    # Without `builtin_types`, a text would be taken for bytes in base64.
    msgspec.convert(value, known(kind), builtin_types=(bytes,))


@cache
def _values_of(row: type[msgspec.Struct]) -> Any:
    return list[tuple[*map(_value_of, columns_of(row))]]  # type: ignore[misc]  # it is made up here


def _value_of(column: Column) -> Any:
    kind: Any = NUMBERS.get(column.type, column.type)
    return kind | None if column.is_optional else kind


def _require_values(key: str, row: msgspec.Struct) -> None:
    for column in columns_of(type(row)):
        value = getattr(row, column.name)
        try:
            _convert(value, _value_of(column))
        except msgspec.ValidationError as error:
            raise TypeError(f"{column.name} of the row {key!r} is {value!r}: {error}") from None


def _keys(returned: Sequence[str] | None) -> Sequence[str]:
    """Return the keys that a projection returned: a text is one key, not a key for each of its characters."""
    if returned is None:
        raise TypeError("`keys` returned None: return a list of texts, and [] where the event changes no row")
    return (returned,) if isinstance(returned, str) else returned


class RowsBefore(Protocol):
    """A source of the rows as they are before some events; a `ProjectionStore` is one."""

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        """Return the rows under `keys` that exist."""


def fold_page(projection: Projection, events: Sequence[RecordedEvent], store: RowsBefore) -> dict[str, Any]:
    """
    Return the rows that `events` change, as they are afterwards.

    Raises:
        TypeError, ValueError: a row cannot be stored, or an event holds a value that no log takes. Errors of the
            projection itself are raised, too.
        DamagedError: the existing rows cannot be read; no event is the cause.
    """
    touched: dict[str, list[RecordedEvent]] = {}
    with _BlamedOnEvents():
        for event in _concerning(projection, events):
            require_few_named(event.event)
            # A key that comes twice is one row, which changes once.
            for key in dict.fromkeys(_keys(projection.keys(event))):
                touched.setdefault(key, []).append(event)
    if not touched:
        return {}
    require_keys(touched)
    rows: dict[str, Any] = store.load(projection, touched)
    evolve_all = projection.evolve_all if isinstance(projection, BulkProjection) else partial(_evolve_all, projection)
    with _BlamedOnEvents():
        for key, of_key in touched.items():
            row = evolve_all(key, rows.get(key), of_key)
            if row is not None:
                rows[key] = row
            elif key in rows:
                raise _vanished(key)
    require_storable(projection, rows)
    return rows


class _BlamedOnEvents:
    """A block that inspects events but reads no rows: damage that it finds is in the event."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, DamagedError):
            raise ValueError(f"{error.what}: {error.reason}") from error


def _concerning(projection: Projection, events: Sequence[RecordedEvent]) -> Sequence[RecordedEvent]:
    if not isinstance(projection, SelectiveProjection):
        return events
    wanted = projection.events
    return [event for event in events if type(event.event) in wanted]


def _evolve_all(projection: Projection, key: str, row: Any | None, events: Sequence[RecordedEvent]) -> Any:
    for event in events:
        after = projection.evolve(key, row, event)
        if after is None and row is not None:
            raise _vanished(key)
        row = after
    return row


def _vanished(key: str) -> TypeError:
    # Otherwise the end of a page would decide whether the next event meets the stored row, or none.
    return TypeError(f"under {key!r} it makes None of a row, and rows are never removed: return a row that says so")


class Fault(NamedTuple):
    """
    The event that stopped a projection, as `stream@version`, the error, and the projection's version and code then.

    Faults that were noted by earlier releases have no `code`.
    """

    event: str
    error: str
    version: int
    code: str = ""


def fault_of(events: LiveLog, store: ProjectionStore, projection: Projection) -> Fault | None:
    """
    Return the fault that stopped a projection; None if there is none.

    A fault does not count if the version or the code of the projection has changed since, or if its rows went past the
    event.
    """
    noted = store.note(_note(projection))
    if noted is None:
        return None
    try:
        fault = msgspec.json.decode(noted, type=known(Fault))
        stream, version = place_in(fault.event)
    except (msgspec.DecodeError, ValueError):
        # An unreadable note is ignored: if the event still cannot be folded, the projection stops there again.
        return None
    if fault.version != projection.version or fault.code not in ("", code_of(projection)):
        return None
    return fault if events.version_at(stream, store.checkpoint(projection)) < version else None


def note_fault(store: ProjectionStore, projection: Projection, fault: Fault | None) -> None:
    """Note the fault that stopped a projection; None removes the note."""
    before = store.note(_note(projection))
    after = None if fault is None else msgspec.json.encode(fault).decode()
    if before != after:
        store.set_note(_note(projection), before=before, after=after)


def sets_aside(projection: Projection) -> bool:
    """Return whether a projection goes on without an event that it cannot fold."""
    return not isinstance(projection, StoppableProjection) or projection.on_fault != "stop"


class FoldedOneByOne(NamedTuple):
    """
    The result of folding events one by one: the rows, and the events that were set aside.

    With a `failure` only the first `folded` events were folded; the failure is about the next event.
    """

    rows: Mapping[str, Any]
    aside: list[SetAside]
    failure: ProjectionError | None = None
    folded: int = 0


def fold_one_by_one(
    projection: Projection, events: Sequence[RecordedEvent], store: ProjectionStore, undecodable: Mapping[str, str]
) -> FoldedOneByOne:
    """
    Fold events one by one, and set aside those that cannot be folded; a projection that asks to stop stops there.

    Any projection stops after it has set ASIDE_EVENTS_MAX events aside. `undecodable` maps the references of events
    that cannot be decoded to the reasons.
    """
    rows, aside = _Rows(store), list[SetAside]()
    before = len(store.set_aside(projection))
    stops = not sets_aside(projection)
    for count, event in enumerate(events):
        # Tried twice: an error that a signal handler raised does not occur again, so the event is not set aside for it.
        failed = _fold_one(projection, event, rows) and _fold_one(projection, event, rows)
        error = failed or undecodable.get(event.reference)
        if error is None:
            continue
        reason = _reason(projection, error) if isinstance(error, Exception) else error
        if stops or before + len(aside) >= ASIDE_EVENTS_MAX:
            if not stops:
                reason = f"it has set ASIDE_EVENTS_MAX ({ASIDE_EVENTS_MAX:,}) events aside already: {reason}"
            failure = ProjectionError(projection.name, event.reference, reason)
            failure.__cause__ = error if isinstance(error, Exception) else None
            return FoldedOneByOne(rows.changed, aside, failure, count)
        aside.append(SetAside(event.reference, reason[:ERROR_CHARACTERS_MAX]))
        cause = error if isinstance(error, Exception) else None
        log.error("the projection %s sets %s aside: %s", projection.name, event.reference, reason, exc_info=cause)
    return FoldedOneByOne(rows.changed, aside)


def _reason(projection: Projection, error: Exception) -> str:
    """Return what went wrong in words: where in the projection's own file, the type of the error, and its text."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, RefoldError) or frames[-1].filename == __file__:
        # A check of Refold failed: its text is enough.
        return _text_of(error)
    own = getattr(getattr(projection.evolve, "__code__", None), "co_filename", None)
    frame = next((one for one in reversed(frames) if one.filename == own), frames[-1])
    text = f"{type(error).__name__}: {_text_of(error)}".removesuffix(": ")
    return f"{os.path.basename(frame.filename)}:{frame.lineno}: {text}"


def _text_of(error: Exception) -> str:
    """Return the text of an error as it can be stored; making the text of a user's error may fail."""
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception:
        return ""


class _Rows:
    """The rows of a projection as they are after some events that are not stored yet."""

    def __init__(self, store: ProjectionStore) -> None:
        self._store = store
        self.changed: dict[str, Any] = {}

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        stored = self._store.load(projection, [key for key in keys if key not in self.changed])
        return {**stored, **{key: self.changed[key] for key in keys if key in self.changed}}


def _fold_one(projection: Projection, event: RecordedEvent, rows: _Rows) -> Exception | None:
    try:
        changed = fold_page(projection, (event,), rows)
        # Encoded to find texts that UTF-8 cannot hold; nothing else fails on them before the rows are stored.
        msgspec.msgpack.encode(changed)
    except (StorageError, DamagedError):
        # The storage failed, so no event is set aside.
        raise
    except Exception as error:
        return error
    rows.changed.update(changed)
    return None


def _note(projection: Projection) -> str:
    return FAULT + projection.name
