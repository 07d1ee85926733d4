"""
A process that erases, or rotates keys, again and again, and dies before and after each of its steps.

Each time it looks what is left, and lets another call do the rest. It prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import refold
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


def fill(path: Path, keys: refold.Keys | None) -> None:
    """Make a store in which a person says the secret, and another one something else."""
    with refold.open(path, keys=keys) as store:
        store.chat("a", user="mia").add_message("user", SECRET)
        store.chat("b", user="tom").add_message("user", "hello")
        assert len(store.search(SECRET)) == 1


def erasures(folder: Path, keys: refold.Keys | None) -> list[str]:
    """Die at each step of an erasure; return whether the text is kept or erased when the store was opened again."""
    found = []
    for step in range(STEPS_MAX):
        path = folder / f"{step}" / "store.db"
        path.parent.mkdir()
        fill(path, keys)
        has_died = dies_at(step, partial(erase, path, keys))
        found.append(left_of(path, keys))
        if not has_died:
            return found
    raise AssertionError("an erasure has more steps than STEPS_MAX")


def erase(path: Path, keys: refold.Keys | None, countdown: Countdown) -> None:
    """Erase what a person said, in steps that are counted."""
    # Nobody else writes, so nothing can be on its way.
    sealed_log.IN_FILE_SECONDS = 0.0
    with refold.open(path, keys=keys) as store:
        countdown.watch(SqliteLog, "erase", "scrub")
        countdown.watch(KeyRing, "retire", "destroy_retired")
        countdown.watch(Eraser, "finish", "record")
        countdown.watch(type(store._projections), "drop_others")
        store.erase(user="mia", why="she asked", dry_run=False)


def left_of(path: Path, keys: refold.Keys | None) -> str:
    """Open the store as the next process does, and return what is left of the secret; require that all is sound."""
    sealed_log.IN_FILE_SECONDS = 0.0
    with refold.open(path, keys=keys) as store:
        (message,) = store.chat("a").to_openai_messages()
        state = "kept" if SECRET in json.dumps(message) else "erased"
        assert bool(store.search(SECRET)) == (state == "kept")
        assert len(store.chat("b").items) == 1
        assert store.verify().problems == ()
    if state == "erased":
        for file in path.parent.iterdir():
            assert SECRET.encode() not in file.read_bytes(), file.name
    return state


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
    if what == "rotations":
        print(json.dumps(rotations(place)))
    else:
        print(json.dumps(erasures(place, KEYS if what == "sealed" else None)))
