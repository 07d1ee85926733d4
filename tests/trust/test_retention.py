"""Retention: contexts are erased some time after their last event, where a policy says so, and never by themselves."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import refold
from refold.domain.clock import REAL_SYSTEM
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.log.memory_log import MemoryLog
from refold.domain.memory.records import MemoryRecord
from refold.infrastructure.log.sqlite.connection import SqliteDatabase
from refold.infrastructure.trust.receipts import Receipt
from refold.infrastructure.trust.retention import DAYS_MAX, days_of
from refold.infrastructure.trust.selection import Selection
from tests.cli.running import refold as run

DAY = 86_400.0


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        # A whole number of seconds, so that sums of days are exact.
        self.time = REAL_SYSTEM.now() // 1 - 1_000 * DAY

    def now(self) -> float:
        """Return the time that was set."""
        return self.time

    def new_id(self, prefix: str) -> str:
        """Return an id that no other has."""
        return REAL_SYSTEM.new_id(prefix)


def test_contexts_are_erased_when_their_time_is_over(location: str) -> None:
    """Those that match, once, unless something that must be kept shows them."""
    clock = Clock()
    with refold.open(location, system=clock) as store:
        for name, user in (("old", "mia"), ("kept", "mia"), ("shown", "mia"), ("other", "ben")):
            store.chat(name, user=user).add_message("user", "hello")
        store.queue("q", user="mia")
        for scope in ("mia", "user:mia", "user/mia", "ben", "amia"):
            store.memory().scope(scope).put(MemoryRecord(scope=scope, key="k", value="v"))
        store.hold("kept", why="case 12")
        store.chat("shown").fork("fork")
        store.hold("fork", why="case 12")
        assert store.apply_retention(dry_run=False).contexts == {}
        policy = store.retain("mia's", "400 days", kind="chat", user="mia", why="notice")
        clock.time += 399 * DAY
        assert store.apply_retention().contexts == {}
        clock.time += DAY
        due = store.apply_retention()

        done = store.apply_retention(dry_run=False)

        assert (due.contexts, due.erasure) == ({"mia's": ("chat:old",)}, None)
        assert done.contexts == due.contexts
        texts = {name: store.chat(name).items[0].content for name in ("old", "kept", "other")}  # type: ignore[union-attr]
        assert texts == {"old": ["[erased]"], "kept": ["hello"], "other": ["hello"]}
        assert store.apply_retention().contexts == {}
        assert (policy.days, policy.is_of_user, store.policies()) == (400, True, [policy])
        store.retain("everything", "400 days", user="mia", why="notice")
        remembered = ("memory:mia", "memory:user/mia", "memory:user:mia")
        assert store.apply_retention().contexts == {"everything": remembered}
        store.stop_retaining("everything", why="over")
        store.stop_retaining("mia's", why="over")
        assert store.policies() == []


@pytest.mark.parametrize("step", ["complete", "sealed"])
def test_a_context_that_goes_on_while_its_time_is_over(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its texts, also where it goes on at the last moment; the others are erased."""
    clock = Clock()
    with refold.open(":memory:", system=clock) as store:
        for name in ("old", "live"):
            store.chat(name).add_message("user", "hello")
        store.retain("all", "400 days", kind="chat", why="notice")
        clock.time += 401 * DAY
        before, news = getattr(Selection, step), iter(["I am back"])

        def meanwhile(selection: Selection) -> Any:
            for text in news:
                store.chat("live").add_message("user", text)
            return before(selection)

        monkeypatch.setattr(Selection, step, meanwhile)
        assert store.apply_retention(dry_run=False).contexts == {"all": ("chat:old",)}
        assert [item.text for item in store.chat("live").items] == ["hello", "I am back"]


def test_contexts_from_before_1970(location: str) -> None:
    """A machine whose clock was not set recorded them, as of 1970: their time is over before that of others."""
    clock = Clock()
    with refold.open(location, system=clock) as store:
        clock.time -= 100_000 * DAY
        store.chat("a").add_message("user", "hello")
        clock.time += 100_000 * DAY
        store.retain("all", "400 days", kind="chat", why="notice")

        assert store.apply_retention(dry_run=False).contexts == {"all": ("chat:a",)}
        assert store.apply_retention().contexts == {}
        assert store.verify(processes=1).is_whole


def test_an_event_at_the_moment_of_an_erasure_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is older than the erasure that did not reach it, and the next one does; then there is nothing to do."""
    clock = Clock()
    with refold.open(":memory:", system=clock) as store:
        store.chat("a").add_message("user", "hello")
        store.retain("all", "400 days", kind="chat", why="notice")
        clock.time += 401 * DAY
        erase, news = MemoryLog.erase, iter(["I am back"])

        def late(log: MemoryLog, *given: Any) -> Any:
            for text in news:
                store.chat("a").add_message("user", text)
            return erase(log, *given)

        monkeypatch.setattr(MemoryLog, "erase", late)
        assert store.apply_retention(dry_run=False).contexts == {"all": ("chat:a",)}
        assert [item.text for item in store.chat("a").items] == ["[erased]", "I am back"]
        clock.time += 401 * DAY
        assert store.apply_retention(dry_run=False).contexts == {"all": ("chat:a",)}
        assert "back" not in repr(store.chat("a").items)
        assert store.apply_retention(dry_run=False).contexts == {}


def test_a_context_of_which_a_part_was_erased_is_erased_when_its_time_is_over(location: str) -> None:
    """Somebody else who is erased had said something in it, or an item was."""
    clock = Clock()
    with refold.open(location, system=clock) as store:
        for name in ("of tom", "another"):
            store.chat(name, user="tom").add_message("user", "hello")
            with refold.acting(actor="mia"):
                store.chat(name).add_message("user", "and hello from me")
        store.chat("of mia", user="mia").add_message("user", "hello")
        store.retain("all", "400 days", kind="chat", why="notice")
        clock.time += 200 * DAY
        store.erase(user="mia", why="ticket 7", dry_run=False)
        store.erase(context="another", item="chat:another@2", why="ticket 8", dry_run=False)
        clock.time += 300 * DAY

        assert store.apply_retention(dry_run=False).contexts == {"all": ("chat:another", "chat:of tom")}
        assert store.apply_retention().contexts == {}
        assert "hello" not in str([store.chat(name).items for name in ("of tom", "another")])


TAGGED = {
    "ticket": {"chat:a", "chat:a2", "chat:a3", "chat:b", "pool:p"},
    "ticket=4711": {"chat:a", "chat:a2", "chat:a3"},
    "ticket=4712": {"chat:b"},
    "team=süd": {"chat:a", "chat:a2", "chat:a3"},
    "team=north": {"chat:a", "chat:a2", "chat:a3", "queue:q", "queue:q2"},
    "paid=true": {"chat:b"},
    "team=": set(),
    "before": set(),
}


def test_a_tag_is_an_attribute_of_a_chat_or_one_of_a_container(location: str) -> None:
    """By its name, or with a value; a fork has those of its ancestor."""
    clock = Clock()
    with refold.open(location, system=clock) as store:
        chat = store.chat("a", attributes={"ticket": 4711, "team": ["north", "süd"]})
        for name in ("a2", "a3"):
            chat = chat.fork(name)
            chat.add_message("user", "more")
        store.chat("b", attributes={"ticket": "4712", "paid": True}, agent="triage")
        store.chat("none", source="air.json").add_message("user", "ticket")
        queue = store.queue("q", tags=["before"])
        asyncio.run(queue.change_settings(tags=["team=north"]))
        asyncio.run(queue.append(refold.PoolItem("text")))
        asyncio.run(queue.branch("q2").append(refold.PoolItem("text")))
        asyncio.run(store.pool("p", tags=["ticket", "other"]).add(refold.PoolItem("text", "about", "id")))
        # Nothing in it can be erased.
        store.pool("empty", tags=["ticket"])
        for tag in TAGGED:
            store.retain(tag, 3, tag=tag, why="x")
        store.retain("an-agent", 3, agent="triage", why="x")
        store.retain("a-source", 3, source="air.json", why="x")
        assert store.apply_retention().contexts == {}
        clock.time += 4 * DAY

        due = store.apply_retention().contexts

        assert {tag: {*due.get(tag, ())} for tag in TAGGED} == TAGGED
        assert (due["an-agent"], due["a-source"]) == (("chat:b",), ("chat:none",))
        assert [one.tag for one in store.policies()] == [*TAGGED, None, None]
        store.apply_retention(dry_run=False)
        assert store.apply_retention().contexts == {}


@pytest.mark.parametrize(
    ("keep", "days"),
    [
        (1, 1),
        (DAYS_MAX, DAYS_MAX),
        ("1 day", 1),
        (" 400 days ", 400),
        ("2 weeks", 14),
        ("1 year", 365),
        ("1000 years", DAYS_MAX),
        (timedelta(days=2, hours=23), 2),
    ],
)
def test_times_to_keep(keep: str | int | timedelta, days: int) -> None:
    """They are whole days, up to a thousand years."""
    assert days_of(keep) == days


@pytest.mark.parametrize(
    "keep",
    [0, -1, DAYS_MAX + 1, True, 1.5, None, "0 days", "1001 years", "3", "3 months", "-1 day", timedelta(hours=23)],
)
def test_what_is_no_time_to_keep(keep: Any) -> None:
    """The error shows it."""
    with pytest.raises(InvalidInputError) as refused:
        days_of(keep)
    assert str(refused.value).startswith(f"{keep!r} is no time: give")


def test_what_is_wrong_is_refused(location: str) -> None:
    """A policy says which contexts, for how long, and why."""
    with refold.open(location) as store:
        with pytest.raises(InvalidInputError, match="'soon' is no time"):
            store.retain("a", "soon", kind="chat", why="x")
        with pytest.raises(InvalidInputError, match="which contexts"):
            store.retain("a", 3, why="x")
        with pytest.raises(InvalidInputError, match="no kind"):
            store.retain("a", 3, kind="talk", why="x")
        for what in ("tag", "user", "agent", "source"):
            with pytest.raises(InvalidInputError, match=f"the {what} is empty"):
                store.retain("a", 3, why="x", **{what: ""})
        with pytest.raises(NotFoundError, match="no policy 'a': none is set"):
            store.stop_retaining("a", why="x")
        store.retain("b", 3, kind="chat", why="x")
        with pytest.raises(NotFoundError, match="no policy 'a': b"):
            store.stop_retaining("a", why="x")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (
            ("erase", "--context", "a", "--receipt", "r.json"),
            "only an erasure that is done has a receipt: give --for-good",
        ),
        (("erase", "--why", "x"), "give one of --user NAME and --context CTX"),
        (("erase", "--why", "x", "--user", "mia", "--context", "a"), "give one of --user NAME and --context CTX"),
        (("erase", "--why", "x", "--user", "mia", "--item", "@2"), "with --item ID for a single item"),
        (("erase", "--user", "mia", "--for-good"), "say why: --why TEXT"),
        (("archive", "--idle", "1 day"), "--idle, --why and --dry-run go with a FILE"),
        (("archive", "cold", "--why", "x"), "name the contexts, or take --idle TIME in their place"),
        (("archive", "cold", "a", "--idle", "1 day", "--why", "x"), "name the contexts, or take --idle TIME"),
    ],
)
def test_what_is_used_wrongly(arguments: tuple[str, ...], fault: str, tmp_path: Path) -> None:
    """It is told in the words of the options, and no list stands for what was to be done."""
    path = tmp_path / "agents.db"
    with refold.open(path) as store:
        store.chat("a", user="mia").add_message("user", "hello")

    ended = run(*arguments, "--db", path)

    assert (ended.code, ended.out, fault in ended.err) == (2, "", True)


def test_the_commands(tmp_path: Path) -> None:
    """They list first, and erase for good."""
    path = tmp_path / "agents.db"
    with refold.open(path, system=Clock()) as store:
        store.chat("b", user="ben").add_message("user", "hello")
    with refold.open(path) as store:
        store.chat("a", user="mia").add_message("user", "hello")

    listed = run("erase", "--db", path, "--user", "mia")
    listed_as_json = run("erase", "--db", path, "--user", "mia", "--why", "x", "--json")
    run("hold", "--db", path, "a", "--why", "case 12")
    held = run("hold", "--db", path)
    held_as_json = run("hold", "--db", path, "--json")
    unnamed = run("hold", "--db", path, "--why", "closed", "--release")
    refused = run("erase", "--db", path, "--user", "mia", "--why", "x", "--for-good")
    released = run("hold", "--db", path, "a", "--why", "closed", "--release")
    done = run("erase", "--db", path, "--user", "mia", "--why", "x", "--for-good", "--receipt", tmp_path / "r.json")

    assert "chat:a" in listed.out
    assert "nothing is erased yet" in listed.err
    assert [one["context"] for one in listed_as_json.json["contexts"]] == ["chat:a"]
    assert "case 12" in held.out
    assert (unnamed.code, "--why and --release go with CTX" in unnamed.err) == (2, True)
    assert held_as_json.json == [{"context": "chat:a", "why": "case 12"}]
    assert (refused.code, "must be kept" in refused.err) == (1, True)
    assert "nothing is held" in released.err
    assert (done.code, done.err.endswith("note: the texts of 2 events are erased\n")) == (0, True)
    assert json.loads((tmp_path / "r.json").read_text())["events"] == 2
    assert run("retain", "--db", path).err == "note: no context is due: there is no policy\n"
    with refold.open(path) as store:
        store.retain("pools", "1 days", kind="pool", why="notice")
    assert run("retain", "--db", path).err == "note: no context is due: by pools (after 1 day)\n"
    with refold.open(path) as store:
        store.retain("ben's", "400 days", kind="chat", user="ben", why="notice")
    due, due_as_json = run("retain", "--db", path), run("retain", "--db", path, "--json")
    assert due.out.split() == ["POLICY", "CONTEXT", "ben's", "chat:b"]
    assert "nothing is erased yet" in due.err
    assert due_as_json.json["contexts"] == {"ben's": ["chat:b"]}
    assert run("retain", "--db", path, "--for-good").err == ""
    with refold.open(path) as store:
        assert [item.content for item in store.chat("a").items] == [["[erased]"]]  # type: ignore[union-attr]


def test_what_stands_against_an_erasure_is_listed(tmp_path: Path) -> None:
    """Contexts that are held, and other events with the same text."""
    path = tmp_path / "agents.db"
    with refold.open(path) as store:
        for name, user in (("a", "mia"), ("b", "ben")):
            store.chat(name, user=user).add_message("user", "the same long question, word for word")
        store.hold("a", why="case 12")

    ended = run("erase", "--db", path, "--user", "mia", "--why", "x")

    assert "chat:a is held: nothing is erased until `refold hold --release` lets it go\n" in ended.err
    assert "chat:b@2 has the same text, and stays\n" in ended.err


def test_a_receipt_is_signed(tmp_path: Path) -> None:
    """By the key in a file, and not by one of another kind, or by none; then nothing is erased."""
    path, good, other, none = (tmp_path / name for name in ("agents.db", "good.pem", "other.pem", "none.pem"))
    signer = Ed25519PrivateKey.generate()
    for file, key in ((good, signer), (other, X25519PrivateKey.generate())):
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    none.write_text("no key")
    with refold.open(path) as store:
        store.chat("a").add_message("user", "a question")
    erase = ["erase", "--db", path, "--context", "a", "--why", "x", "--for-good", "--receipt", tmp_path / "r.json"]

    assert "other.pem is no Ed25519 key: make one with `openssl" in run(*erase, "--sign", other).fault
    assert "none.pem cannot be read as a key" in run(*erase, "--sign", none).fault
    assert "there is no folder" in run(*erase[:-1], tmp_path / "missing" / "r.json").fault
    assert "is where the database lies" in run(*erase[:-1], path).fault
    assert "a question" in run("show", "--db", path, "a").out
    assert run(*erase, "--sign", good).code == 0

    receipt = msgspec.json.decode((tmp_path / "r.json").read_bytes(), type=Receipt)
    with refold.open(path) as store:
        assert receipt.is_sound(store.log, signer.public_key())


def test_texts_that_a_reader_may_hold_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were archived, and may still be in the write-ahead log."""
    path = tmp_path / "agents.db"
    with refold.open(path) as store:
        store.chat("a").add_message("user", "a question")
    monkeypatch.setattr(SqliteDatabase, "scrub", lambda _: False)

    done = run("archive", "--db", path, tmp_path / "cold", "a", "--why", "cold")

    assert f"texts may still be in the WAL of {path}, while a reader holds it\n" in done.err


def test_what_is_said_twice_is_recorded_once(tmp_path: Path) -> None:
    """A context that is held for the same reason, or let go again, changes nothing; another reason is recorded."""
    with refold.open(tmp_path / "agents.db") as store:
        store.chat("a").add_message("user", "a question")
        heads = [0]
        for why in ("case 1", "case 1", "case 2"):
            store.hold("chat:a", why=why)
            heads.append(store.log.head("store:erasures"))
        for _ in range(2):
            store.release("chat:a", why="closed")
            heads.append(store.log.head("store:erasures"))

        assert heads == [0, 1, 1, 2, 3, 3]
        assert store.holds() == {}
