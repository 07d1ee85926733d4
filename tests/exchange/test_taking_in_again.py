"""A file taken in again: what is there stays, what has grown is extended, what was interrupted is finished."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.erasure.events import STREAM as ERASURES
from refold.domain.errors import ConcurrencyError, InvalidInputError
from refold.domain.log.ports import NewEvents
from refold.infrastructure.exchange import TakenIn, export_events, take_in_events
from refold.infrastructure.exchange import import_events as taking_in
from refold.infrastructure.exchange.event_files import ReadLine, event_lines
from tests.contract.chat_checking import message
from tests.support.every_kind import fill, seen
from tests.support.processes import Program

from .places import place_of, recorded

TAKER = Program("tests.exchange.taker")


async def test_twice_is_once(store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time nothing is written, or tried in memory before; nor into the store that it came from."""
    with refold.open(":memory:") as source:
        await fill(source)
        export_events(source.log, tmp_path / "file")
        take_in_events(store.log, tmp_path / "file")
        end, count = store.now(), len(store.contexts())

        tried: list[object] = []
        monkeypatch.setattr(taking_in, "rehearse", lambda _log, _path, growing: tried.extend(growing))
        again = take_in_events(store.log, tmp_path / "file")

        assert (again, store.now(), tried) == (TakenIn(unchanged=count), end, [])
        assert take_in_events(source.log, tmp_path / "file") == TakenIn(unchanged=count)


async def test_a_file_that_has_grown(store: refold.Store, tmp_path: Path) -> None:
    """Contexts are extended by what they have got since, new ones come, the others stay."""
    with refold.open(":memory:") as source:
        await fill(source)
        before = export_events(source.log, tmp_path / "file").events
        take_in_events(store.log, tmp_path / "file")
        source.chat("a").add_message("user", "and on", idempotency_key="later")
        source.chat("a").truncate(max_items=2)
        await source.queue("q").append(refold.PoolItem("and on"))
        source.chat("a").fork("new").add_message("user", "new")
        report = export_events(source.log, tmp_path / "file")

        taken = take_in_events(store.log, tmp_path / "file")

        assert taken == TakenIn(added=1, extended=2, unchanged=report.streams - 3, events=report.events - before)
        assert recorded(store) == recorded(source)
        assert await seen(store) == await seen(source)
        assert store.verify().is_whole


def test_what_is_erased_meanwhile(store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file was checked before: it does not bring more of an erased context."""
    with refold.open(":memory:") as source:
        source.chat("a", user="mia").add_message("user", "one")
        export_events(source.log, tmp_path / "file")
        take_in_events(store.log, tmp_path / "file")
        source.chat("a").add_message("user", "two")
        export_events(source.log, tmp_path / "file")
    monkeypatch.setattr(taking_in, "rehearse", lambda *_: store.erase(user="mia", why="asked", dry_run=False))

    with pytest.raises(ConcurrencyError, match="import it again"):
        take_in_events(store.log, tmp_path / "file")
    monkeypatch.undo()
    with pytest.raises(InvalidInputError, match="texts of chat:a were erased here"):
        take_in_events(store.log, tmp_path / "file")
    assert store.log.head("chat:a") == 2


def test_what_is_erased_between_two_appends(
    store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a context that is new here, too, and the file may have what was erased."""
    with refold.open(":memory:") as source:
        source.chat("a").add_messages([{"role": "user", "content": str(number)} for number in range(6)])
        export_events(source.log, tmp_path / "file")
    read = event_lines

    def erasing(file: Path) -> Iterator[ReadLine]:
        for number, line in enumerate(read(file)):
            if number == 3:
                store.erase(context="a", why="asked", dry_run=False)
            yield line

    monkeypatch.setattr(taking_in, "BATCH_EVENTS", 2)
    monkeypatch.setattr(taking_in, "checked_file", lambda *_: {ERASURES: 0, "chat:a": 0})
    monkeypatch.setattr(taking_in, "event_lines", erasing)
    with pytest.raises(ConcurrencyError, match="import it again"):
        take_in_events(store.log, tmp_path / "file")
    assert store.log.head("chat:a") == 2


def test_what_is_erased_at_the_moment_of_an_append(
    store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append itself is refused, and none of its events is there."""
    with refold.open(":memory:") as source:
        source.chat("a").add_messages([{"role": "user", "content": str(number)} for number in range(6)])
        export_events(source.log, tmp_path / "file")
    store.chat("other").add_message("user", "secret")
    append = store.log.append

    def crossed(batch: Sequence[NewEvents], **options: Any) -> Any:
        if store.log.head("chat:a"):
            monkeypatch.setattr(store.log, "append", append)
            store.erase(context="other", why="asked", dry_run=False)
        return append(batch, **options)

    monkeypatch.setattr(taking_in, "BATCH_EVENTS", 2)
    monkeypatch.setattr(store.log, "append", crossed)
    with pytest.raises(ConcurrencyError, match="import it again"):
        take_in_events(store.log, tmp_path / "file")

    assert store.log.head("chat:a") == 2


def test_an_erasure_of_others_meanwhile(store: refold.Store, tmp_path: Path) -> None:
    """Where nothing is added, it does not matter."""
    store.chat("other").add_message("user", "secret")
    with refold.open(":memory:") as source:
        source.chat("a").add_message("user", "one")
        export_events(source.log, tmp_path / "file")
    take_in_events(store.log, tmp_path / "file")
    store.erase(context="other", why="asked", dry_run=False)

    checked = {ERASURES: 0, "chat:a": 2}
    taken = taking_in.take_in_checked(store.log, tmp_path / "file", checked, progress=None)
    assert taken == TakenIn(unchanged=1)


async def test_an_older_file(store: refold.Store, tmp_path: Path) -> None:
    """What goes further here than in the file stays as it is."""
    with refold.open(":memory:") as source:
        await fill(source)
        export_events(source.log, tmp_path / "old")
        source.chat("a").add_message("user", "and on")
        export_events(source.log, tmp_path / "new")
        take_in_events(store.log, tmp_path / "new")

        taken = take_in_events(store.log, tmp_path / "old")

        assert (taken.unchanged, taken.events) == (len(store.contexts()), 0)
        assert recorded(store) == recorded(source)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_killed_half_way(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """Wherever that happens, taken in again it is all there, once, and the store is whole."""
    place = place_of(kind, request, tmp_path, "target.db")
    with refold.open(":memory:") as source:
        await fill(source)
        source.chat("a").add_items([message(f"i{number}") for number in range(20)], idempotency_key="many")
        report = export_events(source.log, tmp_path / "file")
        heads = list[int]()
        for commits in (0, 1, 4, 9, 20):
            taker = TAKER.start(place, str(tmp_path / "file"), commits)
            said = taker.communicate(timeout=60)[0]
            assert (taker.returncode, said) == (-signal.SIGKILL, "")
            with refold.open(place) as target:
                heads.append(sum(number for _, number in target.now().heads))

        with refold.open(place) as target:
            taken = take_in_events(target.log, tmp_path / "file")

            assert heads == sorted(set(heads))
            assert taken.events == report.events - heads[-1]
            assert (taken.added > 0, taken.unchanged > 0) == (True, True)
            assert recorded(target) == recorded(source)
            assert await seen(target) == await seen(source)
            assert target.verify().is_whole


@pytest.mark.parametrize("batch", [1, 2, 7, 1_000])
def test_calls_stay_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    """However small the commits are, what was recorded under one key is committed as one, and known under it."""
    monkeypatch.setattr(taking_in, "BATCH_EVENTS", batch)
    with refold.open(":memory:") as source, refold.open(":memory:") as target:
        chat = source.chat("a")
        chat.add_items([message(f"k{number}") for number in range(9)], idempotency_key="k")
        chat.add_items([message(f"l{number}") for number in range(9)], idempotency_key="l")
        chat.add_items([message(f"m{number}") for number in range(9)])
        export_events(source.log, tmp_path / "file")

        take_in_events(target.log, tmp_path / "file")

        there = target.chat("a")
        for key in "kl":
            there.add_items([message(f"{key}{number}") for number in range(9)], idempotency_key=key)
        assert there.version == chat.version == 28
        assert recorded(target) == recorded(source)


def test_another_past(store: refold.Store, tmp_path: Path) -> None:
    """A context that went another way here is refused, wherever it parts, and nothing of the file is written."""
    with refold.open(":memory:") as source:
        source.chat("a").add_items([message(f"i{number}") for number in range(3)])
        export_events(source.log, tmp_path / "old")
        take_in_events(store.log, tmp_path / "old")
        source.chat("a").add_message("user", "there")
        source.chat("0").add_message("user", "comes before it in the file")
        store.chat("a").add_message("user", "here")
        export_events(source.log, tmp_path / "file")
        end = store.now()

        with pytest.raises(InvalidInputError, match="chat:a is here already, and its version 5 is another"):
            take_in_events(store.log, tmp_path / "file")

        assert (store.now(), [row.id for row in store.contexts()]) == (end, ["a"])


def test_a_long_past(tmp_path: Path) -> None:
    """More events than are compared, or committed, at a time; and one that is another among them is found."""
    with refold.open(":memory:") as source, refold.open(tmp_path / "target.db") as target:
        for start in range(0, 2_500, 500):
            source.chat("a").add_items([message(f"i{number}") for number in range(start, start + 500)])
        export_events(source.log, tmp_path / "file")
        assert take_in_events(target.log, tmp_path / "file").events == 2_501
        source.chat("a").add_message("user", "more")
        export_events(source.log, tmp_path / "file")
        assert take_in_events(target.log, tmp_path / "file") == TakenIn(extended=1, events=1)
        changed = (tmp_path / "file").read_text(encoding="utf-8").replace('"i1700"', '"other"')
        (tmp_path / "changed").write_text(changed, encoding="utf-8")

        with pytest.raises(InvalidInputError, match="its version 1702 is another"):
            take_in_events(target.log, tmp_path / "changed")
        assert target.verify().is_whole
