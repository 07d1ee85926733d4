"""The contract of editing a chat context that is kept in a log."""

from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import TAIL_ITEMS
from refold.domain.context.transaction import transaction
from refold.domain.errors import (
    ConcurrencyError,
    DecisionRefusedError,
    DuplicateItemError,
    InvalidInputError,
    NotFoundError,
)
from refold.domain.log.ports import LiveLog

from ..domain.chat_events import OPENED
from ..domain.fakes import handle_on, record
from .chat_checking import call, config, ids, look, message, output, require_same_from_log
from .writing import said


def begun(log: LiveLog, *items: Any, durability: Any = "commit") -> ChatContext:
    """Open a context with these items."""
    record(log, OPENED)
    chat = handle_on(log, durability=durability)
    chat.add_items(items)
    return chat


class ChatEditingContract:
    """Inserting, replacing, evicting, restoring, pinning, clearing, truncating. Needs the fixture `log`."""

    def test_inserting(self, log: LiveLog) -> None:
        """Before the first younger item, ties behind, many at once, before what was inserted and what was evicted."""
        chat = begun(log, message("a", time=1.0), message("d", time=5.0), message("late", time=2.0))
        chat.insert(message("b", time=3.0))
        chat.insert_many([message("z", time=9.0), message("b2", time=3.0), message("0", time=0.5)])
        chat.evict("d")
        chat.insert(message("c", time=3.5))
        shown = ids(chat)
        chat.restore()

        assert (shown, ids(chat)) == ("0 a b b2 late c z", "0 a b b2 d late c z")
        require_same_from_log(log, chat)

    def test_inserting_far_before_the_end(self, log: LiveLog) -> None:
        """Of several items at once one goes before many that are there, and all others go behind them."""
        chat = begun(log, *(message(f"m{number}", time=5.0) for number in range(TAIL_ITEMS + 1)))
        there = ids(chat)
        chat.insert_many([message("y", time=8.0), message("0", time=1.0), message("z", time=9.0)])

        assert ids(chat) == f"0 {there} y z"
        require_same_from_log(log, chat)

    def test_inserting_what_is_there(self, log: LiveLog) -> None:
        """The same again changes nothing, another item under the id is refused, all or none."""
        chat = begun(log, message("a"), message("gone"))
        chat.evict("gone")
        version = chat.version
        chat.insert(message("a"))

        for taken in (message("a", text="other"), message("gone")):
            with pytest.raises(DuplicateItemError):
                chat.insert_many([message("new"), taken])
        assert (ids(chat), chat.version) == ("a", version)

    def test_instructions_are_replaced_in_place(self, log: LiveLog) -> None:
        """The new system message stands where the first stood; developer messages stay; all of it is one event."""
        chat = begun(log, message("u"), message("s1", "system"), message("d", "developer"), message("s2", "system"))
        version = chat.version
        chat.add_message("system", "new", "s3", 1.0, replace=True)

        assert (ids(chat), chat.version) == ("u s3 d", version + 1)
        assert {one.how for one in chat.evicted_items()} == {"replace"}
        assert ids(chat.at(version)) == "u s1 d s2"
        chat.add_message("user", "no system message", "u2", 1.0, replace=True)
        assert ids(chat) == "u s3 d u2"
        require_same_from_log(log, chat)

    def test_evicting_and_restoring(self, log: LiveLog) -> None:
        """A call goes and comes with its output, by either id; back come the same items in the same places."""
        chat = begun(log, message("u1"), call("c1"), call("c2"), output("c2"), output("c1"), message("u2"))
        before = look(chat)
        report = chat.evict(["oc1", "u1"], reason="old")
        middle = ids(chat)
        chat.evict("c2")

        assert (middle, ids(chat), report.item_ids) == ("c2 oc2 u2", "u2", ["u1", "c1", "oc1"])
        assert chat.evict("c2").item_ids == []
        assert [(one.item.id, one.reason) for one in chat.evicted_items()][:1] == [("u1", "old")]
        assert sorted(chat.restore()) == ["c2", "oc2"]
        assert sorted(chat.restore("c1")) == ["c1", "oc1"]
        chat.restore()
        after = look(chat)
        assert (after[0], *after[2:]) == (before[0], *before[2:])
        assert chat.restore() == []
        require_same_from_log(log, chat)

    def test_pinning(self, log: LiveLog) -> None:
        """What is pinned, and its partner, stays through evict and truncate; cleared, it comes back pinned."""
        chat = begun(log, call("c1"), output("c1"), message("u1"), message("u2"))
        chat.pin("oc1")
        for item_id in ("c1", "oc1"):
            with pytest.raises(InvalidInputError, match="is pinned: leave it out, or unpin it first"):
                chat.evict(["u1", item_id])
        chat.truncate(max_items=0)
        assert ids(chat) == "c1 oc1 u2"
        chat.clear()
        with pytest.raises(NotFoundError, match="restore it first"):
            chat.pin("u2")
        assert (ids(chat), chat.pinned_ids()) == ("", [])
        chat.restore()
        assert (ids(chat), chat.pinned_ids()) == ("c1 oc1 u2", ["oc1"])
        chat.unpin("oc1")
        chat.evict("c1")
        assert ids(chat) == "u2"
        require_same_from_log(log, chat)

    def test_truncating(self, log: LiveLog) -> None:
        """The oldest turns go; what is protected stays; it is one event, and comes back with restore."""
        items = [message("s", "system"), message("u1"), call("c1"), output("c1"), message("a1", "assistant")]
        chat = begun(log, *items, config("cfg", "Be brief."), message("u2"), call("c2"), message("a2", "assistant"))
        version = chat.version
        chat.truncate(max_items=6, whole_turns=False)
        assert (ids(chat), chat.version) == ("s a1 cfg u2 c2 a2", version + 1)
        chat.restore()
        chat.truncate(max_items=6)
        assert (ids(chat), chat.version) == ("s cfg u2 c2 a2", version + 3)
        chat.truncate(max_tokens=1)
        assert ids(chat) == "s cfg u2 c2"
        chat.restore()
        chat.restore()
        assert ids(chat) == "s u1 c1 oc1 a1 cfg u2 c2 a2"
        chat.truncate()
        assert chat.version == version + 6
        require_same_from_log(log, chat)

    def test_an_unknown_id(self, log: LiveLog) -> None:
        """It is named, and nothing is changed."""
        chat = begun(log, message("a"))
        for edit in (chat.evict, chat.restore, chat.pin, chat.unpin):
            with pytest.raises(NotFoundError, match="chat:a has no item 'nobody'"):
                edit(["a", "nobody"])
        assert (ids(chat), chat.pinned_ids(), chat.version) == ("a", [], 2)

    def test_two_writers(self, log: LiveLog) -> None:
        """Every edit of the one who is behind is refused and leaves the view; appends catch up; a rebase works."""
        one = begun(log, message("s", "system"), message("a"), message("b"))
        one.evict("b")
        edits: list[Any] = [
            lambda chat: chat.evict("a"),
            lambda chat: chat.restore(),
            lambda chat: chat.pin("a"),
            lambda chat: chat.clear(),
            lambda chat: chat.truncate(max_items=0),
            lambda chat: chat.insert(message("i", time=0.5)),
            lambda chat: chat.add_message("system", "new", replace=True),
        ]
        for number, edit in enumerate(edits):
            behind = handle_on(log)
            before = look(behind)
            one.add_message("user", "quicker", f"q{number}")
            with pytest.raises(ConcurrencyError) as told:
                edit(behind)
            assert (told.value.expected, told.value.actual) == (behind.version, one.version)
            assert look(behind) == before
        behind.add_message("user", "last", "z")
        assert ids(behind).endswith("q5 q6 z")
        one.add_message("user", "quicker")
        behind.rebase(lambda chat: chat.evict("a"))
        one.refresh()
        assert look(one) == look(behind)
        require_same_from_log(log, one)

    def test_queued_edits(self, log: LiveLog) -> None:
        """Seen at once, on disk after the flush, also when the view was freed in between."""
        chat = begun(log, message("a"), message("b"), durability="enqueue")
        chat.evict("a")
        chat.insert(message("0", time=0.5))
        chat.cleanup()
        assert ids(chat) == "0 b"
        chat.clear()
        chat.restore()
        chat.add_items([message("c")])
        assert ids(chat) == "0 b c"
        chat.flush()
        require_same_from_log(log, chat)

    def test_refused_queued_edits(self, log: LiveLog) -> None:
        """The view is what the log holds again, and shows no item of what was refused."""
        chat = begun(log, message("a"), message("b"), durability="enqueue")
        chat.flush()
        record(log, said(9, "theirs"))
        chat.evict("a")
        chat.add_items([message("ghost")])
        assert ids(chat) == "b ghost"
        with pytest.raises(ConcurrencyError) as told:
            chat.flush()
        assert len(told.value.refused) == 2
        assert ids(chat) == "a b m9"
        chat.add_items([message("real")])
        chat.evict("a")
        assert ids(chat) == "b m9 real"
        chat.flush()
        require_same_from_log(log, chat)

    def test_a_key_makes_an_edit_repeatable(self, log: LiveLog) -> None:
        """By a handle that has seen it, and by one that has not: done once."""
        chat = begun(log, message("a"), message("b"), message("c"))
        behind = handle_on(log)
        _ = behind.items
        for handle in (chat, chat, behind):
            handle.evict("b", idempotency_key="k")
        assert (ids(chat), ids(behind), log.head("chat:a")) == ("a c", "a c", 5)

    def test_a_transaction_of_edits(self, log: LiveLog) -> None:
        """All of them or none; what was seen within a rolled-back one is not seen again."""
        chat = begun(log, message("a"), message("b"))
        before = look(chat)

        def roll_back() -> None:
            with transaction(log):
                chat.add_items([message("ghost")])
                chat.evict("a")
                assert ids(chat) == "b ghost"
                _ = 1 / 0

        with pytest.raises(ZeroDivisionError):
            roll_back()
        assert look(chat) == before
        chat.add_items([message("real")])
        _ = chat.items
        chat.evict("a")
        assert ids(chat) == "b real"
        with transaction(log):
            chat.restore()
            chat.cleanup()
            chat.pin("a")
            chat.insert(message("0", time=0.5))
        assert (ids(chat), chat.pinned_ids()) == ("0 a b real", ["a"])
        require_same_from_log(log, chat)

    def test_what_was_begun_and_rolled_back(self, log: LiveLog) -> None:
        """A fork of a rolled-back transaction is no context: writing to it is refused."""
        chat = begun(log, message("a"))
        children: list[ChatContext] = []

        def roll_back() -> None:
            with transaction(log):
                children.append(chat.fork("child"))
                children[0].add_items([message("b")])
                _ = 1 / 0

        with pytest.raises(ZeroDivisionError):
            roll_back()
        [child] = children
        assert (ids(child), child.version) == ("", 0)
        with pytest.raises(DecisionRefusedError, match="chat:child was rolled back"):
            child.add_message("user", "anyone there?")
        assert log.head("chat:child") == 0
        assert ids(chat.fork("child")) == "a"
