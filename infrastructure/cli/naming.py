"""Items as events name them, for people: `@2..4, support-42@7`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ...domain.spans import Ref, Span
from ...domain.totals import Totals
from ..queries.origins import place_of

RANGES_SHOWN_MAX = 5


def counted(count: int, noun: str) -> str:
    """Return a number of things, like "1 item" or "1,200 items"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def named(spans: Sequence[Span], noun: str = "item") -> str:
    """Return items as "2 items (@2..3)"."""
    return f"{counted(count_of(spans), noun)} ({places_of(spans)})"


def sized(change: Totals) -> str:
    """Return how much came or went, like "about 20 tokens"."""
    return f"about {abs(change.tokens):,} tokens"


def because(reason: str | None) -> str:
    """Return a reason behind its word; nothing where there is none."""
    return f"because: {reason}" if reason else ""


def joined(parts: Iterable[str]) -> str:
    """Return parts of a sentence with commas between them, those left out that are empty."""
    return ", ".join(part for part in parts if part)


def count_of(spans: Iterable[Span]) -> int:
    """Return how many items spans name."""
    return sum(len(run) for span in spans for run in span.ranges())


def places_of(spans: Iterable[Span]) -> str:
    """
    Return where the items were added, the first few ranges: in the streams that spans name, or (`@2`) in the own one.
    """
    ranges = _ranges(spans)
    shown = list(islice(ranges, RANGES_SHOWN_MAX))
    more = sum(1 for _ in ranges)
    return ", ".join([*shown, *([f"and {counted(more, 'range')} more"] if more else [])])


def source_of(stream: str, version: int) -> str:
    """Return a context at a version, as it is typed."""
    return place_of(Ref(version, stream), "")


def _ranges(spans: Iterable[Span]) -> Iterator[str]:
    for span in spans:
        for run in span.ranges():
            place = place_of(Ref(run.start, span.stream), "")
            yield place if len(run) == 1 else f"{place}..{run[-1]}"
