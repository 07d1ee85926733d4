"""Plans are made of what is remembered, without a database."""

from itertools import pairwise

import pytest

from refold.domain.errors import ConcurrencyError
from refold.domain.log.envelope import NO_DIGEST, NO_META
from refold.infrastructure.log.compression import Compression, no_dictionary
from refold.infrastructure.log.postgres.planning import (
    IDS_MAX,
    Answer,
    EarlierEvents,
    EventIds,
    Memory,
    NotKnownError,
    Order,
    Plan,
    SliceEnd,
    StreamTip,
)
from refold.infrastructure.log.postgres.wire import int4
from refold.infrastructure.log.records import ANY, AssignedPlace, Draft, EarlierVersions, Part, Request

NOW = 1_790_000_000_000_000


COMPRESSION = Compression(no_dictionary())


def part(stream: str, first_version: int, count: int = 1, *, lane: int = 3, key: str | None = None) -> Part:
    """Return drafts for a stream."""
    drafts = [Draft("tag", b"\x80", b"\x00\x80", NO_META)] * count
    return Part(stream, first_version, drafts, lane, idempotency_key=key)


def remembering(**versions: int) -> Memory:
    """Return the memory of one slice, 3, with streams at these versions."""
    memory = Memory()
    memory.tags["tag"] = int4(1)
    memory.slice_ends[3] = SliceEnd(position=10, recorded_at=NOW + 5, stream_key=2)
    for key, (stream, version) in enumerate(versions.items(), 1):
        memory.slices[stream] = 3
        memory.slice_ends[3].tips[stream] = StreamTip(key, version)
    return memory


def plan_of(memory: Memory, found: EarlierEvents | None = None) -> Plan:
    """Return an empty plan."""
    return Plan(memory, NOW, COMPRESSION, found)


def placed(answer: Answer) -> list[list[tuple[int, int]]]:
    """Return versions and positions, part by part."""
    assert isinstance(answer, list)
    return [[(one.version, one.number) for one in drafts] for drafts in answer if isinstance(drafts, list)]


def tables(plan: Plan) -> list[str]:
    """Return the tables that a plan writes to, with the number of statements."""
    return [call.sql.split()[2] for call in plan.calls("")]


def test_events_go_behind_the_end() -> None:
    """Positions and versions go on, and time does not fall."""
    memory = remembering(a=4)
    plan = plan_of(memory)

    (answer,) = plan.answers([Order(Request([part("a", 5, 2)]), 100)])

    assert placed(answer) == [[(5, 11), (6, 12)]]
    assert (memory.slice_ends[3].position, memory.slice_ends[3].recorded_at) == (12, NOW + 5)
    assert tables(plan) == ["event"]


def test_requests_of_a_group_follow_each_other() -> None:
    """The second sees where the first one left the stream; a third that does not is refused without a trace."""
    plan = plan_of(remembering(a=4))
    orders = [Order(Request([part("a", version)]), place * 100) for place, version in enumerate((5, 6, 6, ANY))]

    answers = plan.answers(orders)

    assert isinstance(answers[2], ConcurrencyError)
    assert (answers[2].expected, answers[2].actual) == (5, 6)
    assert [placed(answer) for answer in (answers[0], answers[1], answers[3])] == [
        [[(5, 11)]],
        [[(6, 12)]],
        [[(7, 13)]],
    ]


def test_a_request_is_refused_as_a_whole() -> None:
    """Its first part is fine, its second is not: neither is placed."""
    plan = plan_of(remembering(a=4, b=2))

    (answer,) = plan.answers([Order(Request([part("a", 5), part("b", 9)]), 100)])

    assert isinstance(answer, ConcurrencyError)
    assert (answer.stream, tables(plan)) == ("b", [])


def test_a_new_stream_gets_the_next_key() -> None:
    """Where its writer says that it is new."""
    memory = remembering(a=4)
    plan = plan_of(memory)

    plan.answers([Order(Request([part("new", 1)]), 100)])

    assert tables(plan) == ["stream", "event"]
    assert (memory.slice_ends[3].tips["new"].key, memory.slices["new"]) == (3, 3)


def test_a_new_stream_goes_on_in_the_same_plan() -> None:
    """The plan itself opens it, so the database is not asked for it."""
    plan = plan_of(remembering(a=4))
    orders = [Order(Request([part("new", 1, 2)]), 100), Order(Request([part("new", 3)]), 200)]

    first, second = plan.answers(orders)

    assert (placed(first), placed(second)) == ([[(1, 11), (2, 12)]], [[(3, 13)]])


def test_what_is_not_written_is_forgotten() -> None:
    """Together with the slice of a stream that was to be opened: its next root may be another."""
    memory = remembering(a=4)
    plan_of(memory).answers([Order(Request([part("new", 1)]), 100)])

    memory.forget()

    assert (memory.slice_ends, memory.slices) == ({}, {"a": 3})


def test_one_slice_is_forgotten() -> None:
    """What is remembered of the others holds good."""
    memory = remembering(a=4)
    memory.slice_ends[7] = SliceEnd(position=1)

    memory.forget([3])

    assert list(memory.slice_ends) == [7]


@pytest.mark.parametrize(
    "unknown",
    [part("new", ANY), part("new", 7), part("a", 5, lane=4)._replace(stream="z")],
    ids=["any version", "a later version", "another slice"],
)
def test_what_memory_does_not_tell(unknown: Part) -> None:
    """It may be in the database, so a plan without it is no plan."""
    memory = remembering(a=4)

    with pytest.raises(NotKnownError):
        plan_of(memory).answers([Order(Request([part("a", 5)]), 200), Order(Request([unknown]), 100)])

    assert (memory.slice_ends[3].position, memory.opened) == (10, [])


def test_a_stream_that_comes_twice_in_a_request() -> None:
    """Its second part goes on behind the first one, or the whole is refused."""
    plan = plan_of(remembering(a=4))

    taken, refused = plan.answers(
        [Order(Request([part("a", 5, 2), part("a", last)]), number) for number, last in ((100, 7), (200, 8))]
    )

    assert placed(taken) == [[(5, 11), (6, 12)], [(7, 13)]]
    assert isinstance(refused, ConcurrencyError)


def test_a_key_and_a_conflict() -> None:
    """It may have been recorded before, so memory alone does not refuse it."""
    with pytest.raises(NotKnownError):
        plan_of(remembering(a=4)).answers([Order(Request([part("a", 9, key="k")]), 100)])


def test_a_known_key_comes_first() -> None:
    """The answer is what was recorded then; the rest of the request is not written."""
    plan = plan_of(remembering(a=4), EarlierEvents({("a", "k"): EarlierVersions(2, 3)}, {}))

    (answer,) = plan.answers([Order(Request([part("a", 9, key="k"), part("b", 1)]), 100)])

    assert (answer, tables(plan)) == ([EarlierVersions(2, 3), None], [])


def test_a_key_twice_in_a_group() -> None:
    """The second is the repetition of the first."""
    plan = plan_of(remembering(a=4))

    answers = plan.answers([Order(Request([part("a", ANY, 2, key="k")]), number) for number in (100, 200)])

    assert (placed(answers[0]), answers[1]) == ([[(5, 11), (6, 12)]], [EarlierVersions(5, 6)])
    assert tables(plan) == ["event", "idempotency"]


def test_what_was_recorded_before_is_answered() -> None:
    """By the ids of the events, whatever the stream's head is by now."""
    before = {number: AssignedPlace(number, 3, number, NOW, NO_DIGEST) for number in (100, 101)}
    plan = plan_of(remembering(a=4), EarlierEvents({}, before))

    (answer,) = plan.answers([Order(Request([part("a", 3, 2)]), 100)])

    assert (answer, tables(plan)) == ([[before[100], before[101]]], [])


def test_few_statements_are_ever_prepared() -> None:
    """Any number of rows is made of at most seven sizes."""
    sizes = set()
    for count in range(1, 200):
        plan = plan_of(remembering(a=4))
        plan.answers([Order(Request([part("a", 5, count)]), 100)])
        inserted = [len(call.values) // 10 for call in plan.calls("") if " event " in call.sql]
        assert sum(inserted) == count
        sizes |= set(inserted)

    assert sizes == {1, 2, 4, 8, 16, 32, 64}


def test_ids_rise_with_time() -> None:
    """They are UUIDs of version 7, with room to count on."""
    source = EventIds()
    ids = [source.take(300, NOW + number * 1_000) for number in range(100)]

    assert all(later - earlier >= 300 for earlier, later in pairwise(ids))
    assert {(one >> 76 & 15, one >> 62 & 3, one >> 61 & 1) for one in ids} == {(7, 2, 0)}


def test_an_id_has_all_that_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The milliseconds, 12 bits of chance behind the version, and 61 behind the variant, from which it counts."""
    monkeypatch.setattr("os.urandom", lambda count: b"\xff" * count)

    drawn = EventIds().take(1, NOW)

    assert drawn >> 80 == NOW // 1_000
    assert drawn & (1 << 80) - 1 == 7 << 76 | 0xFFF << 64 | 2 << 62 | (1 << 61) - 1


def test_ids_begin_anew_from_time_to_time() -> None:
    """So that the numbers that are left after a random one suffice, and time shows in them."""
    source = EventIds()
    first = source.take(IDS_MAX - 1, NOW)

    assert source.take(1, NOW) == first + IDS_MAX - 1
    assert source.take(1, NOW) != first + IDS_MAX
