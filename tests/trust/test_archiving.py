"""Archiving: the texts of contexts are in a file and nowhere else, and come back as they were."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.erasure.events import STREAM, StoreErased, StoreUnarchived
from refold.domain.erasure.skeleton import ERASED
from refold.domain.errors import (
    ConcurrencyError,
    DamagedFileError,
    HeldError,
    InvalidInputError,
    NotFoundError,
    StorageBusyError,
)
from refold.domain.positions import BEGINNING
from refold.infrastructure.exchange.archiving import Archived
from refold.infrastructure.exchange.copying import copy_store
from refold.infrastructure.exchange.import_events import take_in_events
from tests.cli.running import refold as run
from tests.trust.stores import KINDS, WORD, Place, places
from tests.trust.test_erasing import fill_with_word
from tests.trust.test_retention import DAY, Clock

ARCHIVED = "[archived]"
EVERY = ("chat:a", "pool:p", "window:w")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """The place of a store of each kind."""
    yield from places(request, tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[refold.Store]:
    """A store that is closed at the end."""
    with place.open() as opened:
        yield opened


def everything(store: refold.Store) -> list[Any]:
    """Return all that is recorded of contexts: places, times, envelopes, events and digests."""
    recorded = store.log.read_all(after=BEGINNING, limit=100_000).events
    return [one for one in recorded if not one.stream.startswith("store:")]


def texts_of(chat: refold.ChatContext) -> set[object]:
    """Return the texts of a chat's messages."""
    return {text for item in chat.items if isinstance(item, refold.ChatMessage) for text in item.content}


def test_texts_leave_every_byte_of_the_store_and_come_back(place: Place, tmp_path: Path) -> None:
    """Each event, envelope and digest is as it was, what is folded from them as well, and the store is sound."""
    file = tmp_path / "cold.jsonl"
    with place.open() as store:
        fill_with_word(store, "the name")
        others = [row.key for row in store.contexts() if row.key not in (*EVERY, "chat:b")]
        before, found = everything(store), len(store.search(WORD))
        rows = store.contexts()
        assert found > 1

        done = store.archive(file, *EVERY, *others, why="cold for a year")

        assert {one.context for one in done.contexts} == {*EVERY, *others}
        assert WORD not in repr(everything(store))
        assert store.search(WORD) == []
        assert ARCHIVED in texts_of(store.chat("a"))
        assert store.archives() == dict.fromkeys(sorted([*EVERY, *others]), str(file))
        assert store.verify().problems == ()
        assert [one.digest for one in everything(store)] == [one.digest for one in before]
        assert texts_of(store.chat("b")) == {"nothing of it"}
        assert file.stat().st_mode & 0o777 == 0o600
        assert (WORD in file.read_text()) is not place.is_sealed
    assert place.holding() == []
    if place.is_memory:
        return
    with place.open() as store:
        assert store.verify().problems == ()

        back = store.unarchive(*EVERY, *others)

        assert (back.events, back.contexts, back.erased) == (done.events, done.contexts, 0)
        # An encrypted event that comes back has the key that it had.
        assert everything(store) == before
        assert len(store.search(WORD)) == found
        assert store.contexts() == rows
        assert store.archives() == {}
        assert store.verify().problems == ()


def test_a_context_goes_on_while_it_is_archived(store: refold.Store, tmp_path: Path) -> None:
    """What is added stays, totals and versions fit, and a part of what was archived together comes back alone."""
    first, second = store.chat("first"), store.chat("second")
    for chat in (first, second):
        chat.add_message("user", "an old question")
    tokens = first.estimated_tokens()
    store.archive(tmp_path / "cold", "first", "second", why="cold")
    assert first.estimated_tokens() == tokens

    first.add_message("user", "a new one")
    back = store.unarchive("first")

    assert [one.context for one in back.contexts] == ["chat:first"]
    assert texts_of(first) == {"an old question", "a new one"} == texts_of(store.chat("first"))
    # Their digests are those of whole events again, so no seal is recorded for them.
    [said] = [one for one in store.log.read_events(STREAM) if isinstance(one, StoreUnarchived)]
    assert said.erased == ()
    assert texts_of(second) == {ARCHIVED}
    assert list(store.archives()) == ["chat:second"]
    store.archive(tmp_path / "more", "first", why="cold")
    with pytest.raises(InvalidInputError, match="name contexts of one file at a time"):
        store.unarchive("first", "second")
    assert store.verify().problems == ()


def test_it_can_be_archived_again(store: refold.Store, tmp_path: Path) -> None:
    """Once it is back; while it is away, the error says where it is."""
    chat = store.chat("a")
    chat.add_message("user", "a question")
    store.archive(tmp_path / "one", "a", why="cold")
    with pytest.raises(InvalidInputError, match=f"chat:a is in {tmp_path / 'one'} already: unarchive it first"):
        store.archive(tmp_path / "two", "a", why="cold")
    assert not (tmp_path / "two").exists()

    store.unarchive("a")
    store.archive(tmp_path / "two", "a", why="cold")

    assert store.archives() == {"chat:a": str(tmp_path / "two")}
    store.unarchive("a")
    assert texts_of(chat) == {"a question"}


@pytest.mark.parametrize("scope", ["context", "item", "user"])
def test_what_is_erased_never_comes_back(store: refold.Store, tmp_path: Path, scope: str) -> None:
    """The erasure names what is archived, says where the file is, and the rest comes back."""
    chat = store.chat("a", user="mia")
    for text in ("first", "second"):
        chat.add_message("user", text)
    store.archive(tmp_path / "cold", "a", why="cold")
    wanted: dict[str, Any] = {
        "context": {"context": "a"},
        "item": {"context": "a", "item": chat.items[0].id},
        "user": {"user": "mia"},
    }[scope]

    told = store.erase(**wanted, why="ticket 9")
    done = store.erase(**wanted, why="ticket 9", dry_run=False)

    assert told.events == done.events > 0
    assert any(f"the archive {tmp_path / 'cold'}, from which nothing of it" in where for where in done.unreached)
    assert done.receipt is not None
    assert done.receipt.is_sound(store.log)
    back = store.unarchive("a")
    assert texts_of(chat) == ({ERASED, "second"} if scope == "item" else {ERASED})
    assert back.erased == done.events
    assert store.verify().problems == ()


def test_contexts_that_others_show_go_with_them(store: refold.Store, tmp_path: Path) -> None:
    """Alone they are refused, since a fork would lose what it shows."""
    parent = store.chat("parent")
    parent.add_message("user", "a question")
    fork = parent.fork("fork")
    fork.fork("last")

    with pytest.raises(InvalidInputError, match="chat:fork, chat:last would lose what they took from it: archive them"):
        store.archive(tmp_path / "cold", "parent", why="cold")
    assert texts_of(fork) == {"a question"}

    store.archive(tmp_path / "cold", "parent", "fork", "last", why="cold")
    assert texts_of(fork) == {ARCHIVED}
    store.unarchive("parent")
    assert texts_of(fork) == {"a question"}


def test_cold_contexts(tmp_path: Path) -> None:
    """Those without a newer event, unless they are held or a newer one shows something of them."""
    clock = Clock()
    with refold.open(":memory:", system=clock) as store:
        old = store.chat("old")
        old.add_message("user", "old")
        store.chat("shown").add_message("user", "shown")
        store.chat("held").add_message("user", "held")
        store.hold("held", why="a case")
        clock.time += 100 * DAY

        told = store.archive(tmp_path / "cold", idle="90 days", why="cold", dry_run=True)
        assert [one.context for one in told.contexts] == ["chat:old", "chat:shown"]
        assert (told.is_dry_run, (tmp_path / "cold").exists(), store.archives()) == (True, False, {})
        assert store.archive(tmp_path / "cold", idle=101, why="cold").contexts == ()

        done = store.archive(tmp_path / "cold", idle=timedelta(days=100), why="cold")
        assert list(store.archives()) == [one.context for one in done.contexts] == ["chat:old", "chat:shown"]
        nothing = Archived(file=str(tmp_path / "more"), contexts=(), events=0)
        assert store.archive(tmp_path / "more", idle=99, why="cold") == nothing


def test_what_is_refused(store: refold.Store, tmp_path: Path) -> None:
    """Nothing changes, and no file is left."""
    chat = store.chat("a")
    chat.add_message("user", "a question")
    (tmp_path / "there").write_text("something else")
    head = store.log.head(STREAM)

    with pytest.raises(InvalidInputError, match="say which contexts"):
        store.archive(tmp_path / "new", why="cold")
    with pytest.raises(InvalidInputError, match="say which contexts"):
        store.archive(tmp_path / "new", "a", idle=3, why="cold")
    with pytest.raises(InvalidInputError, match="say why"):
        store.archive(tmp_path / "new", "a", why=" ")
    with pytest.raises(InvalidInputError, match="is there already: name a new file"):
        store.archive(tmp_path / "there", "a", why="cold")
    with pytest.raises(InvalidInputError, match="no folder"):
        store.archive(tmp_path / "no folder" / "new", "a", why="cold")
    with pytest.raises(InvalidInputError, match="the file"):
        store.archive(tmp_path / "no text \udcff", "a", why="cold")
    with pytest.raises(NotFoundError, match="there is no context 'z'"):
        store.archive(tmp_path / "new", "z", why="cold")
    with pytest.raises(InvalidInputError, match="within a transaction"), store.transaction():
        store.archive(tmp_path / "new", "a", why="cold")
    with pytest.raises(NotFoundError, match="chat:a is not archived"):
        store.unarchive("a")

    assert store.log.head(STREAM) == head
    store.hold("a", why="a case")
    with pytest.raises(HeldError):
        store.archive(tmp_path / "new", "a", why="cold")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["there"]
    assert (tmp_path / "there").read_text() == "something else"
    assert texts_of(chat) == {"a question"}


def test_a_file_that_is_gone_or_changed(store: refold.Store, tmp_path: Path) -> None:
    """It is refused, and the file may lie elsewhere."""
    file, moved = tmp_path / "cold", tmp_path / "moved"
    chat = store.chat("a")
    chat.add_message("user", "a question")
    store.archive(file, "a", why="cold")
    file.rename(moved)

    with pytest.raises(InvalidInputError, match="say where the archive is now, with file="):
        store.unarchive("a")
    good = moved.read_bytes()
    for bad in (good[:-3], good.replace(b"a question", b"no question"), good[: len(good) // 2]):
        if bad == good:
            continue
        moved.write_bytes(bad)
        with pytest.raises(DamagedFileError, match="it is not as the archive was written"):
            store.unarchive("a", file=moved)
    moved.write_bytes(good)
    assert texts_of(chat) == {ARCHIVED}

    store.unarchive("a", file=moved)

    assert texts_of(chat) == {"a question"}


def test_an_erasure_that_comes_between(store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written into the file before is thrown away: it has what was erased."""
    chat = store.chat("a")
    for text in ("first", "second"):
        chat.add_message("user", text)
    item, log = chat.items[0].id, type(store._whole_log)
    replace, calls = log.erase, []

    def erase_between(self: Any, remnants: Any, new: Any) -> Any:
        calls.append(len(remnants))
        if len(calls) == 1:
            store.erase(context="a", item=item, why="ticket 1", dry_run=False)
        return replace(self, remnants, new)

    monkeypatch.setattr(log, "erase", erase_between)
    store.archive(tmp_path / "cold", "a", why="cold")

    assert len(calls) == 3
    assert b"first" not in (tmp_path / "cold").read_bytes()
    store.unarchive("a")
    assert texts_of(chat) == {ERASED, "second"}


def test_the_file_stays_if_it_is_not_known_whether_it_counts(
    store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt behind the commit loses nothing: the next process finishes, and the texts come back."""
    chat = store.chat("a")
    chat.add_message("user", "a question")
    log = type(store._whole_log)
    replace = log.erase

    def interrupted(self: Any, remnants: Any, new: Any) -> Any:
        replace(self, remnants, new)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(log, "erase", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.archive(tmp_path / "cold", "a", why="cold")

    assert store.archives() == {"chat:a": str(tmp_path / "cold")}
    store.unarchive("a")
    assert texts_of(store.chat("a")) == {"a question"}


def test_others_that_never_pause(store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some attempts it is given up, and no file is left; what is archived stays so."""
    store.chat("a").add_message("user", "a question")
    store.chat("b").add_message("user", "a question")
    store.archive(tmp_path / "before", "b", why="cold")

    def overtaken(self: Any, remnants: Any, new: Any) -> Any:
        raise ConcurrencyError(STREAM, expected=0, actual=1)

    monkeypatch.setattr(type(store._whole_log), "erase", overtaken)
    with pytest.raises(StorageBusyError, match="try again when they pause"):
        store.archive(tmp_path / "cold", "a", why="cold")
    with pytest.raises(StorageBusyError, match="try again when they pause"):
        store.unarchive("b")
    assert not (tmp_path / "cold").exists()
    assert list(store.archives()) == ["chat:b"]


def test_two_at_once_write_two_files(store: refold.Store, tmp_path: Path) -> None:
    """Of two that want one name, one is refused."""
    for name in ("a", "b"):
        store.chat(name).add_message("user", f"text of {name}")
    outcomes: list[object] = []

    def archive(name: str) -> None:
        try:
            outcomes.append(store.archive(tmp_path / "cold", name, why="cold"))
        except InvalidInputError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=archive, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(type(one).__name__ for one in outcomes) == ["Archived", "InvalidInputError"]
    (name,) = store.archives()
    store.unarchive(name)
    assert {text for one in ("a", "b") for text in texts_of(store.chat(one))} == {"text of a", "text of b"}


def test_what_is_recorded(store: refold.Store, tmp_path: Path) -> None:
    """Who, why and where, without any text."""
    store.chat("a").add_message("user", "a question")
    with refold.acting(actor="ops"):
        store.archive(tmp_path / "cold", "a", why="cold")
        store.unarchive("a")

    recorded = [one for one in store.log.read(STREAM) if isinstance(one.event, StoreErased | StoreUnarchived)]
    first, second = (one.event for one in recorded)
    assert isinstance(first, StoreErased)
    assert (first.scope, first.why, first.file) == ("archive", "cold", str(tmp_path / "cold"))
    assert len(first.hash) == 64
    assert isinstance(second, StoreUnarchived)
    assert second.contexts == ("chat:a",)
    assert {one.meta.actor for one in recorded} == {"ops"}


def test_the_file_of_a_plain_store_is_an_export(tmp_path: Path) -> None:
    """Another store takes it in."""
    with refold.open(tmp_path / "one.db") as store, refold.open(tmp_path / "two.db") as other:
        store.chat("a").add_message("user", "a question")
        store.archive(tmp_path / "cold.jsonl", "a", why="cold")

        take_in_events(other.log, tmp_path / "cold.jsonl")

        assert texts_of(other.chat("a")) == {"a question"}
        # Here it says whose texts they are, and how they come back.
        with pytest.raises(InvalidInputError, match="chat:a is archived here: unarchive it"):
            take_in_events(store.log, tmp_path / "cold.jsonl")


def test_a_copy_would_lose_what_is_archived(tmp_path: Path) -> None:
    """Its digests are made anew, and an archive has the old ones: so it is refused, and nothing is copied."""
    with refold.open(tmp_path / "one.db") as store:
        store.chat("a").add_message("user", "a question")
        store.archive(tmp_path / "cold", "a", why="cold")

    with pytest.raises(InvalidInputError, match=r"chat:a is archived in .*: unarchive it before"):
        copy_store(str(tmp_path / "one.db"), str(tmp_path / "two.db"))


def test_a_policy_erases_what_is_archived(tmp_path: Path) -> None:
    """The time of a context goes on while it is archived; behind that nothing of it comes back."""
    clock = Clock()
    with refold.open(":memory:", system=clock) as store:
        store.chat("a").add_message("user", "a question")
        store.archive(tmp_path / "cold", "a", why="cold")
        store.retain("chats", "1 day", why="policy 4", kind="chat")
        clock.time += 2 * DAY

        done = store.apply_retention(dry_run=False)

        assert done.contexts == {"chats": ("chat:a",)}
        assert store.unarchive("a").events == 0
        assert texts_of(store.chat("a")) == {ERASED}
        assert store.apply_retention(dry_run=False).contexts == {}


def test_the_report_is_plain_data(tmp_path: Path) -> None:
    """As the command line prints it."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "a question")
        done = store.archive(tmp_path / "cold", "a", why="cold")
    assert msgspec.to_builtins(done) == {
        "file": str(tmp_path / "cold"),
        "contexts": ({"context": "chat:a", "events": 1},),
        "events": 1,
        "is_dry_run": False,
        "erased": 0,
        "unreached": (),
    }


def test_what_was_erased_before(store: refold.Store, tmp_path: Path) -> None:
    """Whole events and parts of them stay erased when they are archived, and when they come back."""
    chat = store.chat("a", user="ben")
    for text in ("first", "second"):
        chat.add_message("user", text)
    with refold.acting(actor="mia"):
        chat.add_message("user", "third")
    store.chat("hers", user="mia").add_message("user", "of mia")
    store.erase(context="a", item=chat.items[0].id, why="ticket 1", dry_run=False)
    store.erase(user="mia", why="ticket 2", dry_run=False)
    before = everything(store)

    store.archive(tmp_path / "cold", "a", "hers", why="cold")
    assert texts_of(chat) == {ERASED, ARCHIVED}
    assert texts_of(store.chat("hers")) == {ERASED}
    assert store.verify().problems == ()
    # Of the other one, nothing was left.
    assert list(store.archives()) == ["chat:a"]
    store.unarchive("a")

    assert texts_of(chat) == {ERASED, "second", "third"}
    assert everything(store) == before
    assert [one.actor for one in store.audit("chat:a")][-1] == ERASED
    assert store.verify().problems == ()


def test_the_commands(tmp_path: Path) -> None:
    """They list, archive, say where the texts are, and bring them back."""
    path, file = tmp_path / "agents.db", tmp_path / "cold.jsonl"
    with refold.open(path) as store:
        store.chat("a").add_message("user", "a question")

    listed = run("archive", "--db", path, file, "a", "--dry-run")
    nothing = run("archive", "--db", path)
    cold = run("archive", "--db", path, file, "--idle", "1 day", "--why", "cold")
    unsaid = run("archive", "--db", path, file, "a")
    done = run("archive", "--db", path, file, "a", "--why", "cold", "--json")
    shown = run("show", "--db", path, "a")
    where = run("archive", "--db", path)
    as_json = run("archive", "--db", path, "--json")
    moved = file.rename(tmp_path / "moved")
    missing = run("unarchive", "--db", path, "a")
    back = run("unarchive", "--db", path, "a", "--from", moved)

    assert "chat:a" in listed.out
    assert "nothing is archived yet: leave --dry-run out" in listed.err
    assert "nothing is archived" in nothing.err
    assert "no context has anything to be moved" in cold.err
    assert (unsaid.code, "say why: --why TEXT" in unsaid.err) == (2, True)
    assert json.loads(done.out)["events"] == 1
    assert ARCHIVED in shown.out
    assert f"its texts are in {file}: `refold unarchive chat:a` brings them back" in shown.err
    assert f"chat:a   {file}" in where.out
    assert json.loads(as_json.out) == [{"context": "chat:a", "file": str(file)}]
    assert (missing.code, "say where the archive is now" in missing.err) == (1, True)
    assert (back.code, "chat:a" in back.out) == (0, True)
    with refold.open(path) as store:
        assert texts_of(store.chat("a")) == {"a question"}


def test_what_others_erase_behind_an_archive_is_said(tmp_path: Path) -> None:
    """On the command line, too."""
    path = tmp_path / "agents.db"
    with refold.open(path) as store:
        store.chat("a").add_message("user", "a question")
        store.archive(tmp_path / "cold", "a", why="cold")
        store.erase(context="a", why="ticket 3", dry_run=False)

    back = run("unarchive", "--db", path, "a")

    assert "erased meanwhile, and not brought back: 2 events" in back.err
