"""Truncation: the oldest items leave until limits hold, once in a context or many times in a replay."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from ..events import (
    ChatEvent,
    ChatItemEvent,
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    is_instructions,
    is_summary,
    is_user,
)
from ..pairing import pair_calls
from ..state.fold import ChatState
from ..tokens import DEFAULT, estimate_tokens
from .commands import Truncate
from .edits import evicted


def truncate(command: Truncate, state: ChatState) -> list[ChatEvent]:
    """
    Return the event with which the oldest unprotected items leave until both limits hold.

    Protected are the first instructions, the first summary, the last user message, all handoffs and config updates,
    calls that wait for their output, and pinned items. A call leaves together with its output. Then calls without
    outputs and outputs without calls leave too.
    """
    if command.max_items is None and command.max_tokens is None:
        return []
    items, order = state.items, list(state.items.order())
    history = Truncation(command)
    # For the default counter the state has a running total.
    history.add(map(items.arena.items.__getitem__, order), items.tokens if command.counter is DEFAULT else None)
    history.pin(place for place, ordinal in enumerate(order) if items.is_pinned(ordinal))
    leaving = history.truncate()
    if not leaving:
        return []
    return [evicted(items, [order[place] for place in leaving], how="truncate", reason=command.reason)]


# Item places in order. Finding the first and the last, and removing any, take constant time.
Places = OrderedDict[int, None]


class Truncation:
    """
    A history under limits: all items that were added, and those in the view, by their places.

    The history only grows. The cost of a truncation depends only on the items added and removed since the previous one,
    so a replay of many prompts reads the history once.
    """

    def __init__(self, command: Truncate) -> None:
        self._limits = command
        # All added items, and their tokens if they were counted one by one.
        self.items: list[ChatItemEvent] = []
        self._sizes: list[int] = []
        # The items in the view, and those of them that may leave.
        self._shown, self._loose = Places(), Places()
        self._pinned: frozenset[int] = frozenset()
        self.tokens = 0
        # The calls and outputs in the view, by call id.
        self._calls: dict[str, Places] = {}
        self._outputs: dict[str, Places] = {}
        # The call ids to check: an item with this id was added or left, or a call waits for its output.
        self._touched: set[str] = set()
        self._last_user: int | None = None
        self._has_instructions = self._has_summary = False
        # Whether two calls of the running turn have one id.
        self._is_repeating = False

    def add(self, items: Iterable[ChatItemEvent], tokens: int | None = None) -> None:
        """Put items at the end; `tokens` is their sum if it is known."""
        for item in items:
            place = len(self.items)
            self.items.append(item)
            self._shown[place] = None
            if isinstance(item, FunctionCalled):
                self._loose[place] = None
                self._add_call(item.call_id, place)
            elif isinstance(item, FunctionReturned):
                self._loose[place] = None
                self._under(self._outputs, item.call_id)[place] = None
            else:
                if not self._stays(item):
                    self._loose[place] = None
                if is_user(item):
                    self._last_user, self._is_repeating = place, False
            if tokens is None:
                size = estimate_tokens(item, self._limits.counter)
                self._sizes.append(size)
                self.tokens += size
        self.tokens += tokens or 0

    def _add_call(self, call_id: str, place: int) -> None:
        calls = self._under(self._calls, call_id)
        self._is_repeating |= bool(calls) and next(reversed(calls)) >= (self._last_user or 0)
        calls[place] = None

    def _under(self, same: dict[str, Places], call_id: str) -> Places:
        self._touched.add(call_id)
        places = same.get(call_id)
        if places is None:
            places = same[call_id] = Places()
        return places

    def pin(self, places: Iterable[int]) -> None:
        """Protect these items from truncation, and the calls and outputs that belong to them."""
        pinned = set(places)
        if pinned:
            pairs = pair_calls(self.items)
            partners = map(pairs.partner, pinned)
            self._pinned = frozenset(pinned.union(place for place in partners if place is not None))
            for place in self._pinned:
                self._loose.pop(place, None)

    def _size(self, place: int) -> int:
        return self._sizes[place] if self._sizes else estimate_tokens(self.items[place], self._limits.counter)

    def _stays(self, item: ChatItemEvent) -> bool:
        """Whether truncation never removes this new item."""
        is_first = False
        if not self._has_instructions and is_instructions(item):
            self._has_instructions = is_first = True
        if not self._has_summary and is_summary(item):
            self._has_summary = is_first = True
        return is_first or isinstance(item, HandedOff | ConfigUpdated)

    def truncate(self) -> list[int]:
        """Remove the oldest items until the limits hold; return the places of all removed items, in order."""
        # Every other id has a call followed by an output: no call waits under it, and no output is alone.
        self._touched = {call_id for call_id in self._touched if self._is_open(call_id)}
        kept = self._awaited() | self._pinned
        leaving = self._oldest(kept)
        return sorted([*leaving, *self._orphans(kept)])

    def tokens_before(self, place: int) -> int:
        """Return the tokens of the items in the view before a place; it adds up the side that has fewer items."""
        before = behind = 0
        for first, last in zip(self._shown, reversed(self._shown), strict=True):
            if first >= place:
                return before
            if last < place:
                return self.tokens - behind
            before, behind = before + self._sizes[first], behind + self._sizes[last]
        return before

    def _awaited(self) -> set[int]:
        """The calls of the running turn that have no output yet."""
        start = self._last_user or 0
        if self._is_repeating:
            # Ids repeat in this turn, so pairing needs the whole turn.
            turn = []
            for place in reversed(self._shown):
                if place < start:
                    break
                turn.append(place)
            turn.reverse()
            answered = pair_calls(self.items[place] for place in turn).output_of
            return {
                place
                for index, place in enumerate(turn)
                if isinstance(self.items[place], FunctionCalled) and index not in answered
            }
        return {call for call_id in self._touched if (call := self._waiting(call_id)) is not None and call >= start}

    def _waiting(self, call_id: str) -> int | None:
        """Return the last call with an id if no output follows it."""
        calls, outputs = self._calls.get(call_id), self._outputs.get(call_id)
        if not calls:
            return None
        call = next(reversed(calls))
        return None if outputs and next(reversed(outputs)) > call else call

    def _is_open(self, call_id: str) -> bool:
        # An id with only calls or only outputs is open too: `_orphans` removes those.
        is_called, is_answered = bool(self._calls.get(call_id)), bool(self._outputs.get(call_id))
        return is_called != is_answered or self._waiting(call_id) is not None

    def _is_over(self) -> bool:
        items_max, tokens_max = self._limits.max_items, self._limits.max_tokens
        over_items = items_max is not None and len(self._shown) > items_max
        return over_items or (tokens_max is not None and self.tokens > tokens_max)

    def _oldest(self, kept: set[int]) -> list[int]:
        leaving: list[int] = []
        held: list[int] = []
        while self._loose and self._is_over():
            place, _ = self._loose.popitem(last=False)
            # Protected only for now: it is put back below, because a later truncation may remove it.
            if place == self._last_user or place in kept:
                held.append(place)
                continue
            leaving.append(self._take_out(place))
            item = self.items[place]
            if isinstance(item, FunctionCalled):
                outputs = self._outputs.get(item.call_id, ())
                output = next((one for one in outputs if one > place and one not in self._pinned), None)
                leaving += [] if output is None else [self._take_out(output)]
        for place in reversed(held):
            self._loose[place] = None
            self._loose.move_to_end(place, last=False)
        return leaving

    def _orphans(self, kept: set[int]) -> list[int]:
        """Remove calls without any output and outputs without any call, compared by their call ids."""
        leaving: list[int] = []
        for call_id in self._touched:
            calls, outputs = self._calls.get(call_id), self._outputs.get(call_id)
            if calls and not outputs:
                leaving += [self._take_out(call) for call in list(calls) if call not in kept]
            elif outputs and not calls:
                leaving += [self._take_out(output) for output in list(outputs) if output not in kept]
        return leaving

    def _take_out(self, place: int) -> int:
        item = self.items[place]
        self.tokens -= self._size(place)
        del self._shown[place]
        self._loose.pop(place, None)
        if isinstance(item, FunctionCalled | FunctionReturned):
            same = self._calls if isinstance(item, FunctionCalled) else self._outputs
            del same[item.call_id][place]
            self._touched.add(item.call_id)
        return place
