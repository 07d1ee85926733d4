"""After any history: the random lives of the model tests, of every kind of context, and all projections of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine, rule

import refold
from refold.domain.log.memory_log import MemoryLog
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.projecting.leases import BEAT_SECONDS
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.projecting.worker import ProjectionWorker
from refold.infrastructure.store import Store

from ..contract.stores import KEYS, log_at, sealed_at
from ..model.chat_machine import ChatMachine
from ..model.container_machine import ContainerMachine
from ..model.editing_machine import EditingMachine
from ..model.lives import live
from ..model.memory_machine import MemoryMachine
from ..model.run_machine import RunMachine
from ..model.window_machine import WindowMachine
from ..support.effort import IS_DEEP
from .histories import folded_rows, live_rows, projections_of, something_of_everything, stored_rows
from .watches import HandMoved

MACHINES: list[Any] = [ChatMachine, EditingMachine, ContainerMachine, WindowMachine, MemoryMachine, RunMachine]
pytestmark = pytest.mark.usefixtures("small_pages")


def check_all(store: refold.Store) -> None:
    """Require of every projection that live rows, rows made anew and a fold of the log are the same."""
    live = live_rows(store)
    for name in projections_of(store):
        assert store.rebuild(name).is_done, name
    assert live == stored_rows(store) == folded_rows(store)


def shared(store: refold.Store) -> None:
    """Let two workers, which know of each other, bring all projections up to date."""
    watch = HandMoved()
    workers = [ProjectionWorker(store.log, store._projections, PROJECTIONS, watch=watch) for _ in range(2)]
    for worker in workers:
        assert worker._crew.hold()
    watch.seconds += BEAT_SECONDS
    for worker in workers:
        worker.work()
    for worker in workers:
        worker._crew.release()


def watched(machine: Any, place: str | None, keys: refold.Keys | None = None) -> type[RuleBasedStateMachine]:
    """
    Return a machine that brings rows up to date now and then; in memory it looks at all of them at each life's end.
    """

    class Watched(machine):  # type: ignore[misc]  # it is one of MACHINES
        can_reopen = place is not None
        rows: MemoryProjectionStore

        def open_log(self) -> Any:
            """Open the log, and with a new one in memory new rows."""
            self.rows = MemoryProjectionStore()
            return MemoryLog() if place is None else (sealed_at(place).open() if keys else log_at(place))

        def store(self) -> Store:
            """Return a store on the log, as it is at the moment."""
            return Store(self.log, self.rows) if place is None else refold.open(place, keys=keys)

        @rule()
        def bring_up_to_date(self) -> None:
            """Fold what is new; in a database two workers share most of it."""
            store = self.store()
            if place is not None:
                shared(store)
            live_rows(store)
            if place is not None:
                store.close()

        def teardown(self) -> None:
            """Look at everything, then end."""
            try:
                if place is None and hasattr(self, "log"):
                    check_all(self.store())
            finally:
                super().teardown()

    Watched.__name__ = Watched.__qualname__ = f"Watched{machine.__name__}"
    return Watched


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_in_memory(machine: Any) -> None:
    """After each of many lives everything is what it should be."""
    live(watched(machine, None), examples=8)


@pytest.mark.parametrize("is_sealed", [False, True] if IS_DEEP else ["on a server"])
def test_in_a_database(place: str, is_sealed: bool | str) -> None:
    """
    All lives happen in one store, one after the other; at their end everything in it is what it should be.

    Where the tests may not take long the file is a plain one, and the database on a server is encrypted.
    """
    keys = KEYS if is_sealed is True or (is_sealed and place.startswith("postgresql")) else None
    for machine in MACHINES:
        live(watched(machine, place, keys), examples=2, steps=15)

    with refold.open(place, keys=keys) as store:
        something_of_everything(store)
        assert {row.kind for row in store.contexts()} == {"chat", "queue", "pool", "window", "memory", "run"}
        assert len(store.contexts()) > len(MACHINES)
        check_all(store)
