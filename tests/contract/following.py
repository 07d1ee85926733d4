"""The contract of a log: who follows it misses nothing and sees nothing twice, while others write (P9)."""

import random
import threading
import time

from refold.domain.log.envelope import RecordedEvent
from refold.domain.log.ports import LiveLog
from refold.domain.positions import BEGINNING, Moment

from .stores import Store
from .writing import append, at_once, check_order, everything, new, said

A, B = "chat:a", "chat:b"
WRITERS = 4
EVENTS_EACH = 60
PATIENCE_SECONDS = 40.0


def follow(log: LiveLog, after: Moment, done: threading.Event, seen: list[RecordedEvent]) -> None:
    """Read what comes, by pages and by waiting for news, until the writers are done and nothing is left."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        finished = done.is_set()
        page = log.read_all(after=after, limit=7)
        seen += page.events
        after = page.moment
        if not page.events:
            if finished:
                return
            log.wait_for_news(after, timeout_seconds=0.2)


def write(log: LiveLog, writer: int) -> None:
    """Write to streams of several slices, alone and in batches, also to a stream that all write to."""
    chance = random.Random(writer)
    written = 0
    while written < EVENTS_EACH:
        root = f"r{chance.randrange(3)}"
        size = min(chance.choice([1, 1, 3]), EVENTS_EACH - written)
        events = [said(writer * 1_000 + written + number) for number in range(size)]
        streams = chance.sample([f"chat:{writer}-{root}", f"chat:all-{root}"], 1)
        log.append([new(stream, *events, root=root) for stream in streams]).result()
        written += size


class FollowingContract:
    """What holds for subscribers."""

    def test_nothing_is_missed_and_nothing_seen_twice(self, store: Store) -> None:
        """Followers from the beginning, from the middle and from now on, on handles of their own."""
        log = store.open()
        for number in range(20):
            append(log, A, said(number), root=f"r{number % 3}" if number == 0 else "r0")
        middle, now = log.read_all(after=BEGINNING, limit=10).moment, log.now()
        done, seen = threading.Event(), [list[RecordedEvent]() for _ in range(3)]
        followers = [
            threading.Thread(target=follow, args=(log, after, done, mine))
            for after, mine in zip((BEGINNING, middle, now), seen, strict=True)
        ]
        for follower in followers:
            follower.start()

        raised = at_once(*(lambda writer=writer: write(log, writer) for writer in range(WRITERS)))
        done.set()
        for follower in followers:
            follower.join(PATIENCE_SECONDS + 5)

        events = everything(log)
        assert (raised, len(events)) == ([], 20 + WRITERS * EVENTS_EACH)
        for mine, missing in zip(seen, (0, 10, 20), strict=True):
            assert len(mine) == len(events) - missing
            assert {event.position for event in mine} == {event.position for event in events[missing:]}
        check_order(seen[0])

    def test_news_wake_those_who_wait(self, log: LiveLog) -> None:
        """Somebody who waits for long is awake soon after an append of this process."""
        seen = log.now()
        timer = threading.Timer(0.1, append, args=(log, A, said(1)))
        timer.start()
        before = time.monotonic()

        log.wait_for_news(seen, timeout_seconds=20)

        timer.join()
        assert time.monotonic() - before < 5
        assert len(everything(log, after=seen)) == 1

    def test_no_news(self, log: LiveLog) -> None:
        """The waiting ends when the time is up."""
        append(log, A, said(1))
        before = time.monotonic()

        log.wait_for_news(log.now(), timeout_seconds=0.15)

        assert 0.1 < time.monotonic() - before < 5

    def test_old_news(self, log: LiveLog) -> None:
        """Where something lies behind the moment already, nobody waits."""
        append(log, A, said(1))
        before = time.monotonic()

        log.wait_for_news(BEGINNING, timeout_seconds=20)

        assert time.monotonic() - before < 5
