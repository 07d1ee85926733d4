"""Folding events into the state of a chat context: a state is a value."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given

from refold.domain.chat.events import ITEM_EVENTS
from refold.domain.chat.state.fold import EMPTY, fold
from refold.domain.chat.state.sequence import Items

from .chat_events import OPENED, called, named, said
from .strategies import HISTORY, PROPERTY

Events = Sequence[Any]


def items_of(events: Events) -> list[Any]:
    """Return the events that add an item, by looking at each."""
    return [event for event in events if isinstance(event, ITEM_EVENTS)]


@PROPERTY
@given(HISTORY, HISTORY)
def test_folding_in_two_steps_is_folding_at_once(first: Events, then: Events) -> None:
    """fold(a + b) == fold(fold(a), b)."""
    assert fold(EMPTY, [*first, *then]) == fold(fold(EMPTY, first), then)


@PROPERTY
@given(HISTORY, HISTORY)
def test_a_state_does_not_change(history: Events, later: Events) -> None:
    """What comes later leaves an earlier state as it was."""
    state = fold(EMPTY, history)

    fold(state, later)

    assert (list(state.items), state.version) == (items_of(history), len(history))
    assert state == fold(EMPTY, history)


@PROPERTY
@given(HISTORY, HISTORY, HISTORY)
def test_two_branches_do_not_meet(history: Events, left: Events, right: Events) -> None:
    """Two continuations of one state know nothing of each other, whatever they share in memory."""
    state = fold(EMPTY, history)
    left_state, right_state = fold(state, left), fold(state, right)
    left_state = fold(left_state, left)

    assert list(left_state.items) == items_of([*history, *left, *left])
    assert list(right_state.items) == items_of([*history, *right])
    assert list(state.items) == items_of(history)


@PROPERTY
@given(HISTORY, HISTORY, HISTORY)
def test_ids_are_found_in_their_own_branch(history: Events, left: Events, right: Events) -> None:
    """`find` gives the first place of an id in exactly the items that this state shows."""
    state = fold(EMPTY, history)
    branches = [(history, state), ([*history, *left], fold(state, left)), ([*history, *right], fold(state, right))]

    for events, branch in branches:
        ids = [item.id for item in items_of(events)]
        found = {item_id: branch.items.find(item_id) for item_id in [*ids, "nobody"]}
        assert found == {item_id: ids.index(item_id) if item_id in ids else None for item_id in found}


@PROPERTY
@given(HISTORY)
def test_versions_are_counted(history: Events) -> None:
    """Every event is a version, and what was said at the opening is kept."""
    state = fold(EMPTY, history)

    assert state.version == len(history)
    assert state.opened == (OPENED if OPENED in history else None)


def test_the_newest_name_wins() -> None:
    """A name given twice means the version it was given last."""
    state = fold(EMPTY, [OPENED, named("a", 1), named("b", 1), named("a", 2)])

    assert state.names == {"a": 2, "b": 1}


def test_an_earlier_state_keeps_its_names() -> None:
    """Naming does not reach back."""
    state = fold(EMPTY, [OPENED, named("a", 1)])

    fold(state, [named("a", 2)])

    assert state.names == {"a": 1}


def test_an_append_copies_nothing() -> None:
    """A state and its successor share their items, so an append costs the same whatever came before."""
    state = fold(EMPTY, [OPENED, *(said(f"m{number}") for number in range(100))])

    after = fold(state, [called()])

    assert after.items.continues(state.items)
    assert not state.items.continues(after.items)


def test_branches_continue_only_their_own_past() -> None:
    """The second branch of a state is not taken for a continuation of the first."""
    state = fold(EMPTY, [said("m1")])
    left, right = fold(state, [said("m2")]), fold(state, [said("m3")])

    assert left.items.continues(state.items)
    assert not right.items.continues(left.items)


ITEMS: list[Any] = [said("m1"), called("f1"), said("m2")]


@pytest.mark.parametrize("index", [0, 2, -1, -3])
def test_items_are_indexed_like_a_list(index: int) -> None:
    """Negative indices count from the end of what this state shows, not of what is shared."""
    items = fold(EMPTY, ITEMS).items
    items.plus([said("later")], 9)

    assert items[index] == ITEMS[index]


@pytest.mark.parametrize("index", [3, -4])
def test_items_end_where_the_state_ends(index: int) -> None:
    """What was added later is out of range."""
    items = fold(EMPTY, ITEMS).items
    items.plus([said("later")], 9)

    with pytest.raises(IndexError):
        items[index]


@pytest.mark.parametrize("part", [slice(None), slice(-2, None), slice(None, None, -1), slice(1, 99), slice(5, 1)])
def test_items_are_sliced_like_a_list(part: slice) -> None:
    """A slice is a list of what this state shows."""
    items = fold(EMPTY, ITEMS).items
    items.plus([said("later")], 9)

    assert items[part] == ITEMS[part]


def test_items_are_compared_by_what_they_hold() -> None:
    """Two states that were folded apart are equal; a list is another thing."""
    items = fold(EMPTY, ITEMS).items

    assert items == fold(EMPTY, ITEMS).items
    assert items != Items()
    assert items != ITEMS
