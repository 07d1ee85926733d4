"""Restores as of a moment that a backup does not have: nothing takes its place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import refold
from refold.domain.errors import NotFoundError
from refold.domain.positions import Position
from refold.infrastructure.exchange.backup import back_up_from
from refold.infrastructure.exchange.restore import restore

from .places import place_of

Moments = Callable[[Position], object]
NOT_THERE: dict[str, tuple[Moments, str]] = {
    "behind the end": (
        lambda last: f"pos:{_moved(last, 1)}",
        r"no position .*, the backup ends at",
    ),
    "far behind it": (lambda last: _moved(last, 9_000), r"no position .*, the backup ends at"),
    "before the first": (
        lambda _: datetime(2001, 1, 1, tzinfo=UTC),
        r"up to 2001-01-01.*its first is of 20",
    ),
    "the beginning": (lambda _: "pos:0", "has no event up to pos:0: its first is of 20"),
}


def _moved(position: Position, by: int) -> Position:
    return Position(position.slice, position.number + by)


@pytest.mark.parametrize("moment", NOT_THERE)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_moment_that_is_not_in_the_backup(
    kind: str, moment: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It is refused, and what would have been overwritten stays."""
    place, path = place_of(kind, request, tmp_path, "a.db"), tmp_path / "a.backup"
    with refold.open(place) as store:
        chat = store.chat("a")
        chat.add_message("user", "hello")
        last = chat.history()[-1].position
    back_up_from(place, path)
    at, why = NOT_THERE[moment]

    with pytest.raises(NotFoundError, match=why):
        restore(path, place, at=at(last), overwrite=True)  # type: ignore[arg-type]  # each is of its own type

    with refold.open(place) as store:
        assert len(store.chat("a", create=False).items) == 1


def test_the_end_of_an_empty_store(tmp_path: Path) -> None:
    """It is what it was."""
    refold.open(tmp_path / "a.db").close()
    back_up_from(str(tmp_path / "a.db"), tmp_path / "a.backup")

    assert restore(tmp_path / "a.backup", tmp_path / "b.db").events == 0
    assert restore(tmp_path / "a.backup", tmp_path / "c.db", at="pos:0").events == 0
