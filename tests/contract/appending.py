"""The contract of a log: appending, alone, in batches, and against others."""

import re
from typing import Any

import msgspec
import pytest

from refold.domain.errors import ConcurrencyError, InvalidInputError, RefoldError
from refold.domain.log.envelope import Meta, acting
from refold.domain.log.ports import ANY_VERSION, LiveLog, NewEvents
from refold.domain.positions import BEGINNING
from tests.support.hostile_events import REFUSED

from .stores import Store
from .writing import append, at_once, check_chain, check_order, everything, new, numbers, said

A, B, C = "chat:a", "chat:b", "chat:c"


def refusal(log: LiveLog, batch: list[NewEvents]) -> Exception | None:
    """Return the error that an append ends with, or None."""
    try:
        log.append(batch).result()
    except Exception as error:
        return error
    return None


class AppendingContract:
    """What holds for every append."""

    def test_versions_go_from_one(self, log: LiveLog) -> None:
        """The first event of a stream has version 1, and no number is left out."""
        receipts = [append(log, A, said(1), expected=0), append(log, A, said(2), said(3), expected=1)]

        assert [event.version for receipt in receipts for event in receipt.events] == [1, 2, 3]
        assert log.head(A) == 3

    def test_a_receipt_is_what_is_read_later(self, log: LiveLog) -> None:
        """Position, time, meta and digest included."""
        meta = Meta("mia", "t1", "chat:b@1")
        wanted = NewEvents(stream=A, expected_version=0, events=(said(1), said(2)), metas=(meta, Meta()), root="r")

        receipt = log.append([wanted]).result()[0]

        assert list(receipt.events) == log.read(A) == everything(log)
        # An encrypted log adds the id of the key.
        metas = [msgspec.structs.replace(event.meta, key_id=None) for event in receipt.events]
        assert metas == [meta, Meta()]
        assert [event.stream for event in receipt.events] == [A, A]

    def test_streams_keep_to_themselves(self, log: LiveLog) -> None:
        """Each has its own versions; the log has them all in one order."""
        for number in range(4):
            append(log, A if number % 2 else B, said(number))

        assert numbers(log.read(A)) == ["m1", "m3"]
        assert numbers(log.read(B)) == ["m0", "m2"]
        assert numbers(everything(log)) == ["m0", "m1", "m2", "m3"]
        check_order(everything(log))

    def test_a_stream_that_is_not_there(self, log: LiveLog) -> None:
        """It is empty, and its head is 0."""
        assert (log.read(A), log.read_events(A), log.head(A), log.version_at(A, BEGINNING)) == ([], [], 0, 0)

    def test_a_stale_writer_is_refused(self, log: LiveLog) -> None:
        """He is told where the stream is, and nothing is written."""
        append(log, A, said(1), said(2))

        with pytest.raises(ConcurrencyError) as caught:
            append(log, A, said(3), expected=1)

        assert (caught.value.stream, caught.value.expected, caught.value.actual) == (A, 1, 2)
        assert numbers(log.read(A)) == ["m1", "m2"]

    @pytest.mark.parametrize("expected", [2, 7, -2, 2**40])
    def test_a_writer_from_the_future_is_refused(self, log: LiveLog, expected: int) -> None:
        """That the slot is free is not enough: a hole must never come to be."""
        append(log, A, said(1))

        with pytest.raises(ConcurrencyError) as caught:
            append(log, A, said(2), expected=expected)

        assert (caught.value.expected, caught.value.actual) == (expected, 1)
        assert numbers(log.read(A)) == ["m1"]

    def test_a_new_stream_must_be_new(self, log: LiveLog) -> None:
        """Version 0 means that nobody was there; version 1 of an empty stream is the future."""
        with pytest.raises(ConcurrencyError) as caught:
            append(log, A, said(1), expected=1)
        assert (caught.value.expected, caught.value.actual) == (1, 0)
        append(log, A, said(1), expected=0)

        with pytest.raises(ConcurrencyError):
            append(log, A, said(2), expected=0)

    def test_any_version(self, log: LiveLog) -> None:
        """A writer who does not care is put behind the others."""
        append(log, A, said(1), expected=ANY_VERSION)
        append(log, A, said(2), expected=1)

        assert append(log, A, said(3), expected=ANY_VERSION).events[0].version == 3

    def test_a_batch_over_several_streams(self, log: LiveLog) -> None:
        """One receipt for each, in their order; the events lie together in the log."""
        append(log, B, said(0))

        receipts = log.append([new(A, said(1), said(2), expected=0), new(B, said(3), expected=1)]).result()

        assert [numbers(receipt.events) for receipt in receipts] == [["m1", "m2"], ["m3"]]
        assert numbers(everything(log)) == ["m0", "m1", "m2", "m3"]

    @pytest.mark.parametrize("stale", [0, 1, 2])
    def test_a_batch_is_all_or_nothing(self, log: LiveLog, stale: int) -> None:
        """One stale part anywhere, and nothing of the batch is there; not even a stream comes to be."""
        append(log, B, said(0))
        parts = [new(A, said(1), expected=0), new(B, said(2), expected=1), new(C, said(3), expected=0)]
        wrong = parts[stale]
        parts[stale] = new(wrong.stream, *wrong.events, expected=5)

        with pytest.raises(ConcurrencyError) as caught:
            log.append(parts).result()

        assert caught.value.stream == wrong.stream
        assert numbers(everything(log)) == ["m0"]
        assert (log.head(A), log.head(B), log.head(C)) == (0, 1, 0)

    def test_after_a_refusal_nothing_is_remembered(self, log: LiveLog) -> None:
        """Positions, versions and digests go on as if it had never been tried."""
        append(log, A, said(1))
        for _ in range(3):
            with pytest.raises(ConcurrencyError):
                log.append([new(A, said(2), expected=1), new(B, said(3), expected=9)]).result()
        append(log, A, said(2), expected=1)
        append(log, B, said(3), expected=0)

        events = everything(log)
        assert [event.position.number for event in events] == [1, 2, 3]
        check_chain(log.read(A))
        check_chain(log.read(B))

    def test_a_stream_stands_in_a_batch_once(self, log: LiveLog) -> None:
        """Refused, since the second part could not have been decided on the first."""
        with pytest.raises(InvalidInputError, match="once"):
            log.append([new(A, said(1)), new(A, said(2))]).result()
        assert everything(log) == []

    def test_nothing_to_append(self, log: LiveLog) -> None:
        """No parts, or a part without events: fine, and nothing is recorded."""
        assert log.append([]).result() == []
        assert log.append([new(A, expected=0)]).result()[0].events == ()
        assert (everything(log), log.head(A), log.streams()) == ([], 0, [])

    def test_no_events_on_a_wrong_version(self, log: LiveLog) -> None:
        """A part without events is a check of the version all the same."""
        with pytest.raises(ConcurrencyError):
            log.append([new(A, said(1)), new(B, expected=3)]).result()
        assert everything(log) == []

    def test_without_waiting(self, log: LiveLog) -> None:
        """The futures are done in time, in order, and each knows its own fate."""
        futures = [log.append([new(A, said(number), expected=number)], wait=False) for number in (0, 1, 5, 2)]

        assert [type(future.exception(30)) for future in futures] == [type(None)] * 2 + [ConcurrencyError, type(None)]
        assert numbers(log.read(A)) == ["m0", "m1", "m2"]

    def test_waiting_behind_those_who_do_not(self, log: LiveLog) -> None:
        """Whoever waits comes behind what was handed in before."""
        futures = [log.append([new(A, said(number))], wait=False) for number in range(50)]

        append(log, A, said(50))

        assert all(future.done() for future in futures)
        assert numbers(log.read(A)) == [f"m{number}" for number in range(51)]

    @pytest.mark.parametrize("where", ["actor", "key", "stream"])
    def test_bad_text_is_refused_and_harms_nobody(self, log: LiveLog, where: str) -> None:
        """A surrogate in the envelope is the error of one append, not of those that are committed with it."""
        bad = "a\ud800"
        good = NewEvents(stream=A, expected_version=ANY_VERSION, events=(said(1),), metas=(Meta(),), root="r")
        wrong = NewEvents(
            stream=bad if where == "stream" else B,
            expected_version=0,
            events=(said(2),),
            metas=(Meta(actor=bad if where == "actor" else None),),
            root="r",
            idempotency_key=bad if where == "key" else None,
        )

        futures = [log.append([one], wait=False) for one in (good, good, wrong, good, good)]

        assert isinstance(futures[2].exception(30), InvalidInputError)
        assert [future.exception(30) for number, future in enumerate(futures) if number != 2] == [None] * 4
        assert log.head(A) == 4

    def test_an_event_that_cannot_be_encoded(self, log: LiveLog) -> None:
        """The error comes from the result, and nothing of the batch is written."""
        future = log.append([new(A, said(1)), new(B, said(2, "a\ud800"))])

        assert isinstance(future.exception(30), ValueError)
        assert (everything(log), log.head(A)) == ([], 0)

    def test_an_event_that_could_not_be_folded(self, log: LiveLog) -> None:
        """It is refused before it is written, alone and among others, and what comes after it is not."""
        append(log, A, said(1))
        faults: dict[str, list[object]] = {}

        # One log for all: a database for each would take half a minute of all tests.
        for reason, (event, words) in REFUSED.items():
            before = log.head(A), log.streams()
            batches = ([new(A, event)], [new(B, said(2)), new(A, said(3), event)])
            errors = [refusal(log, batch) for batch in batches]
            wrong = [one for one in errors if not (isinstance(one, InvalidInputError) and re.search(words, str(one)))]
            after = append(log, A, said(4)).events[0].version - 1, log.streams()
            if wrong or after != before:
                faults[reason] = [*wrong, before, after]

        assert faults == {}

    def test_digests_are_a_chain(self, log: LiveLog) -> None:
        """Each covers envelope, payload and the one before it: anybody can compute them again."""
        for number in range(3):
            with acting(actor="mia"):
                log.append([new(A, said(number), said(number + 10)), new(B, said(number))]).result()

        check_chain(log.read(A))
        check_chain(log.read(B))
        assert len({event.digest for event in everything(log)}) == 9

    def test_all_that_a_text_can_be(self, log: LiveLog) -> None:
        """NUL, quotes, percent signs, other planes, and stream ids of all sorts."""
        texts = ["", "\x00", "'; --", "%s %(x)s", "\\", "\U0001f600", "\ufeff", "e\u0301", "a\r\nb"]
        streams = ["chat:ü", "chat:漢字 \U0001f600", "chat:a'b\"c", "chat:%s", "chat:" + "x" * 255, "run:u/s%3A1/0"]
        for stream in streams:
            append(log, stream, *(said(number, text) for number, text in enumerate(texts)))

        assert [event.event.content for event in log.read(streams[0])] == texts
        assert [log.head(stream) for stream in streams] == [len(texts)] * len(streams)
        assert {event.stream for event in everything(log)} == set(streams)

    def test_names_hold_no_nul(self, log: LiveLog) -> None:
        """Neither ids, nor keys, nor what decides the slice of a new stream; all of the batch is refused."""
        append(log, A, said(1))
        fine = NewEvents(stream=A, expected_version=1, events=(said(2),), metas=(Meta(),), root="later\0")
        wrong = [
            NewEvents(stream="chat:b\0", expected_version=0, events=(said(3),), metas=(Meta(),)),
            NewEvents(stream="chat:b", expected_version=0, events=(said(3),), metas=(Meta(),), root="s\0"),
            NewEvents(stream="chat:b", expected_version=0, events=(said(3),), metas=(Meta(),), idempotency_key="k\0"),
        ]

        for one in wrong:
            with pytest.raises(InvalidInputError, match="holds a NUL: leave it out"):
                log.append([fine, one]).result()
        assert log.streams() == [A]
        assert log.append([fine]).result()[0].events[0].version == 2

    @pytest.mark.parametrize("threads", [2, 8])
    def test_threads_race_for_one_stream(self, log: LiveLog, threads: int) -> None:
        """Each version is won by one; who loses is told and tries again."""
        rounds = 12

        def write(writer: int) -> None:
            for number in range(rounds):
                while True:
                    try:
                        append(log, A, said(writer * 100 + number), expected=log.head(A))
                        break
                    except ConcurrencyError:
                        continue

        raised = at_once(*(lambda writer=writer: write(writer) for writer in range(threads)))

        events = log.read(A)
        assert raised == []
        check_chain(events)
        for writer in range(threads):
            mine = [event.event.created_at for event in events if event.event.created_at // 100 == writer]
            assert mine == [writer * 100.0 + number for number in range(rounds)]

    @pytest.mark.parametrize("threads", [2, 8])
    def test_threads_race_for_new_streams(self, log: LiveLog, threads: int) -> None:
        """Each stream is begun by one of them, and nothing of the others is in it."""
        begun: list[tuple[int, int]] = []

        def write(writer: int) -> None:
            for number in range(15):
                try:
                    append(log, f"chat:{number}", said(writer), said(writer), expected=0)
                    begun.append((number, writer))
                except ConcurrencyError:
                    continue

        raised = at_once(*(lambda writer=writer: write(writer) for writer in range(threads)))

        assert (raised, sorted(number for number, _ in begun)) == ([], list(range(15)))
        check_order(everything(log))
        for number, writer in begun:
            check_chain(log.read(f"chat:{number}"))
            assert numbers(log.read(f"chat:{number}")) == [f"m{writer}"] * 2

    def test_new_streams_and_known_ones_at_once(self, log: LiveLog) -> None:
        """In one batch, one behind the other in the log; refused as one where one of them is there already."""
        append(log, A, said(0))
        parts = [new(B, said(1), said(2), expected=0), new(A, said(3), expected=1), new("chat:c", said(4), expected=0)]
        receipts = log.append(parts).result()
        again = log.append([new("chat:d", said(5), expected=0), new("chat:c", said(6), expected=0)])

        assert isinstance(again.exception(30), ConcurrencyError)
        assert [list(receipt.events) for receipt in receipts] == [log.read(B), log.read(A, after=1), log.read("chat:c")]
        assert numbers(everything(log)) == ["m0", "m1", "m2", "m3", "m4"]
        assert append(log, "chat:d", said(7), expected=0).events[0].version == 1

    def test_threads_with_streams_of_their_own(self, store: Store) -> None:
        """Nobody is refused, nothing is lost, and the log has one order."""
        log = store.open()

        def write(writer: int) -> None:
            for number in range(25):
                append(log, f"chat:{writer}", said(number), expected=number, root=f"r{writer % 3}")

        raised = at_once(*(lambda writer=writer: write(writer) for writer in range(6)))

        events = everything(log)
        assert (raised, len(events)) == ([], 150)
        check_order(sorted(events, key=lambda event: event.position))
        for writer in range(6):
            check_chain(log.read(f"chat:{writer}"))

    def test_batches_race(self, log: LiveLog) -> None:
        """Of batches that overlap in two streams each is there whole or not at all."""

        def write(writer: int) -> None:
            for number in range(10):
                event = said(writer * 100 + number)
                try:
                    heads = {stream: log.head(stream) for stream in (A, B)}
                    log.append([new(stream, event, expected=head) for stream, head in heads.items()]).result()
                except ConcurrencyError:
                    continue

        raised = at_once(*(lambda writer=writer: write(writer) for writer in range(4)))

        assert raised == []
        assert numbers(log.read(A)) == numbers(log.read(B)) != []

    def test_readers_see_whole_batches(self, log: LiveLog) -> None:
        """A batch comes into sight as one, in every way of reading."""
        torn: list[Any] = []

        def write() -> None:
            for number in range(40):
                log.append([new(A, said(number), said(number)), new(B, said(number))]).result()

        def look() -> None:
            while len(events := log.read_all(after=BEGINNING, limit=1_000).events) < 120:
                if len(events) % 3 or len(log.read(A)) % 2:
                    torn.append(len(events))

        raised = at_once(write, look, look)

        assert (raised, torn) == ([], [])

    def test_errors_are_of_ours(self, log: LiveLog) -> None:
        """A refused append raises something that callers can tell apart by its class."""
        error = log.append([new(A, said(1), expected=3)]).exception(30)

        assert isinstance(error, RefoldError)

    @pytest.mark.parametrize("key", [None, "k"])
    def test_what_was_decided_on_another_event(self, log: LiveLog, key: str | None) -> None:
        """The version is that of the head, and the digest is not: refused, as by a writer that came first."""
        first, second = append(log, "chat:a", said(1), said(2)).events
        decided = msgspec.structs.replace(new("chat:a", said(3), expected=2, key=key), expected_digest=first.digest)

        with pytest.raises(ConcurrencyError) as caught:
            log.append([decided]).result()

        assert (caught.value.expected, caught.value.actual) == (2, 2)
        assert log.head("chat:a") == 2
        log.append([msgspec.structs.replace(decided, expected_digest=second.digest)]).result()
        assert log.head("chat:a") == 3
