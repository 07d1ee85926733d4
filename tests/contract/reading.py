"""The contract of a log: reading streams and the whole, now and as of any moment."""

import random
from collections.abc import Sequence
from itertools import product

import pytest

from refold.domain.errors import LogWentBackError
from refold.domain.log.envelope import RecordedEvent
from refold.domain.log.ports import LiveLog, Page, Range, StreamEnd
from refold.domain.positions import BEGINNING, Moment, Position

from .stores import Store
from .writing import append, check_chain, check_order, everything, ids, new, numbers, said

A, B = "chat:a", "chat:b"
STREAMS = [f"chat:{letter}" for letter in "abcdef"]


class Clock:
    """A clock that is set by hand; ids it has none."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def now(self) -> float:
        """Return the time it was set to."""
        return self.time

    def new_id(self, prefix: str) -> str:
        """Return the prefix."""
        return prefix


def interleaved(log: LiveLog, count: int, *, seed: int = 7, roots: int = 1) -> dict[str, list[RecordedEvent]]:
    """Write `count` events to six streams in turn, some alone, some in batches; return the receipts by stream."""
    chance = random.Random(seed)
    receipts: dict[str, list[RecordedEvent]] = {stream: [] for stream in STREAMS}
    written = 0
    while written < count:
        streams = chance.sample(STREAMS, chance.choice([1, 1, 1, 2, 3]))
        size = min(chance.choice([1, 1, 2, 5]), count - written)
        root = chance.randrange(roots)
        streams = [stream for stream in streams if STREAMS.index(stream) % roots == root] or [STREAMS[root]]
        parts = []
        for stream in streams:
            events = [said(written + number, f"text {written + number}") for number in range(size)]
            parts.append(new(stream, *events, root=f"r{root}"))
            written += size
        for stream, receipt in zip(streams, log.append(parts).result(), strict=True):
            receipts[stream] += receipt.events
    return receipts


class ReadingContract:
    """What holds for every way of reading."""

    def test_a_range_of_a_stream(self, log: LiveLog) -> None:
        """Above `after`, up to and including `until`; what is not there is left out."""
        append(log, B, said(0))
        append(log, A, *(said(number) for number in range(1, 6)))

        # One log for all: nothing is written meanwhile.
        ranges = list(product([0, 1, 3, 5, 99, -4], [None, 0, 1, 4, 5, 99, -1]))
        wanted = {
            (after, until): [
                f"m{number}" for number in range(1, 6) if after < number <= (5 if until is None else until)
            ]
            for after, until in ranges
        }
        assert {(after, until): numbers(log.read(A, after=after, until=until)) for after, until in ranges} == wanted
        assert {(after, until): ids(log.read_events(A, after=after, until=until)) for after, until in ranges} == wanted

    def test_the_ids_of_streams(self, log: LiveLog) -> None:
        """In order, those that begin with a prefix, the first of them."""
        for stream in ("chat:b", "chat:ab", "chat:a", "pool:a"):
            append(log, stream, said(0))

        assert log.streams() == ["chat:a", "chat:ab", "chat:b", "pool:a"]
        assert log.streams("chat:a") == ["chat:a", "chat:ab"]
        assert [log.streams("chat:", limit=limit) for limit in (0, 2)] == [[], ["chat:a", "chat:ab"]]

    def test_the_ids_of_streams_that_go_on_with_the_last_character(self, log: LiveLog) -> None:
        """They begin with the prefix as others do."""
        last = "chat:\U0010ffff"
        for stream in (last, "chat:a", "chau"):
            append(log, stream, said(0))

        assert log.streams() == ["chat:a", last, "chau"]
        assert log.streams("chat:") == ["chat:a", last]
        assert log.streams(last) == [last]

    def test_everything_is_read_as_it_was_written(self, log: LiveLog) -> None:
        """More than 300 events on six streams: by stream, by range, as a whole; sealed or not."""
        receipts = interleaved(log, 600)
        events = everything(log)

        check_order(events)
        assert sorted(events, key=lambda event: event.position) == events
        assert {event.position.slice >= 0 for event in events} == {log.has_slices}
        for stream, written in receipts.items():
            assert log.read(stream) == written == [event for event in events if event.stream == stream]
            assert log.read_events(stream) == [event.event for event in written]
            assert log.head(stream) == len(written)
            check_chain(written)

    def test_every_range_of_a_long_stream(self, log: LiveLog) -> None:
        """Around the places where runs begin and end no event is missed or given twice."""
        written = interleaved(log, 900)[A]
        edges = [0, 1, 2, 62, 63, 64, 65, 66, 127, 128, 129, len(written) - 1, len(written)]

        for after in edges:
            for until in edges:
                assert log.read(A, after=after, until=until) == written[after:until]

    def test_only_the_end_is_read(self, log: LiveLog) -> None:
        """The last events of a stream, without those before them."""
        written = interleaved(log, 600)[B]

        for count in (1, 2, 10, len(written)):
            assert log.read(B, after=len(written) - count) == written[-count:]

    def test_many_ranges_at_once(self, log: LiveLog) -> None:
        """Each gives what reading it alone gives, whatever its stream is and wherever the next one lies."""
        interleaved(log, 900)
        chance = random.Random(5)
        ranges = []
        for _ in range(300):
            after = chance.randrange(-1, 170)
            until = max(0, after + chance.choice([0, 1, 1, 2, 20, 64, 70, 1_000]))
            ranges.append(Range(chance.choice([*STREAMS, "chat:nobody"]), after, until))

        for some in (ranges, sorted(ranges), sorted(ranges)[::9], ranges[:1], []):
            wanted = [log.read_events(stream, after=after, until=until) for stream, after, until in some]
            assert log.read_ranges(some) == wanted

    @pytest.mark.parametrize("step", [2, 3, 9, 70])
    def test_events_apart(self, log: LiveLog, step: int) -> None:
        """Some here and there, near each other or far from each other: these alone, many or few."""
        written = interleaved(log, 900)[A]
        events = written[1::step]
        ranges = [Range(A, event.version - 1, event.version) for event in events]

        for start in (0, len(ranges) - 3):
            assert log.read_ranges(ranges[start:]) == [[event.event] for event in events[start:]]
        assert log.read_ranges([*ranges, Range(A, len(written), len(written) + 5)])[-1] == []

    @pytest.mark.parametrize("limit", [1, 2, 7, 64, 100, 10_000])
    def test_pages_of_any_size(self, log: LiveLog, limit: int) -> None:
        """The pages put together are the same log, whatever the limit."""
        interleaved(log, 250)

        assert everything(log, limit=limit) == everything(log, limit=1_000)

    @pytest.mark.parametrize("roots", [2, 3])
    def test_pages_over_several_slices(self, store: Store, roots: int) -> None:
        """Also where the events lie in several slices: each once, in the order of its slice."""
        log = store.open()
        receipts = interleaved(log, 250, roots=roots)
        written = sorted((event for events in receipts.values() for event in events), key=lambda event: event.position)

        for limit in (1, 7, 1_000):
            events = everything(log, limit=limit)
            check_order(events)
            assert sorted(events, key=lambda event: event.position) == written

    def test_a_page_says_where_it_ends(self, log: LiveLog) -> None:
        """At the last event of the page; with nothing behind, the moment stays."""
        append(log, A, said(1), said(2), said(3))
        first = log.read_all(after=BEGINNING, limit=2)
        second = log.read_all(after=first.moment, limit=2)
        third = log.read_all(after=second.moment, limit=2)

        assert [numbers(page.events) for page in (first, second, third)] == [["m1", "m2"], ["m3"], []]
        assert first.moment == moment_of(first.events[-1].position)
        assert second.moment == third.moment == log.now()

    def test_pages_up_to_a_moment(self, log: LiveLog) -> None:
        """Each event up to it comes once, in the order of its stream, and none after it; behind it there is nothing."""
        for number in range(12):
            append(log, f"chat:{number % 3}", said(number))
        until = log.now()
        append(log, "chat:0", said(12))

        moment, found = BEGINNING, list[str]()
        while not moment.includes(until):
            page = log.read_all(after=moment, limit=5, until=until)
            assert 0 < len(page.events) <= 5
            found += [one.reference for one in page.events]
            moment = page.moment

        expected = [f"chat:{stream}@{version}" for stream in range(3) for version in range(1, 5)]
        assert (sorted(found), moment) == (expected, until)
        for stream in range(3):
            assert [one for one in found if one.startswith(f"chat:{stream}")] == expected[4 * stream : 4 * stream + 4]
        assert log.read_all(after=log.now(), limit=5, until=until) == Page([], log.now())
        later = log.now()
        append(log, "chat:0", said(13))
        assert log.read_all(after=later, limit=5, until=until) == Page([], later)

    def test_pages_up_to_a_moment_behind_the_end(self, log: LiveLog) -> None:
        """A moment of a longer copy of the log: the pages end where the log does."""
        for number in range(3):
            append(log, f"chat:{number}", said(number))
        behind = Moment(tuple((lane, last + 2) for lane, last in log.now().heads))

        page = log.read_all(after=BEGINNING, limit=10, until=behind)

        assert (sorted(numbers(page.events)), page.moment) == (["m0", "m1", "m2"], log.now())

    def test_a_page_of_nothing(self, log: LiveLog) -> None:
        """No limit to speak of, and an empty log."""
        assert log.read_all(after=BEGINNING, limit=10).events == []
        append(log, A, said(1))
        assert log.read_all(after=BEGINNING, limit=0).events == []

    def test_a_moment_survives_being_written_down(self, log: LiveLog) -> None:
        """As text, as a checkpoint keeps it, it leads to the same place."""
        interleaved(log, 60)
        for page_size in (1, 17, 59):
            moment = log.read_all(after=BEGINNING, limit=page_size).moment

            assert everything(log, after=Moment.parse(str(moment))) == everything(log)[page_size:]

    def test_a_moment_of_the_far_future(self, log: LiveLog) -> None:
        """A position that nobody can reach yet has nothing behind it and everything before it."""
        position = append(log, A, said(1)).events[0].position
        for number in (10**6, 2**62, 2**63 - 1, 2**63, 10**30):
            future = moment_of(Position(position.slice, number))

            assert log.read_all(after=future, limit=10).events == []
            assert log.version_at(A, future) == 1

    def test_now(self, log: LiveLog) -> None:
        """The moment of the last event: nothing lies behind it, and all that comes later does."""
        assert log.now() == BEGINNING
        append(log, A, said(1), said(2))
        now = log.now()
        append(log, B, said(3))

        assert numbers(everything(log, after=now)) == ["m3"]
        assert everything(log, after=log.now()) == []

    def test_time_does_not_fall(self, store: Store) -> None:
        """A clock that is set back does not take the log with it."""
        clock = Clock()
        log = store.open(system=clock)
        for number, time in enumerate((1_000.0, 1_005.0, 990.0, 1_005.5, 1.0)):
            clock.time = time
            append(log, A if number % 2 else B, said(number))

        times = [event.recorded_at for event in everything(log)]
        assert times == [1_000_000_000, 1_005_000_000, 1_005_000_000, 1_005_500_000, 1_005_500_000]

    def test_a_batch_has_one_time(self, store: Store) -> None:
        """What was committed as one happened at one moment."""
        log = store.open()

        receipts = log.append([new(A, said(1), said(2)), new(B, said(3))]).result()

        assert len({event.recorded_at for receipt in receipts for event in receipt.events}) == 1

    def test_versions_at_a_time(self, store: Store) -> None:
        """For every time there is, and between: what a scan of the stream says."""
        clock = Clock()
        log = store.open(system=clock)
        chance = random.Random(3)
        for number in range(300):
            clock.time += chance.choice([0, 0, 0.5, -0.25, 3])
            append(log, chance.choice([A, A, B]), said(number))

        events = log.read(A)
        times = {event.recorded_at + shift for event in events[::5] for shift in (-1, 0, 1)} | {0, 2**53}
        for time in times:
            assert log.version_at(A, time) == last_version(events, lambda one: one.recorded_at <= time)  # noqa: B023

    def test_versions_at_a_moment(self, log: LiveLog) -> None:
        """For every cut of the log: what a scan of the events up to there says."""
        interleaved(log, 300)
        moment, seen = BEGINNING, list[RecordedEvent]()
        while True:
            for stream in (A, B, "chat:nobody"):
                assert log.version_at(stream, moment) == sum(event.stream == stream for event in seen)
            page = log.read_all(after=moment, limit=13)
            if not page.events:
                break
            moment, seen = page.moment, seen + page.events

    def test_what_is_known_must_be_there(self, log: LiveLog) -> None:
        """A reader that knows a version, or its digest as well, is told where the log does not have it."""
        first, second = append(log, "chat:a", said(1), said(2)).events
        assert log.end("chat:a") == StreamEnd(2, second.digest)
        assert log.end("chat:b") == StreamEnd(0)

        for known in (StreamEnd(0), StreamEnd(1), StreamEnd(1, first.digest), log.end("chat:a")):
            assert len(log.read("chat:a", known=known)) == 2
            assert log.read_events("chat:a", after=2, until=2, known=known) == []
        for known in (StreamEnd(3), StreamEnd(1, second.digest), StreamEnd(2, first.digest)):
            for after in (0, 1, 2, 3):
                with pytest.raises(LogWentBackError):
                    log.read("chat:a", after=after, known=known)
                with pytest.raises(LogWentBackError):
                    log.read_events("chat:a", after=after, until=known.version, known=known)
        with pytest.raises(LogWentBackError):
            log.read("chat:b", known=StreamEnd(1))

    def test_a_page_behind_the_end(self, log: LiveLog) -> None:
        """It is empty, and its moment says where the log ends."""
        append(log, "chat:a", said(1), said(2))
        now = log.now()
        ((lane, last),) = now.heads

        assert log.read_all(after=Moment(((lane, last + 5),)), limit=10) == Page([], now)
        assert log.read_all(after=now, limit=10) == Page([], now)


def moment_of(position: Position) -> Moment:
    """Return the moment at which the event at a position had just happened."""
    return Moment(((position.slice, position.number),))


def last_version(events: Sequence[RecordedEvent], is_in: object) -> int:
    """Return the version of the last event for which `is_in` holds, by looking at each."""
    assert callable(is_in)
    return max((event.version for event in events if is_in(event)), default=0)
