"""Folding a page of events into the rows that it changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Protocol

import msgspec

from ...domain.errors import DamagedError, InvalidInputError
from ...domain.log.admission import require_few_named
from ...domain.log.envelope import RecordedEvent
from ...projections.contract import BulkProjection, Projection, SearchedRow, SelectiveProjection

TYPES = (str, int, float, bytes)
# Columns that tables have beside those of their rows, and those of searched rows.
TAKEN, TAKEN_SEARCHED = ("slice",), ("slice", "number", "vector")
NUMBER_MAX = 2**63 - 1
# What an index of PostgreSQL takes, with room for the rest of its entry.
KEY_BYTES_MAX = 2_500
Number = Annotated[int, msgspec.Meta(ge=-NUMBER_MAX - 1, le=NUMBER_MAX)]


def require_row(projection: Projection) -> None:
    """
    Require that rows of a projection's type can be stored at all.

    Raises:
        InvalidInputError: its first field is not `key`, or a field has another type or a name that tables use already.
    """
    fields = msgspec.structs.fields(projection.row)
    if not fields or (fields[0].name, fields[0].type) != ("key", str):
        raise InvalidInputError(f"the rows of {projection.name} have no key: let `key: str` be the first field")
    taken = TAKEN_SEARCHED if issubclass(projection.row, SearchedRow) else TAKEN
    for field in fields:
        if field.type not in TYPES:
            where = f"{field.name} of the rows of {projection.name}"
            raise InvalidInputError(f"{where} is of the type {field.type}: take str, int, float or bytes")
        if field.name in taken:
            raise InvalidInputError(f"a row of {projection.name} cannot have a field {field.name!r}: call it otherwise")


def require_keys(keys: Iterable[str]) -> None:
    """
    Require that rows can be stored under keys, and looked up.

    Raises:
        ValueError: one has a NUL in it, is larger than KEY_BYTES_MAX, or cannot be encoded.
    """
    for key in keys:
        if "\0" in key:
            raise ValueError(f"there is a NUL in the key {key!r}")
        # Here, and not where the rows are read: whatever fails there says that what is stored is damaged.
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
        if any(row[place] != row[place] for place in floats):
            # A column that holds no number but NaN holds nothing at all on SQLite.
            raise ValueError(f"a number of the row {key!r} is NaN")
    try:
        msgspec.convert(values, _values_of(projection.row))
    except msgspec.ValidationError:
        for key, row in rows.items():
            _require_values(key, row)
        raise


@cache
def _floats_of(row: type[msgspec.Struct]) -> tuple[int, ...]:
    return tuple(place for place, field in enumerate(msgspec.structs.fields(row)) if field.type is float)


@cache
def _values_of(row: type[msgspec.Struct]) -> Any:
    types = [Number if field.type is int else field.type for field in msgspec.structs.fields(row)]
    return list[tuple[*types]]  # type: ignore[valid-type]  # it is made up here


def _require_values(key: str, row: msgspec.Struct) -> None:
    for field in msgspec.structs.fields(row):
        value = getattr(row, field.name)
        try:
            msgspec.convert(value, Number if field.type is int else field.type)
        except msgspec.ValidationError as error:
            raise TypeError(f"{field.name} of the row {key!r} is {value!r}: {error}") from None


class RowsBefore(Protocol):
    """Where the rows are found as they are before some events: a `ProjectionStore` is one."""

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        """Return the rows under `keys` that exist."""


def fold_page(projection: Projection, events: Sequence[RecordedEvent], store: RowsBefore) -> dict[str, Any]:
    """
    Return the rows that `events` change, as they are afterwards.

    Raises:
        TypeError, ValueError: a row cannot be stored, or an event holds what no log takes; and whatever the projection
            itself raises.
        DamagedError: the rows that are there cannot be read, which is no event's fault.
    """
    touched: dict[str, list[RecordedEvent]] = {}
    with _BlamedOnEvents():
        for event in _concerning(projection, events):
            require_few_named(event.event)
            for key in projection.keys(event):
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
    require_storable(projection, rows)
    return rows


class _BlamedOnEvents:
    """A block that looks at events and reads no rows: what is damaged there was recorded like that."""

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
        row = projection.evolve(key, row, event)
    return row
