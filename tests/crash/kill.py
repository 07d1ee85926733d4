"""
Throws things at writers and looks at what they leave.

Three processes write to a store, each with several threads. They are killed, interrupted, forked and so on
(`endings.py`) at random moments; one that ends is replaced. Then the store is opened again, and everything that was
promised must hold of it (`checking.py`).
"""

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from math import ceil
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

from ..contract.test_postgres_restores import Tables
from ..contract.test_sqlite_restores import File
from ..support.postgres import Server, running_server
from ..support.processes import loaded_processes
from .checking import Found, check
from .endings import EACH, ENDINGS, Target
from .writer import Task, write

WRITERS = 3
SECONDS_MAX = 60
# A writer that goes on is asked again; not for ever, as other threads of one that hangs may go on.
ASKED_MAX = 5
# To verify all twenty projections takes most of the time; otherwise it is the one that the writers keep.
ALL_VERIFIED_EACH = 10
# Now and then already while it starts, when a new file gets its tables.
STARTING_SHARE = 0.2
PROCESSES = loaded_processes(f"{__package__}.writer")


class Member(NamedTuple):
    """A writer's process, and the path of its files, without a suffix."""

    process: Any
    ready: connection.Connection
    files: Path

    def end(self, code: int) -> list[str]:
        """Wait for its end, as long as it goes on; return what is wrong with it."""
        written = -1
        for _ in range(ASKED_MAX):
            self.process.join(SECONDS_MAX)
            before, written = written, self._written()
            if self.process.exitcode is not None or written == before:
                break
        found = self.process.exitcode
        if found is None:
            # It says what each of its threads is at.
            os.kill(self.process.pid, signal.SIGABRT)
            self.process.join()
        if found == code:
            return []
        what = "hangs" if found is None else f"ended with {found}"
        said = self.files.with_name(f"{self.files.name}.said")
        return [f"a writer {what}:\n{said.read_text() if said.exists() else ''}"]

    def _written(self) -> int:
        """Return how much it and its children have written down."""
        folder, name = self.files.parent, self.files.name
        return sum(path.stat().st_size for path in [*folder.glob(f"{name}.book"), *folder.glob(f"{name}-*.book")])


class Round:
    """Writers of one store, and what is thrown at them."""

    def __init__(self, kind: str, target: Target, folder: Path, name: str) -> None:
        self._kind, self._target, self._folder, self._name = ENDINGS[kind], target, folder, name
        self._exits = kind == "exit"
        self._started = 0
        self.problems: list[str] = []
        self._crew = [self._start() for _ in range(WRITERS)]

    def _start(self) -> Member:
        name = f"{self._name}-{self._started}"
        self._started += 1
        ready, said = PROCESSES.Pipe(duplex=False)
        task = Task(self._target.place.url, self._folder, name, self._kind.may_raise, self._exits)
        process = PROCESSES.Process(target=write, args=(task, said))
        process.start()
        said.close()
        return Member(process, ready, self._folder / name)

    def throw(self) -> int:
        """Throw once, at one of those that write; one that ends is replaced."""
        chance, kind = self._target.chance, self._kind
        if kind.exit_code is None:
            # A database that goes away is met by those that write, and not by those that would open it.
            for member in self._crew:
                member.ready.poll(ASKED_MAX * SECONDS_MAX)
        time.sleep(chance.uniform(0, kind.pause_seconds_max))
        is_any = kind.exit_code == -signal.SIGKILL and chance.random() < STARTING_SHARE
        number = chance.choice([place for place in range(WRITERS) if is_any or self._is_writing(place)])
        member = self._crew[number]
        if not member.process.is_alive():
            self.problems += member.end(0) or ["a writer ended before anything was thrown at it"]
            return 0
        thrown = kind.throw(self._target, member.process.pid)
        if kind.exit_code is not None:
            self.problems += member.end(kind.exit_code)
            self._crew[number] = self._start()
        return thrown

    def _is_writing(self, number: int) -> bool:
        """Return whether a writer is ready, or dead; wait for the first one of all."""
        ready = connection.wait([member.ready for member in self._crew], ASKED_MAX * SECONDS_MAX)
        return self._crew[number].ready in ready or not ready

    def finish(self) -> None:
        """Have all that are left check their views, and end."""
        for member in self._crew:
            member.ready.poll(ASKED_MAX * SECONDS_MAX)
            if member.process.is_alive():
                os.kill(member.process.pid, signal.SIGUSR1)
        for member in self._crew:
            self.problems += member.end(0)

    def dismiss(self) -> None:
        """Leave nobody behind."""
        for member in self._crew:
            member.process.kill()
            member.process.join()


class Result(NamedTuple):
    """How often something was thrown, what was found, and how long it took."""

    kind: str
    database: str
    thrown: int
    found: Found
    seconds: float


def play(kind: str, *, times: int, seed: int, server: Server | None = None) -> Result:
    """
    Throw so often at the writers of one new store, in PostgreSQL where there is a server, and check what they leave.
    """
    chance, began, thrown = random.Random(f"{kind}-{seed}"), time.monotonic(), 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refold-crash-")))
        place = Tables(stack.enter_context(server.database())) if server else File(folder)
        target = Target(place, server, chance, [])
        writers = Round(kind, target, folder, str(seed))
        stack.callback(writers.dismiss)
        while thrown < times and not writers.problems:
            thrown += writers.throw()
        writers.finish()
        found = check(place.url, folder, windows=target.windows, are_all_verified=seed % ALL_VERIFIED_EACH == 0)
        found = found._replace(damaged=(*found.damaged, *writers.problems))
    return Result(kind, "postgres" if server else "sqlite", thrown, found, time.monotonic() - began)


def play_often(
    kills: int, *, seed: int, databases: Sequence[str] = EACH, kinds: Sequence[str] = (*ENDINGS,)
) -> Iterator[tuple[int, Result]]:
    """Throw so many things altogether, each kind as often as its share says; yield each seed and what it led to."""
    cases = [(kind, database) for database in databases for kind in kinds if database in ENDINGS[kind].databases]
    whole = sum(ENDINGS[kind].share for kind, _ in cases)
    with ExitStack() as stack:
        server = stack.enter_context(running_server()) if "postgres" in databases else None
        for kind, database in cases:
            left, of_one_log = ceil(kills * ENDINGS[kind].share / whole), ENDINGS[kind].of_one_log
            for number in range(ceil(left / of_one_log)):
                times = min(of_one_log, left - number * of_one_log)
                on = server if database == "postgres" else None
                yield seed + number, play(kind, times=times, seed=seed + number, server=on)
