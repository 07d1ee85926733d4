"""What is required of rows before they are used: their values, their digests, and what is known of them."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from refold.domain.errors import (
    DamagedError,
    InvalidInputError,
    NotFoundError,
    StorageBusyError,
    StorageError,
    StorageReadOnlyError,
    TamperedError,
)
from refold.infrastructure.log import row_faults
from refold.infrastructure.log.evidence import place, require_boundary, require_ends, require_version
from refold.infrastructure.log.row_faults import (
    NUMBER_MAX,
    CheckedBefore,
    digest_of_row,
    empty_key,
    key_closed,
    nameless_type,
    opened_for_reading,
    opening,
    require_digests,
    retired,
    whole,
)

REMEDY = "restore it from a copy, nothing was changed"


def test_stored_numbers() -> None:
    """They are integers from 0 to the largest one."""
    assert [whole("it", value) for value in (0, 1, NUMBER_MAX)] == [0, 1, NUMBER_MAX]
    assert whole("it", 7, 7) == 7
    for value, most in ((-1, 7), (8, 7), (NUMBER_MAX + 1, NUMBER_MAX), (True, 7), (1.0, 7), ("1", 7), (None, 7)):
        with pytest.raises(DamagedError) as refused:
            whole("it", value, most)
        assert (refused.value.what, refused.value.reason) == ("it", f"it is {value!r}, which it cannot be")


def test_stored_digests() -> None:
    """They have 32 bytes."""
    assert digest_of_row("it", b"d" * 32) == b"d" * 32
    for value in (b"d" * 31, b"d" * 33, b"", "d" * 32, None, bytearray(32)):
        with pytest.raises(DamagedError, match="its digest is none"):
            digest_of_row("it", value)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (KeyError("k"), DamagedError, f"a row is damaged: a value in it cannot be read ('k'); {REMEDY}"),
        (TypeError(), DamagedError, f"a row is damaged: a value in it cannot be read (TypeError); {REMEDY}"),
        (OverflowError("x"), DamagedError, f"a row is damaged: a value in it cannot be read (x); {REMEDY}"),
        (struct.error("x"), DamagedError, f"a row is damaged: a value in it cannot be read (x); {REMEDY}"),
        (msgspec.DecodeError("x"), DamagedError, f"a row is damaged: a value in it cannot be read (x); {REMEDY}"),
        (MemoryError(), StorageError, "there is too little memory to read a row: read less at a time"),
        (RecursionError("deep"), RecursionError, "deep"),
        (StorageError("full"), StorageError, "full"),
        (NotFoundError("no such key"), NotFoundError, "no such key"),
    ],
)
def test_errors_of_changed_values(error: Exception, kind: type[Exception], message: str) -> None:
    """They name the row; others stay as they are."""
    with pytest.raises(kind) as raised, opening("a row"):
        raise error

    assert (type(raised.value), str(raised.value)) == (kind, message)
    assert raised.value is error or raised.value.__cause__ is error
    with pytest.raises(DamagedError, match="; make it anew"), opening("a row", remedy="make it anew"):
        raise ValueError


def test_a_text_of_the_caller() -> None:
    """It is none of a row: the error is not about damage."""
    with pytest.raises(InvalidInputError, match="a text that is asked for"), opening("a row"):
        "\ud800".encode()


def test_errors_that_name_rows() -> None:
    """Each says what is wrong with which one."""
    told = [nameless_type("a", 3, 7), empty_key("a", "k", 1, 2, 0)]
    assert [(one.what, one.reason) for one in told] == [
        ("a@3", "there is no row with the name of its type, 7"),
        ("a", "its key 'k' names versions 1 to 2, and it ends at version 0"),
    ]
    refused = [retired("x.db"), opened_for_reading("x.db"), key_closed("x.db")]
    assert [isinstance(one, StorageReadOnlyError) for one in refused] == [True, True, False]
    assert isinstance(refused[2], StorageBusyError)
    assert [str(one).partition(" ")[0] for one in refused[:2]] == ["x.db", "x.db"]


def test_what_was_checked_is_forgotten_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When there are as many hashes as are kept, the next one is alone."""
    monkeypatch.setattr(row_faults, "CHECKED_MAX", 3)
    checked, found = CheckedBefore(), []
    for number in range(5):
        assert bytes([number]) not in checked
        checked.add(bytes([number]))
        found.append([bytes([one]) in checked for one in range(5)])

    assert [row.count(True) for row in found] == [1, 2, 3, 1, 2]
    assert found[-1] == [False, False, False, True, True]


def test_digests_are_those_of_their_events() -> None:
    """The first other one is named, unless an erasure left it."""
    stored = [b"a", b"b", b"c"]
    asked: list[int] = []

    def is_erased(number: int) -> bool:
        asked.append(number)
        return number == 1

    for computed in (stored, [b"a", b"x", b"c"]):
        require_digests(iter(computed), stored, str, is_erased)
    with pytest.raises(DamagedError) as refused:
        require_digests([b"a", b"x", b"y"], stored, "event {}".format, is_erased)

    assert (refused.value.what, refused.value.reason) == ("event 2", "it does not match its digest")
    assert asked == [1, 1, 2]


def test_ends_that_are_known() -> None:
    """Streams and slices reach what is known of them, or go further."""
    assert [place(-1, 7), place(0, 7), place(9, 1)] == ["7", "0.7", "9.1"]
    for found, known in ((3, 3), (4, 3), (0, 0)):
        require_version("a", found, known)
    with pytest.raises(TamperedError, match=r"event a@3 .*: it is missing, and version 4 is known"):
        require_version("a", 2, 4)
    require_ends({1: 3, 2: 5}, {1: 3, 2: 4, 3: 0})
    for found_ends, known_ends, what in (({1: 2}, {1: 3}, "position 1.3"), ({}, {-1: 1}, "position 1")):
        with pytest.raises(TamperedError, match="the log ends before it") as refused:
            require_ends(found_ends, known_ends)
        assert refused.value.what == what


def test_the_last_version_of_a_moment() -> None:
    """It is in the moment, and the next one is not."""
    events: list[Any] = [SimpleNamespace(version=number, reference=f"a@{number}") for number in (1, 2, 3)]

    def required(version: int, included: int) -> None:
        def read(after: int, until: int) -> list[Any]:
            return events[after:until]

        require_boundary(read, version, lambda one: one.version <= included)

    for version in range(4):
        required(version, version)
    for version, included, wrong in ((1, 2, 2), (2, 1, 2), (0, 1, 1), (3, 2, 3)):
        with pytest.raises(TamperedError, match=f"event a@{wrong} "):
            required(version, included)
