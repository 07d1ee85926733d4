"""
The lanes beside the points of a family: one for each context, from where it began to where nothing comes from it any
more.

`*` is the point, `+` where a line from it meets the lane of what it comes from, `|` a lane that goes by.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator

from .ordering import drawn_sources, ordered
from .points import Family, Point


def drawn(family: Family, lanes_max: int) -> Iterator[tuple[str, Point]]:
    """Yield the points of a family in order, each with the lanes beside it; of more than `lanes_max` an ellipsis."""
    lanes = _Lanes(lanes_max)
    left = Counter({stream: len(points) for stream, points in family.items()})
    left.update(source.stream for points in family.values() for point in points for source in drawn_sources(point))
    for point in ordered(family):
        sources = [source.stream for source in drawn_sources(point)]
        yield lanes.line(point.stream, sources), point
        for stream in (point.stream, *sources):
            left[stream] -= 1
            if not left[stream]:
                lanes.close(stream)


class _Lanes:
    """Which context has which column."""

    def __init__(self, lanes_max: int) -> None:
        self._shown = [False] * lanes_max
        self._columns: dict[str, int] = {}
        self._free: list[int] = []

    def line(self, stream: str, sources: Iterable[str]) -> str:
        """Return the line of a point of a context, which gets a column if it has none."""
        own = self._column(stream)
        met = {self._columns[source] for source in sources}
        first, last = min(own, *met, own), max(own, *met, own)
        cells = []
        for column, is_open in enumerate(self._shown):
            is_between = first < column < last
            mark = "*" if column == own else "+" if column in met else "|" if is_open else "-" if is_between else " "
            cells.append(mark + ("-" if first <= column < last else " "))
        text = "".join(cells).rstrip()
        return text + " …" if len(self._columns) > len(self._shown) else text

    def close(self, stream: str) -> None:
        """Let another context have the column."""
        column = self._columns.pop(stream)
        heapq.heappush(self._free, column)
        if column < len(self._shown):
            self._shown[column] = False

    def _column(self, stream: str) -> int:
        if stream not in self._columns:
            # What is free lies before all others, or behind them.
            column = heapq.heappop(self._free) if self._free else len(self._columns)
            self._columns[stream] = column
            if column < len(self._shown):
                self._shown[column] = True
        return self._columns[stream]
