"""Many events at once give the row that one after the other gives."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import pytest

from refold.domain.log.envelope import NO_DIGEST, NO_META, RecordedEvent
from refold.domain.positions import Position
from refold.projections.contract import BulkProjection
from refold.projections.rollup import ROLLUP, RollupRow

from ..contract.writing import said

TEXTS: list[str | tuple[str, ...]] = ["short", ("größer", "x"), "", "longer than that"]
EVENTS = [
    RecordedEvent("chat:a", number, Position(-1, number), 10 * number, said(number, text), NO_META, NO_DIGEST)
    for number, text in enumerate(TEXTS, start=1)
]


@pytest.mark.parametrize("cuts", [[0, 4], [0, 1, 4], [0, 1, 2, 3, 4]])
def test_the_rollup_in_pieces(cuts: list[int]) -> None:
    """However the events are cut into pages."""
    (key,) = ROLLUP.keys(EVENTS[0])
    row: RollupRow | None = None
    for start, end in pairwise(cuts):
        row = ROLLUP.evolve_all(key, row, EVENTS[start:end])

    assert isinstance(ROLLUP, BulkProjection)
    assert row == reduce(lambda before, event: ROLLUP.evolve(key, before, event), EVENTS, None)
    assert row == RollupRow(
        key="-1/0",
        lane=-1,
        block=0,
        events=4,
        first_at=10,
        last_at=40,
        counts='{"chat.message_added.v1":4}',
        text_bytes=len("short") + len("größerx".encode()) + len("longer than that"),
    )
