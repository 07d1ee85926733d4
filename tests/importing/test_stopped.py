"""Imports that are stopped, at each step in turn: nothing is there, or the next import of the file completes it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.infrastructure.exchange import export_events, take_in_events
from refold.infrastructure.importing import record_transcript
from refold.infrastructure.round_files import import_round_files, write_round_files
from tests.importing.test_doctored import OPENAI, SOURCES, imported
from tests.importing.transcripts import written
from tests.round_files.rounds import SESSION, USER, busy_run, next_run
from tests.support.effort import IS_DEEP
from tests.support.every_kind import fill
from tests.support.processes import Program

IMPORT = Program("tests.importing.test_stopped")
TALK = [*OPENAI, {"role": "assistant", "content": "welcome"}, {"role": "user", "content": "and now?"}]


class StopError(Exception):
    """What comes between."""


def rounds(folder: Path) -> None:
    """Write the files of two rounds."""
    with refold.open(":memory:") as store:
        for run in (busy_run(store), next_run(store)):
            write_round_files(run, folder)


def export(folder: Path) -> None:
    """Write an export with contexts of every kind."""
    with refold.open(":memory:") as store:
        asyncio.run(fill(store))
        export_events(store.log, folder / "export")


def sources(folder: Path) -> None:
    """Write all that is imported below."""
    rounds(folder)
    export(folder)
    for name, text in SOURCES.items():
        written(folder / f"{name}.json", text)


def of_file(name: str, *, as_runs: bool) -> Callable[[refold.Store, Path], Any]:
    """Return what imports a transcript."""
    return lambda store, folder: imported(store, folder / f"{name}.json", as_runs=as_runs)


IMPORTERS: dict[str, Callable[[refold.Store, Path], Any]] = {
    **{f"{name} as contexts": of_file(name, as_runs=False) for name in SOURCES},
    **{f"{name} as runs": of_file(name, as_runs=True) for name in SOURCES},
    "transcript": lambda store, _: record_transcript(store, TALK, user_id="mia", session_id="s"),
    "rounds": lambda store, folder: import_round_files(store, folder, user_id=USER, session_id=SESSION),
    "export": lambda store, folder: take_in_events(store.log, folder / "export"),
}


def said(store: refold.Store) -> dict[str, list[Any]]:
    """Return the events of every context, but for the times at which they came to be."""
    streams = [row.key for row in store.contexts()]
    return {stream: [_timeless(event) for event in store.log.read_events(stream)] for stream in streams}


def _timeless(event: Any) -> Any:
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return type(event).__name__, {name: value for name, value in fields.items() if name not in ("created_at", "item")}


def stopping(log: Any, after: int, stop: Callable[[], object], *, is_written: bool) -> None:
    """Stop at the append behind so many, before it is handed in or once it is written."""
    append, left = log.append, iter(range(after))

    def appended(*given: Any, **options: Any) -> Any:
        if next(left, None) is not None:
            return append(*given, **options)
        if is_written:
            append(*given, **options).result()
        return stop()

    log.append = appended


def stop_by_error() -> None:
    """Let something go wrong."""
    raise StopError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with something for every importer."""
    made = tmp_path_factory.mktemp("sources")
    sources(made)
    return made


def whole(name: str, folder: Path) -> tuple[dict[str, list[Any]], int]:
    """Return what an importer makes that nobody stops, and how many appends that takes."""
    with refold.open(":memory:") as store:
        log, appends = store.log, 0
        append: Any = log.append

        def counted(*given: Any, **options: Any) -> Any:
            nonlocal appends
            appends += 1
            return append(*given, **options)

        log.append = counted  # type: ignore[method-assign]  # it is only counted
        IMPORTERS[name](store, folder)
        return said(store), appends


@pytest.mark.long
@pytest.mark.parametrize("name", IMPORTERS)
def test_by_an_error(folder: Path, name: str) -> None:
    """Before or behind each append: every context is there whole or not at all, and the next import does the rest."""
    wanted, appends = whole(name, folder)
    for after in range(appends):
        # Behind an append there is what there is before the next one, so every other one of both is enough.
        for is_written in (False, True) if IS_DEEP else (after % 2 == 1,):
            with refold.open(":memory:") as store:
                append = store.log.append
                stopping(store.log, after, stop_by_error, is_written=is_written)
                with pytest.raises(StopError):
                    IMPORTERS[name](store, folder)
                store.log.append = append  # type: ignore[method-assign]  # nothing stops it any more
                there = said(store)
                if name != "export":
                    assert there.items() <= wanted.items(), after
                IMPORTERS[name](store, folder)

                assert said(store) == wanted, after


@pytest.mark.long
@pytest.mark.parametrize("name", ["tau as contexts", "rounds"])
def test_by_a_kill(folder: Path, tmp_path: Path, name: str) -> None:
    """A process that is killed between two appends leaves whole contexts alone, and the next import does the rest."""
    wanted, appends = whole(name, folder)
    for after in range(min(appends, 3)):
        database = tmp_path / f"{after}.db"
        process = IMPORT.start(database, folder, name, after)
        process.communicate(timeout=120)

        assert process.returncode == -signal.SIGKILL
        with refold.open(database) as store:
            assert said(store).items() <= wanted.items()
            IMPORTERS[name](store, folder)
            assert said(store) == wanted
            assert store.verify().is_whole


def main(database: Path, folder: Path, name: str, after: int) -> None:
    """Import, and be killed at an append."""
    with refold.open(database) as store:
        stopping(store.log, after, lambda: os.kill(os.getpid(), signal.SIGKILL), is_written=False)
        IMPORTERS[name](store, folder)
