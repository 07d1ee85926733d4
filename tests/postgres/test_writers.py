"""Sixteen writers on a few slices, and readers at their heels: nothing is missed, nothing seen twice (P9)."""

import threading
import time

from refold.domain.log.envelope import RecordedEvent
from refold.domain.positions import BEGINNING
from refold.infrastructure.log.postgres.log import PostgresLog
from tests.contract.writing import at_once, check_chain, check_order, new, said

from .conftest import OpenLog

WRITERS, APPENDS, SLICES = 16, 25, 3


def write(log: PostgresLog, writer: int) -> None:
    """Append to a stream of one's own, to a shared one, and now and then to several slices at once."""
    for number in range(APPENDS):
        name = writer * 1_000 + number
        parts = [new(f"chat:own{writer}", said(name), root=f"r{writer % SLICES}")]
        if number % 3 == 0:
            parts.append(new(f"chat:shared{number % SLICES}", said(name), root=f"r{number % SLICES}"))
        log.append(parts).result()


def tail(log: PostgresLog, seen: list[RecordedEvent], ended: threading.Event) -> None:
    """Read behind the writers until they have ended and nothing is left."""
    moment, is_over = BEGINNING, False
    while not is_over:
        is_over = ended.is_set()
        while page := log.read_all(after=moment, limit=37):
            if not page.events:
                break
            seen += page.events
            moment = page.moment
        log.wait_for_news(moment, timeout_seconds=0.05)
    assert moment == log.now()


def test_a_reader_at_the_heels_of_writers(open_log: OpenLog) -> None:
    """Four processes of four writers each; two readers see every event once, in order."""
    logs = [open_log() for _ in range(4)]
    seen: tuple[list[RecordedEvent], list[RecordedEvent]] = ([], [])
    ended = threading.Event()
    readers = [threading.Thread(target=tail, args=(open_log(), one, ended)) for one in seen]
    for reader in readers:
        reader.start()

    raised = at_once(*(lambda writer=writer: write(logs[writer % 4], writer) for writer in range(WRITERS)))
    ended.set()
    for reader in readers:
        reader.join(60)

    assert raised == []
    for one in seen:
        check_order(one)
        assert len(one) == WRITERS * (APPENDS + len(range(0, APPENDS, 3)))
        assert len({event.position for event in one}) == len(one)
    for stream in {event.stream for event in seen[0]}:
        check_chain([event for event in seen[0] if event.stream == stream])


def test_news_of_another_process(open_log: OpenLog) -> None:
    """A follower wakes soon after another process wrote, and at once after his own did."""
    follower, writer = open_log(), open_log()
    began = time.monotonic()
    threading.Timer(0.2, lambda: writer.append([new("chat:a", said(1))]).result()).start()

    follower.wait_for_news(BEGINNING, timeout_seconds=30)

    assert 0.15 < time.monotonic() - began < 10
    assert len(follower.read_all(after=BEGINNING, limit=10).events) == 1
