"""A writer in a process of its own: `main(MODE, PLACE, STREAM, WRITER, COUNT)`."""

import json
import time

from refold.domain.chat.events import MessageAdded
from refold.domain.errors import ConcurrencyError
from refold.domain.log.ports import ANY_VERSION, LiveLog

from .stores import log_at
from .writing import append


def write_until_won(log: LiveLog, stream: str, event: MessageAdded) -> None:
    """Append decided on the head, again as long as somebody else is quicker."""
    while True:
        try:
            append(log, stream, event, expected=log.head(stream))
            return
        except ConcurrencyError:
            continue


def begin_streams(log: LiveLog, stream: str, events: list[MessageAdded]) -> None:
    """Begin a new stream with each event, and print the ids of those that were the first in theirs."""
    for number, event in enumerate(events):
        try:
            append(log, f"{stream}{number}", event, expected=0)
            print(event.id, flush=True)
        except ConcurrencyError:
            continue


def write(mode: str, log: LiveLog, stream: str, events: list[MessageAdded]) -> None:
    """Write events one by one; print the id of each, in mode "slow" with the time before it was written."""
    for event in events:
        if mode == "race":
            write_until_won(log, stream, event)
            print(event.id, flush=True)
            continue
        if mode == "slow":
            time.sleep(0.1)
            print(json.dumps([event.id, time.time()]), flush=True)
        append(log, stream, event, expected=ANY_VERSION)


def write_in_bulk(log: LiveLog, stream: str, events: list[MessageAdded]) -> None:
    """Write events twenty at a time."""
    for start in range(0, len(events), 20):
        append(log, stream, *events[start : start + 20], expected=start)


def main(mode: str, place: str, stream: str, writer: str, count: str) -> None:
    """Write `count` messages in one of the modes "race", "slow", "any", "bulk" and "begin"."""
    log = log_at(place)
    events = [
        MessageAdded(id=f"w{writer}-{number}", created_at=1.0, role="user", content=f"hello {number}")
        for number in range(int(count))
    ]
    if mode == "bulk":
        write_in_bulk(log, stream, events)
    elif mode == "begin":
        begin_streams(log, stream, events)
    else:
        write(mode, log, stream, events)
    log.close()
