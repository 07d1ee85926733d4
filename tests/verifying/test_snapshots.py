"""Snapshots that differ from the events are told of and made again; one that would never be used is no fault."""

from typing import Any

import refold
from refold.domain.chat.rules.decide import CHAT
from refold.domain.context.decider import Decider
from refold.domain.context.snapshot import Packing
from refold.domain.kinds import KINDS
from refold.domain.log.ports import StreamEnd
from refold.domain.memory.rules import MEMORIES
from refold.domain.pool.rules import POOLS, QUEUES
from refold.domain.pool.state import ContainerState
from refold.domain.trajectory.rules import RUNS
from refold.domain.window.rules import WINDOWS
from refold.infrastructure.verifying.store_check import PACKED

from .damaging import told, verified

DECIDERS: dict[str, Decider[Any]] = {
    "chat": CHAT,
    "queue": QUEUES,
    "pool": POOLS,
    "window": WINDOWS,
    "memory": MEMORIES,
    "run": RUNS,
}


def test_snapshots_of_every_kind_are_compared() -> None:
    """A kind that has snapshots is not forgotten."""
    assert set(DECIDERS) == set(KINDS)
    assert {kind: decider for kind, decider in DECIDERS.items() if decider.packing is not None} == PACKED


async def test_a_wrong_snapshot_is_made_again(place: str) -> None:
    """That of another state with a right checksum is the only thing which no look at the snapshot shows."""
    packing = QUEUES.packing
    assert isinstance(packing, Packing)
    with refold.open(place) as store:
        queue = store.queue("q", limit=2)
        await queue.append(*[refold.PoolItem(str(number), "about") for number in range(5)])
        end = store.log.end("queue:q")
        packing.keep(store.log, "queue:q", ContainerState(version=end.version, limit=2), end)

    report, repaired, after = verified(place), verified(place, repair=True), verified(place)

    assert told(report) == told(repaired) == ["snapshot queue:q"]
    assert (report.is_whole, repaired.is_whole, after.problems) == (False, True, ())
    with refold.open(place) as store:
        state, events = packing.read(store.log, "queue:q", end) or (None, ())
        assert (state, len(events)) == (store.queue("q").shown_state, 0)
        packing.keep(store.log, "queue:q", ContainerState(limit=2), StreamEnd(3, bytes(32)))
    assert verified(place).problems == ()
