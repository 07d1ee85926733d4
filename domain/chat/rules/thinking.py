"""Thinking that is kept as items of its own, in front of the message or the calls that it led to."""

from __future__ import annotations

from collections.abc import Iterable

from .. import events as chat
from ..describe import is_thinking
from ..pairing import is_of_model
from ..state.edits import WholeOrder
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
        if isinstance(item, chat.ABOUT_CONVERSATION):
            found.append(None)
        elif is_thinking(item):
            found.append(thinking if is_next else None)
            thinking, is_next = index, True
        else:
            thinking = thinking if is_of_model(item) and (is_next or _goes_on(item)) else None
            found.append(thinking)
            is_next = False
    return found


class Answers:
    """
    The answers of the model among all items ever held, in their places: what left the view is among them.

    With `are_gone`, its methods return items that come back into the view; otherwise, items that leave it.
    """

    def __init__(self, items: Items, *, are_gone: bool) -> None:
        self._items, self._are_gone = items, are_gone
        self._order = WholeOrder(items.edits, items.reach)
        # By ordinal, so that a run of thinking, or of calls, is walked once: what thinking led to, and the thinking of
        # an item.
        self._led: dict[int, list[int]] = {}
        self._thinking: dict[int, list[int]] = {}

    def led_by_reasoning(self, chosen: Iterable[int]) -> set[int]:
        """
        Return the ordinals of the items that reasoning of the Responses API among the chosen items takes along.

        An item that left by another event than its reasoning, such as a call that a person changed, does not come back.
        """
        known = self._items.item_table.items
        found: set[int] = set()
        for ordinal in (one for one in chosen if _is_reasoning(known[one])):
            moving = filter(self._moves, self._led_by(ordinal))
            found.update(led for led in moving if not self._are_gone or self._left_together(led, ordinal))
        return found

    def thinking_of(self, chosen: set[int]) -> set[int]:
        """
        Return the ordinals of the thinking that leaves with the chosen items, as it led to nothing else in the view.

        Thinking comes back if it left together with what it led to; reasoning of the Responses API always does.
        """
        known = self._items.item_table.items
        found: set[int] = set()
        seen: set[int] = set()
        for ordinal in sorted(chosen):
            is_done = ordinal in seen or not is_of_model(known[ordinal]) or is_thinking(known[ordinal])
            before = [] if is_done else self._thinking_before(ordinal)
            if not before:
                continue
            seen.update(self._led_by(before[0]))
            led = [one for one in self._led_by(before[0]) if self._moves(one)]
            for thinking in filter(self._moves, before):
                if self._are_gone:
                    moves = _is_reasoning(known[thinking]) or any(self._left_together(one, thinking) for one in led)
                else:
                    moves = chosen.issuperset(led)
                found.update([thinking] if moves else [])
        return found

    def _thinking_before(self, ordinal: int) -> list[int]:
        """Return the ordinals of the thinking of the answer that an item belongs to, the last one first."""
        known, found, passed = self._items.item_table.items, list[int](), [ordinal]
        is_first = not _goes_on(known[ordinal])
        if self._is_inserted(ordinal):
            return []
        for before in self._order.before(ordinal):
            item = known[before]
            if isinstance(item, chat.ABOUT_CONVERSATION) or self._is_inserted(before):
                continue
            if is_thinking(item):
                found.append(before)
            elif found or is_first or not is_of_model(item):
                break
            elif before in self._thinking:
                found = self._thinking[before]
                break
            else:
                passed.append(before)
                is_first = not _goes_on(item)
        self._thinking.update(dict.fromkeys(passed, found))
        return found

    def _led_by(self, thinking: int) -> list[int]:
        """Return the ordinals of the items of the answer behind its thinking."""
        found: list[int] = []
        passed = [thinking]
        for ordinal in self._order.behind(thinking):
            if not found and ordinal in self._led:
                found = self._led[ordinal]
                break
            item = self._items.item_table.items[ordinal]
            if isinstance(item, chat.ABOUT_CONVERSATION) or self._is_inserted(ordinal):
                continue
            if not is_of_model(item) or (found and (is_thinking(item) or not _goes_on(item))):
                break
            (passed if is_thinking(item) else found).append(ordinal)
        self._led.update(dict.fromkeys(passed, found))
        return found

    def _is_inserted(self, ordinal: int) -> bool:
        """Return whether an item is a message that was inserted later: it belongs to no answer around it."""
        edits, item = self._items.edits, self._items.item_table.items[ordinal]
        is_placed = edits is not None and ordinal in edits.placed
        return is_placed and item.origin is None and isinstance(item, chat.MessageAdded)

    def _moves(self, ordinal: int) -> bool:
        """Return whether an item can leave the view, or with `are_gone` come back."""
        return self._items.shows(ordinal) != self._are_gone

    def _left_together(self, one: int, other: int) -> bool:
        edits = self._items.edits
        return edits is not None and edits.gone[one] is edits.gone[other]


def _is_reasoning(item: chat.ChatItemEvent) -> bool:
    return item.origin is not None and b'"responses"' in item.origin.rest and is_thinking(item)


def _goes_on(item: chat.ChatItemEvent) -> bool:
    """Return whether an item belongs to the same message of its source as the item before it."""
    return item.origin is not None and not item.origin.starts
