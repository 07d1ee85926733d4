"""
The description of an event: what it changed in its context, as data and in words.

Each kind of context has a function `describe`, in its `describe.py`. The log, the audit, the question why an item is
gone, and the command line all read its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from ..spans import Ref, Span
from ..totals import Totals

RANGES_SHOWN_MAX = 5
# Writes a JSON value as text: a terminal, a web page and a file each have their own way.
WriteJson = Callable[[Any], str]
Words = Callable[[WriteJson], str]
# The item that an event adds, in the facts of that event: no stream has this version.
ITSELF = Ref(0)


class Departure(msgspec.Struct, frozen=True):
    """How an item left: one word, the given reason, and the version of the event."""

    how: str
    reason: str | None
    version: int


class Left(msgspec.Struct, frozen=True):
    """
    The items that left with an event (None: all items), how, and why. Each kind of context has a function `left_by`,
    which folds, projections and `describe` share.
    """

    items: tuple[Span, ...] | None
    how: str
    reason: str | None = None

    def with_version(self, version: int) -> Departure:
        """Return how each of the items left, given the version of the event."""
        return Departure(self.how, self.reason, version)


class Fact(msgspec.Struct, frozen=True):
    """
    An attribute that an event changed: of the item `ref`, or of the context where `ref` is None.

    `name` is the item's name, where the event has it; `other` is a second item, whose name follows that of the
    attribute ("edge from").
    """

    attribute: str
    old: Any = None
    new: Any = None
    ref: Ref | None = None
    name: str | None = None
    reason: str | None = None
    other: Ref | None = None


class Change(msgspec.Struct, frozen=True):
    """
    The changes by an event. Nothing is looked up for them: items are named as the event names them.

    `words` makes the sentence only on demand, since an audit of many events needs none. `opened` is what a context
    began with; `settings` are the settings from this event on. With `adds_item` the event is the origin of an item;
    `came` names the other items that were added or restored. An added item replaces the item `instead`, or the item of
    the same name where `is_by_name`. `reason` is why items were added or left.
    """

    words: Words
    opened: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = {}
    facts: tuple[Fact, ...] = ()
    left: Left | None = None
    adds_item: bool = False
    came: tuple[Span, ...] = ()
    instead: Ref | None = None
    is_by_name: bool = False
    reason: str | None = None


def named_version(name: str, version: int) -> Change:
    """Describe that a version was named."""
    return Change(lambda _: f"{name} = @{version}", settings={f"name {name}": version})


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, like "1 item" or "1,200 items"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def named(spans: Sequence[Span], noun: str = "item") -> str:
    """Return items as "2 items (@2..3)"."""
    return f"{counted(count_of(spans), noun)} ({places_of(spans)})"


def sized(change: Totals) -> str:
    """Return the size of a change, like "about 20 tokens"."""
    return f"about {abs(change.tokens):,} tokens"


def because(reason: str | None) -> str:
    """Return a reason with its introducing word; an empty text if there is no reason."""
    return f"because: {reason}" if reason else ""


def joined(parts: Iterable[str]) -> str:
    """Return the parts of a sentence, without empty ones, joined by commas."""
    return ", ".join(part for part in parts if part)


def in_pairs(**values: object) -> str:
    """Return values like "user=alice agent=clerk", without empty ones."""
    return " ".join(f"{name}={value}" for name, value in values.items() if value)


def count_of(spans: Iterable[Span]) -> int:
    """Return how many items spans name."""
    return sum(len(run) for span in spans for run in span.ranges())


def places_of(spans: Iterable[Span]) -> str:
    """
    Return where the items were added: the first few ranges, each with its stream, or like `@2` in the present stream.
    """
    ranges = _ranges(spans)
    shown = list(islice(ranges, RANGES_SHOWN_MAX))
    more = sum(1 for _ in ranges)
    return ", ".join([*shown, *([f"and {counted(more, 'range')} more"] if more else [])])


def place_of(ref: Ref, shown_in: str = "") -> str:
    """Return where an item was added, as users type it in the context that shows it."""
    is_own = ref.stream in ("", shown_in)
    return f"@{ref.version}" if is_own else f"{ref.stream.removeprefix('chat:')}@{ref.version}"


def source_of(stream: str, version: int) -> str:
    """Return a context at a version, as users type it."""
    return place_of(Ref(version, stream))


def _ranges(spans: Iterable[Span]) -> Iterator[str]:
    for span in spans:
        for run in span.ranges():
            place = place_of(Ref(run.start, span.stream))
            yield place if len(run) == 1 else f"{place}..{run[-1]}"
