"""The validity of chat items: from rows alone, what each version of a context showed."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis.stateful import rule

import refold
from refold.domain.chat.events import ItemsEvicted, Opened
from refold.domain.chat.items import ChatMessage
from refold.domain.chat.roles import ChatRole
from refold.domain.errors import DamagedError, NotFoundError
from refold.domain.log.ports import LiveLog
from refold.domain.positions import BEGINNING
from refold.domain.spans import Span
from refold.domain.totals import Totals
from refold.infrastructure.projecting.folding import fold_page
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.queries.intervals import Interval, described, ids_seen
from refold.projections.intervals import rows_prefix
from refold.projections.validity import VALIDITY

from ..contract.writing import append, said
from ..model.editing_life import NUMBER
from ..model.editing_machine import EditingMachine
from ..model.lives import live


class ValidityMachine(EditingMachine):
    """A random life of contexts whose validity is looked at now and then."""

    store: refold.Store

    can_reopen = False
    opened_at = ":memory:"

    def open_log(self) -> LiveLog:
        """Open the store's log."""
        self.store = refold.open(self.opened_at)
        return self.store.log

    @rule(number=NUMBER)
    def look_at_validity(self, number: int) -> None:
        """Rows say of every version what could be seen."""
        chat = self.chats[self.pick(number)]
        stays = self.store.validity(chat.id)
        for version in range(chat.version + 1):
            assert ids_seen(stays, version) == [item.id for item in chat.at(version).items]

    def teardown(self) -> None:
        """Look at all contexts once more, and at what a fold of the whole log gives."""
        if hasattr(self, "chats"):
            for number in range(len(self.chats)):
                self.look_at_validity(number)
            events = self.log.read_all(after=BEGINNING, limit=1_000_000).events
            folded = fold_page(VALIDITY, events, MemoryProjectionStore())
            assert self.store.rows("validity") == [row for _, row in sorted(folded.items())]
        if hasattr(self, "store"):
            self.store.close()
        super().teardown()


def test_any_history(location: str) -> None:
    """Rows say what the versions of contexts show, whatever happened to them."""

    class ValidityMachineThere(ValidityMachine):
        opened_at = location

    live(ValidityMachineThere, examples=20 if location == ":memory:" else 4)


def stays_of(store: refold.Store, context_id: str, item: str) -> list[tuple[int, int, str, str]]:
    """Return the stays of an item: from, before, how it ended, and why."""
    return [(stay.v0, stay.v1, stay.how, stay.reason) for stay in store.validity(context_id) if stay.item == item]


def test_what_an_interval_tells(store: refold.Store) -> None:
    """The item, how much it is, where it came from, and how its stay ended."""
    chat = store.chat("support", agent="triage")
    chat.add_message("user", "Where is it?" * 10, "m1")
    chat.add_message("system", "Be brief.", "m2", agent_id="clerk")
    chat.evict("m1", reason="old")

    first, second = store.validity("support")

    assert first == Interval(
        context="chat:support",
        place=0,
        item="m1",
        type="message",
        role="user",
        agent="triage",
        tokens=34,
        birth="chat:support@2",
        v0=2,
        v1=4,
        how="evict",
        reason="old",
    )
    assert (second.item, second.role, second.agent, second.v0, second.v1) == ("m2", "system", "clerk", 3, 0)


def test_an_item_that_comes_and_goes(store: refold.Store) -> None:
    """Each of its stays is one; a cleared context ends those of all."""
    chat = store.chat("a")
    chat.add_message("user", "one", "m1")
    chat.evict("m1")
    chat.restore("m1")
    chat.clear(reason="over")
    chat.restore("m1")

    assert stays_of(store, "a", "m1") == [(2, 3, "evict", ""), (4, 5, "clear", "over"), (6, 0, "", "")]


def test_a_fork_copies_no_rows(store: refold.Store) -> None:
    """It has one row for what it began with, and one for each of those items that it lets go of."""
    chat = store.chat("a")
    chat.add_items([ChatMessage(id=f"m{number}", role=ChatRole.USER, content="x") for number in range(500)])
    child = chat.fork()
    child.evict(["m7", "m8"], reason="no use")
    chat.evict("m9")

    assert len(store.rows("validity", under=rows_prefix(f"chat:{child.id}"))) == 3
    assert ids_seen(store.validity(child.id), child.version) == [item.id for item in child.items]
    assert stays_of(store, child.id, "m7") == [(1, 2, "evict", "no use")]
    assert stays_of(store, child.id, "m9") == [(1, 0, "", "")]


def test_what_was_taken_under_another_name(store: refold.Store) -> None:
    """The answer of a sub-agent is described by its source, wherever it went from there."""
    chat = store.chat("a")
    helper = store.chat("b")
    answer = helper.add_message("assistant", "Done.")
    asyncio.run(chat.merge_result(helper, agent_id="sub"))
    third = store.chat("c")
    asyncio.run(third.merge_result(chat))

    [taken] = store.validity("a")
    [again] = store.validity("c")
    assert (taken.item, taken.agent, taken.birth, taken.tokens) == (answer.id, "sub", "chat:a@2", 5)
    assert (again.item, again.agent, again.birth) == (answer.id, "sub", "chat:a@2")


def test_ids_that_begin_alike(store: refold.Store) -> None:
    """The rows of one context are not among those of another whose id goes on with a blank."""
    for context_id in ("a", "a b", "a !", "a~1"):
        store.chat(context_id).add_message("user", context_id, f"in {context_id}")

    assert [stay.item for stay in store.validity("a")] == ["in a"]
    assert [stay.item for stay in store.validity("a b")] == ["in a b"]


def test_many_leave_at_once(store: refold.Store) -> None:
    """An event that names thousands of items ends the stays of all."""
    chat = store.chat("a")
    chat.add_items([ChatMessage(id=f"m{number}", role=ChatRole.USER, content="x") for number in range(3_000)])
    chat.truncate(max_items=10)

    stays = store.validity("a")
    assert ids_seen(stays, chat.version) == [item.id for item in chat.items]
    assert {stay.how for stay in stays if stay.v1} == {"truncate"}


def test_who_left_once_left_then(store: refold.Store) -> None:
    """An event that has an item leave again, as another program may write it, changes nothing of its stay."""
    gone = ItemsEvicted(items=(Span.of("", [2]),), change=Totals(), how="truncate")
    again = ItemsEvicted(items=(Span.of("", [2]),), change=Totals(), reason="again")
    append(store.log, "chat:a", Opened(), said(1), gone, said(2), again)

    stays = [(stay.item, stay.v0, stay.v1, stay.how) for stay in store.validity("a")]
    assert stays == [("m1", 2, 3, "truncate"), ("m2", 4, 0, "")]


def test_no_such_chat(store: refold.Store) -> None:
    """It is said."""
    with pytest.raises(NotFoundError, match="there is no chat 'nobody'"):
        store.validity("nobody")


async def test_in_an_event_loop(store: refold.Store) -> None:
    """The async side answers the same."""
    chat = store.chat("a")
    await refold.to_async(chat).add_message("user", "hello")

    assert await refold.to_async(store).validity("a") == store.validity("a")


def test_a_message_written_piece_by_piece(store: refold.Store) -> None:
    """One interval from its beginning on; tokens in all rows are those of the context, at every version."""
    chat = store.chat("a")
    with chat.stream() as out:
        for piece in ("four four ", "four four ", "four four"):
            out.write(piece)
            out.flush()
    chat.evict(out.message_id)

    [interval] = store.validity("a")
    assert (interval.v0, interval.v1, interval.tokens) == (2, 7, 4 + 29 // 4)
    assert [row.tokens for row in store.contexts()] == [chat.estimated_tokens()] == [0]
    views = [chat.at(version) for version in range(1, chat.version + 1)]
    assert [view.estimated_tokens() for view in views] == [sum(map(tokens_of, view.items)) for view in views]


def tokens_of(item: object) -> int:
    """Return the estimate of a message with one text."""
    assert isinstance(item, ChatMessage)
    return 4 + len("".join(map(str, item.content))) // 4


def test_an_item_that_nothing_recorded() -> None:
    """It is named: neither an event nor a merge has it."""
    with pytest.raises(DamagedError, match=r"chat:a@3.*: a merge or fork names it as an item, and it is none"):
        described(MemoryProjectionStore(), ["chat:a@3"], ())
