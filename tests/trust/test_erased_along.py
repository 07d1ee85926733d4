"""Erasing: what leaves along with what is asked for, and what stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.erasure.events import STREAM, ErasureFinished
from refold.domain.erasure.skeleton import ERASED
from refold.domain.errors import HeldError, ProjectionError, StorageError
from refold.domain.log.envelope import NO_META, RecordedEvent
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import NewEvents
from refold.domain.memory.records import MemoryRecord
from refold.domain.positions import BEGINNING
from refold.infrastructure.projecting.folding import FAULT, Fault, note_fault
from refold.infrastructure.trust import selection
from refold.infrastructure.trust.erasing import OUTSIDE, Eraser
from refold.infrastructure.trust.receipts import HASH_BYTES
from tests.contract.chat_checking import Teller
from tests.projecting.counts import Count, Counts
from tests.trust.stores import WORD

from .test_erased_rows import failed
from .test_retention import DAY, Clock


def summary_of_a_fork(chat: refold.ChatContext) -> None:
    """Summarise items of a context in a fork of it."""
    fork = chat.fork("b")
    asyncio.run(fork.summarize(Teller(f"They spoke of {WORD}."), keep_recent_turns=1))


def summary_of_a_merge(chat: refold.ChatContext) -> None:
    """Merge what a context came to into another one, as a summary."""
    other = chat.fork("b")
    chat.add_message("user", f"one more with {WORD}")
    asyncio.run(other.merge_with_summary(chat, llm=Teller(f"They spoke of {WORD}.")))


def changed_call_of_a_fork(chat: refold.ChatContext) -> None:
    """Let a call of a context run with other arguments in a fork of it."""
    chat.add_function_call("pay", f'{{"to": "{WORD}"}}', "c1")
    fork = chat.fork("b")
    fork.approvals.change("c1", {"to": WORD, "sum": 7}, by="tom")


def configuration_of_a_fork(chat: refold.ChatContext) -> None:
    """Fork without the item that set the instructions, which are in force there all the same."""
    chat.add_config_update(instructions=f"Speak of {WORD}.")
    chat.add_message("user", "and now?")
    chat.add_message("user", "and then?")
    chat.fork_filtered(1, tools=[], context_id="b")


WAYS: list[Callable[[refold.ChatContext], None]] = [
    summary_of_a_fork,
    summary_of_a_merge,
    changed_call_of_a_fork,
    configuration_of_a_fork,
]


@pytest.mark.parametrize("make", WAYS, ids=lambda make: make.__name__)
def test_what_was_made_of_a_context_elsewhere(make: Callable[[refold.ChatContext], None]) -> None:
    """It leaves with the context, whoever it belongs to; nothing else of the other context does."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        for text in (f"a question of {WORD}", "another question", "a third one"):
            chat.add_message("user", text)
        make(chat)
        other = store.chat("b", create=False)
        other.add_message("user", "this stays")
        assert WORD in repr([one.event for one in store.log.read("chat:b")])

        told = store.erase(context="a", why="x", dry_run=False)

        assert {one.context for one in told.contexts} == {"chat:a", "chat:b"}
        assert WORD not in repr([one.event for one in store.log.read("chat:b")])
        assert "this stays" in repr([one.event for one in store.log.read("chat:b")])
        assert store.verify().problems == ()


def at_the_moment_of_erasing(monkeypatch: pytest.MonkeyPatch, make: Callable[[], object]) -> None:
    """Let another writer come when an erasure has looked through the log, before it replaces the events."""
    erase = MemoryLog.erase

    def late(log: MemoryLog, *given: Any) -> Any:
        monkeypatch.setattr(MemoryLog, "erase", erase)
        make()
        return erase(log, *given)

    monkeypatch.setattr(MemoryLog, "erase", late)


@pytest.mark.parametrize("is_retention", [False, True])
@pytest.mark.parametrize("make", WAYS, ids=lambda make: make.__name__)
def test_what_is_made_of_a_context_at_the_moment_of_erasing(
    make: Callable[[refold.ChatContext], None], monkeypatch: pytest.MonkeyPatch, is_retention: bool
) -> None:
    """The erasure looks for it once more. Where a time is over, what others add to the context itself stays."""
    clock = Clock()
    with refold.open(":memory:", system=clock) as store:
        chat = store.chat("a", user="mia")
        for text in (f"a question of {WORD}", "another question", "a third one"):
            chat.add_message("user", text)
        clock.time += 3 * DAY
        at_the_moment_of_erasing(monkeypatch, lambda: make(chat))

        if is_retention:
            store.retain("mia", "1 day", user="mia", why="notice")
            store.apply_retention(dry_run=False)
        else:
            store.erase(context="a", why="x", dry_run=False)

        # The call that is changed was added behind the end of what retention erases.
        stays = is_retention and make is changed_call_of_a_fork
        assert (WORD in repr([one.event for one in store.log.read("chat:b")])) == stays
        assert WORD not in repr(store.log.read_events("chat:a")[:4])
        assert store.verify().problems == ()


def test_a_summary_at_the_moment_in_which_a_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves with what it is a summary of, also behind the end of what retention erases; what is new there stays."""
    clock = Clock()
    with refold.open(":memory:", system=clock) as store:
        chat = store.chat("a", user="mia")
        for text in (f"a question of {WORD}", "another question", "a third one"):
            chat.add_message("user", text)
        clock.time += 3 * DAY
        store.retain("mia", "1 day", user="mia", why="notice")

        def make() -> None:
            chat.add_message("user", "this stays")
            asyncio.run(chat.summarize(Teller(f"They spoke of {WORD}."), keep_recent_turns=1))

        at_the_moment_of_erasing(monkeypatch, make)
        store.apply_retention(dry_run=False)

        assert WORD not in repr(store.log.read_events("chat:a"))
        assert "this stays" in repr(chat.items)
        assert store.verify().problems == ()


def test_what_is_made_of_an_item_at_the_moment_of_erasing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves with the item, as does what is said of it."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        chat.add_function_call("pay", f'{{"to": "{WORD}"}}', "c1")
        for text in ("one", "two", "three"):
            chat.add_message("user", text)

        def make() -> None:
            chat.approvals.change("c1", {"to": WORD, "sum": 7}, by="tom")
            asyncio.run(chat.summarize(Teller(f"They paid {WORD}."), keep_recent_turns=1))

        at_the_moment_of_erasing(monkeypatch, make)
        store.erase(context="a", item="@2", why="x", dry_run=False)

        assert WORD not in repr(store.log.read_events("chat:a"))
        assert "three" in repr(chat.items)
        assert store.verify().problems == ()


def test_an_item_that_a_merge_of_pools_made_of_two() -> None:
    """It leaves with either of them; an item that is added later under its id stays."""
    with refold.open(":memory:") as store:

        async def merged(name: str) -> None:
            ours, theirs = store.pool(name), store.pool(name).branch(f"{name}-2")
            await ours.add(refold.PoolItem("ours", "d", "i1"))
            await theirs.add(refold.PoolItem(WORD, "d", "i1"))
            await ours.merge(theirs, rule=lambda _, here, there: refold.PoolItem(f"ours and {WORD}", "d", "i1"))
            await ours.add(refold.PoolItem("this stays", "d", "i1"))

        for name, erased in (("p", {"context": "p-2", "item": "@2"}), ("q", {"context": "q-2"})):
            asyncio.run(merged(name))
            told = store.erase(why="x", dry_run=False, **erased)  # type: ignore[arg-type]  # each of these is a text

            seen = repr([one.event for one in store.log.read(f"pool:{name}")])
            assert {one.context for one in told.contexts} == {f"pool:{name}", f"pool:{name}-2"}
            assert (WORD in seen, "this stays" in seen, "'ours'" in seen) == (False, True, True)
        assert store.verify().problems == ()


def test_one_item_of_a_pool_a_window_or_a_memory() -> None:
    """The others stay."""
    with refold.open(":memory:") as store:
        pool, window = store.pool("p"), store.window("w", max_tokens=900)
        memory = store.memory().scope("user:mia")
        for name in ("gone", "kept"):
            asyncio.run(pool.add(refold.PoolItem(f"a {name} text", f"a {name} description", name)))
            window.add(refold.BudgetItem(name, f"a {name} text", f"a {name} title", 1))
            memory.put(MemoryRecord(scope="user:mia", key=name, value=f"a {name} text"))
        for context in ("pool:p", "window:w", "memory:user:mia"):
            store.erase(context=context, item="gone", why="x", dry_run=False)
            seen = repr(store.log.read_events(context))
            # Its name stays, which others may have for it.
            assert ("a gone" in seen, "'gone'" in seen, seen.count("a kept text")) == (False, True, 1)


def test_a_name_that_stays_is_said() -> None:
    """That of a user in a session, a key, a name or a text of somebody else; as a part of another word it is none."""
    with refold.open(":memory:") as store:
        chat = store.chat("a", user="mia", session="mia")
        chat.add_message("user", "I am mia.", idempotency_key="mia-1")
        chat.name_version("mia")
        other = store.chat("b", user="ben")
        for text in ("Mia asked for it", "miaow"):
            other.add_message("user", text)
        asyncio.run(other.merge(chat.fork("chat-of-mia")))
        store.hold("a", why="mia asked for it")
        store.release("a", why="x")
        told = store.erase(user="mia", why="ticket 7")

        done = store.erase(user="mia", why="ticket 7", dry_run=False)

        named = ("chat:a@1", "chat:a@2", "chat:a@3", "chat:b@2", "chat:chat-of-mia@1", "store:erasures@1")
        assert told.mentions == done.mentions == named
        assert (told.mentioned, done.mentioned) == (6, 6)
        assert "the user's name in 6 events, in names or in texts of others" in done.unreached


def test_the_reason_why_an_item_left_leaves_with_it() -> None:
    """In its own context and in a fork; that of others stays."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        for item_id in ("m1", "m2", "m3"):
            chat.add_message("user", f"about {WORD}" if item_id == "m1" else "hello", message_id=item_id)
        fork = chat.fork("b")
        fork.pin(["m1", "m2"], reason=f"{WORD} matters")
        chat.evict(["m1"], reason=f"{WORD} is no matter")
        chat.evict(["m3"], reason="too long")
        scope = store.memory().scope("s")
        scope.put(MemoryRecord(scope="s", key="k", value=WORD))
        scope.forget("k", reason=f"{WORD} moved")

        store.erase(context="a", item="m1", why="x", dry_run=False)
        store.erase(context="memory:s", item="k", why="x", dry_run=False)

        assert WORD not in repr(store.log.read_all(after=BEGINNING, limit=100).events)
        assert store.why_gone("a", "m3").reason == "too long"
        assert store.why_gone("a", "m1").state == "gone"
        assert store.verify().problems == ()


def test_a_changed_call_leaves_with_the_call() -> None:
    """Where one item is erased, the call with other arguments that took its place is, too."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        chat.add_message("user", "this stays")
        asked = chat.add_function_call("pay", f'{{"to": "{WORD}"}}', "c1")
        chat.approvals.change(asked.id, {"to": WORD, "sum": 7}, by="tom")

        store.erase(context="a", item=asked.id, why="x", dry_run=False)

        texts = repr(store.log.read_events("chat:a"))
        assert WORD not in texts
        assert "this stays" in texts


def test_a_configuration_leaves_the_forks_that_go_on_with_it() -> None:
    """Where the item that set it is erased."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        configuration_of_a_fork(chat)
        assert WORD in repr(store.log.read_events("chat:b"))

        store.erase(context="a", item=chat.items[0].id, why="x", dry_run=False)

        assert WORD not in repr(store.log.read_events("chat:b"))


@pytest.mark.parametrize("name", ["f", "File(f)"])
def test_a_node_of_a_run(name: str) -> None:
    """It is named by its label, or with its type."""
    with refold.open(":memory:") as store:
        run = store.run("mia", "s", 0)
        query = run.register_query("this stays")
        action = run.register_node("Action", "", [query], action="look", params={}, output=None, success=True)
        run.register_node("File", "", [action], label="f", path=f"/{WORD}", source="disk")

        told = store.erase(context=run.stream_id, item=name, why="x", dry_run=False)

        assert told.events == 1
        texts = repr(store.log.read_events(run.stream_id))
        assert WORD not in texts
        assert "this stays" in texts


def test_a_context_that_a_held_one_shows() -> None:
    """It stays as long as that is held; then the receipt says which places no erasure reaches."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", WORD)
        store.chat("a").fork("b")
        store.hold("b", why="case 12")
        with pytest.raises(HeldError, match="chat:b"):
            store.erase(context="a", why="x", dry_run=False)
        store.release("b", why="closed")

        done = store.erase(context="a", why="x", dry_run=False)

        assert done.receipt is not None
        assert done.receipt.unreached == done.unreached == OUTSIDE


def test_an_erasure_that_did_not_finish_is_not_the_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens the store finds it behind others."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", WORD)
        with monkeypatch.context() as patched:
            patched.setattr(Eraser, "finish", failed)
            with pytest.raises(StorageError):
                store.erase(context="a", why="x", dry_run=False)
        store.hold("a", why="case 12")
        assert store._eraser.state.unfinished

        store._eraser.finish_what_is_left()

        assert not store._eraser.state.unfinished


def test_copies_of_an_erased_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those within JSON of each form; the first few are named, and all are counted."""
    monkeypatch.setattr(selection, "COPIES_MAX", 2)
    text = f"a longer text with {WORD} in it"
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", text)
        memory = store.memory().scope("s")
        for key, value in enumerate((text, [text], {"x": text})):
            memory.put(MemoryRecord(scope="s", key=str(key), value=value))

        told = store.erase(context="a", why="x")

        assert (told.copied, told.copies) == (3, ("memory:s@1", "memory:s@2"))


def test_what_a_fork_says_of_an_item_of_its_parent() -> None:
    """It is not about the item of the fork that has the same version."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        chat.add_function_call("pay", "{}", call_id="c1")
        fork = chat.fork("b")
        fork.add_message("user", WORD)
        fork.approvals.request("c1", by="eve", because="this stays")

        assert store.erase(context="b", item="@2", why="x", dry_run=False).events == 1
        assert "this stays" in repr(store.log.read_events("chat:b"))


def test_the_scopes_of_a_users_memory() -> None:
    """In each way in which they are named, and those of nobody else."""
    with refold.open(":memory:") as store:
        for scope in ("mia", "user:mia", "user/mia", "user:mia2", "of/mia"):
            store.memory().scope(scope).put(MemoryRecord(scope=scope, key="k", value=WORD))

        told = store.erase(user="mia", why="x", dry_run=False)

        assert [one.context for one in told.contexts] == ["memory:mia", "memory:user/mia", "memory:user:mia"]


def test_a_run_whose_name_is_none(location: str) -> None:
    """Nobody can say whose it is, so it stays when a user is erased."""
    with refold.open(location) as store:
        store.run("mia", "s", 0).register_query(WORD)
        said = MessageAdded(id="m", created_at=1.0, role="user", content="nobody's")
        odd = NewEvents(stream="run:mia", expected_version=0, events=(said,), metas=(NO_META,), root="mia")
        store._whole_log.append([odd]).result()

        told = store.erase(user="mia", why="x", dry_run=False)

        assert [one.context for one in told.contexts if one.context == "run:mia"] == []
        assert store._whole_log.read_events("run:mia") == [said]
        assert WORD not in repr(store.log.read_all(after=BEGINNING, limit=99).events)


class Moody(Counts):
    """Counts events, until it cannot say any more which rows an event belongs to."""

    is_able = True

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the context."""
        if not self.is_able:
            raise ValueError("nobody knows")
        return super().keys(event)


def test_a_projection_that_cannot_say_what_it_made(location: str) -> None:
    """
    Its rows go, because an erased text may be among them, and so do the reasons why projections stopped. The erasure
    ends all the same; whoever asks for its rows is told why there are none.
    """
    with refold.open(location) as store:
        moody = Moody()
        store.add_projection(moody)
        store.chat("a").add_message("user", WORD)
        assert store.rows("counts") == [Count("chat:a", 2)]
        moody.is_able = False
        unknown: Any = SimpleNamespace(name="unknown")
        note_fault(store._projections, unknown, Fault("chat:a@2", f"ValueError: {WORD}", 1))

        done = store.erase(context="a", why="x", dry_run=False)

        assert (done.events, store._projections.rows(moody), store._projections.notes(FAULT)) == (1, [], {})
        assert isinstance(store.log.read_events(STREAM)[-1], ErasureFinished)
        assert WORD not in repr(store.log.read_events("chat:a"))
        with pytest.raises(ProjectionError, match="nobody knows"):
            store.rows("counts")


def test_a_receipt_that_was_changed(location: str) -> None:
    """Whoever has it and the log finds out, also that the log is another one."""
    with refold.open(location) as store, refold.open(":memory:") as other:
        for each in (store, other):
            each.chat("a").add_message("user", WORD)
        store.chat("b").add_message("user", WORD)
        store.erase(context="b", why="ticket 6", dry_run=False)
        receipt = store.erase(context="a", why="ticket 7", dry_run=False).receipt
        assert receipt is not None

        assert receipt.is_sound(store.log)
        with pytest.raises(InvalidSignature):
            # It is not signed.
            receipt.is_sound(store.log, Ed25519PrivateKey.generate().public_key())
        assert not replace(receipt, why="ticket 8").is_sound(store.log)
        assert not replace(receipt, erased_at=receipt.erased_at - 1).is_sound(store.log)
        assert not receipt.is_sound(other.log)
        changes: list[dict[str, Any]] = [
            {"version": receipt.version - 1},
            {"version": receipt.version + 1},
            {"digest": "00" * 32},
            {"events": receipt.events + 1},
            {"seals": "00" * 32},
            {"erasure": "another"},
        ]
        for change in changes:
            forged = replace(receipt, **change)
            digest = blake2b(forged.covered(), digest_size=HASH_BYTES).hexdigest()
            assert not replace(forged, digest_of_receipt=digest).is_sound(store.log), change


@pytest.mark.parametrize("name", ["@2", "a@2", "chat:a@2"])
def test_an_item_is_named_by_its_place(location: str, name: str) -> None:
    """As the command line shows it; an item whose id looks like a place is meant before the item at it."""
    with refold.open(location) as store:
        chat = store.chat("a")
        chat.add_message("user", WORD)
        fork = chat.fork("b")
        chat.add_message("user", "it stays", message_id="x@2")

        assert [one.context for one in store.erase(context="b", item="a@2", why="x").contexts] == ["chat:a"]
        store.erase(context="a", item=name, why="x", dry_run=False)

        shown = [getattr(item, "content", None) for item in (*chat.items, *fork.items)]
        assert shown == [[ERASED], ["it stays"], [ERASED]]
        store.erase(context="a", item="x@2", why="x", dry_run=False)
        assert chat.items[1].content == [ERASED]  # type: ignore[union-attr]  # it is a message


def test_a_file_with_texts_of_others_is_kept_until_they_are_back(tmp_path: Path) -> None:
    """It is the only place that has them. Those that were erased since, and those that are back, do not count."""
    with refold.open(":memory:") as store:
        for name in "abc":
            store.chat(name).add_message("user", f"text of {name}")
        store.archive(tmp_path / "cold", *"abc", why="cold")

        def said(**wanted: str) -> str:
            done = store.erase(why="ticket 9", dry_run=False, **wanted)  # type: ignore[arg-type]  # they are texts
            return " ".join(where.partition("comes back: ")[2] for where in done.unreached).strip()

        assert said(context="a", item="@2") == "take 3 contexts with other texts back (unarchive), then delete it"
        assert said(context="a") == "take 2 contexts with other texts back (unarchive), then delete it"
        store.unarchive("b")
        assert said(context="c") == "delete it"
