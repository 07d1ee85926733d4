"""Truncation: the oldest items leave until limits hold, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

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
from ..pairing import Pairs, pair_calls
from ..state.fold import ChatState
from ..state.sequence import Items
from ..tokens import DEFAULT, estimate_tokens
from .commands import Truncate
from .evicting import evicted


def truncate(command: Truncate, state: ChatState) -> list[ChatEvent]:
    """
    Return the event by which the oldest unprotected items leave until both limits hold.

    Protected are the first instructions, the first summary, the last user message, all handoffs and config
    updates, calls that are still awaited, and what is pinned. A call goes with its output. What is left of calls
    without outputs and outputs without calls goes too.
    """
    if command.max_items is None and command.max_tokens is None:
        return []
    items = state.items
    order = list(items.order())
    shown = [items.arena.items[ordinal] for ordinal in order]
    kept = protected(items, order, shown)
    leaving = _oldest(shown, kept, command, _tokens(items, command))
    leaving |= _orphans(shown, kept | leaving, leaving)
    if not leaving:
        return []
    return [evicted(items, [order[place] for place in sorted(leaving)], how="truncate", reason=command.reason)]


def protected(items: Items, order: Sequence[int], shown: Sequence[ChatItemEvent]) -> set[int]:
    """Return the places of the items that truncation leaves alone, and those that go with them."""
    pairs = pair_calls(shown)
    kept = {place for place, item in enumerate(shown) if isinstance(item, HandedOff | ConfigUpdated)}
    kept |= set(awaited_calls(shown, pairs))
    for found in (
        _first(shown, is_instructions),
        _first(shown, is_summary),
        _last_user(shown),
    ):
        kept |= {found} if found is not None else set()
    for place, ordinal in enumerate(order):
        if items.is_pinned(ordinal):
            partner = pairs.partner(place)
            kept |= {place} if partner is None else {place, partner}
    return kept


def awaited_calls(shown: Sequence[ChatItemEvent], pairs: Pairs) -> Iterator[int]:
    """Yield the places of the calls of the running turn that have no output yet."""
    last_user = _last_user(shown)
    for place in range(0 if last_user is None else last_user, len(shown)):
        if isinstance(shown[place], FunctionCalled) and place not in pairs.output_of:
            yield place


def _first(shown: Sequence[ChatItemEvent], wanted: Callable[[ChatItemEvent], bool]) -> int | None:
    return next((place for place, item in enumerate(shown) if wanted(item)), None)


def _last_user(shown: Sequence[ChatItemEvent]) -> int | None:
    return next((place for place in range(len(shown) - 1, -1, -1) if is_user(shown[place])), None)


def _tokens(items: Items, command: Truncate) -> int:
    if command.max_tokens is None:
        return 0
    # By the default counter there is a running total.
    return items.tokens if command.counter is DEFAULT else sum(estimate_tokens(item, command.counter) for item in items)


def _oldest(shown: Sequence[ChatItemEvent], kept: set[int], command: Truncate, tokens: int) -> set[int]:
    """The oldest come first, so one pass is enough; what goes with a call is found by its id."""
    outputs = _outputs_by_id(shown)
    leaving: set[int] = set()

    def is_over() -> bool:
        over_items = command.max_items is not None and len(shown) - len(leaving) > command.max_items
        return over_items or (command.max_tokens is not None and tokens > command.max_tokens)

    for place, item in enumerate(shown):
        if not is_over():
            break
        if place in kept or place in leaving:
            continue
        going = [place]
        if isinstance(item, FunctionCalled):
            output = _later_output(outputs.get(item.call_id, []), place, kept, leaving)
            going += [] if output is None else [output]
        for one in going:
            leaving.add(one)
            tokens -= estimate_tokens(shown[one], command.counter)
    return leaving


def _outputs_by_id(shown: Sequence[ChatItemEvent]) -> dict[str, list[int]]:
    """Places of outputs by call id, the last first, so that the next one is at the end."""
    outputs: dict[str, list[int]] = {}
    for place in range(len(shown) - 1, -1, -1):
        item = shown[place]
        if isinstance(item, FunctionReturned):
            outputs.setdefault(item.call_id, []).append(place)
    return outputs


def _later_output(outputs: list[int], call: int, kept: set[int], leaving: set[int]) -> int | None:
    while outputs:
        place = outputs.pop()
        if place > call and place not in leaving and place not in kept:
            return place
    return None


def _orphans(shown: Sequence[ChatItemEvent], untouched: set[int], leaving: Iterable[int]) -> set[int]:
    """Calls without any output and outputs without any call, told by their ids."""
    gone = set(leaving)
    left = [(place, item) for place, item in enumerate(shown) if place not in gone]
    called = {item.call_id for _, item in left if isinstance(item, FunctionCalled)}
    returned = {item.call_id for _, item in left if isinstance(item, FunctionReturned)}
    return {
        place
        for place, item in left
        if place not in untouched
        and (
            (isinstance(item, FunctionCalled) and item.call_id not in returned)
            or (isinstance(item, FunctionReturned) and item.call_id not in called)
        )
    }
