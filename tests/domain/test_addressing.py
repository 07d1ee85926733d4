"""How a moment is named: version, time, position, name (DESIGN.md, Addressing)."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.clock import exact
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.ids import AtItem, AtItemTime, microseconds, parse_address, require_name
from refold.domain.memory.memory import InMemoryMemoryStore
from refold.domain.memory.records import MemoryRecord
from refold.domain.positions import BEGINNING, Moment

from .strategies import ALPHABET, MOMENT, PROPERTY

TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)


@pytest.mark.parametrize(("address", "version"), [(3, 3), (-1, -1), (0, 0), ("17", 17), ("-5", -5), ("+2", 2)])
def test_versions(address: Any, version: int) -> None:
    """An int, or a text of one; negative from the head."""
    assert parse_address(address) == version


@pytest.mark.parametrize(
    "address",
    [
        TEN,
        "2026-11-21T10:00:00Z",
        "2026-11-21T11:00:00+01:00",
        "2026-11-21 10:00:00.000000+00:00",
        "20261121T100000Z",
    ],
)
def test_times(address: Any) -> None:
    """An aware datetime, or ISO text with a zone."""
    assert parse_address(address) == TEN


@pytest.mark.parametrize("year", [1, 999, 1969, 9999])
def test_times_as_programs_get_them(year: int) -> None:
    """The text of a time in JSON is an address of this time, in every year."""
    time = datetime(year, 2, 3, 4, 5, 6, 7, tzinfo=UTC)

    assert parse_address(exact(microseconds(time))) == time


@PROPERTY
@given(MOMENT)
def test_positions(moment: Moment) -> None:
    """`pos:` and what the log prints; a moment itself is taken too."""
    assert parse_address(f"pos:{moment}") == moment
    assert parse_address(moment) == moment


def test_a_day_is_meant_to_its_end() -> None:
    """In UTC, to the microsecond."""
    assert parse_address("2026-11-21") == datetime(2026, 11, 21, 23, 59, 59, 999_999, tzinfo=UTC)
    assert parse_address("happened:2026-11-21") == AtItemTime(datetime(2026, 11, 21, 23, 59, 59, 999_999, tzinfo=UTC))


def test_items() -> None:
    """By an id, which may look like anything else."""
    for name in ("msg_1", "3", "a@b", "pos:1", "item:x"):
        assert parse_address(f"item:{name}") == AtItem(name)


def test_the_first_position() -> None:
    """Before everything."""
    assert parse_address("pos:0") == BEGINNING


@pytest.mark.parametrize("address", ["start", "v2", "x17", "über", "T10", "position"])
def test_names(address: str) -> None:
    """Whatever starts with a letter."""
    assert parse_address(address) == address


@pytest.mark.parametrize(
    ("address", "saying"),
    [
        (True, "names no moment"),
        (None, "names no moment"),
        (1.5, "names no moment"),
        (b"start", "names no moment"),
        ("", "names no moment"),
        (" 3", "names no moment"),
        ("--5", "--5"),
        ("+-5", r"\+-5"),
        ("1.5", "names no moment"),
        ("1e3", "names no moment"),
        ("²", "names no moment"),
        ("٣", "names no moment"),
        ("9" * 5_000, "9999"),
        ("_start", "names no moment"),
        ("@3", "names no moment"),
        (":memory:", "names no moment"),
        ("2026-13-01T00:00:00Z", "names no moment"),
        ("2026-11-21T25:00:00Z", "names no moment"),
        ("2026-11-21T10:00:00", "time zone"),
        (datetime(2026, 11, 21), "time zone"),
        ("happened:", "names no moment"),
        ("happened:start", "names no moment"),
        ("happened:2026-11-21T10:00:00", "time zone"),
        ("pos:", "not a position"),
        ("pos:x", "not a position"),
        ("pos:-1", "not a position"),
        ("pos:1.", "not a position"),
        ("pos:.1", "not a position"),
        ("pos:1.2.3", "not a position"),
        ("pos: 1", "not a position"),
        ("pos:²", "not a position"),
        ("pos:v", "not a position"),
        ("pos:vAAAA", "not a position"),
        ("pos:v!!!!", "not a position"),
        ("pos:vé", "not a position"),
        ("pos:" + "9" * 5_000, "not a position"),
    ],
)
def test_what_names_no_moment(address: Any, saying: str) -> None:
    """An error of ours that says what would be right; nothing is guessed at."""
    with pytest.raises(InvalidInputError, match=saying):
        parse_address(address)


@PROPERTY
@given(st.text(ALPHABET + "\ud800", max_size=8))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text at all gives another error than ours."""
    for address in (text, "pos:" + text, "pos:v" + text):
        try:
            parsed = parse_address(address)
        except InvalidInputError:
            continue
        assert isinstance(parsed, int | str | datetime | Moment)


@pytest.mark.parametrize(
    "name", ["", "3", "-a", "a@", "a..b", "a b", "a:b", "a\nb", "a\x00b", "a\x0bb", "a\u2028b", "x" * 101, "a\ud800"]
)
def test_names_that_cannot_be(name: str) -> None:
    """What is no letter first, and what could not be typed or stored."""
    with pytest.raises(InvalidInputError):
        require_name(name)


@pytest.mark.parametrize("name", ["a", "v1", "before.lunch", "x" * 100, "漢字"])
def test_a_name_can_be_asked_for(name: str) -> None:
    """What can be given as a name is read as one."""
    assert parse_address(require_name(name)) == name


@PROPERTY
@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7, minutes=-30))])))
def test_microseconds(time: datetime) -> None:
    """Exact, for every time and zone; no float is in between."""
    since = microseconds(time)

    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since) == time


def test_a_name_for_a_version_that_is_not_there() -> None:
    """The error says which there are; a scope of a memory has none before its first record."""
    scope = InMemoryMemoryStore().scope("user")
    with pytest.raises(NotFoundError, match="has no version 0: nothing is recorded in it yet"):
        scope.name_version("begun")

    scope.put(MemoryRecord(scope="user", key="city", value="Zürich"))
    with pytest.raises(NotFoundError, match="has no version 3: it goes from 1 to 1"):
        scope.name_version("begun", 3)
