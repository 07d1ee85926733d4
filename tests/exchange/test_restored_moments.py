"""Restores of what a backup does not have, and of backups that somebody made: nothing takes its place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.errors import DamagedError, NotFoundError
from refold.domain.positions import Position
from refold.infrastructure.exchange.backup import back_up_from, check_backup
from refold.infrastructure.exchange.backup_file import reading_backup, writing_backup
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


Change = Callable[[Any], Any]


def other(**fields: object) -> Change:
    """Return what gives other values to fields of a chunk or a record, to each event where it is a function."""

    def changed(one: Any) -> Any:
        made = {name: [*map(to, getattr(one, name))] if callable(to) else to for name, to in fields.items()}
        return msgspec.structs.replace(one, **made)

    return changed


CHUNKS: dict[str, Change] = {
    "places": other(places=lambda _: 9),
    "places before the first": other(places=lambda _: -1),
    "versions": other(versions=lambda _: 0),
    "numbers": other(numbers=lambda number: number + 5),
    "slices": other(slices=lambda _: 7),
    "times": other(times=lambda _: 10**19),
    "payloads": other(payloads=lambda _: b"\xc1"),
    "no payloads": other(payloads=lambda _: b""),
}
RECORDS: dict[str, Change] = {"moment": other(moment="99"), "no moment": other(moment="then")}


@pytest.mark.parametrize("name", [*CHUNKS, *RECORDS])
def test_a_backup_that_somebody_made_by_hand(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All hashes in it are right; nothing is restored of it, and the error names the file."""
    with refold.open(tmp_path / "a.db") as store:
        store.chat("a").add_message("user", "hello")
        store.backup(tmp_path / "a.backup")
    with reading_backup(tmp_path / "a.backup") as file:
        chunk, record = file.open(file.chunks[0]), file.record
    with monkeypatch.context() as unread, writing_backup(tmp_path / "b.backup") as made:
        unread.setattr(made, "open", lambda _: None)
        made.add(CHUNKS.get(name, other())(chunk))
        finished = partial(msgspec.structs.replace, RECORDS.get(name, other())(record))
        made.finish(lambda root, chunks: finished(root=root, chunks=chunks))

    for look in (check_backup, partial(restore, into=tmp_path / "b.db")):
        with pytest.raises(DamagedError, match=r"b\.backup"):
            look(tmp_path / "b.backup")
    assert not (tmp_path / "b.db").exists()
