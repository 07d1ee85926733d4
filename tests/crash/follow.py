"""
Kills everybody who writes and follows: `python -m tests.crash.follow --events 100000 [--url URL] [--seed N]`.

Eight processes write, two compete for three projections, and one subscribes. All of them are killed with -9 at random
and started again, until enough was written; this process asks for rows and rebuilds them meanwhile. Then nothing may be
missing and nothing may be there twice: the rows are what one fold of the whole log gives, and the subscriber was given
each event once.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import refold
from refold.domain.positions import Moment
from refold.infrastructure.projecting.folding import fold_page
from refold.infrastructure.projecting.store import MemoryProjectionStore

from ..contract.writing import everything
from ..support.processes import Program, Running
from .checking import check_streams, whole_lines
from .roles import PROJECTIONS, SEEN, Tally

ROLE = Program("tests.crash.roles")
WRITERS, WORKERS = 8, 2
CREW = (*["writer"] * WRITERS, *["worker"] * WORKERS, "subscriber")
ONE_OF_EACH = tuple(CREW.index(role) for role in dict.fromkeys(CREW))
PAUSE_SECONDS = (0.05, 0.4)
REBUILT_SHARE = 0.1
# How long those that follow may stand still before they count as stuck.
PATIENCE_SECONDS = 60.0


class Followed(NamedTuple):
    """How many events were written, and how often somebody was killed."""

    events: int
    kills: int


class Crew:
    """The processes at work; each is replaced by another one of its role when it is killed."""

    def __init__(self, place: str, folder: Path, seed: int) -> None:
        self._place, self._folder, self._seed = place, folder, seed
        self._started = 0
        self.members = [self._start(role) for role in CREW]

    def _start(self, role: str) -> Running:
        self._started += 1
        name = f"{self._seed}-{self._started}"
        return ROLE.start(role, self._place, str(self._folder), name)

    def wait_until_ready(self) -> None:
        """Wait until all have begun."""
        for role, member in zip(CREW, self.members, strict=True):
            assert member.stdout.readline() == "ready\n", f"a {role} failed before it was killed"

    def kill(self, number: int, *, replace: bool = True) -> None:
        """Kill one of them, who must still be at work; another one takes its place."""
        member = self.members[number]
        assert member.poll() is None, f"a {CREW[number]} ended by itself"
        end(member)
        if replace:
            self.members[number] = self._start(CREW[number])

    def dismiss(self) -> None:
        """Kill all that are left."""
        for member in self.members:
            end(member)


def end(member: Running) -> None:
    """Kill a process with -9; it may be dead already."""
    member.kill()
    member.wait()
    member.stdout.close()


def follow(place: str, folder: Path, *, events: int, kills: int, seed: int) -> Followed:
    """Let the crew work until so many events were written and so many members killed; then check what it did."""
    chance = random.Random(seed)
    with refold.open(place) as store:
        store.add_projection(Tally())
        crew = Crew(place, folder, seed)
        killed = 0
        try:
            crew.wait_until_ready()
            while count(store.now()) < events or killed < kills:
                time.sleep(chance.uniform(*PAUSE_SECONDS))
                # Each role once, then whom chance hits: so that few kills are a trial too.
                crew.kill(ONE_OF_EACH[killed] if killed < len(ONE_OF_EACH) else chance.randrange(len(CREW)))
                killed += 1
                meddle(store, chance)
            for number in range(WRITERS):
                crew.kill(number, replace=False)
            wait_until_all_is_seen(store, folder)
            assert all(member.poll() is None for member in crew.members[WRITERS:]), "one that follows ended by itself"
        finally:
            crew.dismiss()
        return Followed(check(store, folder), killed + WRITERS)


def meddle(store: refold.Store, chance: random.Random) -> None:
    """Do what users do meanwhile: ask for rows, which brings them up to date beside the workers, and rebuild."""
    name = chance.choice(PROJECTIONS)
    if chance.random() < REBUILT_SHARE:
        assert store.rebuild(name, restart=True).is_done, f"{name} could not be rebuilt"
    else:
        store.rows(name, under="chat:all-")


def wait_until_all_is_seen(store: refold.Store, folder: Path) -> None:
    """Wait for those that follow; who comes no further for PATIENCE_SECONDS is stuck."""
    written, reached, since = count(store.now()), -1, time.monotonic()
    while True:
        done = [seen_by(store, name) for name in PROJECTIONS] + [len(lines(folder))]
        if min(done) >= written:
            return
        if sum(done) != reached:
            reached, since = sum(done), time.monotonic()
        assert time.monotonic() - since < PATIENCE_SECONDS, f"{done} of {written} events were seen, and no more came"
        time.sleep(0.1)


def seen_by(store: refold.Store, name: str) -> int:
    """Return how many events a projection has seen; it is not brought further by that."""
    return count(store._projections.checkpoint(store._runner.projections[name]))


def lines(folder: Path) -> list[str]:
    """Return what the subscriber wrote down, but for a line that is not whole yet."""
    return whole_lines(folder / SEEN)


def check(store: refold.Store, folder: Path) -> int:
    """Require that nothing is missing and nothing is there twice, and return how many events there are."""
    events = everything(store.log)
    check_streams(store.log, events)
    for name in PROJECTIONS:
        projection = store._runner.projections[name]
        folded = fold_page(projection, events, MemoryProjectionStore())
        rows = {row.key: row for row in store._projections.rows(projection)}
        assert rows == folded, f"the rows of {name} are not what the log gives"
    given = [line.split()[0] for line in lines(folder)]
    assert len(given) == len(set(given)), "the subscriber was given an event twice"
    assert set(given) == {str(event.position) for event in events}, "the subscriber missed an event"
    places = [Moment.parse(position).heads[0] for position in given]
    for lane in {lane for lane, _ in places}:
        numbers = [number for slice_number, number in places if slice_number == lane]
        assert numbers == sorted(numbers), "the subscriber was given events in another order"
    return len(events)


def count(moment: Moment) -> int:
    """Return how many events lie before a moment."""
    return sum(number for _, number in moment.heads)


def main() -> None:
    """Follow and kill; a broken promise ends it with its seed."""
    parser = argparse.ArgumentParser(prog="tests.crash.follow", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--url", help="a PostgreSQL database to be written to; otherwise a new SQLite file")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed} (--seed {options.seed} draws the same victims again)", flush=True)
    with tempfile.TemporaryDirectory(prefix="refold-crash-") as folder:
        place = options.url or f"{folder}/log.db"
        try:
            found = follow(place, Path(folder), events=options.events, kills=100, seed=options.seed)
        except AssertionError as error:
            sys.exit(f"seed {options.seed}: {error}")
    print(f"{found.events} events, {found.kills} killed: nothing missed, nothing twice")


if __name__ == "__main__":
    main()
