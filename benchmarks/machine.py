"""Facts on which the figures depend: the processor, the versions, and the time of one sync of the disk."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import tempfile
from pathlib import Path
from time import perf_counter

import psycopg

SYNCS = 200
PAGE = 4_096
PAGES = 64


def facts(folder: Path, *, postgres_url: str | None) -> dict[str, str]:
    """Return facts about this machine, by name."""
    known = {
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    if postgres_url:
        with psycopg.connect(postgres_url) as connection:
            for setting in ("server_version", "fsync", "synchronous_commit"):
                row = connection.execute(f"show {setting}".encode()).fetchone()
                known[f"postgresql {setting}"] = row[0] if row else "?"
    known["bare fdatasync"] = f"{fdatasync_seconds(folder) * 1000:.3f} ms"
    known["load average"] = " ".join(f"{load:.1f}" for load in os.getloadavg())
    return known


def fdatasync_seconds(folder: Path) -> float:
    """Return the median time to overwrite one page of a file and sync it."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        file.write(bytes(PAGE * PAGES))
        os.fsync(file.fileno())
        times = []
        for number in range(SYNCS):
            start = perf_counter()
            os.pwrite(file.fileno(), bytes([number % 256]) * PAGE, number % PAGES * PAGE)
            _sync(file.fileno())
            times.append(perf_counter() - start)
    return statistics.median(times)


def _sync(descriptor: int) -> None:
    # macOS has no fdatasync.
    getattr(os, "fdatasync", os.fsync)(descriptor)
