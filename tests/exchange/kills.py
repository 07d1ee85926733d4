"""
A process that backs up or restores a store again and again, and dies before and after each of its steps.

Each time it looks what is left, and lets another call do the rest. It prints what it found as JSON: for each step the
state in which the next process finds the file or the store.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.exchange import backup
from refold.infrastructure.exchange.backup_file import BackupFile
from refold.infrastructure.exchange.copying import Incoming
from refold.infrastructure.exchange.restore import restore

from .backed_up import events_of, say

STEPS_MAX = 200


class Countdown:
    """Kills this process before or after the step with a number; the steps are calls of some functions."""

    def __init__(self, step: int) -> None:
        self._left = step

    def watch(self, owner: Any, *names: str) -> None:
        """Take calls of these functions for steps."""
        for name in names:
            setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self._step()
            result = call(*args, **kwargs)
            self._step()
            return result

        return counted

    def _step(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


def dies_at(step: int, work: Callable[[Countdown], object]) -> bool:
    """Do some work in a process that dies at a step; return whether it got there."""
    child = os.fork()
    if child == 0:
        work(Countdown(step))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert status == 0, f"step {step} failed"
    return False


def backups(folder: Path) -> list[str]:
    """Die at each step of a first and of a second run into a file; return what counts after each."""
    source, found = str(folder / "source.db"), []
    vars(backup)["CHUNK_EVENTS"] = 64
    for runs in (0, 1):
        for step in range(STEPS_MAX):
            path = folder / f"{runs} {step}.backup"
            before = [backup.back_up_from(source, path).events for _ in range(runs)]
            if runs:
                say(source, f"step {step}")
            events = len(events_of(source))
            if not dies_at(step, partial(_backed_up, source, path)):
                break
            counts = _counts(path)
            assert counts in (*before, events, 0), (counts, before, events)
            found.append({0: "none", events: "new"}.get(counts, "old"))
            backup.back_up_from(source, path)
            assert backup.check_backup(path).events == events
    return found


def _backed_up(source: str, path: Path, count: Countdown) -> None:
    count.watch(BackupFile, "_append", "_sync", "_write_head")
    backup.back_up_from(source, path)


def _counts(path: Path) -> int:
    """Return how many events are in the backup that counts."""
    with suppress(InvalidInputError):
        return backup.check_backup(path).events
    return 0


def restores(source: str, target: str, path: Path, stride: int) -> list[str]:
    """Die at each step of a restore, or at each `stride`-th; return what is there after each."""
    whole, found = events_of(source), []
    with refold.open(target) as store:
        store.chat("mine").add_message("user", "precious")
    mine = events_of(target)
    for step in range(0, STEPS_MAX, stride):
        if not dies_at(step, partial(_restored, target, path)):
            break
        left = events_of(target)
        assert left in (mine, whole), f"step {step}: {len(left)} events"
        found.append("new" if left == whole else "old")
    restore(path, target, overwrite=True)
    assert events_of(target) == whole
    return found


def _restored(target: str, path: Path, count: Countdown) -> None:
    count.watch(Incoming, "write")
    if target.startswith("postgresql://"):
        import psycopg

        count.watch(psycopg.Connection, "execute")
    else:
        count.watch(os, "fsync")
        count.watch(Path, "replace", "unlink")
    restore(path, target, overwrite=True)


def writes(place: str, name: str) -> None:
    """Append messages to a chat until this process is ended."""
    with refold.open(place) as store:
        chat = store.chat(name)
        print("begun", flush=True)
        for number in range(1_000_000):
            chat.add_message("user", f"message {number}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["backups", folder]:
            print(json.dumps(backups(Path(folder))))
        case ["restores", source, target, path, stride]:
            print(json.dumps(restores(source, target, Path(path), int(stride))))
        case ["writes", place, name]:
            writes(place, name)
