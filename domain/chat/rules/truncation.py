"""Truncation: the oldest turns or items leave until limits hold, once in a context or many times in a replay."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from itertools import takewhile

from ..describe import is_thinking
from ..events import (
    ABOUT_CONVERSATION,
    ChatEvent,
    ChatItemEvent,
    FunctionCalled,
    FunctionReturned,
    is_apart,
    is_instructions,
    is_summary,
    is_user,
)
from ..pairing import is_spoken, pair_calls
from ..state.fold import ChatState
from ..tokens import DEFAULT, estimate_tokens
from .commands import Truncate
from .edits import evicted
from .thinking import leads


def truncate(command: Truncate, state: ChatState) -> list[ChatEvent]:
    """
    Return the event with which the oldest unprotected turns leave until both limits hold.

    A turn goes from a user message to the next one. If only the last turn is left, its oldest answers leave one by one,
    each with its parallel calls and their outputs.

    Protected are the first instructions, the first summary, the last user message, all handoffs and config updates,
    answers with a call that waits for its output, and pinned items. A pinned call, output or thinking also protects its
    answer and its user message, and a pinned answer its thinking. Then calls without outputs and outputs without calls
    leave, too.
    """
    if command.max_items is None and command.max_tokens is None:
        return []
    items, order = state.items, list(state.items.order())
    history = Truncation(command)
    # For the default counter the state has a running total.
    history.add(map(items.item_table.items.__getitem__, order), items.tokens if command.counter is DEFAULT else None)
    history.pin(place for place, ordinal in enumerate(order) if items.is_pinned(ordinal))
    leaving = history.truncate()
    if not leaving:
        return []
    return [evicted(items, [order[place] for place in leaving], how="truncate", reason=command.reason)]


# Marks the end of the links between items.
NONE = -1
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
        self._calls: defaultdict[str, Places] = defaultdict(Places)
        self._outputs: defaultdict[str, Places] = defaultdict(Places)
        # The call ids to check: an item with this id was added or left, or a call waits for its output.
        self._touched: set[str] = set()
        self._last_user: int | None = None
        self._has_instructions = self._has_summary = False
        # Whether two calls of the running turn have one id.
        self._is_repeating = False
        # The user messages. For each item the place before and the place after it in the view, without handoffs and
        # config updates: an answer is found by its neighbours, whatever was removed between them. Most truncations end
        # before the last turn, so items are linked when an answer is asked for.
        self._users: list[int] = []
        self._previous: list[int] = []
        self._following: list[int] = []
        self._newest = NONE

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
                    self._users.append(place)
            if tokens is None:
                size = estimate_tokens(item, self._limits.counter)
                self._sizes.append(size)
                self.tokens += size
        self.tokens += tokens or 0

    def _link(self) -> None:
        for place in range(len(self._previous), len(self.items)):
            self._following.append(NONE)
            if place not in self._shown or isinstance(self.items[place], ABOUT_CONVERSATION):
                self._previous.append(NONE)
                continue
            self._previous.append(self._newest)
            if self._newest != NONE:
                self._following[self._newest] = place
            self._newest = place

    def _unlink(self, place: int) -> None:
        if place >= len(self._previous):
            return
        before, behind = self._previous[place], self._following[place]
        if before != NONE:
            self._following[before] = behind
        if behind != NONE:
            self._previous[behind] = before
        elif self._newest == place:
            self._newest = before

    def _add_call(self, call_id: str, place: int) -> None:
        calls = self._under(self._calls, call_id)
        self._is_repeating |= bool(calls) and next(reversed(calls)) >= (self._last_user or 0)
        calls[place] = None

    def _under(self, same: defaultdict[str, Places], call_id: str) -> Places:
        self._touched.add(call_id)
        return same[call_id]

    def pin(self, places: Iterable[int]) -> None:
        """Protect these items from truncation, and those that belong to them."""
        pinned = set(places)
        if pinned:
            pairs = pair_calls(self.items)
            partners = map(pairs.partner, pinned)
            pinned.update([place for place in partners if place is not None])
            if self._limits.whole_turns:
                calls = [place for place in pinned if self._is_call(place) or is_thinking(self.items[place])]
                pinned |= self._with_answers(calls)
                pinned.update([user for call in calls if (user := self._user_of(call)) is not None])
                if any(map(is_apart, self.items)):
                    self._link()
                    heads = [place for place in pinned if not is_thinking(self.items[place])]
                    pinned.update([thinking for place in heads for thinking in self._thinking_before(place)])
            self._pinned = frozenset(pinned)
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
        return is_first or isinstance(item, ABOUT_CONVERSATION)

    def truncate(self) -> list[int]:
        """Remove the oldest items until the limits hold; return the places of all removed items, in order."""
        # Every other id has a call followed by an output: no call waits under it, and no output is alone.
        self._touched = {call_id for call_id in self._touched if self._is_open(call_id)}
        awaited = self._awaited()
        kept = {*self._pinned, *(self._with_answers(awaited) if self._limits.whole_turns else awaited)}
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
            oldest = next(iter(self._loose))
            # Protected only for now: it is put back below, because a later truncation may remove it.
            if oldest == self._last_user or oldest in kept:
                del self._loose[oldest]
                held.append(oldest)
                continue
            for place in self._unit(oldest):
                # The output of a call is gone already, and some items are protected.
                if place in self._loose:
                    output = self._output_of(place)
                    leaving.append(self._take_out(place))
                    leaving += [] if output is None or output in kept else [self._take_out(output)]
        for place in reversed(held):
            self._loose[place] = None
            self._loose.move_to_end(place, last=False)
        return leaving

    def _unit(self, oldest: int) -> list[int]:
        """Return the places of the items that leave together with the oldest one, and its own."""
        if not self._limits.whole_turns:
            return [oldest]
        if self._last_user is None or oldest > self._last_user:
            return self._answer(oldest)
        end = self._users[bisect_right(self._users, oldest)]
        return list(takewhile(lambda place: place < end, self._loose))

    def _answer(self, place: int) -> list[int]:
        """Return the places of the answer of the model that an item belongs to: thinking, a message, parallel calls."""
        self._link()
        while self._leads(place):
            place = self._following[place]
        if begins_answer(self.items[place]) and self._is_call(self._following[place]):
            place = self._following[place]
        found = self._calls_around(place) if self._is_call(place) else [place]
        return [*self._thinking_before(found[0]), *found]

    def _thinking_before(self, place: int) -> list[int]:
        """Return the places of the thinking that belongs to the answer that begins at a place."""
        found = []
        while self._leads(place := self._previous[place]):
            found.append(place)
        return found[::-1]

    def _calls_around(self, place: int) -> list[int]:
        """Return the places of the calls that are parallel to the one at a place, behind that of their message."""
        while self._is_call(self._previous[place]):
            place = self._previous[place]
        before = self._previous[place]
        found = [before] if before != NONE and begins_answer(self.items[before]) else []
        while self._is_call(place):
            found.append(place)
            place = self._following[place]
        return found

    def _leads(self, place: int) -> bool:
        """Return whether the item at a place is thinking of the answer that the item behind it belongs to."""
        following = NONE if place == NONE else self._following[place]
        return following != NONE and leads(self.items[place], self.items[following])

    def _is_call(self, place: int) -> bool:
        return place != NONE and isinstance(self.items[place], FunctionCalled)

    def _output_of(self, place: int) -> int | None:
        """Return the place of the first output behind a call with its id."""
        item = self.items[place]
        if not isinstance(item, FunctionCalled):
            return None
        outputs = self._outputs.get(item.call_id, ())
        return next((output for output in outputs if output > place and output not in self._pinned), None)

    def _with_answers(self, calls: Iterable[int]) -> set[int]:
        """Return calls with all items of their answers, and the outputs of those."""
        whole: set[int] = set()
        for call in calls:
            if call not in whole:
                whole.update(self._answer(call))
        return whole.union(output for place in whole if (output := self._output_of(place)) is not None)

    def _user_of(self, place: int) -> int | None:
        """Return the user message of the turn that an item belongs to."""
        index = bisect_right(self._users, place)
        return self._users[index - 1] if index else None

    def _orphans(self, kept: set[int]) -> list[int]:
        """Remove calls without any output and outputs without any call, compared by their call ids."""
        leaving: list[int] = []
        for call_id in self._touched:
            calls, outputs = self._calls.get(call_id), self._outputs.get(call_id)
            if calls and not outputs:
                for call in [call for call in calls if call not in kept]:
                    leaving += [self._take_out(place) for place in [*self._only_thinking_of(call, kept), call]]
            elif outputs and not calls:
                leaving += [self._take_out(output) for output in list(outputs) if output not in kept]
        return leaving

    def _only_thinking_of(self, call: int, kept: set[int]) -> list[int]:
        """Return the places of the thinking that led to a call and to nothing else in the view."""
        self._link()
        if self._is_call(self._following[call]):
            return []
        return [place for place in self._thinking_before(call) if place in self._loose and place not in kept]

    def _take_out(self, place: int) -> int:
        item = self.items[place]
        self.tokens -= self._size(place)
        del self._shown[place]
        self._loose.pop(place, None)
        self._unlink(place)
        if isinstance(item, FunctionCalled | FunctionReturned):
            same = self._calls if isinstance(item, FunctionCalled) else self._outputs
            del same[item.call_id][place]
            self._touched.add(item.call_id)
        return place


def begins_answer(item: ChatItemEvent) -> bool:
    """Whether calls behind an item belong to the same answer of the model."""
    return is_spoken(item) and not is_summary(item)
