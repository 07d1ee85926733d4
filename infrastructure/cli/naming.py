"""
Items as events name them, for people: `@2..4, support-42@7`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from ...domain.chat.spans import Ref, Span
from .entries import place_of

__all__ = ["count_of", "counted", "places_of", "source_of"]

RANGES_SHOWN_MAX = 5


def counted(count: int, noun: str) -> str:
    """
    Return a number of things, like "1 item" or "1,200 items".
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_of(spans: Iterable[Span]) -> int:
    """
    Return how many items spans name.
    """
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
    """
    Return a context at a version, as it is typed.
    """
    return place_of(Ref(version, stream), "")


def _ranges(spans: Iterable[Span]) -> Iterator[str]:
    for span in spans:
        for run in span.ranges():
            place = place_of(Ref(run.start, span.stream), "")
            yield place if len(run) == 1 else f"{place}..{run[-1]}"
