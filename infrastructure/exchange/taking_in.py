"""
Taking a file of Refold's own form into a store: every stream with its past, under its own name.

What is there already and is the same is left alone, so a file can be taken in again, and goes on where it stopped.
The log gives positions and times of its own; who did what, why, and under which key comes along.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import groupby, islice
from pathlib import Path

import msgspec

from ...domain.log.ports import LiveLog, NewEvents
from .checking import checked_file
from .reading import ReadLine, event_lines

BATCH_EVENTS = 1_000
Progress = Callable[[int, int], None]


class TakenIn(msgspec.Struct, frozen=True, kw_only=True):
    """How many streams were new, had grown, or were there already, and how many events were written."""

    added: int = 0
    extended: int = 0
    unchanged: int = 0
    events: int = 0


def take_in_events(log: LiveLog, path: str | os.PathLike[str], *, progress: Progress | None = None) -> TakenIn:
    """
    Take the events of a file in. The whole file is looked at before anything is written.

    `progress` is called with the streams done so far and their number.

    Raises:
        InvalidInputError: it is no such file, it is cut off or of a newer form, it names what is nowhere, or a context
            of the store has another past than the file says: nothing was written.
        ConcurrencyError, StorageError: the streams before the one it happened at are written; do it again.
    """
    file = Path(path)
    count = checked_file(file, log)
    done = TakenIn()
    for number, (stream, read) in enumerate(groupby(event_lines(file), key=lambda one: one.line.stream), 1):
        head = log.head(stream)
        # Versions count from 1, without holes.
        written = _append(log, stream, islice(read, head, None), head)
        done = _counted(done, head, written)
        if progress is not None:
            progress(number, count)
    return done


def _counted(done: TakenIn, head: int, written: int) -> TakenIn:
    outcome = "added" if not head else "extended" if written else "unchanged"
    counted = {outcome: getattr(done, outcome) + 1, "events": done.events + written}
    return msgspec.structs.replace(done, **counted)


def _append(log: LiveLog, stream: str, read: Iterable[ReadLine], head: int) -> int:
    """Append events, those that were recorded under one idempotency key together and under it again."""
    written = 0
    for key, group in groupby(read, key=lambda one: one.line.meta.idempotency_key):
        # What has a key is one call's, which is not to be parted.
        while batch := list(islice(group, BATCH_EVENTS if key is None else None)):
            new = NewEvents(
                stream=stream,
                expected_version=head + written,
                events=tuple(one.event for one in batch),
                metas=tuple(one.line.meta for one in batch),
                root=batch[0].line.root,
                idempotency_key=key,
            )
            log.append([new]).result()
            written += len(batch)
    return written
