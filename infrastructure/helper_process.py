"""
Processes that help this one with a long log, which each of them opens for itself.

A helper is started as `python -c`. `multiprocessing` would import the main module of the user's program again, which
may do anything when it is imported, and starts nothing in a daemon process. A helper ends when its input is closed or
its parent is gone, so also if this process is killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import IO, Any

from ..domain.log.ports import LiveLog, PartitionedLog
from ..domain.positions import Moment
from .databases import open_database, stored_log
from .log.codec import CODEC
from .projecting.store import ProjectionStore, kept_by

LOOK_SECONDS = 1.0
BEGIN = """
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
from refold.infrastructure.{module} import {function}
{function}()
"""


def can_start() -> bool:
    """Return whether this program can start helpers: one that embeds Python, or is frozen, may be any program."""
    is_python = os.path.basename(sys.executable or "").lower().startswith(("python", "pypy"))
    return is_python and not getattr(sys, "frozen", False)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def task_on(events: LiveLog, end: Moment) -> dict[str, Any] | None:
    """Return how another process opens this log, and recognizes it by its end; None if no other process can."""
    if not isinstance(events, PartitionedLog) or not (events.has_slices or any(events.files())):
        # It is encrypted, and the keys are here; or it is in memory.
        return None
    if stored_log(events).codec is not CODEC:
        # Another process would decode events with another codec.
        return None
    chain_key = stored_log(events).chain.key.hex()
    return {"location": events.location, "end": str(end), "digest": _last_digest(events, end), "chain_key": chain_key}


def _last_digest(events: LiveLog, end: Moment) -> str:
    """Return the digest of an event at the end: at the same location there may be another log by now."""
    (lane, number), heads = end.heads[-1], dict(end.heads)
    page = events.read_all(after=Moment.of({**heads, lane: number - 1}), limit=1, until=end)
    return page.events[-1].digest.hex()


class HelperProcess(ABC):
    """A helper, as the process that started it sees it; `begin` is its program."""

    def __init__(self, begin: str, task: dict[str, Any]) -> None:
        # A group of its own: Ctrl-C is for this process, which ends it.
        self._process = subprocess.Popen(
            [sys.executable, "-c", begin],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0 if os.name == "posix" else None,
        )
        self._reading = threading.Thread(target=self._listen, name="refold helper", daemon=True)
        try:
            self._send(f"{json.dumps(sys.path)}\n{json.dumps(task | {'parent': os.getpid()})}\n")
            self._reading.start()
        except BaseException:
            self.end()
            raise

    @abstractmethod
    def _listen(self) -> None:
        """Take the messages of the helper, in a thread of its own, until the last one."""

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _send(self, text: str) -> None:
        self._input.write(text.encode())
        self._input.flush()

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        if self._reading.ident is not None:
            self._reading.join()
        for stream in (self._input, self._output):
            with suppress(OSError):
                stream.close()


# In the process of a helper


def read_task() -> dict[str, Any]:
    """Return the task of this helper, which ends with its parent from now on."""
    task: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    if os.name == "posix":
        threading.Thread(target=_end_without_parent, args=(task["parent"],), daemon=True).start()
    return task


def end_with_input() -> None:
    """End this process as soon as its input is closed; the rest of the input is ignored."""
    threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


def _end_without_parent(parent: int) -> None:
    """End this process when its parent is gone: a fork of the parent may still keep the input open."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(LOOK_SECONDS)
    os._exit(1)


@contextmanager
def opened(task: dict[str, Any]) -> Iterator[tuple[LiveLog, ProjectionStore] | None]:
    """Open the log of a task for reading, with the rows that are kept of it; None if another log is there now."""
    chain_key = bytes.fromhex(task["chain_key"])
    events, store = open_database(task["location"], create=False, read_only=True, chain_key=chain_key)
    with closing(events):
        end = Moment.parse(task["end"])
        is_same = events.now().includes(end) and _last_digest(events, end) == task["digest"]
        yield (events, kept_by(store)) if is_same else None
