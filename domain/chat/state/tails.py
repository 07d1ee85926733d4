"""The end of a context without its beginning: what an edit says of it, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import msgspec

from ...ports import Log
from ...spans import OWN, Span
from ..events import ITEM_EVENTS, TAIL_ITEMS, VIEW_EVENTS, ChatEvent, ChatItemEvent, Forked, ItemInserted, Opened
from .fold import ChatState, Resolved, fold, recorded_event
from .loading import read_runs
from .sequence import Items

# Events that add no item, such as names, and are read along: fewer than this among the last are the rule.
EVENTS_BESIDE_ITEMS = 8
FIRST_LOOK_EVENTS = 64


def with_tail(decided: Sequence[ChatEvent | Resolved], state: ChatState) -> Sequence[ChatEvent | Resolved]:
    """Return what was decided, with the end of what can be seen noted in the last event that changes it."""
    for last in range(len(decided) - 1, -1, -1):
        recorded = recorded_event(decided[last])
        if isinstance(recorded, VIEW_EVENTS):
            break
    else:
        return decided
    if isinstance(recorded, Forked) and recorded.carried is None:
        # What it begins with is its parent's, whose end it names already.
        return decided
    if last == 0 and isinstance(recorded, ItemInserted):
        end = state.items.last(TAIL_ITEMS)
        if state.items.of_ref(recorded.before) not in end:
            # What was put somewhere before the end leaves the end as it is.
            return [_with(recorded, state.items.spans(end)), *decided[1:]]
    ahead = fold(msgspec.structs.replace(state, items=state.items.borrowed()), decided[: last + 1]).items
    return [*decided[:last], _with(decided[last], tail_of(ahead)), *decided[last + 1 :]]


def tail_of(items: Items, *, own: str = OWN) -> tuple[Span, ...]:
    """Return the names of the last items; the own stream is called `own` in them."""
    return items.spans(items.last(TAIL_ITEMS), own=own)


def _with(event: ChatEvent | Resolved, tail: tuple[Span, ...]) -> ChatEvent | Resolved:
    if isinstance(event, Resolved):
        return Resolved(msgspec.structs.replace(event.event, tail=tail), event.taken)
    return msgspec.structs.replace(event, tail=tail)


def last_items(
    log: Log, stream: str, last_events: Callable[[int], Sequence[Any]], wanted: int
) -> list[ChatItemEvent] | None:
    """
    Return the last `wanted` items of a context whose last events `last_events` reads; None where they do not tell.
    """
    # Mostly the last events are the items. Where edits go on, the newest of a few names the end already.
    looked_at = min(wanted, FIRST_LOOK_EVENTS)
    while True:
        events = last_events(looked_at)
        newest: list[ChatItemEvent] = []
        for event in reversed(events):
            if isinstance(event, Opened):
                return newest[::-1]
            if isinstance(event, VIEW_EVENTS):
                return _joined(log, stream, event.tail, newest, wanted)
            if isinstance(event, ITEM_EVENTS):
                newest.append(event)
                if len(newest) == wanted:
                    return newest[::-1]
        if len(events) < looked_at:
            return None
        looked_at = max(2 * looked_at, wanted + EVENTS_BESIDE_ITEMS)


def _joined(
    log: Log, stream: str, tail: tuple[Span, ...] | None, newest: list[ChatItemEvent], wanted: int
) -> list[ChatItemEvent] | None:
    """The items that an edit names, and those that were appended since (`newest`, the last one first)."""
    if tail is None:
        return None
    runs = [(span.stream or stream, run) for span in tail for run in span.ranges()]
    missing = wanted - len(newest)
    if missing > sum(len(run) for _, run in runs) == TAIL_ITEMS:
        return None
    items = chain.from_iterable(read_runs(log, _last(runs, missing)))
    return [*(taken.item for taken in items), *reversed(newest)]


def _last(runs: Sequence[tuple[str, range]], wanted: int) -> list[tuple[str, range]]:
    """Return the runs that have the last `wanted` versions of all, or fewer where there are not as many."""
    last: list[tuple[str, range]] = []
    for stream, run in reversed(runs):
        if wanted <= 0:
            break
        last.append((stream, run[-wanted:]))
        wanted -= len(run)
    return last[::-1]
