"""
Which of many ranges of versions are fetched in one go.

Rows that nobody asked for cost little to fetch, and are not opened; a question to the database costs as much as a
dozen or two of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...domain.log.ports import Range

GAP_VERSIONS_MAX = 64


class Batch:
    """Ranges of one stream that ascend and lie near each other, and so are fetched from `after` to `until`."""

    __slots__ = ("_befores", "_ends", "after", "ranges", "stream", "until")

    def __init__(self, ranges: Sequence[Range]) -> None:
        self.ranges = ranges
        self.stream = ranges[0].stream
        self.after, self.until = max(ranges[0].after, 0), ranges[-1].until
        self._befores = [one.after for one in ranges]
        self._ends = [one.until for one in ranges]

    @property
    def count(self) -> int:
        """How many versions were asked for."""
        return sum(max(0, one.until - max(0, one.after)) for one in self.ranges)

    @property
    def is_empty(self) -> bool:
        """Whether no version lies in it."""
        return self.until <= self.after

    def wants(self, version: int) -> bool:
        """Return whether a version was asked for."""
        return bisect_left(self._ends, version) < bisect_left(self._befores, version)

    def bounds(self, begin: int, end: int) -> range:
        """
        Return from where to where, of the versions from `begin` up to but not including `end`, some were asked for.
        """
        low, high = bisect_left(self._ends, begin), bisect_left(self._befores, end - 1)
        if low >= high:
            return range(begin, begin)
        return range(max(begin, self._befores[low] + 1), min(end, self._ends[high - 1] + 1))

    def places(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield for each range where it begins and ends among `count` events fetched."""
        for one in self.ranges:
            start = min(max(one.after - self.after, 0), count)
            yield start, max(start, min(one.until - self.after, count))


def batches(ranges: Sequence[Range]) -> list[Batch]:
    """Return ranges, in their order, in groups that are fetched in one go."""
    if not ranges:
        return []
    cuts = [place for place, (one, other) in enumerate(pairwise(ranges), 1) if not _are_near(one, other)]
    return [Batch(ranges[start:end]) for start, end in pairwise([0, *cuts, len(ranges)])]


def _are_near(one: Range, other: Range) -> bool:
    if one.stream != other.stream or one.after >= one.until or other.after >= other.until:
        return False
    return 0 <= other.after - max(one.until, 0) <= GAP_VERSIONS_MAX
