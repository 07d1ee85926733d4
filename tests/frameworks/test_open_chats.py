"""Chats that an adapter keeps open: up to date whoever wrote, and no call costs more because a chat is long."""

import os
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.domain.chat.events import ChatItemEvent
from refold.domain.context import folded_stream
from refold.domain.context.journal import CATCH_UPS_MAX
from refold.domain.errors import ConcurrencyError, NotAllowedError
from refold.infrastructure.frameworks.conversation import Conversation, Message
from refold.infrastructure.frameworks.open_chats import OpenChat, OpenChats

from .test_conversation import NOTES, Notes, noted


class CountedNotes(Notes):
    """A form that counts the messages that it writes."""

    written = 0

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        """Return a note."""
        self.written += 1
        return super().write(items)


def shown(chats: OpenChats, chat_id: str = "c") -> list[Any]:
    """Return the messages of a chat as they are read through open chats."""
    with chats.taken(chat_id) as found:
        return [] if found is None else [msgspec.json.decode(entry.encoded) for entry in found.entries()]


# A message with two calls is three items.
CALLED = [{"id": name, "name": "f", "with": "{}"} for name in "cd"]
CHANGES = st.lists(
    st.tuples(st.just("add"), NOTES)
    | st.tuples(st.just("others add"), NOTES)
    | st.tuples(st.just("call"), st.none())
    | st.tuples(st.just("evict"), st.integers(0, 5))
    | st.tuples(st.just("insert"), st.integers(0, 5))
    | st.tuples(st.just("restore"), st.none())
    | st.tuples(st.just("handoff"), st.none())
    | st.tuples(st.just("look"), st.none()),
    max_size=12,
)


def change(chat: refold.ChatContext, step: str, given: Any) -> None:
    """Change a chat as others may do."""
    items = list(chat.items)
    if step == "add":
        Conversation(Notes()).add(chat, given)
    elif step == "others add":
        Conversation(Notes("others")).add(chat, given)
    elif step == "call":
        chat.add_function_call("f", "{}", call_id="c1")
    elif step == "evict" and items:
        chat.evict([items[given % len(items)].id])
    elif step == "insert" and items:
        chat.insert(
            refold.ChatMessage(
                role=refold.ChatRole.USER, content=["new"], created_at=items[given % len(items)].created_at
            )
        )
    elif step == "restore":
        chat.restore()
    elif step == "handoff":
        chat.add_handoff("billing")


@given(CHANGES)
def test_they_show_what_the_chat_has(steps: list[tuple[str, Any]]) -> None:
    """After any changes, by anybody, the messages are those of a chat that is opened anew."""
    with refold.open(":memory:") as store:
        notes = Conversation(Notes())
        chats = OpenChats(store, notes)
        chat = store.chat("c")
        for step, given in steps:
            change(chat, step, given)
            assert shown(chats) == notes.messages(store.chat("c"))


def test_a_call_costs_the_same_at_any_length(tmp_path: Path, events_read: list[int]) -> None:
    """It reads the events that are new, and converts the new messages and the two before them."""
    form = CountedNotes()
    notes = Conversation(form)
    with refold.open(tmp_path / "s.db") as store, refold.open(tmp_path / "s.db") as other:
        chats = OpenChats(store, notes)
        costs = []
        for length in (10, 1_000):
            notes.add(store.chat("c"), [noted(text=f"{length} {number}") for number in range(length)])
            before = len(shown(chats))
            writer = other.chat("c")
            notes.add(writer, [noted(text="new")])
            events_read.clear()
            form.written = 0
            assert len(shown(chats)) == before + 1
            costs.append((sum(events_read), form.written))

        assert costs == [(1, 3), (1, 3)]


@pytest.mark.parametrize("count", [0, 1, 3, 40, 500])
def test_the_last_of_a_chat_that_was_just_opened(
    count: int, tmp_path: Path, events_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They alone are read and converted, where their beginning is known."""
    monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 40)
    form = CountedNotes()
    notes = Conversation(form)
    with refold.open(tmp_path / "s.db") as store:
        chat = store.chat("c")
        for number in range(60):
            notes.add(chat, [noted(text=f"{number} {part}", calls=CALLED[: part % 3]) for part in range(5)])
    with refold.open(tmp_path / "s.db") as store:
        # The first one to read all of it keeps a snapshot.
        assert len(store.chat("c").recorded_items()) == 540
    with refold.open(tmp_path / "s.db") as store, OpenChats(store, notes).taken("c") as found:
        assert found is not None
        events_read.clear()
        form.written = 0
        last = [(entry.encoded, entry.item_ids) for entry in found.last(count)]
        read, written = sum(events_read), form.written

        assert (
            last == [(entry.encoded, entry.item_ids) for entry in found.entries()][300 - count if count < 300 else 0 :]
        )
        assert written == min(count, 300)
        assert count > 40 or read < 40 + 8 * count


def test_a_taken_chat_is_not_shared(tmp_path: Path) -> None:
    """A call that wants it meanwhile gets another one; after an error it is opened anew."""
    with refold.open(tmp_path / "s.db") as store:
        store.chat("c")
        chats = OpenChats(store, Conversation(Notes()))
        with chats.taken("c") as first, chats.taken("c") as second:
            assert first is not None
            assert second is not None
            assert first.chat is not second.chat
        with chats.taken("c") as again:
            assert again is first
        with pytest.raises(RuntimeError), chats.taken("c") as failed:
            raise RuntimeError
        with chats.taken("c") as opened:
            assert opened is not failed
            # It may have erased texts.
            store.erase(context="c", why="asked for", dry_run=False)
        with chats.taken("c") as anew:
            assert anew is not opened
        with chats.taken("nobody") as missing:
            assert missing is None


def test_only_some_are_kept() -> None:
    """The one that was used longest ago is closed first."""
    with refold.open(":memory:") as store:
        chats = OpenChats(store, Conversation(Notes()), kept_max=2)
        kept = {}
        for name in ("a", "b", "a", "c"):
            with chats.taken(name, create=True) as found:
                kept[name] = found
        for name in ("a", "c"):
            with chats.taken(name) as found:
                assert found is kept[name]
        with chats.taken("b") as found:
            assert found is not kept["b"]


def test_a_chat_is_made_with_its_first_change_or_not_at_all() -> None:
    """What is refused, also by the log alone, leaves no empty chat; and none is made where that is not asked for."""
    notes = Conversation(Notes())
    with refold.open(":memory:", allow=lambda actor, action, context: action != "append") as store:
        chats = OpenChats(store, notes)
        with pytest.raises(NotAllowedError):
            chats.change("c", lambda found: notes.add(found.chat, [noted(text="one")]))
        assert chats.change("c", lambda found: 1, create=False) is None
        assert store.contexts() == []


def test_a_chat_that_others_made_keeps_its_user() -> None:
    """One that is made has the user that is given."""
    with refold.open(":memory:") as store:
        store.chat("old")
        for name in ("old", "new"):
            with OpenChats(store, Conversation(Notes())).taken(name, create=True, user="mia"):
                pass
        assert [row.user for row in store.contexts()] == ["mia", ""]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_change_is_made_again_where_others_come_first(is_there: bool, store: refold.Store) -> None:
    """On the chat as it is then; what it returns last is returned."""
    notes, attempts = Conversation(Notes()), list[int]()
    chats = OpenChats(store, notes)
    if is_there:
        store.chat("c")

    def change(found: OpenChat) -> int:
        attempts.append(len(found.entries()))
        if len(attempts) < 3:
            text = f"theirs {len(attempts)}"
            other = Thread(target=lambda: notes.add(store.chat("c"), [noted(text=text)]))
            other.start()
            other.join()
        notes.add(found.chat, [noted(text="ours")])
        return len(attempts)

    assert chats.change("c", change) == 3
    assert attempts == [0, 1, 2]
    assert [message["text"] for message in shown(chats)] == ["theirs 1", "theirs 2", "ours"]


def test_a_change_in_a_transaction_that_is_rolled_back(store: refold.Store) -> None:
    """It is part of the transaction, and nobody is shown what it would have been."""
    notes = Conversation(Notes())
    chats = OpenChats(store, notes)
    store.chat("there")
    for name in ("there", "new"):
        with suppress(ZeroDivisionError), store.transaction():
            chats.change(name, lambda found: notes.add(found.chat, [noted(text="one")]))
            with ThreadPoolExecutor(1) as another:
                assert another.submit(shown, chats, name).result() == []
            raise ZeroDivisionError
        assert shown(chats, name) == []
        chats.change(name, lambda found: notes.add(found.chat, [noted(text="two")]))
        assert [message["text"] for message in shown(chats, name)] == ["two"]


def test_an_older_copy_is_put_back(tmp_path: Path) -> None:
    """The chat is shown as the database has it then, and can be written to."""
    notes, path, copy = Conversation(Notes()), str(tmp_path / "s.db"), str(tmp_path / "copy.db")
    with refold.open(path) as store:
        notes.add(store.chat("c"), [noted(text="one")])
        copied(path, copy)
        chats = OpenChats(store, notes)
        notes.add(store.chat("c"), [noted(text="two")])
        assert len(shown(chats)) == 2
        copied(copy, path)

        assert len(shown(chats)) == 1
        with chats.taken("c") as found:
            assert found is not None
            notes.add(found.chat, [noted(text="three")])
        assert [message["text"] for message in shown(chats)] == ["one", "three"]


def copied(source: str, target: str) -> None:
    """Put a database in the place of another one."""
    with closing(sqlite3.connect(source)) as connection, closing(sqlite3.connect(target)) as copy:
        connection.backup(copy)


def test_a_child_process_goes_on_by_itself(tmp_path: Path) -> None:
    """It was forked while the parent had a chat taken out in another thread; both write, and see all of it."""
    notes, path = Conversation(Notes()), tmp_path / "s.db"
    with refold.open(path) as store:
        chats = OpenChats(store, notes)
        notes.add(store.chat("c"), [noted(text="one")])
        assert len(shown(chats)) == 1
        with chats.taken("c"):
            child = os.fork()
            if child == 0:
                with suppress(BaseException):
                    with chats.taken("c") as found:
                        assert found is not None
                        notes.add(found.chat, [noted(text="child")])
                    os._exit(len(shown(chats)))
                os._exit(99)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        with chats.taken("c") as found:
            assert found is not None
            notes.add(found.chat, [noted(text="parent")])
        assert [message["text"] for message in shown(chats)] == ["one", "child", "parent"]


def test_one_at_a_known_version_is_not_read_again(tmp_path: Path) -> None:
    """It may be older than the log: an append there is refused. At any other version than that one it is read again."""
    with refold.open(tmp_path / "a.db") as store, refold.open(tmp_path / "a.db") as other:
        chats, versions = OpenChats(store, Conversation(Notes())), list[int]()
        for known in (None, 2, 3):
            # The first and the last time there is news; the second time it does not count.
            if known != 3:
                other.chat("c").add_message("user", "news")
            with chats.taken("c", known=known) as found:
                assert found is not None
                versions.append(found.chat.version)

    assert versions == [2, 2, 3]


@pytest.mark.parametrize(("expected", "attempts"), [(1, CATCH_UPS_MAX), (3, 1)])
def test_how_often_a_change_is_tried(expected: int, attempts: int) -> None:
    """As long as another writer comes first; a version that there is not yet does not come by waiting."""
    tried = list[int]()

    def refuse(found: OpenChat) -> None:
        tried.append(found.chat.version)
        raise ConcurrencyError("chat:c", expected=expected, actual=2)

    with refold.open(":memory:") as store, pytest.raises(ConcurrencyError):
        OpenChats(store, Conversation(Notes())).change("c", refuse)

    assert len(tried) == attempts


@pytest.mark.parametrize("count", range(5))
def test_the_last_of_messages_that_others_recorded(count: int) -> None:
    """Where one of them begins is only known from the start, and the last ones are the same."""
    notes = Conversation(Notes())
    with refold.open(":memory:") as store:
        chat = store.chat("c")
        chat.add_message("user", "one")
        notes.add(chat, [noted(text="two")])
        chat.add_message("assistant", "three")
        with OpenChats(store, notes).taken("c") as found:
            assert found is not None
            last = [msgspec.json.decode(entry.encoded)["text"] for entry in found.last(count)]

    assert last == ["one", "two", "three"][3 - min(count, 3) :]
