"""
Each event once on PostgreSQL, whatever dies: `python -m tests.crash.once --events 1000000 [--kills N] [--seed N]`.

Sixteen writers in four processes append to streams of their own and to shared ones; two processes subscribe. They and
the server itself are killed with -9 at random and started again, while transactions of others are held open: with an id
and an old snapshot, and with the lock of a slice. Then every acknowledged event must be there, none twice, and each
subscriber must have been given each event once, in the order of its slice.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psycopg

import refold
from refold.domain.errors import StorageError
from refold.domain.positions import BEGINNING, Moment

from ..support.postgres import Server, running_server
from .checking import whole_lines
from .follow import PATIENCE_SECONDS, ROLE, count, end, lines
from .roles import ACKNOWLEDGED

CREW = (*["writers"] * 4, *["subscriber"] * 2)
PAUSE_SECONDS = (0.1, 0.6)
HELD_SECONDS = 0.5
# Of the kills, those of the server.
SERVER_SHARE = 0.2
PAGE = 2_048
HELD = (
    "SELECT pg_current_xact_id(), count(*) FROM event",
    "SELECT pg_current_xact_id() FROM slice_lock WHERE slice = (SELECT min(slice) FROM event) FOR UPDATE",
)


class Outcome(NamedTuple):
    """How many events there are, how many of them were acknowledged, and how often what was killed."""

    events: int
    acknowledged: int
    kills: Counter[str]


def experiment(server: Server, url: str, folder: Path, *, events: int, kills: int, seed: int) -> Outcome:
    """Have so many events written, and kill so often; then wait for the subscribers, and check what they were given."""
    chance, killed, over = random.Random(seed), Counter[str](), threading.Event()
    folders = [folder / str(number) for number in range(len(CREW))]
    for one in folders:
        one.mkdir()
    refold.open(url).close()
    crew = [ROLE.start(role, url, str(folders[place]), f"{seed}-{place}")
            for place, role in enumerate(CREW)]  # fmt: skip
    holder = threading.Thread(target=hold, args=(url, over))
    holder.start()
    try:
        for member in crew:
            assert member.stdout.readline() == "ready\n"
        while killed.total() < kills or written(url) < events:
            time.sleep(chance.uniform(*PAUSE_SECONDS))
            if killed.total() >= kills:
                continue
            # Each role once, and the server; then whom chance hits.
            place = {0: 0, 1: len(CREW) - 1}.get(killed.total(), chance.randrange(len(CREW)))
            if killed.total() == 2 or (killed.total() > 2 and chance.random() < SERVER_SHARE):
                crash(server)
                killed["server"] += 1
                continue
            assert crew[place].poll() is None, f"one of the {CREW[place]} ended by itself"
            end(crew[place])
            killed[CREW[place]] += 1
            name = f"{seed}-{place}-{killed.total()}"
            crew[place] = ROLE.start(CREW[place], url, str(folders[place]), name)
        for member, role in zip(crew, CREW, strict=True):
            if role == "writers":
                end(member)
        over.set()
        holder.join()
        wait_for_subscribers(
            written(url), [one for one, role in zip(folders, CREW, strict=True) if role == "subscriber"]
        )
    finally:
        over.set()
        holder.join()
        for member in crew:
            end(member)
    return check(url, folders, killed)


def hold(url: str, over: threading.Event) -> None:
    """Hold transactions open, one after the other, that are in the way of all who look at ids or wait for a lock."""
    while not over.is_set():
        for statement in HELD:
            with suppress(psycopg.Error), psycopg.connect(url) as connection:
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                connection.execute(statement.encode())
                over.wait(HELD_SECONDS)


def crash(server: Server) -> None:
    """Kill the server's first process with -9, whose others end by themselves then, and start it again."""
    os.kill(int((server.data / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            server.start()
            return
        except RuntimeError:
            # The memory that they share is in use until the last of them has ended.
            assert time.monotonic() < deadline, "the server did not start again"
            time.sleep(0.1)


def written(url: str) -> int:
    """Return how many events there are."""
    while True:
        with suppress(StorageError), refold.open(url) as store:
            return count(store.now())


def given(folder: Path) -> Iterator[tuple[int, int]]:
    """Yield the slice and the number of each event that a subscriber was given, in the order in which it was."""
    for line in lines(folder):
        yield Moment.parse(line.split()[0]).heads[0]


def wait_for_subscribers(events: int, folders: list[Path]) -> None:
    """Wait until all is seen; who comes no further for PATIENCE_SECONDS is stuck."""
    reached, since = -1, time.monotonic()
    while min(done := [len(lines(one)) for one in folders]) < events:
        if sum(done) != reached:
            reached, since = sum(done), time.monotonic()
        assert time.monotonic() - since < PATIENCE_SECONDS, f"{done} of {events} events were given, and no more came"
        time.sleep(0.2)


def check(url: str, folders: list[Path], kills: Counter[str]) -> Outcome:
    """Require that nothing is missing and nothing is there twice."""
    ids, ends, versions, moment = set[str](), Counter[int](), Counter[str](), BEGINNING
    with refold.open(url) as store:
        while (page := store.log.read_all(after=moment, limit=PAGE)).events:
            moment = page.moment
            for event in page.events:
                ends[event.position.slice] += 1
                versions[event.stream] += 1
                assert event.position.number == ends[event.position.slice], "a position is missing, or there twice"
                assert event.version == versions[event.stream], "a version is missing, or there twice"
                ids.add(getattr(event.event, "id", ""))
    assert len(ids) == ends.total(), "an event was recorded twice"
    acknowledged = 0
    for folder, role in zip(folders, CREW, strict=True):
        if role == "writers":
            names = {line for path in folder.glob(f"{ACKNOWLEDGED}*") for line in whole_lines(path)}
            assert names <= ids, f"acknowledged, and not there: {sorted(names - ids)[:3]}"
            acknowledged += len(names)
            continue
        seen = Counter[int]()
        for number, place in given(folder):
            seen[number] += 1
            assert place == seen[number], f"the subscriber was given {number}.{place} after {number}.{seen[number] - 1}"
        assert seen == ends, "the subscriber was not given all events"
    return Outcome(ends.total(), acknowledged, kills)


@contextmanager
def server_of_its_own() -> Iterator[tuple[Server, str]]:
    """Start a server that may be killed, and yield it with the URL of an empty database."""
    with running_server(durable=False) as server, server.database() as url:
        yield server, url


def main() -> None:
    """Try it; a broken promise ends it with its seed."""
    parser = argparse.ArgumentParser(prog="tests.crash.once", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed} (--seed {options.seed} draws the same victims again)", flush=True)
    with tempfile.TemporaryDirectory(prefix="refold-once-") as folder, server_of_its_own() as (server, url):
        try:
            found = experiment(server, url, Path(folder), events=options.events, kills=options.kills, seed=options.seed)
        except AssertionError as error:
            sys.exit(f"seed {options.seed}: {error}")
    killed = ", ".join(f"{number} {name}" for name, number in sorted(found.kills.items()))
    print(f"{found.events:,} events ({found.acknowledged:,} acknowledged), killed: {killed}; none missed, none twice")


if __name__ == "__main__":
    main()
