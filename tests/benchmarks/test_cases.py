"""Every case runs, with numbers so small that nothing is measured, and hands back what its table needs."""

import dataclasses
import multiprocessing
import os
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import slow_sync, timing
from benchmarks.__main__ import STUDIES
from benchmarks.bench import QUICK, Bench
from benchmarks.cases import CASES
from benchmarks.rows import Row, Table
from benchmarks.table import as_json, as_markdown, as_text
from tests.support.postgres import Server
from tests.support.processes import loaded_processes

TINY = dataclasses.replace(
    QUICK,
    lengths=(2, 120),
    loaded=70,
    long=140,
    single_appends=70,
    contexts=3,
    context_items=20,
    runs=2,
    blocks=1,
    logged=1_000,
    deltas=50,
    writers=2,
    writer_appends=3,
    process_appends=4,
    many=2,
    batch=5,
    tail=10,
)
# By its name: in its package the same name is that of its function.
INSPECTOR = import_module("benchmarks.cases.inspector")
SPAWNED, LOADED = multiprocessing.get_context("spawn"), loaded_processes("benchmarks.cases")
FACTS = {"cores": "2"}
# What nobody but Refold answers has no raw beside it.
WITHOUT_RAW = {"large", "moving", "inspector"}
# Needs frameworks: tests/frameworks runs it.
ELSEWHERE = {"frameworks"}


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is measured, nobody needs to wait for the other's housekeeping."""
    monkeypatch.setattr(timing, "IDLE_SECONDS", 0.001)
    monkeypatch.setattr(INSPECTOR, "LOADS", 1)
    # As for the tests of the page: the shell takes half of the processor time.
    monkeypatch.setattr(INSPECTOR, "PROGRAMS", INSPECTOR.PROGRAMS[::-1])


@pytest.fixture(autouse=True)
def nobody_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes that have everything loaded, but where what they load is to slow them down."""
    start = lambda _: SPAWNED if slow_sync.VARIABLE in os.environ else LOADED  # noqa: E731
    monkeypatch.setattr(multiprocessing, "get_context", start)


def check(name: str, results: list[Row | Table]) -> None:
    """Look at all figures, and write them in every form."""
    assert results
    for result in results:
        if isinstance(result, Row):
            figures = {name: result.shown(name) or 0 for name in result.stats}
            assert {"ours"} | ({"raw"} if name not in WITHOUT_RAW else set()) <= set(figures)
            assert min(figures.values()) > 0
        else:
            assert result.lines
    for written in (as_text(FACTS, results), as_markdown(FACTS, results), as_json(FACTS, results).decode()):
        assert "cores" in written


@pytest.mark.parametrize("name", sorted(set(CASES) - ELSEWHERE))
def test_case_on_sqlite(name: str, tmp_path: Path) -> None:
    """On SQLite every case gives figures of ours and raw."""
    results = list(CASES[name](Bench(tmp_path, TINY), "sqlite"))

    check(name, results)


@pytest.mark.parametrize("name", sorted(set(CASES) - STUDIES - ELSEWHERE))
def test_case_on_postgres(name: str, tmp_path: Path, pg_server: Server) -> None:
    """On PostgreSQL too."""
    results = list(CASES[name](Bench(tmp_path, TINY, pg_server), "postgres"))

    check(name, results)
