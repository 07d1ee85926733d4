"""Times for people, and for programs."""

from pathlib import Path

import pytest

import refold as package
from refold.domain.clock import exact
from refold.domain.ids import microseconds, parse_address
from refold.infrastructure.cli.render import absolute, date_and_age, relative
from tests.cli.running import refold

NOON = 1_795_262_400_000_017


def test_a_time_is_written_in_utc() -> None:
    """To the second for people, to the microsecond for programs."""
    assert absolute(NOON) == "2026-11-21T12:00:00Z"
    assert exact(NOON) == "2026-11-21T12:00:00.000017Z"


def test_a_time_beyond_all_years_is_the_nearest_one(tmp_path: Path) -> None:
    """As that of an item which was given in milliseconds."""
    with package.open(tmp_path / "s.db") as store:
        for at in (-1e305, -1e13, None, 1.7643e12, 1e305):
            store.chat("late").add_message("user", "Hello.", created_at=at)

    shown = refold("show", "late", db=tmp_path / "s.db").out
    assert "0001-01-01T00:00:00Z, before they were recorded" in shown
    assert "9999-12-31T23:59:59Z" in shown


def test_an_exact_time_is_an_address() -> None:
    """It can be handed back as it is."""
    parsed = parse_address(exact(NOON))

    assert not isinstance(parsed, int | str)
    assert microseconds(parsed) == NOON  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"),
        (4, "just now"),
        (-3, "just now"),
        (5, "5 seconds ago"),
        (59, "59 seconds ago"),
        (60, "1 minute ago"),
        (119, "1 minute ago"),
        (7_200, "2 hours ago"),
        (86_400, "1 day ago"),
        (30 * 86_400, "30 days ago"),
        (31 * 86_400, "1 month ago"),
        (3 * 366 * 86_400, "3 years ago"),
        (-120, "in 2 minutes"),
    ],
)
def test_how_long_ago(seconds: int, text: str) -> None:
    """In the largest unit that fits."""
    assert relative(NOON, NOON / 1_000_000 + seconds) == text


def test_both_together() -> None:
    """The exact one first."""
    assert date_and_age(NOON, NOON / 1_000_000 + 90) == "2026-11-21T12:00:00Z (1 minute ago)"
