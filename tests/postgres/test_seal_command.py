"""`refold seal` and `refold run --seal` pack the old events of a database on PostgreSQL."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg

import refold as package
from refold.infrastructure.cli import run_worker
from refold.infrastructure.log.postgres.log import PostgresLog
from tests.cli.running import refold
from tests.contract.stores import KEYS
from tests.contract.writing import append, said
from tests.support.waiting import soon


def filled(url: str) -> None:
    """Record 200 events in one slice, of which 128 can be packed."""
    log = PostgresLog(url)
    append(log, "chat:a", *map(said, range(200)))
    log.close()


def rows(url: str) -> int:
    """Return how many events are rows."""
    with psycopg.connect(url) as connection:
        found = connection.execute("select count(*) from event").fetchone()
    assert found is not None
    return int(found[0])


def test_old_events_are_packed(pg_url: str) -> None:
    """Once; the second time there is nothing to do."""
    filled(pg_url)

    assert refold("seal", "--db", pg_url).out.endswith("packed 128 events\n")
    assert refold("seal", "--db", pg_url).out.endswith("packed 0 events\n")
    assert rows(pg_url) == 72
    assert refold("verify", "--db", pg_url).code == 0


def test_a_file_packs_by_itself(tmp_path: Path) -> None:
    """There is nothing to command."""
    with package.open(tmp_path / "a.db"):
        pass

    answer = refold("seal", "--db", tmp_path / "a.db")

    assert (answer.code, "a file packs its events by itself" in answer.err) == (2, True)


def test_a_worker_packs_beside_its_work(pg_url: str) -> None:
    """Until it is stopped."""
    filled(pg_url)
    log, stop = PostgresLog(pg_url), threading.Event()

    def seal_once() -> Iterator[int]:
        yield from log.sealing()
        stop.set()

    run_worker._seal(seal_once, stop, {})
    log.close()

    assert rows(pg_url) == 72


def test_a_worker_packs_an_encrypted_store(ready_pg_url: str) -> None:
    """Its events are rows of the log below."""
    with package.open(ready_pg_url, keys=KEYS) as store:
        store.chat("a").add_messages([{"role": "user", "content": "hello"}] * 199)
        jobs = dict.fromkeys(run_worker._jobs(store, seal=True), False)
        events = threading.Event(), threading.Event()
        worker: Any = SimpleNamespace(run=lambda _: soon(lambda: rows(ready_pg_url) == 72))
        run_worker._keep(store, worker, run_worker.WorkerLog(store, []), *events, jobs)

        assert store.verify().is_whole
    assert rows(ready_pg_url) == 72
