"""
Windows of versions: what the page gets of a context with too many intervals to be sent at once.

A window is a range of versions with the intervals of every item that is seen there, so that the page goes along the
window without a question. If too many items are there through the whole window, the first ones are left out: `held`
counts them. The line of versions is drawn from sums over the whole context.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from ...domain.erasure.events import STREAM as ERASURES
from ...domain.log.gate import gate_of
from ...domain.log.ports import StreamEnd
from ..store import Store
from ..views.shapes import Shape

# A context with more intervals than these comes in windows.
INTERVALS_MAX = 50_000
# A window ends before more than this many items came or left on either side, and has at most so many versions there.
CHANGES_MAX = 5_000
VERSIONS_MAX = 10_000
# At most so many of the items that are there through the whole window are sent, the last ones.
HELD_MAX = 10_000
SUMS_MAX = 2_000
COLUMNS = ("item", "birth", "v0", "v1", "type", "role", "agent", "tokens", "how", "reason")
# The intervals of the context that was asked for last; the next window is taken from them.
_last_read: Final[WeakKeyDictionary[Store, tuple[tuple[str, StreamEnd, int], list[Any]]]] = WeakKeyDictionary()


def intervals_of(store: Store, stream: str, kind: str) -> list[Any]:
    """Return the intervals of a context's items, in their order; none for kinds that keep no intervals."""
    if kind not in ("chat", "queue", "pool"):
        return []
    # Events of other contexts change nothing here: a fork has its parent's past.
    # An older copy that was put back and has grown again ends with another digest.
    name = stream, store.log.end(stream), store.log.head(ERASURES)
    kept = _last_read.get(store)
    if kept is not None and kept[0] == name:
        return kept[1]
    intervals: list[Any] = [*store.validity(stream)] if kind == "chat" else [*store.entries(stream, with_gone=True)]
    # In a store with rights the answer depends on who asks, so it is not kept.
    if len(intervals) > INTERVALS_MAX and gate_of(store.log) is None:
        _last_read[store] = name, intervals
    return intervals


def columns(intervals: Sequence[Any]) -> dict[str, list[Any]]:
    """Return intervals as a list for each of their fields."""
    return {name: [getattr(one, name, "") for one in intervals] for name in COLUMNS}


class Window(NamedTuple):
    """A range of versions, both of them in it."""

    first: int
    last: int

    def touches(self, one: Any) -> bool:
        """Return whether an item is seen in the window; an item that leaves with the first version is seen as gone."""
        return one.v0 <= self.last and (not one.v1 or one.v1 >= self.first)

    def is_within(self, one: Any) -> bool:
        """Return whether an item neither comes nor leaves in the window, but is there."""
        return one.v0 < self.first and (not one.v1 or one.v1 > self.last)


def window_around(intervals: Sequence[Any], version: int, head: int) -> Window:
    """Return the window in whose middle a version is, as far as it is not at an end of the context."""
    counts = [0] * (head + 1)
    for one in intervals:
        for at in (one.v0, one.v1):
            if 0 < at <= head:
                counts[at] += 1
    up_to = list(accumulate(counts))
    first = bisect_left(up_to, up_to[version - 1] - CHANGES_MAX, 0, version) + 1
    last = bisect_right(up_to, up_to[version] + CHANGES_MAX, version) - 1
    return Window(
        max(1, min(first, version), version - VERSIONS_MAX), min(head, max(last, version), version + VERSIONS_MAX)
    )


def windowed(intervals: Sequence[Any], stream: str, version: int, head: int, *, whole: bool = False) -> Shape:
    """
    Return the items of the window around a version, in columns, and what is known about the rest.

    An item that is seen there has all its intervals, and a summary those for which it stands. With `whole` no item that
    is there is left out.
    """
    window = window_around(intervals, version, head)
    seen = [one for one in intervals if window.touches(one)]
    within = [] if whole else [one for one in seen if window.is_within(one)]
    held = within[: max(0, len(within) - HELD_MAX)]
    births = {one.birth for one in seen} - {one.birth for one in held}
    shown = [
        one for one in intervals if one.birth in births or (one.how == "summarize" and f"{stream}@{one.v1}" in births)
    ]
    sums: Counter[tuple[str, str]] = Counter()
    for one in held:
        sums[one.type, getattr(one, "role", "")] += one.tokens
    return {
        "items": columns(shown),
        "window": {
            "first": window.first, "last": window.last, "turns": _turns(intervals, window),
            "held": {"count": len(held), "sums": [[*key, tokens] for key, tokens in sums.items()]},
        },
    }  # fmt: skip


def _turns(intervals: Sequence[Any], window: Window) -> list[int]:
    """Return the versions of the user's turns in a window, and the nearest one on either side."""
    found = sorted({one.v0 for one in intervals if one.type == "message" and getattr(one, "role", "") == "user"})
    return found[max(0, bisect_left(found, window.first) - 1) : bisect_right(found, window.last) + 1]


def sums_of(intervals: Sequence[Any], head: int) -> Shape:
    """Return the tokens that came and that left, for each `step` versions of a context."""
    step = -(-head // SUMS_MAX)
    sums: dict[str, list[int]] = {"came": [0] * -(-head // step), "left": [0] * -(-head // step)}
    for one in intervals:
        for name, at in (("came", one.v0), ("left", one.v1)):
            if 0 < at <= head:
                sums[name][(at - 1) // step] += one.tokens
    return {"step": step, **sums}
