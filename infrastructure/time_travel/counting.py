"""What a chat context held at a version, without reading all of it."""

from __future__ import annotations

from typing import Any

from ...domain.chat.calls.home import ChatHome
from ...domain.chat.calls.reading import ChatSource
from ...domain.chat.state.fold import ChatState
from ...domain.log.ports import LiveLog
from ...domain.totals import Totals
from ...projections.growth import GROWTH, GROWTH_EVENTS, GrowthRow, growth_key, growth_of
from ..projecting.runner import ProjectionRunner
from ..row_faults import REBUILD, opening


@opening("the table of growth", remedy=REBUILD)
def totals_at(log: LiveLog, runner: ProjectionRunner, stream: str, version: int) -> Totals:
    """Return what a context held at a version: the sum of whole blocks of versions, and of the events behind them."""
    whole = version // GROWTH_EVENTS
    rows = _rows_of(runner, stream, whole) if whole else []
    total = growth_of(log.read_events(stream, after=whole * GROWTH_EVENTS, until=version))
    items, turns, tokens = total.items, total.turns, total.tokens
    for row in rows:
        items, turns, tokens = items + row.items, turns + row.turns, tokens + row.tokens
    return Totals(items, turns, tokens)


def _rows_of(runner: ProjectionRunner, stream: str, blocks: int) -> list[GrowthRow]:
    """Return the rows of the first so many blocks of versions: mostly they are there, and no other will be."""
    last, prefix = growth_key(stream, blocks), f"{stream}@"
    rows = [row for row in runner.stored_under([GROWTH], [prefix]) if row.key < last]
    if sum(row.events for row in rows) == blocks * GROWTH_EVENTS:
        return rows
    return [row for row in runner.rows_under([GROWTH], [prefix]) if row.key < last]


class CountedPast:
    """A version of a chat context that knows how much it holds before it is read."""

    def __init__(self, past: ChatSource, log: LiveLog, runner: ProjectionRunner) -> None:
        self._past, self._log, self._runner = past, log, runner
        self._totals: Totals | None = None

    @property
    def home(self) -> ChatHome:
        """Where the context lives."""
        return self._past.home

    @property
    def stream(self) -> str:
        """The stream of the context."""
        return self._past.stream

    @property
    def version(self) -> int:
        """The version that is shown."""
        return self._past.version

    @property
    def is_loaded(self) -> bool:
        """Whether `state` costs nothing."""
        return self._past.is_loaded

    @property
    def state(self) -> ChatState:
        """The folded state at the version."""
        return self._past.state

    @property
    def totals(self) -> Totals:
        """How much is held: items, turns and tokens."""
        if self._past.is_loaded:
            return self._past.totals
        if self._totals is None:
            self._totals = totals_at(self._log, self._runner, self.stream, self.version)
        return self._totals

    def last_events(self, count: int) -> list[Any]:
        """Return the last `count` events up to the version."""
        return self._past.last_events(count)

    def settle(self) -> None:
        """Do nothing: the past was on disk before it could be asked for."""
