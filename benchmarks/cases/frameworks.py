"""
What do conversations of agent frameworks cost with Refold, compared with the framework's own store, which is `raw`
here?

Only frameworks that are installed take part: `scripts/test-frameworks` makes an environment with all of them, and
`REFOLD_VENV=.venv/frameworks scripts/bench frameworks` runs there. To add a framework, write its keepers, and name the
function that makes them in FRAMEWORKS.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol

from ..adk_sessions import AdkSessions
from ..agent_sessions import ClaudeSessions, OpenAISessions, PydanticConversations
from ..bench import Bench
from ..database_size import postgres_bytes, sqlite_bytes
from ..fork_bytes import BYTES
from ..langgraph_threads import Threads
from ..rows import MILLISECONDS, RATE, Goal, Row, Unit
from ..timing import Stats, Task, measure, of_values

LENGTH_MAX = 10_000
# Their savers write megabytes at each append to a long conversation.
RUNS_MAX, RUNS_MIN = 16, 2
# A database grows by pages, and the database of Refold grows by less than a page at an append.
BYTES_APPENDS = {"ours": 64, "raw": 4}
NEVER_SLOWER = Goal(1.2)


class Keeper(Protocol):
    """A store of a framework with conversations, each with a name."""

    def open(self) -> None:
        """Open the database."""

    def close(self) -> None:
        """Close it."""

    def begin(self, name: str, count: int) -> None:
        """Save a conversation that has so many messages already."""

    def append(self, name: str) -> None:
        """Add the next message to a conversation that was begun or loaded."""

    def load(self, name: str) -> int:
        """Read a conversation, and return the number of its messages."""

    def fork(self, name: str) -> None:
        """Go on from the state before the last one, with another message."""


class Contest(Protocol):
    """A function that makes the keepers of a framework."""

    def __call__(self, location: str, *, is_ours: bool) -> Keeper:
        """
        Return the keeper over Refold, or the framework's own.

        Raises:
            ModuleNotFoundError: it is not installed.
        """


class MissingFrameworkError(Exception):
    """No framework is installed."""


FRAMEWORKS: dict[str, Contest] = {
    "ADK": AdkSessions,
    "Claude": ClaudeSessions,
    "LangGraph": Threads,
    "LangGraph, compare_last=64": partial(Threads, compare_last=64),
    "OpenAI": OpenAISessions,
    "Pydantic AI": PydanticConversations,
}
# Frameworks that can go on from an earlier state of a conversation.
FORKING = frozenset({"ADK", "LangGraph", "LangGraph, compare_last=64", "Pydantic AI"})
# Frameworks whose own store is in memory only: there is no goal, and no bytes to compare.
IN_MEMORY = frozenset({"Claude", "Pydantic AI"})
# Multiples of the framework's own time and bytes for an append to a conversation of LENGTH_MAX.
APPEND_GOALS: Mapping[str, tuple[Goal, Goal]] = {
    "ADK": (Goal(0.1), NEVER_SLOWER),
    "LangGraph": (Goal(0.01), Goal(0.001)),
    "LangGraph, compare_last=64": (Goal(0.01), Goal(0.001)),
    "OpenAI": (Goal(1 / 1.3), NEVER_SLOWER),
}


def frameworks(bench: Bench, database: str) -> Iterator[Row]:
    """
    Append to conversations of all lengths, save, load and fork them, and append with several threads.

    Raises:
        MissingFrameworkError: no framework is installed.
    """
    missing: list[str] = []
    for name, contest in FRAMEWORKS.items():
        try:
            with ExitStack() as stack:
                yield from _rows(_Contest(name, stack, bench, database, contest))
        except ModuleNotFoundError as error:
            missing.append(name)
            print(f"{name} is left out: {error}", file=sys.stderr)
    if len(missing) == len(FRAMEWORKS):
        raise MissingFrameworkError("no framework is installed")


class _Contest:
    """Both keepers of a framework, each over a database of its own."""

    def __init__(self, name: str, stack: ExitStack, bench: Bench, database: str, contest: Contest) -> None:
        self.name, self.bench, self.database = name, bench, database
        self.databases = ("ours",) if name in IN_MEMORY else ("ours", "raw")
        self.locations = {name: stack.enter_context(bench.location(database)) for name in ("ours", "raw")}
        self.keepers = {name: contest(self.locations[name], is_ours=name == "ours") for name in self.locations}
        for keeper in self.keepers.values():
            keeper.open()
            stack.callback(keeper.close)

    def measured(self, task: Callable[[Keeper], Task]) -> dict[str, Stats]:
        """Measure a task of both keepers in turn."""
        tasks = {name: task(keeper) for name, keeper in self.keepers.items()}
        return measure(tasks, blocks=self.bench.scale.blocks, openings=self.bench.scale.openings)

    def bytes_of_appends(self, name: str) -> dict[str, Stats]:
        """Return the bytes by which each database grows with an append."""
        grown: dict[str, Stats] = {}
        for who in self.databases:
            keeper = self.keepers[who]
            keeper.close()
            before = self._size(who)
            keeper.open()
            keeper.load(name)
            for _ in range(BYTES_APPENDS[who]):
                keeper.append(name)
            keeper.close()
            # The file may have had space for everything.
            grown[who] = of_values(max(1, self._size(who) - before) / BYTES_APPENDS[who])
            keeper.open()
        return grown

    def row(self, what: str, unit: Unit, stats: dict[str, Stats], goal: Goal = NEVER_SLOWER) -> Row:
        """Return what was measured as a row."""
        label = f"{self.name}: {what}"
        return Row(label, self.database, unit, stats, None if self.name in IN_MEMORY else goal)

    def _size(self, who: str) -> int:
        place = self.locations[who]
        return postgres_bytes(place) if "://" in place else sqlite_bytes(Path(place))


def _rows(contest: _Contest) -> Iterator[Row]:
    scale = contest.bench.scale
    for length in [length for length in scale.lengths if length <= LENGTH_MAX]:
        name, at = f"long-{length}", f"at N = {length:,}"
        runs = max(RUNS_MIN, min(RUNS_MAX, LENGTH_MAX // length))
        names = (f"new-{length}-{number}" for number in itertools.count())
        stats = contest.measured(partial(_begin, names=names, length=length))
        yield contest.row(f"save {length:,} messages at once", MILLISECONDS, stats)
        for keeper in contest.keepers.values():
            keeper.begin(name, length)
        goals = APPEND_GOALS.get(contest.name, ()) if length == LENGTH_MAX else ()
        time_goal, size_goal = goals or (NEVER_SLOWER, NEVER_SLOWER)
        stats = contest.measured(partial(_append, name=name, runs=runs))
        yield contest.row(f"append {at}", MILLISECONDS, stats, time_goal)
        stats = contest.measured(partial(_load, name=name))
        yield contest.row(f"load {at}, newly opened", MILLISECONDS, stats)
        if contest.name in FORKING:
            stats = contest.measured(partial(_fork, name=name, runs=RUNS_MIN))
            yield contest.row(f"fork {at}", MILLISECONDS, stats)
        grown = contest.bytes_of_appends(name)
        yield contest.row(f"bytes of an append {at}", BYTES, grown, size_goal)
    stats = contest.measured(partial(_write, writers=scale.writers, appends=scale.writer_appends))
    yield contest.row(f"{scale.writers} threads, appends", RATE, stats, Goal(1 / 1.2, at_least=True))


def _reopen(keeper: Keeper) -> None:
    keeper.close()
    keeper.open()


def _begin(keeper: Keeper, names: Iterator[str], length: int) -> Task:
    return Task(run=lambda name: keeper.begin(name, length), prepare=lambda: next(names))


def _append(keeper: Keeper, name: str, runs: int) -> Task:
    def open_again() -> None:
        _reopen(keeper)
        keeper.load(name)

    return Task(run=lambda _: keeper.append(name), reopen=open_again, runs=runs)


def _load(keeper: Keeper, name: str) -> Task:
    again = partial(_reopen, keeper)
    return Task(run=lambda _: keeper.load(name), reopen=again, start_block=again)


def _fork(keeper: Keeper, name: str, runs: int) -> Task:
    def open_again() -> None:
        _reopen(keeper)
        keeper.load(name)

    return Task(run=lambda _: keeper.fork(name), reopen=open_again, runs=runs)


def _write(keeper: Keeper, writers: int, appends: int) -> Task:
    def work(_: object) -> None:
        def write(name: str) -> None:
            for _ in range(appends):
                keeper.append(name)

        threads = [threading.Thread(target=write, args=(f"writer-{number}",)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def begin() -> None:
        for number in range(writers):
            keeper.begin(f"writer-{number}", 1)

    return Task(run=work, reopen=begin, per=writers * appends)
