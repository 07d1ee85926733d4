"""Items that were edited, as a value: what can be seen, in which order, and what they count."""

import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.chat.events import (
    UNFINISHED,
    ChatItemEvent,
    Forked,
    ItemInserted,
    ItemsEvicted,
    ItemsRestored,
    MessageExtended,
    MessageFinished,
    Named,
)
from refold.domain.chat.pairing import pair_calls
from refold.domain.chat.rules.edits import Partners
from refold.domain.chat.state.fold import EMPTY, ChatState, Completed, ReferencedItem, fold
from refold.domain.chat.state.item_table import ItemTable, totals_of
from refold.domain.chat.state.sequence import Items
from refold.domain.chat.state.unread_items import ItemNames
from refold.domain.named_events import Resolved
from refold.domain.spans import Ref, Segment, Span, spans_of
from refold.domain.totals import Totals

from ..interrupts.injecting import InterruptedHereError, interrupted_at, points_of
from ..support.effort import CountedLock
from .chat_events import OPENED, called, handed, returned, said
from .edit_events import STEPS, Line, line_of
from .strategies import PROPERTY

FORK = Forked(parent="chat:a", version=0, lineage=(Segment("chat:a", 0),), root="a")


def evolve(state: ChatState, event: Completed) -> ChatState:
    """Return the state after one event."""
    return fold(state, (event,))


def ids(items: Items) -> list[str]:
    """Return the ids of what can be seen."""
    return [item.id for item in items]


def require(state: ChatState, line: Line) -> None:
    """Compare a state with a line, by all ways of looking."""
    items, shown = state.items, line.shown()
    assert (ids(items), len(items)) == (shown, len(shown))
    assert items.totals == sum((totals_of(item) for item in items), Totals())
    assert [items[place].id for place in range(-len(shown), len(shown))] == shown * 2
    assert [item.id for item in items[-3:]] == shown[-3:]
    assert [items.find(item_id) for item_id in shown] == list(range(len(shown)))
    assert all(items.find(item_id) is None and items.ordinal(item_id) is not None for item_id in line.gone)
    assert {item_id for item_id in line.ids if items.is_pinned(items.ordinal(item_id) or 0)} == line.pinned
    assert [items.item_table.items[one].id for one in items.whole_order()] == line.ids
    runs = items.view_runs()
    assert runs is None or [*chain.from_iterable(runs)] == list(items.order())
    assert (runs is None) == bool(items.edits and items.edits.placed)


@PROPERTY
@given(STEPS, st.integers(0, 25), st.booleans())
def test_however_it_is_folded(steps: list[tuple[str, int]], cut: int, looks: bool) -> None:
    """At once, step by step, in two parts: the same, whether somebody looks in between or not."""
    line = line_of(steps)
    stepwise = EMPTY
    for event in line.events:
        stepwise = evolve(stepwise, event)
        if looks:
            _ = stepwise.items.totals, len(stepwise.items)
    begun = fold(EMPTY, line.events[:cut])

    for state in (fold(EMPTY, line.events), stepwise, fold(begun, line.events[cut:])):
        require(state, line)


@PROPERTY
@given(STEPS, STEPS, STEPS)
def test_a_value_stays_what_it_is(
    first: list[tuple[str, int]], left: list[tuple[str, int]], right: list[tuple[str, int]]
) -> None:
    """Two histories that go on from one state, and the state itself, know nothing of each other."""
    base = line_of(first)
    state = fold(EMPTY, base.events)
    lines = [line_of([*first, *left]), line_of([*first, *right])]
    states = [state, state]
    for number in range(max(len(left), len(right))):
        for side, line in enumerate(lines):
            states[side] = fold(states[side], line.events[len(base.events) + number :][:1])

    require(state, base)
    require(states[0], lines[0])
    require(states[1], lines[1])


@PROPERTY
@given(STEPS, st.permutations(["parent", "child", "grandchild", "parent", "child", "grandchild"]))
def test_a_fork_and_its_parent(steps: list[tuple[str, int]], order: list[str]) -> None:
    """They share what is in memory; whoever goes on first, nobody sees the others' items, and all can be named."""
    line = line_of(steps)
    parent = fold(EMPTY, line.events)
    child = evolve(parent, FORK)
    states = {"parent": parent, "child": child, "grandchild": evolve(child, FORK)}
    added: dict[str, list[str]] = {who: [] for who in states}
    for number, who in enumerate(order):
        states[who] = evolve(states[who], said(f"{who}{number}"))
        added[who].append(f"{who}{number}")

    for who, state in states.items():
        items = state.items
        assert ids(items) == line.shown() + added[who]
        assert items.totals == sum((totals_of(item) for item in items), Totals())
        for ordinal in range(items.reach):
            assert items.of_ref(items.ref(ordinal)) == ordinal


@PROPERTY
@given(STEPS, STEPS, st.integers(-1, 12))
def test_the_first_that_is_younger(steps: list[tuple[str, int]], more: list[tuple[str, int]], time: int) -> None:
    """Found without going through the items: the one that going through them finds, before and after more edits."""
    begun, line = line_of(steps), line_of([*steps, *more])
    state = fold(EMPTY, begun.events)
    states = [state, evolve(state, FORK), fold(state, line.events[len(begun.events) :])]

    for items in (one.items for one in states):
        wanted = next((item.id for item in items if item.created_at > time), None)
        found = items.first_younger(time)
        assert (None if found is None else items.item_table.items[found].id) == wanted


def test_a_deep_chain_of_inserts() -> None:
    """Ten thousand items, each put before the last one, come out in order: nothing recurses."""
    count = 10_000
    inserts = [ItemInserted(item=said(f"i{n}"), before=Ref(n - 1)) for n in range(3, count + 2)]
    state = fold(EMPTY, [OPENED, said("i2"), *inserts])

    assert ids(state.items) == [f"i{n}" for n in range(count + 1, 1, -1)]
    assert ids(evolve(state, said("end")).items)[-2:] == ["i2", "end"]


def test_many_edits() -> None:
    """Before evicted items too, in any order: the same as in a plain list."""
    chance = random.Random(7)
    steps = [(chance.choice(["add", "insert", "insert", "evict", "restore"]), chance.randrange(1 << 10))
             for _ in range(800)]  # fmt: skip
    line = line_of(steps)
    state = fold(EMPTY, line.events)

    assert ids(state.items) == line.shown()


def test_an_edit_keeps_the_running_totals() -> None:
    """Where somebody asked before, an edit adds its difference, and nothing is summed again."""
    state = fold(EMPTY, [OPENED, *(said(f"m{number}", "x" * 8) for number in range(100))])
    assert state.items.totals == Totals(100, 100, 600)
    edited = evolve(state, ItemsEvicted(items=(Span.of("", [2, 3]),), change=Totals()))

    assert edited.items.known_totals() == Totals(98, 98, 588)
    assert evolve(edited, said("more", "")).items.known_totals() == Totals(99, 99, 592)


def test_an_edit_copies_little_of_the_edits_before() -> None:
    """Evicting one item of 40,000, half of which left one by one, takes a few kilobytes, and no list of all of them."""
    items = [said(f"m{number}") for number in range(40_000)]
    gone = [ItemsEvicted(items=(Span.of("", [version]),), change=Totals()) for version in range(2, 40_002, 2)]
    state = fold(EMPTY, [OPENED, *items, *gone])
    tracemalloc.start()
    edited = evolve(state, ItemsEvicted(items=(Span.of("", [20_001]),), change=Totals()))
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (len(state.items), len(edited.items)) == (20_000, 19_999)
    assert taken < 100_000


@pytest.mark.parametrize("gone", [(), (ItemsEvicted(items=(Span.of("", [3]),), change=Totals()),)])
def test_a_piece_of_a_message_copies_no_list(gone: tuple[ItemsEvicted, ...]) -> None:
    """It costs a few kilobytes among 40,000 items; each value keeps its form and goes on alone, whoever looks first."""
    began = said("grows", ("",), incomplete=UNFINISHED)
    start = fold(EMPTY, [OPENED, *(said(f"m{number}") for number in range(40_000)), began, *gone])
    _, piece = start.items.totals, MessageExtended(item=Ref(40_002), text="word ")
    one = evolve(start, piece)
    tracemalloc.start()
    two = evolve(evolve(one, piece), said("behind"))
    counted = two.items.totals
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    side = evolve(evolve(one, FORK), said("aside"))
    done = evolve(evolve(two, MessageFinished(item=Ref(40_002), role="user", text="end")), said("last"))

    texts = {"start": start, "one": one, "two": two, "side": side, "done": done}
    grown = [state.items.item_table.items[40_000] for state in texts.values()]
    assert [getattr(one, "content", None) for one in grown] == [
        ("",), ("word ",), ("word word ",), ("word ",), ("word word end",)
    ]  # fmt: skip
    assert [ids(state.items)[-2:] for state in texts.values()] == [
        ["m39999", "grows"], ["m39999", "grows"], ["grows", "behind"], ["grows", "aside"], ["behind", "last"]
    ]  # fmt: skip
    assert counted == sum((totals_of(item) for item in two.items), Totals())
    assert done.items.totals == sum((totals_of(item) for item in done.items), Totals())
    assert done.items.find("last") == len(done.items) - 1
    assert taken < 100_000


def test_a_trial_with_a_piece_adds_nothing_to_the_items_it_borrowed() -> None:
    """The item table stays that of its owner, also after a message in it grew in the trial."""
    items = fold(EMPTY, [OPENED, said("m1"), said("grows", ("",), incomplete=UNFINISHED)]).items
    trial = items.borrowed().rewritten({1: said("grows", ("word",), incomplete=UNFINISHED)}).plus([said("m3")], 4)

    assert ids(trial) == ["m1", "grows", "m3"]
    assert len(items.item_table.items) == len(items) == 2


def test_a_message_that_ends_in_an_older_state() -> None:
    """Where the items have gone on meanwhile, it ends in a list of its own."""
    begun = fold(EMPTY, [OPENED, said("m1"), said("grows", ("",), incomplete=UNFINISHED)])
    later = evolve(begun, said("m3"))
    done = evolve(begun, MessageFinished(item=Ref(3), role="user", text="word"))
    again = evolve(later, MessageFinished(item=Ref(3), role="user", text="other"))

    assert [ids(one.items) for one in (begun, later, done, again)] == [
        ["m1", "grows"], ["m1", "grows", "m3"], ["m1", "grows"], ["m1", "grows", "m3"]
    ]  # fmt: skip
    assert [[getattr(one, "content", None) for one in state.items][1] for state in (begun, later, done, again)] == [
        ("",), ("",), ("word",), ("other",)
    ]  # fmt: skip
    assert done.items.totals == sum(map(totals_of, done.items), Totals())
    assert ids(evolve(done, said("m4")).items) == ["m1", "grows", "m4"]


def test_a_fork_that_carries_a_part_has_no_piece_of_what_it_left() -> None:
    """Folded in one go behind a message that had begun to grow in the parent."""
    begun = said("grows", ("",), incomplete=UNFINISHED)
    event = msgspec.structs.replace(FORK, version=3, carried=(Span.of("chat:a", [9]),))
    fork = Resolved(event, (ReferencedItem(Ref(9, "chat:a"), said("taken")),))

    state = fold(EMPTY, [OPENED, begun, MessageExtended(item=Ref(2), text=" of the parent"), fork])

    assert [*state.items] == [said("taken")]


def test_counts_of_a_message_that_grew_and_left() -> None:
    """Totals that were asked for stay right, whatever comes with them in one fold: pieces, appends, edits."""
    grown = MessageExtended(item=Ref(3), text="x" * 40)
    left = ItemsEvicted(items=(Span.of("", [2]),), change=Totals())
    both = ItemsEvicted(items=(Span.of("", [2, 3]),), change=Totals())
    begun = said("m2", ("",), incomplete=UNFINISHED)
    two, one = fold(EMPTY, [OPENED, said("m1"), begun]), fold(EMPTY, [OPENED, said("m1")])

    cases: list[tuple[ChatState, list[Any]]] = [
        (two, [grown, left]),
        (two, [both, grown, grown]),
        (one, [begun, left, grown]),
        (one, [begun, both, grown]),
    ]
    for state, events in cases:
        for known in (state, evolve(evolve(state, left), ItemsRestored(items=left.items, change=Totals()))):
            _ = known.items.totals
            folded = fold(known, events).items
            assert folded.known_totals() == sum((totals_of(item) for item in folded), Totals())


@PROPERTY
@given(
    st.lists(st.tuples(st.sampled_from("cccooonmh"), st.sampled_from("aab"), st.integers(0, 40)), max_size=40),
    st.data(),
)
def test_partners_of_repeated_calls(kinds: list[tuple[str, str, int]], data: st.DataObject) -> None:
    """Found among the items with their call id: those that going through all items finds."""
    made: dict[str, Any] = {"m": said, "h": handed, "c": called, "o": returned, "n": returned}
    events = [
        msgspec.structs.replace(
            made[kind](f"i{n}"),
            **({"call_id": name} if kind in "con" else {}),
            **({"call_item_id": f"i{named}"} if kind == "n" else {}),
        )
        for n, (kind, name, named) in enumerate(kinds)
    ]
    away = data.draw(st.sets(st.sampled_from(range(len(kinds))))) if kinds else set()
    left = ItemsEvicted(items=spans_of(Ref(one + 2) for one in sorted(away)), change=Totals())
    items = fold(EMPTY, [OPENED, *events, *([left] if away else [])]).items

    for are_gone in (False, True):
        order = list(items.whole_order() if are_gone else items.order())
        pairs = pair_calls(items.item_table.items[ordinal] for ordinal in order)
        found = Partners(items, are_gone=are_gone)
        for place, ordinal in enumerate(order):
            partner = pairs.partner(place)
            same = (
                items.item_table.with_call_id(events[ordinal].call_id, items.reach)
                if kinds[ordinal][0] in "con"
                else []
            )
            # Two that are a plain pair belong together, also where one of them left.
            if len(same) != 2:
                assert found.of(ordinal) == (None if partner is None else order[partner])


def test_a_value_finds_nothing_of_what_came_later() -> None:
    """Versions share what they are made of: by an id, a call's id or a birth each finds its own items alone."""
    early = fold(EMPTY, [OPENED, said("m1"), called("f1")])
    late = fold(early, [said("m2"), returned("o1", call_id="f1")])
    item_table = late.items.item_table

    assert item_table is early.items.item_table
    assert [item_table.find(name, count) for name in ("f1", "m2") for count in (2, 3)] == [1, 1, None, 2]
    assert [item_table.with_call_id("f1", count) for count in (1, 2, 3, 4)] == [[], [1], [1], [1, 3]]
    assert [early.items.find("m2"), late.items.find("m2")] == [None, 2]


def test_a_value_has_no_more_items_while_it_is_gone_through() -> None:
    """As another thread goes through them, for which others are added."""
    gone = ItemsEvicted(items=(Span.of("", [3]),), change=Totals())
    state = fold(EMPTY, [OPENED, *map(said, "abc"), gone])
    items = state.items
    order, tail = items.order(), items.order()[-1:]
    seen: list[str] = []
    for number, item in enumerate(items):
        assert number < 2, "an item that came later is in it"
        state = evolve(state, said(f"later {number}"))
        seen.append(item.id)

    assert (seen, ids(items), ids(state.items)) == (["a", "c"], ["a", "c"], ["a", "c", "later 0", "later 1"])
    assert (list(order), len(order), order[-1], order[::-1], order.index(2), tail) == ([0, 2], 2, 2, [2, 0], 1, [2])
    with pytest.raises(IndexError):
        order[2]
    with pytest.raises(ValueError, match="3 is not in"):
        order.index(3)


def test_what_is_not_there() -> None:
    """An unknown id, and a name that means no item."""
    items = fold(EMPTY, [OPENED, said("m1")]).items

    assert (items.find("nobody"), items.ordinal("nobody")) == (None, None)
    assert [items.of_ref(ref) for ref in (Ref(1), Ref(3), Ref(2, "chat:other"))] == [None] * 3


def test_what_stands_beside_an_unknown_name() -> None:
    """Of consecutive versions those that are items are found, whatever lies between them."""
    items = fold(EMPTY, [OPENED, said("m1"), Named(name="a name", version=2), said("m2"), said("m3")]).items

    assert items.of_spans([Span.of("", range(1, 9))]) == [0, 1, 2]


@pytest.mark.parametrize(
    "look",
    [
        lambda item_table: item_table.totals(2),
        lambda item_table: item_table.first_younger(1.0, 2),
        lambda item_table: item_table.find("m1", 2),
        lambda item_table: item_table.with_call_id("f1", 2),
    ],
)
def test_what_versions_share_is_made_under_a_lock(look: Callable[[Any], object]) -> None:
    """Running totals and indexes grow when somebody looks, in any thread."""
    item_table = fold(EMPTY, [OPENED, said("m1"), called("f1")]).items.item_table
    item_table._lock = lock = CountedLock()  # type: ignore[assignment]

    look(item_table)
    assert lock.taken > 0


def test_reformed_items_are_found_under_what_was_not_looked_for_before() -> None:
    """A copy shares what is known of ids; it knows all of its items, though nobody asked the first for one."""
    item_table = fold(EMPTY, [OPENED, said("m1"), called("f1"), returned("o1", call_id="f1")]).items.item_table

    copy = item_table.reformed({0: said("m1")}, 3)

    assert [copy.find(name, 3) for name in ("m1", "f1", "o1")] == [0, 1, 2]
    assert copy.with_call_id("f1", 3) == item_table.with_call_id("f1", 3) == [1, 2]


def test_a_reformed_copy_does_not_grow() -> None:
    """It shares where items are from; whoever goes on behind it takes a copy of its own."""
    items = fold(EMPTY, [OPENED, said("m1"), said("m2")]).items
    count = len(items.item_table.items)
    reformed = Items(items.item_table.reformed({0: said("m1", "new")}, count), count)

    assert reformed.own_item_table() is not reformed.item_table
    assert items.own_item_table() is items.item_table


class CountedOrder(list[int]):
    """An order that counts how many of its ordinals are looked at one by one, and is never gone through."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("all ordinals are looked at")


def test_repeated_call_ids_are_paired_without_a_look_at_all_others() -> None:
    """Only those that have the id, and the ends of their batches, are looked at; as long as no item was moved."""
    events: list[Any] = [OPENED]
    for number in range(1_000):
        again = number % 100 == 0
        events += [called(f"f{number}"), said(f"m{number}"), returned(f"o{number}", call_id=f"f{number}")]
        events += [msgspec.structs.replace(called(f"r{number}"), call_id="again")] * again
        events += [returned(f"a{number}", call_id="again")] * again
    items = fold(EMPTY, events).items
    found = Partners(items, are_gone=False)
    found._order = order = CountedOrder(items.order())
    first, last = items.ordinal("r0"), items.ordinal("a900")
    assert first is not None
    assert last is not None

    assert (found.of(first), found.of(last)) == (first + 1, last - 1)
    assert order.looks < 400


def test_names_are_added_again_after_an_interrupt() -> None:
    """Before whatever line it comes, a snapshot that is made later has each name once."""
    items: list[ChatItemEvent] = [said("a"), called("f"), returned("r"), said("b")]
    whole = ItemNames()
    whole.extend(items)

    for point in points_of(lambda: ItemNames().extend(items)):
        names = ItemNames()
        with suppress(InterruptedHereError):
            interrupted_at(point, partial(names.extend, items), InterruptedHereError)
        names.extend(items[len(names) :])
        assert names.first(len(items)) == whole.first(len(items)), point


def test_runs_are_packed_while_another_thread_adds_one() -> None:
    """A snapshot of the items before is made in the middle of that."""
    item_table = ItemTable()
    item_table.extend([said("a")], 0, 2)
    item_table._starts.append(1)

    assert item_table.runs(1) == [(0, 0, 2)]
