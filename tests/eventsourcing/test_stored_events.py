"""What recorders store of an event: names, ids, versions and states, and what cannot be stored."""

from __future__ import annotations

import sqlite3
from typing import Any
from uuid import UUID

import pytest
from eventsourcing.persistence import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    PersistenceError,
    ProgrammingError,
    StoredEvent,
    Tracking,
)

from refold.domain.errors import (
    ConcurrencyError,
    DamagedError,
    InvalidInputError,
    StorageClosedError,
    StorageError,
    StorageUnavailableError,
)
from refold.domain.ids import VERSION_MAX
from refold.domain.log.envelope import NO_DIGEST, NO_META, UNKEYED
from refold.domain.positions import Position
from refold.infrastructure.recorders import stored_events
from refold.infrastructure.recorders.stored_events import (
    LAST,
    TEXT_BYTES_MAX,
    Stored,
    content_of,
    opened_state,
    originator_of,
    parts_of,
    require_storable,
    safe_name,
    snapshot_table,
    storable,
    stream_of,
    table_prefix,
    translated_for_eventsourcing,
    within,
)

ID = UUID("0f0e0d0c-0b0a-4908-8706-050403020100")


def event(version: Any, topic: Any = "t", state: Any = b"s", originator: UUID | str = "a") -> StoredEvent:
    """Return a stored event."""
    return StoredEvent(originator, version, topic, state)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("shop", "shop"),
        ("Shop_2", "shop_2"),
        ("", "stored"),
        ("a" * 32, "a" * 32),
        ("a" * 33, "app_aaaaaaaaaaaaaaaaaaa_13b57519"),
        ("a__b", "app_a_b_e2fa8344"),
        ("2nd", "app_2nd_1e625f60"),
        ("Größe", "app_gr_e_a0f6c858"),
    ],
)
def test_names_of_tables(text: str, name: str) -> None:
    """They never change: the tables are found by them."""
    assert (safe_name(text), table_prefix(text)) == (name, f"{name}__")
    assert snapshot_table("shop__", "snapshots") == "shop__stored_snapshots"
    assert len(snapshot_table("", "s" * 21)) == len("stored_") + 20


@pytest.mark.parametrize("text", ["", "x" * TEXT_BYTES_MAX, "ü" * (TEXT_BYTES_MAX // 2)])
def test_texts_that_can_be_stored(text: str) -> None:
    """They come back as they are, and as plain texts."""

    class Name(str):
        """A text of an application's own class."""

    found = storable(Name(text))
    assert (found, type(found)) == (text, str)
    require_storable(Tracking(text, LAST))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x" * (TEXT_BYTES_MAX + 1), "or more than TEXT_BYTES_MAX"),
        ("ü" * (TEXT_BYTES_MAX // 2) + "x", "or more than TEXT_BYTES_MAX"),
        ("a\0", "has NUL in it"),
        ("\ud800", "holds a lone surrogate"),
        (7, "is no text"),
    ],
)
def test_texts_that_cannot(text: Any, why: str) -> None:
    """No database finds them, or stores them."""
    with pytest.raises(DataError, match=why):
        storable(text)
    with pytest.raises(DataError, match=why):
        require_storable(Tracking(text, 1))


def test_ids_and_bounds() -> None:
    """A UUID is stored by its digits; a bound that no number reaches is the nearest that is stored."""
    assert stream_of(ID, "uuid") == stream_of(ID, "text") == stream_of(str(ID), "uuid") == ID.hex
    assert (originator_of(ID.hex, "uuid"), originator_of("a", "text"), stream_of("a", "text")) == (ID, "a", "a")
    with pytest.raises(DataError, match="set ORIGINATOR_ID_TYPE to text"):
        stream_of("a", "uuid")
    assert [within(number) for number in (-9, -1, 0, LAST, LAST + 1)] == [-1, -1, 0, LAST, LAST]
    with pytest.raises(DataError, match="larger than any can be"):
        require_storable(Tracking("a", LAST + 1))


@pytest.mark.parametrize("version", [0, 1, VERSION_MAX, True])
@pytest.mark.parametrize("state", [b"s", bytearray(b"s"), memoryview(b"s")])
def test_contents(version: int, state: Any) -> None:
    """Version and state are of exactly the types that are stored."""
    found = content_of(event(version, state=state))
    assert found == (int(version), "t", b"s")
    assert [type(one) for one in found] == [int, str, bytes]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (event(-1), IntegrityError),
        (event(VERSION_MAX + 1), DataError),
        (event("1"), DataError),
        (event(1, topic=None), DataError),
        (event(1, state="s"), DataError),
    ],
)
def test_contents_that_cannot_be_stored(wrong: StoredEvent, error: type[Exception]) -> None:
    """Each is refused before anything is written."""
    with pytest.raises(error):
        content_of(wrong)


def test_events_that_follow_each_other_are_appended_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consecutive ones of one stream are a part; a state may be as large as a payload."""
    events = [event(1), event(2), event(4), event(5, originator="b"), event(6, originator="b"), event(6)]

    parts = parts_of(events, "text", 7, lambda state: b"small " + state)

    places = [(part.stream, part.first_version, len(part.drafts)) for part in parts]
    assert places == [("a", 1, 2), ("a", 4, 1), ("b", 5, 2), ("a", 6, 1)]
    assert {(part.slice, part.starts) for part in parts} == {(7, (0, 1))}
    assert {(draft.tag, draft.stored, draft.meta) for part in parts for draft in part.drafts} == {
        ("t", b"small s", NO_META)
    }
    monkeypatch.setattr(stored_events, "PAYLOAD_BYTES_MAX", 3)
    assert parts_of([event(1, state=b"123")], "text", 7, bytes)
    with pytest.raises(DataError, match="a state of 4 bytes is over PAYLOAD_BYTES_MAX"):
        parts_of([event(1, state=b"1234")], "text", 7, bytes)


def test_states_are_checked() -> None:
    """Against their digest, and where the event before is missing, that one is named."""
    ((draft,),) = (part.drafts for part in parts_of([event(1)], "text", 7, bytes))
    for version, previous in ((0, None), (1, None), (1, b"p" * 32), (2, b"p" * 32)):
        place = Position(7, 3)
        digest = UNKEYED.digest(previous or NO_DIGEST, "a", version, place, 9, NO_META, draft.payload)
        row = Stored(7, 3, "a", version, 9, "t", None, b"s", digest, previous)
        assert opened_state(row, lambda state, _: state) == b"s"
        for wrong in (row._replace(state=b"other"), row._replace(topic="u"), row._replace(recorded_at=8)):
            with pytest.raises(DamagedError, match=f"event a@{version}.*: it does not match its digest"):
                opened_state(wrong, lambda state, _: state)
    with pytest.raises(DamagedError, match=r"event a@1.*: it is missing"):
        opened_state(row._replace(previous=None), lambda state, _: state)


class StoredEventError(sqlite3.IntegrityError):
    """An error of a driver with a name that the package does not have."""


def caused(error: Exception, cause: Exception) -> Exception:
    """Return an error with its cause."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ConcurrencyError("a", expected=3, actual=5), IntegrityError, "version 4 of a does not follow its last, 5"),
        (StorageError("it is full"), OperationalError, "it is full"),
        (StorageClosedError("it is closed"), InterfaceError, "it is closed"),
        (StorageUnavailableError("it is away"), InterfaceError, "it is away"),
        (caused(StorageError("x"), sqlite3.DataError()), DataError, "x"),
        (caused(StorageClosedError("x"), sqlite3.DatabaseError()), DatabaseError, "x"),
        (caused(StorageError("x"), ValueError()), OperationalError, "x"),
        (InvalidInputError("no id"), DataError, "no id"),
        (caused(InvalidInputError("x"), sqlite3.ProgrammingError()), ProgrammingError, "x"),
        (caused(InvalidInputError("x"), ValueError()), DataError, "x"),
        (sqlite3.OperationalError("locked"), OperationalError, "locked"),
        (StoredEventError("twice"), IntegrityError, "twice"),
        (sqlite3.Error("odd"), PersistenceError, "odd"),
    ],
)
def test_errors_of_the_package(error: Exception, kind: type[Exception], message: str) -> None:
    """Each error of Refold and of a driver is the one of the package that its users expect, with its cause."""
    with pytest.raises(kind) as raised, translated_for_eventsourcing(sqlite3.Error):
        raise error

    assert (type(raised.value), str(raised.value), raised.value.__cause__) == (kind, message, error)
