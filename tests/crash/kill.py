"""
Kills writers and looks at what they leave: `python -m tests.crash.kill --times 200 [--url URL] [--seed N]`.

Each time a process writes with several threads and is killed with -9 at a random moment. The log is opened
again: everything acknowledged is there, batches are whole, versions and positions have no holes, digests chain,
and the next append works. Several writers in turn leave their events in the same log.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from refold.domain.chat.events import MessageAdded
from refold.domain.envelope import RecordedEvent
from refold.domain.ports import LiveLog

from ..contract.stores import log_at, start_python
from ..contract.writing import append, check_chain, check_order, everything, said

KILLS_OF_ONE_LOG = 5
STARTED_SECONDS_MAX = 60
ITEM_ID = re.compile(r"(?P<batch>.+)/(?P<place>\d+)/(?P<size>\d+)")


class Found(NamedTuple):
    """What was in the log after a kill, and how much of it had been acknowledged."""

    events: int
    acknowledged: int


def kill_once(place: str, folder: Path, seed: int) -> Found:
    """
    Start a writer, kill it at a moment that the seed decides, and check what it left.
    """
    chance = random.Random(seed)
    # A file for each: what one leaves half written must not run into what the next one writes.
    acknowledged = folder / f"{seed}.acknowledged"
    writer = start_python("tests.crash.writer", place, str(acknowledged), str(seed))
    try:
        assert writer.stdout is not None
        # Now and then already while it starts, when a new file gets its tables.
        if chance.random() < 0.8:
            first = writer.stdout.readline()
            assert first == "writing\n", "the writer failed before it was killed"
        time.sleep(chance.uniform(0, 0.8))
        assert writer.poll() is None, "the writer ended by itself"
    finally:
        writer.kill()
        writer.communicate()
    return check(place, folder)


def check(place: str, folder: Path) -> Found:
    """
    Open the log again and require that everything promised is kept.
    """
    log = log_at(place)
    try:
        events = everything(log)
        promised = [item for path in sorted(folder.glob("*.acknowledged")) for item in read_acknowledged(path)]
        check_streams(log, events)
        check_batches(events)
        kept = Counter(recorded.event.id for recorded in events if isinstance(recorded.event, MessageAdded))
        assert [item for item in promised if kept[item] != 1] == [], "acknowledged, and not there once"
        before = log.head("chat:after")
        assert append(log, "chat:after", said(before), expected=before, root="crash").events[0].version == before + 1
    finally:
        log.close()
    return Found(len(events), len(promised))


def read_acknowledged(path: Path) -> list[str]:
    """
    Return the ids that were acknowledged; a last line that was cut off counts for nothing.
    """
    whole = path.read_text().rpartition("\n")[0]
    return [item for line in whole.splitlines() for item in json.loads(line)]


def check_streams(log: LiveLog, events: list[RecordedEvent]) -> None:
    """
    Require that the log and each of its streams are whole.
    """
    check_order(events)
    numbers: dict[int, list[int]] = {}
    for recorded in events:
        numbers.setdefault(recorded.position.slice, []).append(recorded.position.number)
    for found in numbers.values():
        assert sorted(found) == list(range(1, len(found) + 1)), "a position is missing"
    for stream in {recorded.stream for recorded in events}:
        recorded_there = log.read(stream)
        check_chain(recorded_there)
        assert recorded_there == [recorded for recorded in events if recorded.stream == stream]


def check_batches(events: list[RecordedEvent]) -> None:
    """
    Require that of each batch all items are there, or none.
    """
    sizes: dict[str, int] = {}
    there: Counter[str] = Counter()
    for recorded in events:
        found = ITEM_ID.fullmatch(getattr(recorded.event, "id", ""))
        if found:
            there[found["batch"]] += 1
            sizes[found["batch"]] = int(found["size"])
    assert {batch: count for batch, count in there.items() if count != sizes[batch]} == {}, "half a batch"


@contextmanager
def places(url: str | None) -> Iterator[Path]:
    """
    Make a folder for the files of a few kills.
    """
    with tempfile.TemporaryDirectory(prefix="refold-crash-") as folder:
        yield Path(folder)


def kill_often(times: int, *, seed: int, url: str | None = None) -> Iterator[tuple[int, Found]]:
    """
    Kill `times` writers, several in each log, and yield the seed of each and what it left.

    With `url` all of them write to that database, which is taken as it is.
    """
    for start in range(0, times, times if url else KILLS_OF_ONE_LOG):
        with places(url) as folder:
            place = url or str(folder / "log.db")
            stop = times if url else min(times, start + KILLS_OF_ONE_LOG)
            for number in range(start, stop):
                yield seed + number, kill_once(place, folder, seed + number)


def main() -> None:
    """
    Kill writers and print what each left; the first broken promise ends the run with its seed.
    """
    parser = argparse.ArgumentParser(prog="tests.crash.kill", description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--url", help="a PostgreSQL database to be written to; otherwise new SQLite files")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seeds from {options.seed} on (--seed {options.seed} runs them again)")
    seed = options.seed
    try:
        for seed, found in kill_often(options.times, seed=options.seed, url=options.url):
            print(f"seed {seed}: {found.events} events, {found.acknowledged} acknowledged, all kept", flush=True)
            seed += 1
    except AssertionError as error:
        sys.exit(f"seed {seed}: {error}")


if __name__ == "__main__":
    main()
