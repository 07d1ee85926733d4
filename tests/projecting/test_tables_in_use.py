"""Tables of rows on PostgreSQL while many rows are copied, and while others use them."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import refold
from refold.domain.errors import StorageBusyError
from refold.infrastructure.projecting import partitions
from refold.infrastructure.projecting.rows import postgres, postgres_transaction
from refold.infrastructure.projecting.rows.database import Statement
from refold.infrastructure.projecting.rows.postgres_transaction import WireTransaction
from refold.infrastructure.projecting.shadow import Build, shadow_of
from refold.projections.catalogue import CATALOGUE

from .histories import live_rows, something_of_everything, stored_rows

LIVE, SHADOW = (postgres.ONE_SERVER.table(one) for one in (CATALOGUE, shadow_of(CATALOGUE)))
BRIEFLY = Statement("SET LOCAL lock_timeout = '20ms'")


@pytest.fixture
def two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lots of two rows."""
    monkeypatch.setattr(postgres, "WALKED_ROWS", 2)
    monkeypatch.setattr(partitions, "LOOK_SECONDS", 0.01)


@pytest.mark.usefixtures("two_rows")
def test_partitions_of_many_rows(ready_pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    They are put together a lot of rows at a time: the wire gives up a server that is silent for long. If that is
    interrupted between two lots, readers have the old rows, and the next rebuild has the partitions. Whoever drops the
    partitions meanwhile, as an erasure does, is not kept waiting.
    """
    made, ask, hold, plans = list[int](), WireTransaction.ask, Build.hold, list[Any]()
    forgetting = list[Future[None]]()

    def watched(self: Any, *statements: Statement) -> Any:
        is_lot = any(one.sql.startswith(f"INSERT INTO {SHADOW} SELECT") for one in statements)
        answers = ask(self, *statements)
        if is_lot:
            made.append(ask(self, Statement(f"SELECT count(*) FROM {SHADOW}"))[0][0][0])
            until(lambda: len(made) != 2 or (plans and plan() != plans[0]))
        return answers

    def interrupted(self: Build) -> None:
        hold(self)
        if len(made) == 2 and not plans:
            plans.append(plan())
            raise KeyboardInterrupt

    def forgotten(self: Build) -> None:
        hold(self)
        if len(made) == 2 and not plans:
            plans.append(plan())
            forgetting.append(threads.submit(partitions.forget_partitions, store._projections, CATALOGUE))

    def plan() -> Any:
        return store._projections.note(f"partitions/catalogue.{CATALOGUE.version}")

    with refold.open(ready_pg_url) as store, ThreadPoolExecutor(2) as threads:
        something_of_everything(store)
        live = live_rows(store)["catalogue"]
        monkeypatch.setattr(WireTransaction, "ask", watched)
        monkeypatch.setattr(Build, "hold", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.rebuild("catalogue", executor=threads, partitions=2)
        assert len(made) == 2
        assert stored_rows(store)["catalogue"] == live
        made.clear()
        plans.clear()

        monkeypatch.setattr(Build, "hold", forgotten)
        with pytest.raises(StorageBusyError, match="try again after that"):
            store.rebuild("catalogue", executor=threads)
        assert len(made) == 2
        # It waited for the tables until the other transaction had given up.
        assert forgetting.pop().result() is None
        made.clear()

        assert store.rebuild("catalogue", executor=threads).is_done

        steps = [after - before for before, after in zip([0, *made], made, strict=False)]
        assert (sum(steps), max(steps)) == (store._projections.count(CATALOGUE), 2)
        assert stored_rows(store)["catalogue"] == live


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, but not for ever."""
    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)


def test_rows_that_a_long_transaction_reads(ready_pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whoever replaces them waits briefly, again and again: others that read them wait no longer. The error names the way
    out, and the new rows stay for the next rebuild.
    """
    monkeypatch.setattr(postgres, "WAIT_BRIEFLY", BRIEFLY)
    monkeypatch.setattr(postgres_transaction, "WAIT_BRIEFLY", BRIEFLY)
    pauses = list[int]()
    monkeypatch.setattr(postgres_transaction, "pause_before", pauses.append)
    with refold.open(ready_pg_url) as store, psycopg.connect(ready_pg_url) as reader:
        something_of_everything(store)
        live = live_rows(store)["catalogue"]
        reader.execute(f"SELECT count(*) FROM {LIVE}")

        with pytest.raises(StorageBusyError, match=r"uses rows of a projection .*pg_stat_activity names it"):
            store.rebuild("catalogue")

        assert pauses == [1, 2, 3, 4]
        assert stored_rows(store)["catalogue"] == live
        monkeypatch.setattr(postgres_transaction, "pause_before", lambda _: reader.rollback())
        assert (report := store.rebuild("catalogue")).is_done
        assert report.events == 0
        assert stored_rows(store)["catalogue"] == live
