"""
A store filled with made-up histories of agents, for `refold demo`: everything that a screen or a command can show.

All of it is generated: the same call makes the same events, with the same ids and times.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ...domain.clock import REAL_SYSTEM
from ...domain.errors import DecisionRefusedError, StorageError
from ..open import open_store
from ..projecting.leases import Lease
from ..store import Store
from ..trust.keys import Keys
from . import analysis, coding, long_chats, research, support_desk
from .simulation import DAY, Job, Simulation

__all__ = ["SIZES", "fill_store"]

LOOK_SECONDS = 0.1


class Extent(NamedTuple):
    """How much is generated."""

    days: int
    tickets: int
    leases: int
    checks: int = 0
    nodes: int = 0


SIZES: dict[str, Extent] = {
    "small": Extent(days=9, tickets=16, leases=10),
    "large": Extent(days=45, tickets=1_100, leases=24, checks=2_400, nodes=10_000),
}


class Made(NamedTuple):
    """The numbers of what was made."""

    contexts: int
    events: int
    days: int


def fill_store(
    location: str,
    *,
    size: str,
    until: float,
    progress: Callable[[int, int], None] | None = None,
    keys: Keys | None = None,
) -> Made:
    """
    Fill an empty store with histories that end before `until`, in seconds since 1970, and return how many were made.

    `progress` is called with the simulated seconds that were done, and with all of them.

    Raises:
        DecisionRefusedError: there is something in it already; nothing was changed.
    """
    extent = SIZES[size]
    seconds = extent.days * DAY
    simulation = Simulation(until - seconds)

    def tell(done: float) -> None:
        if progress is not None:
            progress(int(done), int(seconds))

    # Commits are not synced one by one: a demo that a power cut destroys can be made again.
    with open_store(location, synchronous="NORMAL", system=simulation, keys=keys, encrypt=None) as store:
        with _alone(store):
            asyncio.run(simulation.run(_jobs(store, simulation, extent), tell))
        return Made(len(store.contexts()), sum(row.events for row in store.rollup()), extent.days)


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """
    Let only one process fill an empty store; any other process finds an event in it, and is refused.

    Raises:
        DecisionRefusedError: there is something in it.
    """
    _require_empty(store)
    lease = Lease(store._projections, "demo", REAL_SYSTEM)
    # The holder of the lease records its first event at once; if it was killed, the lease is soon free.
    while not lease.hold():
        _require_empty(store)
        time.sleep(LOOK_SECONDS)
    try:
        _require_empty(store)
        yield
    finally:
        with suppress(StorageError):
            lease.release()


def _require_empty(store: Store) -> None:
    for stream in store.log.streams(limit=1):
        raise DecisionRefusedError(f"the store is not empty, it has {stream}: give the name of a new file with --db")


def _jobs(store: Store, simulation: Simulation, extent: Extent) -> list[tuple[float, Job]]:
    days = extent.days
    return [
        *support_desk.jobs(store, simulation, days=days, tickets=extent.tickets),
        *long_chats.jobs(store, simulation, days=days, leases=extent.leases, checks=extent.checks),
        *research.jobs(store, simulation, days=days),
        *coding.jobs(store, simulation, days=days),
        *analysis.jobs(store, simulation, days=days, nodes=extent.nodes),
    ]
