"""Thinking that is kept as items of its own, in front of the message or the calls that it led to."""

from __future__ import annotations

from collections.abc import Iterable

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
    for index, item in enumerate(items):
        is_next = thinking is not None and thinking == index - 1
        if is_thinking(item):
            found.append(thinking if is_next else None)
            thinking = index
        elif is_of_model(item) and (is_next or _goes_on(item)):
            found.append(thinking)
        else:
            found.append(None)
            thinking = thinking if isinstance(item, BETWEEN_CALLS) else None
    return found


def answers_to(items: Items, thinking: Iterable[int], *, are_gone: bool) -> set[int]:
    """
    Return the ordinals of the items that leave the view with reasoning of the Responses API, as it is refused alone.

    With `are_gone` those that come back with it. An item that left by another event, such as a call that a person
    changed, stays away.
    """
    found: set[int] = set()
    following, led_to = -1, list[int]()
    for ordinal in sorted(thinking, reverse=True):
        item = items.item_table.items[ordinal]
        if item.origin is not None and b'"responses"' in item.origin.rest and is_thinking(item):
            # Thinking in a row led to the same items.
            led_to = led_to if following == ordinal + 1 else _led_to(items, ordinal)
            following = ordinal
            leaving = (led for led in led_to if items.shows(led) != are_gone)
            found.update(led for led in leaving if not are_gone or _left_together(items, led, ordinal))
    return found


def thinking_of(items: Items, chosen: set[int], *, are_gone: bool) -> set[int]:
    """
    Return the ordinals of the thinking that leaves the view with the chosen items: what it led to is gone then.

    With `are_gone` the thinking that comes back with them.
    """
    found: set[int] = set()
    seen: set[int] = set()
    for ordinal in sorted(chosen):
        is_done = ordinal in seen or is_thinking(items.item_table.items[ordinal])
        before = [] if is_done else _thinking_before(items, ordinal)
        if not before:
            continue
        led_to = _led_to(items, before[0])
        seen.update(led_to)
        if are_gone or all(led in chosen or not items.shows(led) for led in led_to):
            found.update(thinking for thinking in before if items.shows(thinking) != are_gone)
    return found


def _thinking_before(items: Items, ordinal: int) -> list[int]:
    """Return the ordinals of the thinking of the answer that an item belongs to, the last one first."""
    known = items.item_table.items
    if _is_placed(items, ordinal):
        return []
    while ordinal and is_of_model(known[ordinal]) and _goes_on(known[ordinal]) and not is_thinking(known[ordinal - 1]):
        ordinal -= 1
    found = []
    while ordinal and is_of_model(known[ordinal]) and is_thinking(known[ordinal - 1]):
        ordinal -= 1
        found.append(ordinal)
    return found


def _led_to(items: Items, thinking: int) -> list[int]:
    """Return the ordinals of the items of the answer that was recorded behind its thinking."""
    found: list[int] = []
    for ordinal in range(thinking + 1, items.reach):
        if _is_placed(items, ordinal):
            continue
        item = items.item_table.items[ordinal]
        if not is_of_model(item) or (found and (is_thinking(item) or not _goes_on(item))):
            break
        if not is_thinking(item):
            found.append(ordinal)
    return found


def _left_together(items: Items, one: int, other: int) -> bool:
    return items.edits is not None and items.edits.gone[one] is items.edits.gone[other]


def _is_placed(items: Items, ordinal: int) -> bool:
    """Return whether an item was inserted or moved: its place in the log says nothing about the items around it."""
    return items.edits is not None and ordinal in items.edits.placed


def _goes_on(item: chat.ChatItemEvent) -> bool:
    """Return whether an item belongs to the same message of its source as the item before it."""
    return item.origin is not None and not item.origin.starts
