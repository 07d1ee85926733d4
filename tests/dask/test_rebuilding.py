"""Rebuilding on a cluster: one of two workers is killed at work, and the other one goes on where that was."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distributed import Client

import refold
from refold.domain.errors import InvalidInputError, StorageUnavailableError
from refold.infrastructure.cli import projections as workers
from refold.infrastructure.cli.projections import rebuilding_workers
from refold.infrastructure.projecting.partitions import PAGES_AT_ONCE
from refold.infrastructure.projecting.rebuild import RebuildReport

from ..cli.running import refold as run_refold
from ..contract.stores import start_python
from ..contract.writing import append, said
from ..projecting.histories import folded_rows, stored_rows
from ..projecting.small_pages import SMALL_PAGE
from ..support.waiting import soon
from .slow_counts import SlowCounts

CONTEXTS, EVENTS = 20, 18
PATIENCE_SECONDS = 60.0
# What a worker stores at once.
PAGE = PAGES_AT_ONCE * SMALL_PAGE


class Cluster:
    """A scheduler and two workers, in processes of their own."""

    def __init__(self, folder: Path) -> None:
        file = folder / "scheduler.json"
        quiet = {"stderr": subprocess.DEVNULL}
        place = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
        self.scheduler = start_python("distributed.cli.dask_scheduler", "--port", "0", *place, **quiet)
        wait_until(file.exists)
        alone = ["--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        self.workers = [start_python("tests.dask.worker", *alone, **quiet) for _ in range(2)]
        self.address = str(json.loads(file.read_text())["address"])
        # A worker that comes later might get no partition: both can be given to the first one.
        with Client(self.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(2, timeout=PATIENCE_SECONDS)

    def close(self) -> None:
        """Kill all of it."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.communicate()


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    assert soon(is_so, PATIENCE_SECONDS), "it took too long"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of two."""
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_worker_is_killed(kind: str, cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Nothing is missing and nothing counted twice; what it had stored is not folded again."""
    place = str(tmp_path / "store.db") if kind == "sqlite" else str(request.getfixturevalue("pg_url"))
    folder = tmp_path / "folded"
    folder.mkdir()

    def folded(pid: int) -> int:
        file = folder / str(pid)
        return file.stat().st_size if file.exists() else 0

    with refold.open(place) as store:
        for number in range(CONTEXTS):
            append(store.log, f"chat:c{number}", *map(said, range(EVENTS)), root=f"c{number}")
        store.add_projection(SlowCounts(folder))
        with rebuilding_workers(store, None, cluster.address) as (executor, _):
            reports: list[RebuildReport] = []
            work = threading.Thread(
                target=lambda: reports.append(store.rebuild("counts", executor=executor, partitions=2))
            )
            work.start()
            killed, other = cluster.workers
            wait_until(lambda: folded(killed.pid) > PAGE + 5 and folded(other.pid) > 0)
            killed.kill()
            work.join()

        assert [report.is_done for report in reports] == [True]
        assert stored_rows(store, "counts")["counts"] == folded_rows(store)["counts"]
        total = CONTEXTS * EVENTS
        assert total <= folded(killed.pid) + folded(other.pid) < total + 2 * PAGE


def test_on_the_command_line(cluster: Cluster, tmp_path: Path) -> None:
    """`refold rebuild --dask ADDRESS`."""
    path = tmp_path / "store.db"
    with refold.open(path) as store:
        for number in range(3):
            append(store.log, f"chat:c{number}", *map(said, range(5)), root=f"c{number}")

    ended = run_refold("rebuild", "catalogue", "growth", "--dask", cluster.address, db=path)

    assert (ended.code, ended.out.splitlines()[0].partition(" in ")[0]) == (0, "catalogue: 3 rows of 15 events")


def test_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that cannot be one, and one where nobody answers."""
    monkeypatch.setattr(workers, "DASK_SECONDS", 1)
    with refold.open(tmp_path / "store.db") as store:
        with pytest.raises(InvalidInputError, match="no address of a Dask scheduler"):
            rebuilding_workers(store, None, "nonsense://x").__enter__()
        with pytest.raises(StorageUnavailableError, match="no Dask scheduler answers"):
            rebuilding_workers(store, None, "tcp://127.0.0.1:9").__enter__()
