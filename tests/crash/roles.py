"""
Those that are killed while they follow and are followed.

A `writer` appends until it is killed, alone and in batches, to streams of its own and to such that all write to;
`writers` are four in one process that do not pause, and write down what was acknowledged. A
`worker` keeps three projections up to date. The `subscriber` writes down each event that it is given, and where it
stands then: so the next one can go on there.
"""

import hashlib
import itertools
import os
import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.errors import StorageError
from refold.domain.log.envelope import RecordedEvent
from refold.domain.log.ports import LiveLog
from refold.domain.positions import Moment

from ..contract.stores import log_at
from ..contract.writing import new

ROOTS = 4
PAUSE_SECONDS_MAX = 0.08
SEEN = "seen"
ACKNOWLEDGED = "acknowledged-"
THREADS = 4


class TallyRow(msgspec.Struct, frozen=True):
    """How many events a stream has, and a digest of them in their order."""

    key: str
    events: int
    digest: str


class Tally:
    """A projection of one's own, to which nothing may come twice, late or not at all."""

    name, version, row = "tally", 1, TallyRow

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the stream."""
        return (event.stream,)

    def evolve(self, key: str, row: TallyRow | None, event: RecordedEvent) -> TallyRow:
        """Count one more."""
        before = row or TallyRow(key, 0, "")
        digest = hashlib.blake2b(before.digest.encode() + event.digest, digest_size=8).hexdigest()
        return TallyRow(key, before.events + 1, digest)


PROJECTIONS = ("catalogue", "search", "tally")


def write(place: str, folder: Path, seed: str) -> None:
    """Append until killed."""
    chance, log = random.Random(seed), log_at(place)
    print("ready", flush=True)
    for number in itertools.count():
        root = f"r{chance.randrange(ROOTS)}"
        names = chance.choice([[seed], ["all"], ["left", "right"]])
        batch = [new(f"chat:{name}-{root}", *said(f"{seed}.{number}", chance), root=root) for name in names]
        log.append(batch).result()
        time.sleep(chance.uniform(0, PAUSE_SECONDS_MAX))


def said(name: str, chance: random.Random, sizes: Sequence[int] = (1, 1, 1, 4, 16)) -> list[MessageAdded]:
    """Return one message or a few."""
    size = chance.choice(sizes)
    text = "so it goes " * chance.choice([1, 1, 30])
    return [MessageAdded(id=f"{name}.{part}", created_at=1.0, role="user", content=text + name) for part in range(size)]


def write_much(place: str, folder: Path, seed: str) -> None:
    """Append from several threads, each with connections of its own, until killed; go on when the server is back."""
    threads = [
        threading.Thread(target=_write_much, args=(place, folder, f"{seed}-{number}"), daemon=True)
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()


def _write_much(place: str, folder: Path, seed: str) -> None:
    chance = random.Random(seed)
    log: LiveLog | None = None
    book = os.open(folder / f"{ACKNOWLEDGED}{seed}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in itertools.count():
        root = f"r{chance.randrange(ROOTS)}"
        names = chance.choice([[seed], [seed, "all"], ["left", "right"]])
        events = {name: said(f"{seed}.{number}.{name}", chance, (1, 4, 16, 64)) for name in names}
        batch = [new(f"chat:{name}-{root}", *some, root=root) for name, some in events.items()]
        try:
            log = log or log_at(place)
            log.append(batch).result()
        except StorageError:
            # It may be recorded, or not; nobody was told that it is.
            time.sleep(PAUSE_SECONDS_MAX)
            continue
        os.write(book, "".join(f"{event.id}\n" for some in events.values() for event in some).encode())


def work(place: str, folder: Path, seed: str) -> None:
    """Keep the projections up to date until killed."""
    with refold.open(place) as store:
        store.add_projection(Tally())
        print("ready", flush=True)
        store.run_projections(threading.Event(), PROJECTIONS)


def subscribe(place: str, folder: Path, seed: str) -> None:
    """Write down what comes until killed, from where the last one stood."""
    path = folder / SEEN
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    path.write_text(whole + "\n" * bool(whole))
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    stood = Moment.parse(whole.rpartition("\n")[2].split()[1]) if whole else None
    print("ready", flush=True)
    while True:
        # The server may be killed, too.
        with suppress(StorageError), refold.open(place) as store, store.subscribe(after=stood) as events:
            for event in events:
                os.write(file, f"{event.position} {events.moment}\n".encode())
                stood = events.moment
        time.sleep(PAUSE_SECONDS_MAX)


ROLES = {"writer": write, "writers": write_much, "worker": work, "subscriber": subscribe}


def main(role: str, place: str, folder: str, seed: str) -> None:
    """Play a role until killed."""
    ROLES[role](place, Path(folder), seed)
