"""Contexts with their whole past, from one store to another of another kind: everything is there, and the same."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.chat.events import ItemsRestored
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.log.ports import LiveLog, Page
from refold.domain.moments import STREAM as MOMENTS
from refold.domain.spans import Span
from refold.domain.totals import Totals
from refold.infrastructure.exchange import TakenIn, export_events, take_in_events
from refold.infrastructure.files import replacing
from tests.contract.chat_checking import message
from tests.contract.writing import append
from tests.support.every_kind import fill, seen

from .places import PAIRS, place_of, recorded, rows

Two = tuple[refold.Store, refold.Store]


@pytest.fixture(params=PAIRS, ids="-".join)
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Two]:
    """Two empty stores of different kinds."""
    source, target = request.param
    with (
        refold.open(place_of(source, request, tmp_path, "source.db")) as one,
        refold.open(place_of(target, request, tmp_path, "target.db")) as other,
    ):
        yield one, other


async def test_a_whole_store(two: Two, tmp_path: Path) -> None:
    """Every kind of context, with forks, merges, rounds and large texts, at every version; and it verifies clean."""
    source, target = two
    await fill(source)
    file = tmp_path / "all.refold"

    report, taken = export_events(source.log, file), take_in_events(target.log, file)

    assert (report.streams, report.along) == (taken.added, ()) == (len(source.contexts()), ())
    assert report.events == taken.events == sum(number for _, number in source.now().heads)
    assert recorded(target) == recorded(source)
    assert await seen(target) == await seen(source)
    assert rows(target) == rows(source)
    assert target.verify().is_whole
    for name in ("a", "side", "told"):
        for version in range(1, source.chat(name).version + 1):
            assert target.chat(name).at(version).to_dict() == source.chat(name).at(version).to_dict()


async def test_there_and_back(two: Two, tmp_path: Path) -> None:
    """What went to another store and came back is what it was; the files say the same but for the times."""
    source, target = two
    await fill(source)
    there, back = tmp_path / "there", tmp_path / "back"
    export_events(source.log, there)
    take_in_events(target.log, there)
    export_events(target.log, back)

    with refold.open(":memory:") as third:
        take_in_events(third.log, back)

        assert recorded(third) == recorded(source)
    assert _timeless(back) == _timeless(there)


def _timeless(path: Path) -> list[Any]:
    lines = map(json.loads, path.read_bytes().split(b"\n")[:-1])
    return [{key: value for key, value in line.items() if key != "recorded_at"} for line in lines]


async def test_life_goes_on(two: Two, tmp_path: Path) -> None:
    """Every kind of context can be changed where it came to, forks by their parents' past included."""
    source, target = two
    await fill(source)
    export_events(source.log, tmp_path / "file")
    take_in_events(target.log, tmp_path / "file")

    chat, queue, pool = target.chat("side"), target.queue("q2"), target.pool("p")
    chat.add_message("user", "and on")
    await chat.merge(target.chat("told"))
    chat.fork("new").restore()
    await queue.append(refold.PoolItem("and on"))
    await pool.merge(target.pool("p2"))
    target.window("w").add(refold.BudgetItem("z", "and on", "s", 5))
    run = target.run("mia", "s1", 3)
    run.register_query("and on?")

    assert len(run.rounds) == 3
    assert target.verify().is_whole
    assert await seen(target.at(target.now())) == await seen(target)


@pytest.mark.parametrize(
    ("asked", "along"),
    [
        (["chat:deep"], {"chat:a", "chat:side", "chat:brief"}),
        (["chat:told"], set()),
        (["chat:brief", "pool:p2"], {"chat:a", "pool:p"}),
        (["run:mia/s1/2/0"], {"run:mia/s1/0/0", "run:mia/s1/1/0"}),
        (["queue:q2", "queue:q2", "window:w"], {"queue:q"}),
    ],
)
async def test_some_contexts(tmp_path: Path, asked: list[str], along: set[str]) -> None:
    """What they name comes along, however far: and what is there then is whole, and the same."""
    with refold.open(":memory:") as source, refold.open(":memory:") as target:
        await fill(source)

        report = export_events(source.log, tmp_path / "some", asked)
        take_in_events(target.log, tmp_path / "some")

        assert set(report.along) == along
        assert {row.key for row in target.contexts()} == {*asked, *along}
        assert recorded(target).items() <= recorded(source).items()
        there, here = await seen(target), await seen(source)
        assert all(there[key] == here[key] for key in there)
        assert target.verify().is_whole


def test_who_did_what_and_why(two: Two, tmp_path: Path) -> None:
    """Actor, correlation, cause and key of each event come along; position, time and digest are the log's own."""
    source, target = two
    with refold.acting(actor="mia", correlation_id="t1", because="chat:b@2"):
        source.chat("a").add_message("user", "one", idempotency_key="k1")
    export_events(source.log, tmp_path / "file")
    take_in_events(target.log, tmp_path / "file")

    here, there = source.log.read("chat:a")[-1], target.log.read("chat:a")[-1]

    assert there.meta == here.meta == type(here.meta)("mia", "t1", "chat:b@2", "k1", None, here.meta.fingerprint)
    assert (there.recorded_at >= here.recorded_at, there.digest != here.digest) == (True, True)
    line = json.loads((tmp_path / "file").read_text().splitlines()[-2])
    assert line["recorded_at"] == here.recorded_at


def test_a_repeated_call_is_known(two: Two, tmp_path: Path) -> None:
    """Under its idempotency key, of one event or of many, what it did there is what it answers here."""
    source, target = two
    one = source.chat("a").add_message("user", "one", idempotency_key="k1")
    source.chat("a").add_message("user", "two")
    source.chat("a").add_items([message(f"i{number}") for number in range(3)], idempotency_key="k2")
    export_events(source.log, tmp_path / "file")
    take_in_events(target.log, tmp_path / "file")
    chat = target.chat("a")
    version = chat.version

    again = chat.add_message("user", "one", idempotency_key="k1")
    chat.add_items([message(f"i{number}") for number in range(3)], idempotency_key="k2")
    with pytest.raises(refold.IdempotencyError):
        chat.add_message("user", "one once more", idempotency_key="k1")

    assert (again.id, again.content, chat.version) == (one.id, ["one"], version)
    assert chat.add_message("user", "new", idempotency_key="k3").content == ["new"]


def test_a_repeated_transaction_is_known(two: Two, tmp_path: Path) -> None:
    """What was committed as one is not done again."""
    source, target = two

    def work(store: refold.Store) -> list[int]:
        chats = [store.chat(name) for name in "ab"]
        with store.transaction(idempotency_key="k1"):
            for chat in chats:
                chat.add_message("user", "one")
        return [chat.version for chat in chats]

    versions = work(source)
    export_events(source.log, tmp_path / "file")
    take_in_events(target.log, tmp_path / "file")

    assert work(target) == versions == [2, 2]


def test_named_moments_stay_behind(two: Two, tmp_path: Path) -> None:
    """They name positions of the log they were given in; the other store has its own, and keeps them."""
    source, target = two
    source.chat("a").add_message("user", "one")
    source.name_moment("there")
    target.chat("b")
    mine = target.name_moment("here")

    report = export_events(source.log, tmp_path / "file")
    take_in_events(target.log, tmp_path / "file")

    assert (report.streams, target.moments()) == (1, {"here": mine})
    with pytest.raises(NotFoundError):
        export_events(source.log, tmp_path / "file", [MOMENTS])


def test_what_is_not_there(tmp_path: Path) -> None:
    """Nothing is written where a context does not exist, and a file that was there stays."""
    file = tmp_path / "file"
    file.write_text("mine")
    with refold.open(":memory:") as store:
        store.chat("a")
        for streams in (["chat:b"], ["chat:a", "a"], [""], ["pool:a"]):
            with pytest.raises(NotFoundError):
                export_events(store.log, file, streams)
        with pytest.raises(InvalidInputError):
            export_events(store.log, tmp_path, ["chat:a"])
        assert (file.read_text(), list(tmp_path.iterdir())) == ("mine", [file])
        for missing in (tmp_path, tmp_path / "nothing"):
            with pytest.raises(InvalidInputError):
                take_in_events(store.log, missing)


def test_an_empty_store(two: Two, tmp_path: Path) -> None:
    """It can be exported and taken in, and is empty then."""
    source, target = two

    assert export_events(source.log, tmp_path / "file").streams == 0
    assert take_in_events(target.log, tmp_path / "file") == TakenIn()
    assert target.contexts() == []


def test_progress(tmp_path: Path) -> None:
    """Both say how many contexts are done, and of how many."""
    told: list[tuple[int, int]] = []
    with refold.open(":memory:") as source, refold.open(":memory:") as target:
        for name in "abc":
            source.chat(name)

        export_events(source.log, tmp_path / "file", progress=lambda *done: told.append(done))
        take_in_events(target.log, tmp_path / "file", progress=lambda *done: told.append(done))

    assert told == [(1, 3), (2, 3), (3, 3)] * 2


class Growing:
    """A log that others write to between any two readings."""

    def __init__(self, log: Any, write: Any) -> None:
        self._log, self._write = log, write

    def __getattr__(self, name: str) -> Any:
        self._write()
        return getattr(self._log, name)


@pytest.mark.parametrize("streams", [None, ["chat:b"]])
def test_others_go_on_writing(streams: list[str] | None, tmp_path: Path) -> None:
    """What is exported meanwhile is closed in itself: whatever an event names is in the file."""
    with refold.open(":memory:") as source, refold.open(":memory:") as target:
        chat = source.chat("a")
        source.chat("b")

        def write() -> None:
            if chat.version < 12:
                chat.add_message("user", "text")
                named = ItemsRestored(items=(Span.of("chat:a", [chat.version]),), change=Totals())
                append(source.log, "chat:b", named)

        log: Any = Growing(source.log, write)
        export_events(log, tmp_path / "file", streams)
        take_in_events(target.log, tmp_path / "file")

        assert 1 < target.log.head("chat:b") < source.log.head("chat:b") <= 12
        assert target.verify().is_whole


class Counting:
    """A log that counts the questions it is asked, and the events that it gives."""

    def __init__(self, log: LiveLog) -> None:
        self._log = log
        self.questions = self.events = 0

    def __getattr__(self, name: str) -> Any:
        def ask(*given: Any, **options: Any) -> Any:
            answer = getattr(self._log, name)(*given, **options)
            self.questions += 1
            if name.startswith("read"):
                self.events += len(answer.events if isinstance(answer, Page) else answer)
            return answer

        return ask


async def test_how_often_it_is_read(tmp_path: Path) -> None:
    """Each event once, whatever names it; and all of a store page by page, not stream by stream."""
    with refold.open(":memory:") as source:
        await fill(source)
        whole: Any = Counting(source.log)
        some: Any = Counting(source.log)

        report = export_events(whole, tmp_path / "all")
        assert whole.events == report.events
        assert whole.questions < 10 < report.streams
        report = export_events(some, tmp_path / "some", ["chat:side", "chat:told"])
        assert some.events == report.events
        assert report.along
        assert export_events(source.log, tmp_path / "one", "chat:side").streams


KILLED = """
import os, signal, sys
import refold
from refold.infrastructure.exchange import export_events
with refold.open(sys.argv[1]) as store:
    export_events(store.log, sys.argv[2], progress=lambda done, count: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_what_a_killed_export_leaves(tmp_path: Path) -> None:
    """The file is as it was; what was written beside it is removed by the next export, and nobody else's file is."""
    with refold.open(tmp_path / "store.db") as store:
        store.chat("a").add_message("user", "text " * 10_000)
    folder = tmp_path / "exports"
    folder.mkdir()
    (folder / "file").write_bytes(b"as it was")
    (folder / "mine.tmp").write_bytes(b"mine")

    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "store.db", folder / "file"], check=False)

    assert done.returncode == -signal.SIGKILL
    assert (folder / "file").read_bytes() == b"as it was"
    left = {path.name for path in folder.iterdir()} - {"file", "mine.tmp"}
    assert len(left) == 1
    with refold.open(tmp_path / "store.db") as store, replacing(folder / "slow") as slow:
        slow.write(b"still written")
        export_events(store.log, folder / "file")
    assert sorted(path.name for path in folder.iterdir()) == ["file", "mine.tmp", "slow"]


@pytest.mark.parametrize("way", ["export", "archive"])
def test_a_full_disk(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file; what it was before stays, a new one is not there, and the store has all texts."""
    file = tmp_path / "file"
    with refold.open(tmp_path / "store.db") as store:
        store.chat("a").add_message("user", "hello")
        before = recorded(store)
        if way == "export":
            file.write_bytes(b"as it was")
        ways: dict[str, Callable[[], object]] = {
            "export": lambda: export_events(store.log, file),
            "archive": lambda: store.archive(file, "a", why="cold"),
        }
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InvalidInputError, match=f"{file} cannot be written: No space left"):
            ways[way]()

        assert (store.archives(), recorded(store)) == ({}, before)
    assert [one.read_bytes() for one in (file,) if one.exists()] == ([b"as it was"] if way == "export" else [])
    assert [one.name for one in tmp_path.iterdir() if "refold.tmp" in one.name] == []


def full(_: int) -> None:
    """Fail as a sync to a full disk does."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_is_named_comes_first(tmp_path: Path) -> None:
    """However the ids are ordered: a fork stands behind the context that it was forked from."""
    with refold.open(":memory:") as source:
        chat = source.chat("m")
        chat.add_message("user", "hi")
        chat.fork("z").fork("a").fork("k")
        export_events(source.log, tmp_path / "file")

    text = (tmp_path / "file").read_text()
    first = [text.index(f'"chat:{name}"') for name in "mzak"]
    assert first == sorted(first)
