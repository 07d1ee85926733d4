"""Erasing: the texts are gone from everything, and everything else goes on as before."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import msgpack
from msgspec.structs import replace

import refold
from refold.domain.erasure.events import STREAM, ErasureFinished, StoreErased, events_of_store
from refold.domain.erasure.skeleton import ERASED, Mask
from refold.domain.errors import ConcurrencyError, DamagedError, HeldError, InvalidInputError, NotFoundError
from refold.domain.formats.responses import source_shape
from refold.domain.log import admission
from refold.domain.log.ports import Remnant
from refold.domain.memory.records import MemoryRecord
from refold.domain.positions import BEGINNING
from refold.infrastructure.exchange.export import export_events
from refold.infrastructure.exchange.import_events import take_in_events
from refold.infrastructure.log import background
from refold.infrastructure.trust.erasing import Eraser
from refold.infrastructure.trust.receipts import HASH_BYTES
from refold.infrastructure.trust.selection import Selection
from tests.contract.chat_checking import Teller
from tests.support.every_kind import fill
from tests.support.waiting import soon
from tests.trust.stores import KINDS, WORD, Place, places

LARGE = f"a long text with {WORD} in it, that lies beside its event; " * 200


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """The place of a store of each kind."""
    yield from places(request, tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[refold.Store]:
    """A store that is closed at the end."""
    with place.open() as opened:
        yield opened


def fill_with_word(store: refold.Store, name: str = WORD) -> None:
    """
    Write a few contexts of a user, with the word in each kind of text, and one of somebody else's; items have names
    with `name`.
    """
    chat = store.chat("a", user="mia", session="s1", agent="triage", attributes={"note": WORD})
    chat.add_message("system", f"Be kind to {WORD}.")
    for number in range(90):
        chat.add_message("user", LARGE if number % 30 == 0 else f"question {number} of {WORD}")
    chat.add_function_call("look", f'{{"q": "{WORD}"}}', call_id="c1")
    chat.add_function_output("look", f"found {WORD}", call_id="c1")
    chat.evict(chat.items[2].id, reason=f"because of {WORD}")
    chat.saved_states.save("graph", {"k": {"seen": WORD}})
    memory = store.memory().scope("user:mia")
    memory.put(MemoryRecord(scope="user:mia", key=f"about {name}", value={"is": WORD}, tags=[WORD]))
    asyncio.run(store.pool("p", user="mia").add(refold.PoolItem({"x": WORD}, WORD, "i1")))
    store.window("w", max_tokens=900, user="mia").add(refold.BudgetItem(name, WORD, WORD, 1))
    run = store.run("mia", "s1", 0)
    run.register_query(WORD, name)
    run.close(reason=WORD)
    store.chat("b", user="ben").add_message("user", "nothing of it")


def events_of(store: refold.Store) -> list[Any]:
    """Return all events of a store."""
    return [one.event for one in store.log.read_all(after=BEGINNING, limit=100_000).events]


def test_no_byte_is_left_of_a_user(place: Place, tmp_path: Path) -> None:
    """In the files of the store, the rows, the index, what is exported afterwards; and the store is sound."""
    with place.open() as store:
        fill_with_word(store)
        store.contexts(), store.search(WORD), store.rollup(), store.lineage()
        told = store.erase(user="mia", why="ticket 7")
        assert store.search(WORD)

        done = store.erase(user="mia", why="ticket 7", dry_run=False)

        assert [one.context for one in told.contexts] == [one.context for one in done.contexts]
        assert (told.events, told.is_dry_run, done.is_dry_run) == (done.events, True, False)
        assert WORD not in repr(events_of(store))
        assert store.search(WORD) == []
        assert store.verify().problems == ()
        assert {(row.key, row.user) for row in store.contexts()} >= {("chat:a", ""), ("chat:b", "ben")}
        export_events(store.log, tmp_path / "after.jsonl")
    assert WORD not in (tmp_path / "after.jsonl").read_text()
    assert place.holding() == []
    if not place.is_memory:
        with place.open() as store:
            assert store.verify().problems == ()
            assert WORD not in repr(events_of(store))


def test_a_backup_made_afterwards_has_nothing_of_it(place: Place, tmp_path: Path) -> None:
    """Neither one that is new, nor one that was begun before: what is restored has no byte of the text."""
    if place.is_memory or place.is_server:
        pytest.skip("a file is restored into a file, which is looked through here")
    begun, new = tmp_path / "begun", tmp_path / "new"
    with place.open() as store:
        fill_with_word(store)
        store.backup(begun)
        assert restored_from(begun, place, tmp_path / "control") > 0
        store.erase(user="mia", why="ticket 7", dry_run=False)
        store.backup(begun)
        store.backup(new)

    for number, file in enumerate((begun, new)):
        assert restored_from(file, place, tmp_path / f"restored {number}") == 0


def test_large_texts_of_events_in_blocks_leave(place: Place) -> None:
    """Those that nobody else has; one that an event of another context refers to stays."""
    if place.is_memory or place.has_keys:
        pytest.skip("a log with keys lies on one of these, and a log in memory has no blocks")
    shared = LARGE.replace(WORD, "a word")
    with place.open() as store, store.transaction():
        chat = store.chat("a")
        for number in range(520):
            chat.add_message("user", {1: LARGE, 2: shared}.get(number, f"question {number}"))
        store.chat("b").add_message("user", shared)

    with place.open() as store:
        if place.is_server:
            assert sum(store.log.sealing()) > 0  # type: ignore[attr-defined]  # the log on PostgreSQL has it
        require_that_others_are_refused(store)
        store.erase(context="a", why="x", dry_run=False)

        assert [item.content for item in store.chat("b").items] == [[shared]]  # type: ignore[union-attr]
        assert store.verify().problems == ()
        assert len(texts_beside(place)) == 1
    assert place.holding() == []


def texts_beside(place: Place) -> list[Any]:
    """Return the large texts that lie beside their events."""
    opened: Any = psycopg.connect(place.location) if place.is_server else sqlite3.connect(place.location)
    with closing(opened) as connection:
        return list(connection.execute("SELECT hash FROM blob"))


def restored_from(file: Path, place: Place, folder: Path) -> int:
    """Return how often the word is in a store that is restored from a backup: in its events, and in its files."""
    folder.mkdir()
    refold.restore(file, folder / "s.db", keys=place.keys)
    with Place(
        str(folder / "s.db"), folder, keys=place.keys, encrypt=place.is_sealed or not place.has_keys
    ).open() as it:
        found = repr(events_of(it)).count(WORD)
    return found + sum(one.read_bytes().count(WORD.encode()) for one in folder.iterdir())


def test_functions_that_remember_texts_forget_them(store: refold.Store) -> None:
    """What is kept by the bytes beside an item is gone from memory, too."""
    store.chat("a").add_message("user", WORD)
    checked, read = admission._require_short_object, source_shape.left_out
    checked(f'{{"x":"{WORD}"}}'.encode())
    read(f'{{"responses":{{"patch":{{"drop":["{WORD}"]}}}}}}'.encode())
    assert min(checked.cache_info().currsize, read.cache_info().currsize) > 0

    store.erase(context="a", why="x", dry_run=False)

    assert (checked.cache_info().currsize, read.cache_info().currsize) == (0, 0)


def test_views_show_that_something_was_there(store: refold.Store) -> None:
    """With the versions, the calls, the forks, the totals and the audits that there were."""
    fill_with_word(store)
    chat = store.chat("a")
    fork = chat.fork("a2")
    version, tokens, count = chat.version, chat.estimated_tokens(), len(chat.items)
    audit = [(one.actor, one.recorded_at) for one in store.audit("chat:a")]

    store.erase(context="chat:a", why="ticket 8", dry_run=False)

    for shown in (chat, store.chat("a"), fork, store.chat("a2")):
        assert {text for item in shown.items if isinstance(item, refold.ChatMessage) for text in item.content} == {
            ERASED
        }
        assert (shown.estimated_tokens(), len(shown.items)) == (tokens, count)
    assert chat.version == version
    assert chat.items[-1].output == ERASED  # type: ignore[union-attr]  # it is an output
    assert [(one.actor, one.recorded_at) for one in store.audit("chat:a")] == audit
    assert chat.to_openai_messages()[-2]["tool_calls"][0]["function"]["arguments"] == "{}"
    chat.restore()
    chat.truncate(max_items=5)
    assert store.verify().problems == ()


def test_one_item_leaves_with_what_was_made_of_it(store: refold.Store) -> None:
    """A summary of it, one of summaries, and a copy that a framework saved; the others stay."""
    chat = store.chat("a")
    gone = chat.add_message("user", f"please forget {WORD}, which is a longer text")
    chat.add_message("user", "this may stay, and is a longer text as well")
    asyncio.run(chat.summarize(Teller(f"They spoke of {WORD}."), keep_recent_turns=1))
    chat.saved_states.save("graph", {"k": {"messages": [f"please forget {WORD}, which is a longer text"]}})
    packed = msgpack.encode(
        [{"said": msgpack.Ext(5, msgpack.encode([f"please forget {WORD}, which is a longer text"]))}]
    )
    chat.saved_states.save("graph", {"k": {"is": {"type": "msgpack", "base64": b64encode(packed).decode()}}})
    chat.saved_states.save("graph", {"k": {"text": f'{{"z":["please forget {WORD}, which is a longer text"],"a":1}}'}})
    other = store.chat("other")
    other.add_message("user", f"please forget {WORD}, which is a longer text")
    other.saved_states.save("graph", {"k": {"messages": [f"please forget {WORD}, which is a longer text"]}})

    told = store.erase(context="a", item=gone.id, why="ticket 9", dry_run=False)

    assert {one.context for one in told.contexts} == {"chat:a"}
    assert told.copies == (f"chat:other@{other.version - 1}", f"chat:other@{other.version}")
    texts = repr([one.event for one in chat.recorded_events()])
    assert WORD not in texts
    assert not any(one.value for one in chat.saved_states.all("graph"))
    assert "this may stay" in texts
    assert store.verify().problems == ()


def test_an_item_of_a_parent_is_erased_in_the_fork(store: refold.Store) -> None:
    """Wherever it is asked for."""
    chat = store.chat("a")
    gone = chat.add_message("user", WORD)
    fork = chat.fork("b")

    told = store.erase(context="chat:b", item=gone.id, why="x", dry_run=False)

    assert [one.context for one in told.contexts] == ["chat:a"]
    assert [item.content for item in fork.items] == [[ERASED]]  # type: ignore[union-attr]  # it is a message


def test_every_kind_of_context_can_be_erased(store: refold.Store) -> None:
    """All of a store, context by context, and verify finds nothing."""
    asyncio.run(fill(store))
    before = {row.key: (row.version, row.items, row.turns, row.tokens) for row in store.contexts()}

    for context in before:
        store.erase(context=context, why="all of it", dry_run=False)

    assert {row.key: (row.version, row.items, row.turns, row.tokens) for row in store.contexts()} == before
    assert store.verify().problems == ()
    for row in store.contexts():
        kind, name = row.key.split(":", 1)
        if kind in ("chat", "queue", "pool", "window"):
            assert repr(getattr(store, kind)(name, create=False).at(row.version))


def test_a_name_leaves_the_contexts_of_others(store: refold.Store) -> None:
    """Who asked for a call of somebody else's and decided on it has a pseudonym there; the rest stays as it was."""
    with refold.acting(actor="mia"):
        store.chat("a", user="mia").add_message("user", "mine")
        store.name_moment("begun")
    other = store.chat("b", user="ben", agent="triage")
    for number, clerk in enumerate(("mia", "eve")):
        other.add_function_call("pay", "{}", call_id=f"c{number}")
        other.approvals.request(f"c{number}", by=clerk, because="it is much")
        other.approvals.approve(f"c{number}", by=clerk)
    before = [event.event for event in store.log.read("chat:b")]
    with refold.acting(actor="mia"):
        done = store.erase(user="mia", why="ticket 7", dry_run=False)

    after = [event.event for event in store.log.read("chat:b")]
    everything = store.log.read_all(after=BEGINNING, limit=100).events
    assert "mia" not in str((everything, done.receipt))
    assert {one.meta.actor for one in everything if one.stream.startswith("store:")} == {ERASED}
    assert (done.mentions, list(store.moments())) == ((), ["begun"])
    assert [new == old for new, old in zip(after, before, strict=True)] == [True, True, False, False, True, True, True]
    asked, approved = after[2:4]
    assert asked.by == approved.by
    assert asked.reason == "it is much"
    assert store.verify().is_whole


def test_what_must_be_kept_is_not_erased(store: refold.Store) -> None:
    """Nor anything that it shows; once it is released, it can be."""
    fill_with_word(store)
    store.chat("a").fork("b2")
    store.hold("chat:b2", why="case 12")

    with pytest.raises(HeldError, match="`refold hold` releases it") as caught:
        store.erase(user="mia", why="ticket", dry_run=False)
    assert caught.value.contexts == ("chat:b2",)
    assert store.erase(user="mia", why="ticket").held == ("chat:b2",)
    assert store.holds() == {"chat:b2": "case 12"}
    assert WORD in repr(events_of(store))
    store.release("chat:b2", why="closed")
    store.erase(user="mia", why="ticket", dry_run=False)
    assert WORD not in repr(events_of(store))


def test_the_event_and_the_receipt_name_nobody(store: refold.Store) -> None:
    """They say who asked and why; of a user they have a salted hash, which tells whether it is this user."""
    fill_with_word(store)
    key = Ed25519PrivateKey.generate()
    with refold.acting(actor="the officer"):
        done = store.erase(user="mia", why="ticket 7", dry_run=False, signer=key)

    recorded = store.log.read(STREAM)
    erased = [one for one in recorded if isinstance(one.event, StoreErased)]
    receipt = done.receipt
    assert receipt is not None
    assert {one.meta.actor for one in erased} == {"the officer"}
    assert {one.event.why for one in erased} == {"ticket 7"}
    assert isinstance(recorded[-1].event, ErasureFinished)
    assert "mia" not in receipt.covered().decode()
    assert (receipt.is_of_user("mia"), receipt.is_of_user("ben")) == (True, False)
    assert receipt.is_sound(store.log, key.public_key())
    forged = replace(receipt, digest="00" * 32)
    forged = replace(forged, digest_of_receipt=blake2b(forged.covered(), digest_size=HASH_BYTES).hexdigest())
    assert not forged.is_sound(store.log)
    with pytest.raises(InvalidSignature):
        receipt.is_sound(store.log, Ed25519PrivateKey.generate().public_key())


def test_what_is_wrong_is_refused(store: refold.Store) -> None:
    """And nothing is changed."""
    chat = store.chat("a")
    chat.add_message("user", WORD)

    for wrong in ({}, {"user": "mia", "context": "a"}, {"user": "mia", "item": "x"}):
        with pytest.raises(InvalidInputError, match="say what"):
            store.erase(why="x", **wrong)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(InvalidInputError, match="say why"):
        store.erase(why=" ", context="a")
    for nobody in ("nobody", "x" * 300):
        with pytest.raises(NotFoundError):
            store.erase(why="x", user=nobody)
    with pytest.raises(NotFoundError):
        store.erase(why="x", context="a", item="nothing")
    with store.transaction():
        with pytest.raises(InvalidInputError, match="nothing is erased within a transaction"):
            store.erase(why="x", context="a", dry_run=False)
        with pytest.raises(InvalidInputError, match="nothing is held, released or retained within a transaction"):
            store.hold("a", why="x")
    assert store.log.head(STREAM) == 0


def test_an_older_export_brings_nothing_back(store: refold.Store, tmp_path: Path) -> None:
    """What was erased since is refused."""
    fill_with_word(store)
    export_events(store.log, tmp_path / "before.jsonl")
    store.erase(context="chat:a", why="x", dry_run=False)

    with pytest.raises(InvalidInputError, match="erased"):
        take_in_events(store.log, tmp_path / "before.jsonl")
    assert WORD not in repr([one.event for one in store.log.read("chat:a")])


def test_a_forged_tombstone_is_refused(tmp_path: Path) -> None:
    """Whoever writes a skeleton, a digest or another actor into the file is found out, with and without an erasure."""
    path = tmp_path / "agents.db"
    with refold.open(path) as store:
        for name in ("a", "b"):
            store.chat(name).add_message("user", WORD)
            store.chat(name).add_message("user", "another text")
        store.erase(context="a", why="x", dry_run=False)
    with sqlite3.connect(path) as connection:
        ((left,),) = connection.execute(
            "SELECT payload FROM event JOIN stream ON key = stream WHERE id = 'chat:a' AND version = 2"
        ).fetchall()
        connection.execute(
            "UPDATE event SET payload = ? WHERE version = 2 AND stream = (SELECT key FROM stream WHERE id = 'chat:b')",
            (left,),
        )
    connection.close()
    with refold.open(path) as store:
        assert store.log.read("chat:a", until=2)
        with pytest.raises(DamagedError, match="chat:b@2"):
            store.log.read("chat:b", until=2)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE event SET recorded_at = recorded_at - 1 WHERE version = 2 AND stream < 3")
    connection.close()
    with refold.open(path) as store, pytest.raises(DamagedError, match="chat:a@2"):
        store.log.read("chat:a", until=2)


def test_what_a_user_says_meanwhile_is_erased(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a context that was opened after the erasure had begun, and in memories."""
    store.chat("a", user="mia").add_message("user", "before")
    log, later = type(store._whole_log), list[refold.ChatContext]()
    erase = log.erase

    def erase_while_others_write(self: Any, remnants: Any, new: Any) -> Any:
        if not later:
            later.append(store.chat("b", user="mia"))
            later[0].add_message("user", WORD)
            store.memory().scope("user:mia").put(MemoryRecord(scope="user:mia", key="k", value=WORD))
        return erase(self, remnants, new)

    def complete_while_others_open(self: Selection, complete: Any = Selection.complete) -> None:
        monkeypatch.setattr(Selection, "complete", complete)
        store.chat("c", user="mia").add_message("user", WORD)
        complete(self)

    monkeypatch.setattr(log, "erase", erase_while_others_write)
    monkeypatch.setattr(Selection, "complete", complete_while_others_open)
    done = store.erase(user="mia", why="x", dry_run=False)

    assert {"chat:a", "chat:b", "chat:c", "memory:user:mia"} <= {one.context for one in done.contexts}
    assert WORD not in repr(events_of(store))


STEPS = ("forget", "scrub", "drop_others", "drop", "record")


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_leaves_it_finished_or_not_begun(place: Place, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Whatever was under way: the next process that opens the store does the rest."""
    if place.is_memory:
        pytest.skip("a store in memory is gone with its process")

    class Killed(BaseException):
        """The process was killed here."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    store = place.open()
    assert store._warning is not None
    store._warning.detach()
    fill_with_word(store)
    store.contexts(), store.search(WORD)
    with monkeypatch.context() as patched:
        owner = {"forget": store.log, "scrub": store.log, "record": Eraser}.get(step, store._projections)
        patched.setattr(owner, step, die)
        with pytest.raises(Killed):
            store.erase(user="mia", why="x", dry_run=False)
    store.log.close()

    with place.open() as store:
        assert isinstance(store.log.read_events(STREAM)[-1], ErasureFinished)
        assert WORD not in repr(events_of(store))
        assert store.search(WORD) == []
        assert store.verify().problems == ()
    assert place.holding() == []


def test_another_process_forgets_soon(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A context that is open there shows nothing of it after the next look."""
    if place.is_memory or place.has_keys:
        pytest.skip("no other process sees a store in memory, or has the key of this one")
    monkeypatch.setattr(background, "LOOK_SECONDS", 0.05)
    with place.open() as store:
        chat = store.chat("a")
        chat.add_message("user", WORD)
        past = chat.at(chat.version)
        assert [item.content for item in (*chat.items, *past.items)] == [[WORD], [WORD]]  # type: ignore[union-attr]
        code = "import sys, refold; refold.open(sys.argv[1]).erase(context='a', why='x', dry_run=False)"
        subprocess.run([sys.executable, "-c", code, place.location], check=True, timeout=60)

        assert soon(lambda: not chat._journal.is_loaded)
        assert WORD not in repr(vars(chat))
        assert [item.content for item in (*chat.items, *past.items)] == [[ERASED], [ERASED]]  # type: ignore[union-attr]
        monkeypatch.undo()
        background.ERASURE_WATCH._ending.set()


def test_an_erasure_that_is_refused_changes_nothing(store: refold.Store) -> None:
    """If somebody records first that something is held or erased, no text is replaced: no event would say so."""
    chat = store.chat("a")
    chat.add_message("user", "a question")
    log = store._whole_log
    before = log.read("chat:a")
    store.hold("a", why="a case")

    with pytest.raises(ConcurrencyError):
        log.erase([remnant(store)], [events_of_store([ErasureFinished(erasure="e")], 0)])

    require_that_others_are_refused(store)
    assert log.read("chat:a") == before
    assert store.verify().problems == ()


def remnant(store: refold.Store) -> Remnant:
    """Return what would be left of the second event of a context."""
    selection = Selection(store._whole_log, Mask())
    selection.add("chat:a", 2)
    return next(iter(selection.sealed())).remnant


def require_that_others_are_refused(store: refold.Store) -> None:
    """Require that an event which is not there, or is another one by now, is not erased."""
    log, one = store._whole_log, remnant(store)
    for other in (one._replace(stream="chat:gone"), one._replace(version=999), one._replace(digest=bytes(32))):
        with pytest.raises(ConcurrencyError):
            log.erase([other], [events_of_store([ErasureFinished(erasure="e")], log.head(STREAM))])
