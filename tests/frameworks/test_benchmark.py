"""The benchmark of frameworks gives figures of each that is installed, so small that nothing is measured."""

import dataclasses
import os
from pathlib import Path

import pytest

from benchmarks import agent_sessions, langgraph_threads, timing
from benchmarks.bench import Bench
from benchmarks.cases.frameworks import FORKING, FRAMEWORKS, IN_MEMORY, MissingFrameworkError, frameworks
from tests.benchmarks.test_cases import TINY
from tests.support.postgres import Server

TINIEST = dataclasses.replace(TINY, lengths=(2, 20), openings=1)


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is measured, nobody needs to wait for the other's housekeeping."""
    monkeypatch.setattr(timing, "IDLE_SECONDS", 0.001)
    monkeypatch.setattr(langgraph_threads, "MESSAGES", 200)
    monkeypatch.setattr(agent_sessions, "MESSAGES", 200)


@pytest.mark.skipif("REFOLD_TEST_FRAMEWORKS" not in os.environ, reason="frameworks are not installed here")
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_all_frameworks_take_part(
    name: str, database: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row has a figure of Refold and one of the framework's own store, bytes only where that has a database."""
    for other in FRAMEWORKS.keys() - {name}:
        monkeypatch.delitem(FRAMEWORKS, other)
    server: Server | None = request.getfixturevalue("pg_server") if database == "postgres" else None
    rows = list(frameworks(Bench(tmp_path, TINIEST, server), database))

    assert {row.label.partition(":")[0] for row in rows} == {name}
    assert len(rows) == (5 if name in FORKING else 4) * len(TINIEST.lengths) + 1
    assert all(row.shown("ours") for row in rows)
    without = [row.label for row in rows if not row.shown("raw")]
    at = TINIEST.lengths if name in IN_MEMORY else ()
    assert without == [f"{name}: bytes of an append at N = {length}" for length in at]


def test_without_frameworks_there_are_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, rather than that all went well."""

    def missing(location: str, *, is_ours: bool) -> None:
        raise ModuleNotFoundError(location)

    for name in FRAMEWORKS:
        monkeypatch.setitem(FRAMEWORKS, name, missing)
    with pytest.raises(MissingFrameworkError):
        list(frameworks(Bench(tmp_path, TINIEST), "sqlite"))
