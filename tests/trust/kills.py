"""
A process that erases, archives or rotates keys, again and again, and dies before and after each of its steps.

Each time it looks what is left, and lets another call do the rest. It prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import psycopg

import refold
from refold.infrastructure import files
from refold.infrastructure.databases import ring_of
from refold.infrastructure.exchange.archiving import Archivist
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.sqlite.log import SqliteLog
from refold.infrastructure.trust import sealed_log
from refold.infrastructure.trust.erasing import Eraser
from refold.infrastructure.trust.key_ring import KeyRing
from refold.infrastructure.trust.keys import KEY_BYTES, MasterKeys
from refold.infrastructure.trust.tables import SqliteTables
from tests.exchange.kills import STEPS_MAX, Countdown, dies_at

ONE, TWO = bytes(KEY_BYTES), bytes(range(KEY_BYTES))
KEYS = MasterKeys({"m1": ONE})
BOTH = MasterKeys({"m1": ONE, "m2": TWO})
SECRET = "zanzibar"


def fill(path: str | Path, keys: refold.Keys | None) -> None:
    """Make a store in which a person says the secret, and another one something else."""
    with refold.open(path, keys=keys) as store:
        store.chat("a", user="mia").add_message("user", SECRET)
        store.chat("b", user="tom").add_message("user", "hello")
        assert len(store.search(SECRET)) == 1


def erasures(folder: Path | str, keys: refold.Keys | None) -> list[str]:
    """
    Die at each step of an erasure; return whether the text is kept or erased when the store was opened again.

    Stores lie in a folder, or in schemas of the database of a URL.
    """
    found = []
    for step in range(STEPS_MAX):
        path: Path | str
        if isinstance(folder, str):
            with psycopg.connect(folder) as connection:
                connection.execute(f"create schema step_{step}".encode())
            path = f"{folder}&options=-csearch_path%3Dstep_{step}"
        else:
            path = folder / f"{step}" / "store.db"
            path.parent.mkdir()
        fill(path, keys)
        has_died = dies_at(step, partial(erase, path, keys))
        found.append(left_of(path, keys))
        if not has_died:
            return found
    raise AssertionError("an erasure has more steps than STEPS_MAX")


def wait_for_nobody() -> None:
    """Destroy keys at once: nobody else writes, so nothing can be on its way."""
    vars(sealed_log).update(KNOWN_SECONDS=0.0, IN_FILE_SECONDS=0.0, ON_SERVER_SECONDS=0.0)


def erase(path: Path | str, keys: refold.Keys | None, countdown: Countdown) -> None:
    """Erase what a person said, in steps that are counted."""
    wait_for_nobody()
    with refold.open(path, keys=keys) as store:
        countdown.watch(SqliteLog, "erase", "scrub")
        countdown.watch(PostgresLog, "erase", "scrub", "await_appends")
        countdown.watch(KeyRing, "retire", "close", "destroy")
        countdown.watch(Eraser, "finish", "record")
        countdown.watch(type(store._projections), "drop_others")
        store.erase(user="mia", why="she asked", dry_run=False)


def left_of(path: Path | str, keys: refold.Keys | None) -> str:
    """Open the store as the next process does, and return what is left of the secret; require that all is sound."""
    wait_for_nobody()
    with refold.open(path, keys=keys) as store:
        (message,) = store.chat("a").to_openai_messages()
        state = "kept" if SECRET in json.dumps(message) else "erased"
        assert bool(store.search(SECRET)) == (state == "kept")
        assert len(store.chat("b").items) == 1
        assert store.verify().problems == ()
        assert keys is None or state == "kept" or not ring_of(store.log).retired()
    if state == "erased" and isinstance(path, Path):
        for file in path.parent.iterdir():
            assert SECRET.encode() not in file.read_bytes(), file.name
    return state


def archives(folder: Path, keys: refold.Keys | None, *, is_back: bool) -> list[str]:
    """
    Die at each step of an archive, or with `is_back` of what brings it back; return where the text is when the store
    was opened again. It is in the store or in the file, whole, and comes back in each case.
    """
    found = []
    for step in range(STEPS_MAX):
        path = folder / f"{step}" / "store.db"
        path.parent.mkdir()
        fill(path, keys)
        if is_back:
            with refold.open(path, keys=keys) as store:
                store.archive(folder / f"{step}.cold", "a", why="cold")
        has_died = dies_at(step, partial(unarchive if is_back else archive, path, folder / f"{step}.cold", keys))
        found.append(left_of(path, keys))
        with refold.open(path, keys=keys) as store:
            if not store.archives():
                # What was killed left nothing that is in the way.
                store.archive(folder / f"{step}.cold", "a", why="cold")
            store.unarchive("a")
        assert left_of(path, keys) == "kept"
        if not has_died:
            return found
    raise AssertionError("an archive has more steps than STEPS_MAX")


def archive(path: Path, file: Path, keys: refold.Keys | None, countdown: Countdown) -> None:
    """Archive what a person said, in steps that are counted."""
    with refold.open(path, keys=keys) as store:
        watch_moving(store, countdown)
        store.archive(file, "a", why="cold")


def unarchive(path: Path, file: Path, keys: refold.Keys | None, countdown: Countdown) -> None:
    """Bring it back, in steps that are counted."""
    with refold.open(path, keys=keys) as store:
        watch_moving(store, countdown)
        store.unarchive("a")


def watch_moving(store: refold.Store, countdown: Countdown) -> None:
    """Take all that moves texts between a store and a file for steps."""
    countdown.watch(SqliteLog, "erase", "scrub")
    countdown.watch(Eraser, "finish", "record")
    countdown.watch(Archivist, "_write")
    countdown.watch(files, "sync_folder")
    countdown.watch(os, "open", "fchmod", "fsync", "link", "rename", "replace")
    countdown.watch(type(store._projections), "drop_others")


def rotations(folder: Path) -> list[str]:
    """Die at each step of a rotation; return which master keys are needed then. The next rotation does the rest."""
    found = []
    for step in range(STEPS_MAX):
        path = folder / f"{step}.db"
        fill(path, KEYS)
        has_died = dies_at(step, partial(rotate, path))
        with refold.open(path, keys=BOTH) as store:
            masters = sorted({row.master for row in store.log.ring.rows()})  # type: ignore[attr-defined]
            assert len(store.search(SECRET)) == 1
            store.rotate_keys()
        with refold.open(path, keys=MasterKeys({"m2": TWO})) as store:
            assert len(store.search(SECRET)) == 1
        found.append(" and ".join(masters))
        if not has_died:
            return found
    raise AssertionError("a rotation has more steps than STEPS_MAX")


def rotate(path: Path, countdown: Countdown) -> None:
    """Rotate the keys, in steps that are counted."""
    with refold.open(path, keys=BOTH) as store:
        countdown.watch(SqliteTables, "change")
        store.rotate_keys(renew=True)


if __name__ == "__main__":
    what, place = sys.argv[1], Path(sys.argv[2])
    if what.startswith("postgres"):
        print(json.dumps(erasures(sys.argv[2], KEYS if what.endswith("sealed") else None)))
    elif what == "rotations":
        print(json.dumps(rotations(place)))
    elif what.startswith(("archive", "unarchive")):
        keys = KEYS if what.endswith("sealed") else None
        print(json.dumps(archives(place, keys, is_back=what.startswith("un"))))
    else:
        print(json.dumps(erasures(place, KEYS if what == "sealed" else None)))
