"""The memory of a process that reads a store behind an erasure: the text is nowhere in it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.stores import start_python
from tests.trust.stores import WORD, Place, places
from tests.trust.test_erasing import fill_with_word

WRITABLE = "rw"
CHUNK = 1 << 24


@pytest.fixture(params=["sqlite", "postgres", "sealed"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """The place of a store in a database, which a process of its own can read."""
    yield from places(request, tmp_path)


def remembered_by_reader(place: Place, word: str = WORD) -> int:
    """Return how often a word is in the memory of a fresh process that has read all of a store."""
    key = bytes(range(32)).hex() if place.is_sealed else ""
    with start_python("tests.trust.fresh_reader", place.location, key, stdin=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        events, items, found, problems = map(int, reader.stdout.readline().split())
        assert (events > 100, items, found > 0, problems) == (True, 2, place_has_questions(place), 0)
        return count_in_memory(reader.pid, word.encode())


def place_has_questions(place: Place) -> bool:
    """Return whether the texts with which a store was filled are there."""
    with place.open() as store:
        return bool(store.search("question"))


def count_in_memory(process: int, word: bytes) -> int:
    """Return how often bytes are in the memory that a process may write to."""
    count = 0
    maps = Path(f"/proc/{process}/maps").read_text().splitlines()
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
        for line in maps:
            bounds, rights, *_ = line.split()
            if not rights.startswith(WRITABLE):
                continue
            start, end = (int(bound, 16) for bound in bounds.split("-"))
            before = b""
            for at in range(start, end, CHUNK):
                try:
                    memory.seek(at)
                    read = memory.read(min(CHUNK, end - at))
                except (OSError, ValueError, OverflowError):
                    # Pages of the kernel's own, as [vvar].
                    break
                count += (before + read).count(word)
                before = read[1 - len(word) :]
    return count


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="only Linux shows the memory of a process")
def test_a_fresh_reader_remembers_nothing(place: Place) -> None:
    """Before the erasure the same look finds the word, and behind it another word that stayed."""
    with place.open() as store:
        fill_with_word(store)
    assert remembered_by_reader(place) > 0

    with place.open() as store:
        store.erase(user="mia", why="ticket 7", dry_run=False)

    assert remembered_by_reader(place) == 0
    assert remembered_by_reader(place, "nothing of it") > 0
