"""The writers' figures are taken once more where a sync takes a millisecond, for all contestants alike."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from benchmarks.bench import QUICK, Bench
from benchmarks.slow_sync import SECONDS, VARIABLE, slowly

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
TIMED = "import os, time; start = time.perf_counter(); os.fdatasync(1); print(time.perf_counter() - start)"
SYNC_MILLISECONDS = "select max(fsync_time) from pg_stat_io where object = 'wal' and backend_type = 'client backend'"


@needs_compiler
def test_processes_sync_slowly(tmp_path: Path) -> None:
    """A process that is started meanwhile syncs slowly, and afterwards none does."""
    before = os.environ.get(VARIABLE)

    with slowly(Bench(tmp_path, QUICK), "sqlite"), (tmp_path / "file").open("wb") as file:
        subprocess.run([sys.executable, "-c", TIMED], stdout=file, check=True)

    assert float((tmp_path / "file").read_text()) >= SECONDS
    assert os.environ.get(VARIABLE) == before


@needs_compiler
def test_a_server_syncs_slowly(tmp_path: Path) -> None:
    """A commit on the server of the slow bench waits for its sync."""
    with slowly(Bench(tmp_path, QUICK), "postgres") as slow:
        assert slow is not None
        assert slow.server is not None
        with psycopg.connect(slow.server.url(), autocommit=True) as connection:
            connection.execute("create table one (number integer)")
            connection.execute("set track_wal_io_timing = on")
            connection.execute("insert into one values (1)")
            connection.execute("select pg_stat_force_next_flush()")
            ((milliseconds,),) = connection.execute(SYNC_MILLISECONDS).fetchall()

    assert milliseconds >= 1000 * SECONDS


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be compiled, there is no slow bench, and the rows are left out."""
    monkeypatch.setattr(shutil, "which", lambda name: None)

    with slowly(Bench(tmp_path, QUICK), "sqlite") as slow:
        assert slow is None
