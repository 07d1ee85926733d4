"""Transactions: changes to several contexts that become one append, or nothing."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.context.transaction import current_transaction, transaction
from refold.domain.errors import ConcurrencyError, DuplicateItemError, InvalidInputError
from refold.domain.log.envelope import Meta
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import NewEvents
from refold.domain.positions import BEGINNING

from .chat_events import OPENED, said
from .fakes import DisturbedLog, LateLog, handle_on, record, texts

A, B = "chat:a", "chat:b"


def two_contexts(log: MemoryLog) -> tuple[ChatContext, ChatContext]:
    """Return handles on two streams with a message each."""
    record(log, OPENED, said("m1", "one"), stream=A)
    record(log, OPENED, said("m1", "uno"), stream=B)
    return handle_on(log, A), handle_on(log, B)


@contextmanager
def failing(log: MemoryLog) -> Iterator[None]:
    """Run a block in a transaction, raise at its end, and swallow that."""
    with suppress(ZeroDivisionError), transaction(log):
        yield
        _ = 1 / 0


def test_all_of_it_is_one_append() -> None:
    """The events of both contexts lie side by side in the log, and nothing before the block's end."""
    log = MemoryLog()
    left, right = two_contexts(log)

    with transaction(log):
        left.add_message("user", "two")
        right.add_message("user", "dos")
        left.add_message("user", "three")
        assert len(log.read_all(after=BEGINNING, limit=99).events) == 4

    streams = [event.stream for event in log.read_all(after=BEGINNING, limit=99).events[4:]]
    assert streams in ([A, A, B], [B, A, A])
    assert (texts(left), texts(right)) == (["one", "two", "three"], ["uno", "dos"])


def test_which_views_it_has_changed() -> None:
    """From the first change of a view on, and no longer than it is open."""
    log = MemoryLog()
    left, right = two_contexts(log)
    views = (left._journal, right._journal)

    with transaction(log):
        inner = current_transaction(log)
        before = [one.is_changed_within(inner) for one in views]
        left.add_message("user", "two")
        assert (before, [one.is_changed_within(inner) for one in views]) == ([False, False], [True, False])
        assert [one.is_changed_within(None) for one in views] == [False, False]
    assert [one.is_changed_within(within) for one in views for within in (inner, None)] == [False] * 4


def test_within_it_every_view_is_as_it_will_be() -> None:
    """A context that was loaded shows what was decided so far."""
    log = MemoryLog()
    left, _ = two_contexts(log)
    _ = left.items

    with transaction(log):
        left.add_message("user", "two")
        assert (texts(left), left.version, left.tail(1)) == (["one", "two"], 3, left.items[1:])


def test_within_it_an_unloaded_view_is_as_it_will_be() -> None:
    """A context whose items are read for the first time within the block shows what was decided so far."""
    log = MemoryLog()
    left, _ = two_contexts(log)

    with transaction(log):
        left.add_message("user", "two")
        assert texts(left) == ["one", "two"]


def test_behind_it_an_unloaded_view_is_complete() -> None:
    """A context that was first read within the block has lost nothing afterwards."""
    log = MemoryLog()
    left, _ = two_contexts(log)

    with transaction(log):
        left.add_message("user", "two")
        _ = left.items

    assert texts(left) == ["one", "two"]


def test_the_tail_within_it() -> None:
    """Also where the context is not loaded, the last item is the one that was added last."""
    log = MemoryLog()
    left, _ = two_contexts(log)

    with transaction(log):
        last = left.add_message("user", "two")
        assert left.tail(1) == [last]


def test_the_past_within_it() -> None:
    """A version that was decided within the block is shown as it will be, or refused, never cut short."""
    log = MemoryLog()
    left, _ = two_contexts(log)

    with transaction(log):
        left.add_message("user", "two")
        left.add_message("user", "three")
        assert texts(left.at(3)) == ["one", "two"]


@pytest.mark.parametrize("loaded", [True, False])
def test_rolling_back_restores_every_view(loaded: bool) -> None:
    """Nothing was recorded, and both contexts are as they were before."""
    log = MemoryLog()
    left, right = two_contexts(log)
    if loaded:
        _ = left.items, right.items

    with failing(log):
        left.add_message("user", "two")
        right.name_version("here")
        _ = left.items

    assert (left.version, right.version) == (2, 2)
    assert (texts(left), texts(right), right.names()) == (["one"], ["uno"], {})
    assert len(log.read_all(after=BEGINNING, limit=99).events) == 4


def test_after_rolling_back_life_goes_on() -> None:
    """The next append lies where the rolled-back one would have."""
    log = MemoryLog()
    left, _ = two_contexts(log)
    with failing(log):
        left.add_message("user", "never", message_id="m2")

    left.add_message("user", "two", message_id="m2")

    assert texts(left) == texts(handle_on(log)) == ["one", "two"]


def test_a_conflict_rolls_back() -> None:
    """Another writer came first in one of the streams: nothing of the transaction is recorded."""
    log = MemoryLog()
    left, right = two_contexts(log)

    def change() -> None:
        with transaction(log):
            left.add_message("user", "two")
            right.add_message("user", "dos")
            record(log, said("m9", "other"), stream=B)

    with pytest.raises(ConcurrencyError) as caught:
        change()

    assert (caught.value.stream, caught.value.expected, caught.value.actual) == (B, 2, 3)
    assert (texts(left), texts(right)) == (["one"], ["uno"])
    assert (log.head(A), log.head(B)) == (2, 3)


def test_a_refusal_within_it_can_be_caught() -> None:
    """The call that was refused has no part in the transaction; the others have."""
    log = MemoryLog()
    left, _ = two_contexts(log)

    with transaction(log):
        left.add_message("user", "two")
        with pytest.raises(DuplicateItemError):
            left.add_message("user", "other", message_id="m1")

    assert texts(left) == ["one", "two"]


def test_transactions_do_not_nest() -> None:
    """The inner block is refused, and the outer one goes on."""
    log = MemoryLog()
    left, _ = two_contexts(log)

    with transaction(log):
        left.add_message("user", "two")
        with pytest.raises(InvalidInputError, match="do not nest"), transaction(log):
            pass

    assert texts(left) == ["one", "two"]


def test_two_handles_of_one_stream_are_refused() -> None:
    """Neither knows of the other's decisions; the whole block is rolled back."""
    log = MemoryLog()
    left, _ = two_contexts(log)
    other = handle_on(log, A)

    def change() -> None:
        with transaction(log):
            left.add_message("user", "two")
            other.add_message("user", "three")

    with pytest.raises(InvalidInputError, match="two handles"):
        change()

    assert (texts(left), texts(other), log.head(A)) == (["one"], ["one"], 2)


def test_a_key_makes_it_repeatable() -> None:
    """The same transaction again records nothing, and both views show what it did the first time."""
    log = MemoryLog()
    left, right = two_contexts(log)
    for _ in range(2):
        with transaction(log, idempotency_key="k"):
            left.add_message("user", "two")
            right.add_message("user", "dos")

    assert (texts(left), texts(right)) == (["one", "two"], ["uno", "dos"])
    assert len(log.read_all(after=BEGINNING, limit=99).events) == 6


def test_a_key_within_it_is_refused() -> None:
    """The key belongs to the transaction as a whole."""
    log = MemoryLog()
    left, _ = two_contexts(log)

    with transaction(log), pytest.raises(InvalidInputError, match="to the transaction"):
        left.add_message("user", "two", idempotency_key="k")

    assert texts(left) == ["one"]


def test_nothing_decided_is_nothing_recorded() -> None:
    """An empty block is fine."""
    log = MemoryLog()

    with transaction(log):
        pass

    assert log.read_all(after=BEGINNING, limit=99).events == []


def test_contexts_of_other_logs_go_on_as_always() -> None:
    """A transaction is one log's; a detached context within the block records at once."""
    log, detached = MemoryLog(), ChatContext()
    left, _ = two_contexts(log)

    with failing(log):
        left.add_message("user", "two")
        detached.add_message("user", "kept")

    assert (texts(left), texts(detached)) == (["one"], ["kept"])


def test_what_was_queued_comes_before() -> None:
    """A context that enqueues has its queue written before the transaction that follows."""
    log = LateLog()
    record(log, OPENED)
    chat = handle_on(log, durability="enqueue")
    _ = chat.items
    chat.add_message("user", "one")
    disk = threading.Timer(0.05, log.land)
    disk.start()

    with transaction(log):
        chat.add_message("user", "two")

    disk.join()
    assert texts(handle_on(log)) == texts(chat) == ["one", "two"]


def test_a_refresh_within_it() -> None:
    """What others recorded meanwhile is not mixed with what was decided; the commit tells of it, then it is read."""
    log = MemoryLog()
    left, _ = two_contexts(log)

    def change() -> None:
        with transaction(log):
            left.add_message("user", "two")
            record(log, *(said(f"m{number}") for number in range(2, 6)), stream=A)
            assert (left.refresh(), left.version, texts(left)) == ((), 3, ["one", "two"])
            left.add_message("user", "three")
            assert texts(left) == ["one", "two", "three"]

    with pytest.raises(ConcurrencyError):
        change()

    assert (len(left.refresh()), texts(left)) == (4, ["one", *["hello"] * 4])


def test_another_thread_is_no_part_of_it() -> None:
    """What a thread does to another context meanwhile is recorded at once, and stays."""
    log = MemoryLog()
    left, right = two_contexts(log)

    with failing(log):
        left.add_message("user", "two")
        thread = threading.Thread(target=right.add_message, args=("user", "dos"))
        thread.start()
        thread.join()

    assert (texts(left), texts(right)) == (["one"], ["uno", "dos"])


def test_tasks_have_their_own() -> None:
    """A transaction follows `await` and is not seen by other tasks."""
    log = MemoryLog()
    left, right = two_contexts(log)

    async def change(chat: ChatContext, text: str, fail: bool) -> None:
        with transaction(log):
            chat.add_message("user", text)
            await asyncio.sleep(0.001)
            if fail:
                raise ZeroDivisionError

    async def both() -> list[Any]:
        tasks = (change(left, "two", True), change(right, "dos", False))
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    results = asyncio.run(both())

    assert [type(result) for result in results] == [ZeroDivisionError, type(None)]
    assert (texts(left), texts(right)) == (["one"], ["uno", "dos"])


def test_a_transaction_is_under_way_until_it_is_recorded() -> None:
    """Another thread finds it so while it is being committed, when nothing joins it any more, and not afterwards."""
    found: list[tuple[bool, bool]] = []

    def look() -> None:
        thread = threading.Thread(target=lambda: found.append((made.is_open, made.is_under_way)))
        thread.start()
        thread.join()

    log = DisturbedLog(look, times=1)
    with transaction(log) as made:
        look()
        made.add(NewEvents(stream=A, expected_version=0, events=(OPENED,), metas=(Meta(),), root=A))
    look()

    assert found == [(True, True), (False, True), (False, False)]
