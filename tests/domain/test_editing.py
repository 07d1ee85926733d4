"""The rules of editing, given-when-then: which events a command leads to."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import ChatContext
from refold.domain.chat.events import ItemInserted, ItemsEvicted, ItemsPinned, ItemsRestored, ItemsUnpinned
from refold.domain.chat.pairing import Approval
from refold.domain.chat.rules.commands import (
    Clear,
    EvictItems,
    InsertItems,
    PinItems,
    ReplaceInstructions,
    RestoreItems,
)
from refold.domain.chat.rules.decide import CHAT
from refold.domain.chat.state.edits import ByOrdinal, Edits, Gone, WholeOrder
from refold.domain.chat.state.fold import EMPTY, fold
from refold.domain.chat.state.loading import tail_of
from refold.domain.chat.state.packed import _packed_edits, _unpacked_edits
from refold.domain.errors import DuplicateItemError, InvalidInputError, NotFoundError, RefoldError
from refold.domain.spans import Ref, Span
from refold.domain.totals import Totals

from ..support.effort import calls_of
from .chat_events import OPENED, STREAM, called, returned, said
from .strategies import PROPERTY

A, B, C = said("a", created_at=1.0), said("b", created_at=3.0), said("c", created_at=2.0)
PAIR = (called("f1"), returned("o1"))


def decided(given: tuple[object, ...], command: object) -> list[object]:
    """Return what a command leads to, without the note of where the context then ends."""
    state = fold(EMPTY, given)  # type: ignore[arg-type]
    return [without_tail(event) for event in CHAT.decide(command, state)]


def without_tail(event: Any) -> Any:
    """Return an event as if it did not say where the context ends."""
    return msgspec.structs.replace(event, tail=None) if getattr(event, "tail", None) is not None else event


def gone(*versions: int, how: str = "evict") -> ItemsEvicted:
    """Return the eviction of own items, whatever they counted."""
    return ItemsEvicted(items=(Span.of("", versions),), change=Totals(), how=how)


def test_items_are_inserted_before_another_one() -> None:
    """Of whatever age, in their order; none that is there already is inserted again."""
    given = (OPENED, A, B, gone(2))
    new, newer = said("new", created_at=9.0), said("newer", created_at=0.5)

    assert decided(given, InsertItems(STREAM, (new, B, newer), "b")) == [
        ItemInserted(item=new, before=Ref(3)), ItemInserted(item=newer, before=Ref(3)),
    ]  # fmt: skip
    for missing in ("a", "nothing"):
        with pytest.raises(NotFoundError, match=f"no item '{missing}' in the view"):
            decided(given, InsertItems(STREAM, (new,), missing))


@pytest.mark.parametrize(
    ("time", "before"), [(0.5, Ref(2)), (1.0, Ref(3)), (2.5, Ref(3)), (3.0, None)],
    ids=["first", "a tie goes behind", "before the first younger", "at the end it is an append"],
)  # fmt: skip
def test_where_an_item_is_inserted(time: float, before: Ref | None) -> None:
    """Before the first younger one from the front, also in a list that is out of order (SPEC V2.21)."""
    item = said("new", created_at=time)

    expected = item if before is None else ItemInserted(item=item, before=before)
    assert decided((OPENED, A, B, C), InsertItems(STREAM, (item,))) == [expected]


@pytest.mark.parametrize("time", [0.5, 29.5, 68.5, 69.5, 70.5, 71.5, 118.5, 119.0])
def test_an_inserted_item_and_the_end(time: float) -> None:
    """The event names the last fifty as they are once it is there: far before them, at their border or among them."""
    given: tuple[Any, ...] = (
        OPENED,
        *(said(f"m{number}", created_at=float(number)) for number in range(120)),
        gone(100, 101),
    )
    state = fold(EMPTY, given)

    events = CHAT.decide(InsertItems(STREAM, (said("new", created_at=time),)), state)
    after = fold(state, events).items
    named = getattr(events[0], "tail", None)
    assert named == (tail_of(after) if time < 119 else None)


def test_many_are_inserted_by_age() -> None:
    """Each finds its place among those before it (SPEC V2.23)."""
    old, older = said("old", created_at=0.5), said("older", created_at=0.2)

    events = decided((OPENED, A), InsertItems(STREAM, (old, older, said("end", created_at=9.0))))
    assert events == [
        ItemInserted(item=older, before=Ref(2)),
        ItemInserted(item=old, before=Ref(2)),
        said("end", created_at=9.0),
    ]


def test_a_call_goes_with_its_output() -> None:
    """By one event, which says by how much the view shrinks."""
    for item_id in ("f1", "o1"):
        [event] = decided((OPENED, A, *PAIR), EvictItems(STREAM, (item_id,), "old"))
        assert event == ItemsEvicted(items=(Span.of("", [3, 4]),), change=Totals(-2, 0, -21), reason="old")


@pytest.mark.parametrize(
    ("given", "evicted", "versions"),
    [
        ((called("f1"), returned("o1"), returned("o2")), "f1", [2, 3]),
        ((called("f1"), returned("o1"), returned("o2")), "o2", [4]),
        ((returned("o1"), called("f1")), "f1", [3]),
        ((returned("o1"), called("f1"), returned("o2")), "o2", [3, 4]),
        ((called("f1"), called("f2"), returned("o2", call_id="f2")), "f1", [2]),
    ],
    ids=["the first output", "the second output", "an output before its call", "the output behind it", "in flight"],
)
def test_pairs_are_those_of_the_order(given: tuple[object, ...], evicted: str, versions: list[int]) -> None:
    """An output answers a call that stands before it, once."""
    [event] = decided((OPENED, *given), EvictItems(STREAM, (evicted,)))

    assert isinstance(event, ItemsEvicted)
    assert event.items == (Span.of("", versions),)


def test_a_pair_that_was_inserted() -> None:
    """Where items stand counts, not when they came: here the call came last, and goes and comes with its output."""
    given = (OPENED, returned("o1"), ItemInserted(item=called("f1"), before=Ref(2)))

    [event] = decided(given, EvictItems(STREAM, ("o1",)))
    assert isinstance(event, ItemsEvicted)
    assert event.items == (Span.of("", [2, 3]),)
    [back] = decided((*given, event), RestoreItems(STREAM, ("f1",)))
    assert isinstance(back, ItemsRestored)
    assert back.items == (Span.of("", [2, 3]),)


def test_what_is_restored_without_ids() -> None:
    """What left last by an evict, a truncate, a clear or a merge; never what was replaced or told by a summary."""
    state = (OPENED, A, B, C, gone(2), gone(4, how="truncate"))

    assert decided((*state, gone(3, how="replace")), RestoreItems(STREAM)) == [
        ItemsRestored(items=(Span.of("", [4]),), change=Totals(1, 1, 5))
    ]
    assert decided((OPENED, A), RestoreItems(STREAM)) == []


def test_an_output_that_left_later_brings_its_call() -> None:
    """The two are not parted by restoring what left last."""
    given = (OPENED, called("f1"), gone(2), returned("o1"), gone(4))

    [event] = decided(given, RestoreItems(STREAM))
    assert isinstance(event, ItemsRestored)
    assert event.items == (Span.of("", [2, 4]),)


def test_pins_are_facts() -> None:
    """Only what changes is recorded."""
    pinned = ItemsPinned(items=(Span.of("", [2]),), reason="why")

    assert decided((OPENED, A, B), PinItems(STREAM, ("a",), True, "why")) == [pinned]
    assert decided((OPENED, A, B, pinned), PinItems(STREAM, ("a",), True)) == []
    assert decided((OPENED, A, B, pinned), PinItems(STREAM, ("b", "a", "a"), False)) == [
        ItemsUnpinned(items=(Span.of("", [2]),))
    ]


@pytest.mark.parametrize(
    ("given", "command", "error"),
    [
        ((A,), EvictItems(STREAM, ("a", "x")), NotFoundError),
        ((*PAIR, ItemsPinned(items=(Span.of("", [2]),))), EvictItems(STREAM, ("o1",)), InvalidInputError),
        ((A, gone(2)), PinItems(STREAM, ("a",), True), NotFoundError),
        ((A,), InsertItems(STREAM, (said("a", "other"),)), DuplicateItemError),
        ((A, gone(2)), InsertItems(STREAM, (A,)), DuplicateItemError),
        ((A,), ReplaceInstructions(STREAM, said("a", role="system")), DuplicateItemError),
    ],
    ids=["unknown", "the call is pinned", "pin what is gone", "taken", "evicted", "taken by a message"],
)
def test_refusals(given: tuple[object, ...], command: object, error: type[RefoldError]) -> None:
    """What is wrong is refused with its own error."""
    with pytest.raises(error):
        decided((OPENED, *given), command)


def test_what_is_so_already() -> None:
    """No event where nothing would change."""
    for command in (EvictItems(STREAM, ("a",)), Clear(), RestoreItems(STREAM, ())):
        assert decided((OPENED, A, gone(2)), command) == []


def test_a_pair_is_found_without_the_others() -> None:
    """Where a call and its output stand as they were recorded, no other pair is looked at."""

    def effort(pairs: int) -> int:
        items = [one for n in range(pairs) for one in (called(f"f{n}"), returned(f"o{n}", call_id=f"f{n}"))]
        state, command = fold(EMPTY, (OPENED, *items)), EvictItems(STREAM, ("f1",))
        # The first look makes an index of all items.
        CHAT.decide(command, state)
        return calls_of(lambda: CHAT.decide(command, state))

    assert effort(400) < effort(60) + 60


def effects_of(edits: Edits) -> dict[str, dict[int, Any]]:
    """Return the effects of edits on items, by name."""
    found = {name: getattr(edits, name) for name in Edits.__slots__}
    return {name: dict(value.items()) for name, value in found.items() if isinstance(value, ByOrdinal)}


def test_a_copy_and_a_snapshot_have_every_effect() -> None:
    """A new effect must be in `Edits.copied`, and in the form that a snapshot has."""
    edits = Edits()
    edits.place(5, 3)
    edits.hide([2], Gone("evict", "old", 7))
    edits.pinned[1], edits.approvals[4] = True, Approval("requested", "mia", None, 8)

    effects = effects_of(edits)
    assert [name for name, effect in effects.items() if not effect] == [], "let this test make one, too"
    assert effects_of(edits.copied()) == effects_of(_unpacked_edits(_packed_edits(edits))) == effects

    copy = edits.copied()
    for name, effect in effects.items():
        getattr(copy, name).pop(next(iter(effect)))
    assert effects_of(edits) == effects


@PROPERTY
@given(st.lists(st.tuples(st.integers(0, 600), st.booleans()), max_size=30))
def test_a_walk_goes_through_all_items_in_their_order(inserted: list[tuple[int, bool]]) -> None:
    """Through inserted items, and those inserted before these; also through those that left the view."""
    edits = Edits()
    for ordinal, (before, is_gone) in enumerate(inserted, 600):
        edits.place(ordinal, min(before, ordinal - 1))
        edits.hide([ordinal] if is_gone else [], Gone("evict", None, 1))
    count = 600 + len(inserted)
    order, walk = [*edits.whole_order(count)], WholeOrder(edits, count)

    for place in (*range(0, count, 97), *map(order.index, range(600, count))):
        assert [*walk.behind(order[place])] == order[place + 1 :]
        assert [*walk.before(order[place])] == order[:place][::-1]


def test_an_eviction_behind_a_merge_walks_no_further_than_its_answer() -> None:
    """Items that a merge put before others are not put in order to evict one that is far from them."""
    counts = list[int]()
    for length in (300, 1_200):
        chat = ChatContext()
        for number in range(300):
            chat.add_message("assistant", f"{number}")
        fork = chat.fork()
        for number in range(length):
            fork.add_message("assistant", f"in the fork {number}")
        for number in range(600):
            chat.add_message("assistant", f"in the chat {number}")
        asyncio.run(chat.merge(fork))
        first, second = (item.id for item in chat.items[:2])
        chat.evict([first])
        counts.append(calls_of(lambda chat=chat, name=second: chat.evict([name])))  # type: ignore[misc]

    assert counts[1] < counts[0] + 100
