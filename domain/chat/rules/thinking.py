"""Thinking that is kept as items of its own, in front of the message or the calls that it led to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...concurrency.locks import cached_property
from .. import events as chat
from ..describe import is_thinking
from ..pairing import BETWEEN_CALLS, is_of_model
from ..state.sequence import Items


def leads(item: chat.ChatItemEvent, following: chat.ChatItemEvent) -> bool:
    """Return whether an item is thinking that belongs to the answer which the next item continues."""
    return is_of_model(following) and is_thinking(item)


def last_thinking(items: Iterable[chat.ChatItemEvent]) -> list[int | None]:
    """Return for each item the index of the last thinking before it in its answer of the model, or None."""
    found: list[int | None] = []
    thinking: int | None = None
    is_next = False
    for index, item in enumerate(items):
        if isinstance(item, BETWEEN_CALLS):
            found.append(None)
        elif is_thinking(item):
            found.append(thinking if is_next else None)
            thinking, is_next = index, True
        else:
            thinking = thinking if is_of_model(item) and (is_next or _goes_on(item)) else None
            found.append(thinking)
            is_next = False
    return found


def answers_to(items: Items, thinking: Iterable[int], *, are_gone: bool) -> set[int]:
    """
    Return the ordinals of the items that leave the view with reasoning of the Responses API, as it is refused alone.

    With `are_gone` those that come back with it. An item that left by another event, such as a call that a person
    changed, stays away.
    """
    found: set[int] = set()
    chosen = {one for one in thinking if _is_reasoning(items.item_table.items[one])}
    answers = _Answers(items)
    for ordinal in chosen:
        leaving = (led for led in answers.led_to(ordinal) if items.shows(led) != are_gone)
        found.update(led for led in leaving if not are_gone or _left_together(items, led, ordinal))
    return found


def thinking_of(items: Items, chosen: set[int], *, are_gone: bool) -> set[int]:
    """
    Return the ordinals of the thinking that leaves the view with the chosen items: what it led to is gone then.

    With `are_gone` the thinking that comes back with them: that which left with what it led to, and all reasoning of
    the Responses API.
    """
    found: set[int] = set()
    seen: set[int] = set()
    known = items.item_table.items
    answers = _Answers(items)
    for ordinal in sorted(chosen):
        is_done = ordinal in seen or not is_of_model(known[ordinal]) or is_thinking(known[ordinal])
        before = [] if is_done else answers.thinking_before(ordinal)
        if not before:
            continue
        led_to = answers.led_to(before[0])
        seen.update(led_to)
        if are_gone:
            gone = [led for led in led_to if not items.shows(led)]
            found.update(
                one
                for one in before
                if not items.shows(one)
                and (_is_reasoning(known[one]) or any(_left_together(items, led, one) for led in gone))
            )
        elif all(led in chosen or not items.shows(led) for led in led_to):
            found.update(filter(items.shows, before))
    return found


class _Answers:
    """The answers of the model among all items ever held, in their places: what left the view is among them."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._led_to: dict[int, list[int]] = {}
        self._before: dict[int, list[int]] = {}

    @cached_property
    def _order(self) -> Sequence[int]:
        return self._items.whole_order()

    @cached_property
    def _place_of(self) -> Mapping[int, int] | Sequence[int]:
        is_moved = self._items.edits is not None and bool(self._items.edits.placed)
        return {ordinal: place for place, ordinal in enumerate(self._order)} if is_moved else self._order

    def thinking_before(self, ordinal: int) -> list[int]:
        """Return the ordinals of the thinking of the answer that an item belongs to, the last one first."""
        known, found, passed = self._items.item_table.items, list[int](), [ordinal]
        is_first = not _goes_on(known[ordinal])
        if self._is_inserted(ordinal):
            return []
        for place in range(self._place_of[ordinal] - 1, -1, -1):
            before = self._order[place]
            item = known[before]
            if isinstance(item, BETWEEN_CALLS) or self._is_inserted(before):
                continue
            if is_thinking(item):
                found.append(before)
            elif found or is_first or not is_of_model(item):
                break
            elif before in self._before:
                found = self._before[before]
                break
            else:
                passed.append(before)
                is_first = not _goes_on(item)
        self._before.update(dict.fromkeys(passed, found))
        return found

    def led_to(self, thinking: int) -> list[int]:
        """Return the ordinals of the items of the answer behind its thinking."""
        found: list[int] = []
        passed = [thinking]
        for place in range(self._place_of[thinking] + 1, len(self._order)):
            ordinal = self._order[place]
            if not found and ordinal in self._led_to:
                found = self._led_to[ordinal]
                break
            item = self._items.item_table.items[ordinal]
            if isinstance(item, BETWEEN_CALLS) or self._is_inserted(ordinal):
                continue
            if not is_of_model(item) or (found and (is_thinking(item) or not _goes_on(item))):
                break
            (passed if is_thinking(item) else found).append(ordinal)
        self._led_to.update(dict.fromkeys(passed, found))
        return found

    def _is_inserted(self, ordinal: int) -> bool:
        """Return whether an item is a message that was inserted later: it belongs to no answer around it."""
        edits, item = self._items.edits, self._items.item_table.items[ordinal]
        is_placed = edits is not None and ordinal in edits.placed
        return is_placed and item.origin is None and isinstance(item, chat.MessageAdded)


def _is_reasoning(item: chat.ChatItemEvent) -> bool:
    return item.origin is not None and b'"responses"' in item.origin.rest and is_thinking(item)


def _left_together(items: Items, one: int, other: int) -> bool:
    return items.edits is not None and items.edits.gone[one] is items.edits.gone[other]


def _goes_on(item: chat.ChatItemEvent) -> bool:
    """Return whether an item belongs to the same message of its source as the item before it."""
    return item.origin is not None and not item.origin.starts
