"""Files to be read and written, where what goes wrong is said in Refold's own words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ...domain.errors import InvalidInputError
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog
from ...domain.positions import BEGINNING, Moment
from ..files import replacing


def pages_up_to_now(log: LiveLog, *, limit: int, after: Moment = BEGINNING) -> Iterator[list[RecordedEvent]]:
    """
    Yield the events behind a moment that there are now, in the order of the log, up to `limit` at a time.

    Raises:
        DamagedError: an event is missing, or does not match its digest.
    """
    ends = dict(log.now().heads)
    left = sum(max(0, end - after.head(lane)) for lane, end in ends.items())
    while left > 0:
        page = log.read_all(after=after, limit=limit)
        events = [one for one in page.events if one.position.number <= ends.get(one.position.slice, 0)]
        left -= len(events)
        after = page.moment
        yield events


@contextmanager
def reading_file(path: Path) -> Iterator[IO[bytes]]:
    """
    Yield a file to be read.

    Raises:
        InvalidInputError: there is none, or it cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise InvalidInputError(f"there is no file {path}: check the name") from error
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}") from error


@contextmanager
def writing_file(path: Path, log: LiveLog) -> Iterator[IO[bytes]]:
    """
    Yield a file that takes the place of `path` at the end, or not at all.

    Raises:
        InvalidInputError: it cannot be written, or the log that is exported lies there.
    """
    for held in log.files():
        if _is_same_file(path, held):
            raise InvalidInputError(f"{path} is where the database lies, or belongs to it: export into another file")
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror or error}") from error


def _is_same_file(path: Path, other: str) -> bool:
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    # One file may have several names: by hard links, or where case makes no difference.
    return path.exists() and os.path.exists(other) and os.path.samefile(path, other)
