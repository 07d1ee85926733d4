"""The contract of a log: what is done twice under one idempotency key is done once."""

import msgspec
import pytest

from refold.domain.errors import ConcurrencyError, IdempotencyError, InvalidInputError
from refold.domain.log.ports import LiveLog

from .writing import append, at_once, check_chain, everything, new, numbers, said

A, B = "chat:a", "chat:b"


class RepeatingContract:
    """What holds for idempotency keys."""

    def test_a_repetition_is_given_the_first_answer(self, log: LiveLog) -> None:
        """The events as they were recorded then, whatever stands in the repetition."""
        first = append(log, A, said(1), said(2), key="k")
        append(log, A, said(3))

        again = append(log, A, said(9), key="k")

        assert (first.replayed, again.replayed) == (False, True)
        assert again.events == first.events
        assert numbers(log.read(A)) == ["m1", "m2", "m3"]

    def test_the_key_comes_before_the_version(self, log: LiveLog) -> None:
        """A writer who lost the answer repeats what he expected then, and is not refused."""
        for number, key in enumerate(["k", ""]):
            append(log, A, said(number), expected=number, key=key)

            assert append(log, A, said(number), expected=number, key=key).replayed

    def test_a_key_belongs_to_a_stream(self, log: LiveLog) -> None:
        """The same key in another stream is another key."""
        append(log, A, said(1), key="k")

        assert not append(log, B, said(2), key="k").replayed
        assert numbers(everything(log)) == ["m1", "m2"]

    def test_a_key_that_was_refused_is_free(self, log: LiveLog) -> None:
        """Nothing was recorded under it."""
        with pytest.raises(ConcurrencyError):
            append(log, A, said(1), expected=5, key="k")

        assert not append(log, A, said(1), expected=0, key="k").replayed

    def test_other_keys_are_other_keys(self, log: LiveLog) -> None:
        """Case, length and all; an empty one is a key like any other."""
        for number, key in enumerate(["k", "K", "k ", "kk", "ü", "%s", "x" * 300, ""]):
            assert not append(log, A, said(number), key=key).replayed
            assert append(log, A, said(number), key=key).replayed

        assert log.head(A) == 8

    def test_a_key_is_in_the_envelope(self, log: LiveLog) -> None:
        """So that the digest covers it, and a copy of the log keeps it."""
        append(log, A, said(1), key="k")

        assert log.read(A)[0].meta.idempotency_key == "k"

    def test_a_batch_is_repeated_as_a_whole(self, log: LiveLog) -> None:
        """One known key, and nothing of the batch is written; parts without one have no events."""
        first = log.append([new(A, said(1), key="k"), new(B, said(2), key="k")]).result()

        again = log.append([new(A, said(1), key="k"), new(B, said(2), key="k")]).result()
        half = log.append([new(A, said(1), key="k"), new("chat:c", said(3))]).result()
        keyed = log.append([new(A, said(1), key="k"), new("chat:c", said(3), key="c", call=b"c" * 16)]).result()

        assert [receipt.events for receipt in again] == [receipt.events for receipt in first]
        assert [(receipt.events, receipt.replayed) for receipt in half] == [(first[0].events, True), ((), True)]
        assert keyed == half
        assert numbers(everything(log)) == ["m1", "m2"]

    def test_no_events_under_a_key(self, log: LiveLog) -> None:
        """Nothing was recorded under it, so it is free."""
        log.append([new(A, key="k")]).result()

        assert not append(log, A, said(1), key="k").replayed
        assert append(log, A, key="k").replayed

    def test_repetitions_at_the_same_time(self, log: LiveLog) -> None:
        """Eight threads with one key: it is done once, and all are given the same answer."""
        answers: list[list[str]] = []

        def write() -> None:
            answers.append(numbers(append(log, A, said(1), said(2), key="k").events))

        raised = at_once(*[write] * 8)

        assert (raised, answers) == ([], [["m1", "m2"]] * 8)
        check_chain(log.read(A))
        assert log.head(A) == 2

    def test_repetitions_within_one_group(self, log: LiveLog) -> None:
        """Handed in together, before the first was committed: the later ones are repetitions."""
        futures = [log.append([new(A, said(number), key="k")], wait=False) for number in range(5)]

        receipts = [future.result(30)[0] for future in futures]

        assert [receipt.replayed for receipt in receipts] == [False, True, True, True, True]
        assert {receipt.events for receipt in receipts} == {receipts[0].events}

    def test_old_keys_are_known(self, log: LiveLog) -> None:
        """Also when their events have long been sealed."""
        first = append(log, A, said(0), said(1), key="k")
        for number in range(2, 150):
            append(log, A, said(number))

        assert append(log, A, said(0), key="k").events == first.events

    def test_another_call_under_a_key(self, log: LiveLog) -> None:
        """Refused where both say which call they are of, and are of different ones; nothing is written."""
        first = append(log, A, said(1), key="k", call=b"a" * 16).events
        append(log, A, said(2), key="old")

        assert append(log, A, said(9), key="k", call=b"a" * 16).events == first
        assert append(log, A, said(9), key="k").events == first
        assert append(log, A, said(9), key="old", call=b"a" * 16).replayed
        with pytest.raises(IdempotencyError) as refused:
            append(log, A, said(9), said(10), key="k", call=b"b" * 16)
        assert (refused.value.stream, refused.value.key, refused.value.recorded) == (A, "k", first)
        assert "chat.message_added.v1 at version 1: take another key" in str(refused.value)
        batch = [new(B, said(9), key="k", call=b"b" * 16), new(A, said(9), key="k", call=b"b" * 16)]
        with pytest.raises(IdempotencyError):
            log.append(batch).result()
        assert numbers(everything(log)) == ["m1", "m2"]

    def test_another_call_within_one_group(self, log: LiveLog) -> None:
        """It is refused alone: what was handed in together with it is recorded."""
        parts = [new(A, said(number), key="k", call=bytes([number % 2]) * 16) for number in range(4)]
        parts.insert(2, new(B, said(9)))
        futures = [log.append([part], wait=False) for part in parts]

        failures = [future.exception(30) for future in futures]

        assert [type(failure) for failure in failures] == [
            type(None), IdempotencyError, type(None), type(None), IdempotencyError,
        ]  # fmt: skip
        assert numbers(everything(log)) == ["m0", "m9"]

    def test_a_key_that_no_envelope_bears(self, log: LiveLog) -> None:
        """Refused: nobody could tell from the log what was recorded under it."""
        keyless = msgspec.structs.replace(new(A, said(1)), idempotency_key="k")

        with pytest.raises(InvalidInputError, match="'k' of 'chat:a' is not in the meta of each event"):
            log.append([keyless]).result()

    def test_what_was_recorded_under_a_key(self, log: LiveLog) -> None:
        """The events, also when they have long been sealed; and a list of all keys."""
        append(log, A, said(1))
        first = append(log, A, said(2), said(3), key="k").events
        append(log, B, said(4), key="l")
        for number in range(5, 150):
            append(log, A, said(number))

        assert log.recorded_under(A, "k") == list(first)
        assert [log.recorded_under(*name) for name in ((A, "l"), (B, "k"), ("chat:c", "k"))] == [[], [], []]
        assert sorted(log.idempotency_keys()) == [(A, "k", 2, 3), (B, "l", 1, 1)]
