"""The command handler: catching up, conflicts, queued decisions, repetitions."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import ChatItem, ChatMessage
from refold.domain.chat.roles import ChatRole
from refold.domain.chat.rules.commands import AddItems, EvictItems
from refold.domain.chat.rules.decide import CHAT
from refold.domain.context.folded_stream import Place
from refold.domain.context.journal import QUIET_APPENDS, Journal
from refold.domain.context.transaction import transaction
from refold.domain.errors import (
    ConcurrencyError,
    DuplicateItemError,
    IdempotencyError,
    InvalidInputError,
    LogWentBackError,
    StorageBusyError,
)
from refold.domain.log.envelope import RecordedEvent
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import ANY_VERSION, NewEvents, Pending, Receipt

from ..support.effort import CountedLock
from .chat_events import OPENED, STREAM, said
from .fakes import CountingSystem, DisturbedLog, handle_on, kept, record, texts


@pytest.mark.parametrize(
    ("after", "until", "found"), [(1, 3, ["one", "two"]), (2, 4, ["two", "three"]), (3, 9, ["three", "four"])]
)
def test_events_are_cut_at_a_version(after: int, until: int, found: list[str]) -> None:
    """Also among those that were decided, and are not in the log yet."""
    log = MemoryLog()
    chat = handle_on_new(log)
    with transaction(log):
        for text in ("two", "three", "four"):
            chat.add_message("user", text)
        events: list[Any] = chat._journal.events(after=after, until=until)

    assert [event.content if event.id == "m1" else event.content[0] for event in events] == found


# Somebody else came first


@pytest.mark.parametrize("loaded", [True, False])
def test_an_append_catches_up(loaded: bool) -> None:
    """It is recorded behind what the other wrote, and says what that was."""
    log = MemoryLog()
    chat = kept(log) if loaded else handle_on_new(log)
    record(log, said("m2", "two"), said("m3", "three"))

    chat.add_message("user", "four")

    assert texts(chat) == ["one", "two", "three", "four"]
    assert [event.event.id for event in chat.came_between] == ["m2", "m3"]
    assert chat.version == log.head(STREAM) == 5


def handle_on_new(log: MemoryLog) -> ChatContext:
    """Open a stream with one message and return a handle on it that is not loaded."""
    record(log, OPENED, said("m1", "one"))
    return handle_on(log)


def test_nothing_came_between() -> None:
    """What came between is said of the last call alone."""
    log = MemoryLog()
    chat = kept(log)
    record(log, said("m2", "two"))
    chat.add_message("user", "three")

    chat.add_message("user", "four")

    assert chat.came_between == ()


def test_catching_up_more_than_once() -> None:
    """Each time another writer is quicker it is tried again, and all that came between is told."""
    log = DisturbedLog()
    chat = kept(log)
    numbers = iter(range(100))
    log.disturb, log.times = lambda: record(log, said(f"x{next(numbers)}", "other")), 3

    chat.add_message("user", "mine", message_id="m9")

    assert texts(chat) == ["one", "other", "other", "other", "mine"]
    assert len(chat.came_between) == 3


def test_catching_up_has_an_end() -> None:
    """A writer that is always second is told so, after a hundred attempts."""
    log = DisturbedLog()
    chat = kept(log)
    numbers = iter(range(1_000))
    log.disturb, log.times = lambda: record(log, said(f"x{next(numbers)}")), 1_000

    with pytest.raises(ConcurrencyError):
        chat.add_message("user", "mine", message_id="m9")
    assert 1_000 - log.times == 100


class WatchedLog(DisturbedLog):
    """Such a log, which notes the expected versions of what others than the disturbance append."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[int] = []
        self.failure: Exception | None = None

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        """Note, and append."""
        self.expected += [new.expected_version for new in batch if new.metas[0].actor is not None]
        return super().append(batch, wait=wait)

    def read(self, *args: Any, **kwargs: Any) -> list[RecordedEvent]:
        """Read, unless the database is to fail once an event is appended."""
        if self.failure is not None and ANY_VERSION in self.expected:
            raise self.failure
        return super().read(*args, **kwargs)


def crowded(*, loaded: bool = True) -> tuple[WatchedLog, ChatContext]:
    """Return a chat, and its log, to which another writer appends before each append."""
    log = WatchedLog()
    chat = kept(log) if loaded else handle_on_new(log)
    numbers = iter(range(1_000))
    log.expected.clear()
    log.disturb, log.times = lambda: record(log, said(f"x{next(numbers)}", "other")), 1_000
    return log, chat


@pytest.mark.parametrize("loaded", [True, False])
def test_an_append_among_many(loaded: bool) -> None:
    """A version is predicted once; then it is recorded behind whatever is there, and says what that was."""
    log, chat = crowded(loaded=loaded)

    for number in range(3):
        chat.add_message("user", f"mine {number}")

        assert [one.event.content for one in chat.came_between] == ["other"] * (2 if number == 0 else 1)
    assert log.expected == [2, ANY_VERSION, ANY_VERSION, ANY_VERSION]
    assert texts(chat) == ["one", "other", "other", "mine 0", "other", "mine 1", "other", "mine 2"]
    assert texts(chat) == texts(handle_on(log))
    assert chat.version == log.head(STREAM)


def test_an_expected_version_among_many() -> None:
    """It is strict there, too: nothing is recorded behind what the caller has not seen."""
    log, chat = crowded()
    chat.add_message("user", "mine")

    with pytest.raises(ConcurrencyError):
        chat.add_message("user", "never", expected_version=chat.version)
    assert texts(handle_on(log)) == ["one", "other", "other", "mine", "other"]


def test_an_append_when_it_is_quiet_again() -> None:
    """The version is predicted again, which spares a read; an edit was decided on a version all the time."""
    log, chat = crowded()
    chat.add_message("user", "mine")
    log.times = 0
    for _ in range(QUIET_APPENDS):
        chat.add_message("user", "mine")
    chat.evict("m1")
    chat.add_message("user", "mine")

    version = 4 + 1 + QUIET_APPENDS
    assert log.expected == [2, *[ANY_VERSION] * (1 + QUIET_APPENDS), version, version + 1]


def test_a_repetition_among_many() -> None:
    """Under its key an append is there once."""
    log, chat = crowded()
    chat.add_message("user", "first")

    one = chat.add_message("user", "mine", idempotency_key="k")

    assert chat.add_message("user", "mine", idempotency_key="k") == one
    assert texts(handle_on(log)).count("mine") == 1
    assert texts(chat) == texts(handle_on(log))


def test_what_came_between_cannot_be_read() -> None:
    """The append is recorded, and no error says otherwise; the state is read with its next use."""
    log, chat = crowded()
    log.failure = StorageBusyError("busy")

    assert chat.add_message("user", "mine").content == ["mine"]

    log.failure = None
    assert (chat.version, log.head(STREAM)) == (5, 5)
    assert texts(chat) == ["one", "other", "other", "mine"]


def test_a_log_that_went_back_meanwhile() -> None:
    """It is told, and the next call looks at what is there."""
    log, chat = crowded()
    log.failure = LogWentBackError("the log", stream=STREAM, acknowledged=2, found=1)

    with pytest.raises(LogWentBackError):
        chat.add_message("user", "mine")

    log.failure = None
    chat.refresh()
    assert texts(chat) == ["one", "other", "other", "mine"]


def test_the_decision_is_made_again() -> None:
    """What the other wrote may forbid what was decided before."""
    log = MemoryLog()
    chat = kept(log)
    record(log, said("m2", "theirs"))

    with pytest.raises(DuplicateItemError):
        chat.add_message("user", "mine", message_id="m2")
    assert log.head(STREAM) == 3


@pytest.mark.parametrize("loaded", [True, False])
def test_an_editing_call_is_told(loaded: bool) -> None:
    """Without catching up: an error that says where the stream is, and the view stays as it was."""
    log = MemoryLog()
    chat = kept(log) if loaded else handle_on_new(log)
    record(log, said("m2", "two"))

    with pytest.raises(ConcurrencyError) as caught:
        chat._journal.execute(AddItems(STREAM, (said("m3"),)), catch_up=False)

    assert (caught.value.stream, caught.value.expected, caught.value.actual) == (STREAM, 2, 3)
    assert (texts(chat), chat.version, log.head(STREAM)) == (["one"], 2, 3)


ADDS: dict[str, Any] = {
    "message": lambda chat, version: chat.add_message("user", "x", expected_version=version),
    "call": lambda chat, version: chat.add_function_call("f", "{}", expected_version=version),
    "output": lambda chat, version: chat.add_function_output("f", "1", "c", expected_version=version),
    "handoff": lambda chat, version: chat.add_handoff("b", expected_version=version),
    "config": lambda chat, version: chat.add_config_update("x", expected_version=version),
    "items": lambda chat, version: chat.add_items([], expected_version=version),
    "name": lambda chat, version: chat.name_version("here", expected_version=version),
}


@pytest.mark.parametrize("add", ADDS.values(), ids=ADDS)
@pytest.mark.parametrize("expected", [0, 1, 3])
def test_an_expected_version_is_strict(add: Any, expected: int) -> None:
    """Any call that is told what to expect is refused where the view is elsewhere."""
    log = MemoryLog()
    chat = kept(log)

    with pytest.raises(ConcurrencyError) as caught:
        add(chat, expected)

    assert (caught.value.expected, caught.value.actual) == (expected, 2)
    assert (chat.version, log.head(STREAM)) == (2, 2)


def test_an_expected_version_is_checked_in_the_log() -> None:
    """The view may be right and the log have gone on: no catching up then."""
    log = MemoryLog()
    chat = kept(log)
    record(log, said("m2", "two"))

    with pytest.raises(ConcurrencyError) as caught:
        chat.add_message("user", "three", expected_version=2)

    assert caught.value.actual == 3
    assert (texts(chat), log.head(STREAM)) == (["one"], 3)


def test_an_expected_version_that_is_right() -> None:
    """The call goes through."""
    chat = kept(MemoryLog())

    chat.add_message("user", "two", expected_version=2)

    assert texts(chat) == ["one", "two"]


def test_refreshing() -> None:
    """What others wrote is given back and is in the view."""
    log = MemoryLog()
    chat = kept(log)
    record(log, said("m2", "two"))

    assert [event.version for event in chat.refresh()] == [3]
    assert texts(chat) == ["one", "two"]
    assert chat.refresh() == ()


def test_rebasing() -> None:
    """The change is made again on what is there now, as often as it takes; its result is given back."""
    log = DisturbedLog()
    chat = kept(log)
    numbers = iter(range(100))
    log.disturb, log.times = lambda: record(log, said(f"x{next(numbers)}", "other")), 2
    seen: list[int] = []

    def change(context: ChatContext) -> str:
        seen.append(context.version)
        return context.add_message("user", "mine", expected_version=context.version).id

    made = chat.rebase(change)

    assert (seen, texts(chat)) == ([2, 3, 4], ["one", "other", "other", "mine"])
    assert chat.items[-1].id == made


def test_rebasing_has_an_end() -> None:
    """A hundred attempts, then the error."""
    log = DisturbedLog()
    chat = kept(log)
    numbers = iter(range(1_000))
    log.disturb, log.times = lambda: record(log, said(f"x{next(numbers)}")), 1_000

    with pytest.raises(ConcurrencyError):
        chat.rebase(lambda context: context.add_message("user", "x", expected_version=context.version))
    assert 1_000 - log.times == 100


# Repetitions


@pytest.mark.parametrize("durability", ["commit", "enqueue"])
def test_the_same_key_again(durability: Any) -> None:
    """Nothing is recorded twice, whatever handle repeats it, and the view shows it once."""
    log = MemoryLog()
    kept(log)
    for _ in range(2):
        chat = handle_on(log, durability=durability)
        chat.add_message("user", "two", idempotency_key="k")
        chat.flush()

    assert texts(chat) == texts(handle_on(log)) == ["one", "two"]


@pytest.mark.parametrize("add", ["add_message", "add_function_call"])
def test_the_first_item_is_the_answer(add: str) -> None:
    """A repetition gives the item that was recorded the first time, its id included."""
    log = MemoryLog()
    chat = kept(log)

    first = getattr(chat, add)("user", "two", idempotency_key="k")

    assert getattr(chat, add)("user", "two", idempotency_key="k") == first
    assert getattr(handle_on(log), add)("user", "two", idempotency_key="k") == first
    assert chat.items[1:] == [first]


def test_many_items_under_one_key() -> None:
    """Those of the first time are given back, where they were made anew; other given ids are other items."""
    chat = kept(MemoryLog())

    def made(**fields: Any) -> list[ChatItem]:
        return [ChatMessage(role=ChatRole.USER, content=[text], **fields) for text in ("one", "two")]

    first = chat.add_items(made(), idempotency_key="k")

    assert chat.add_items(made(), idempotency_key="k") == first
    with pytest.raises(IdempotencyError):
        chat.add_items(made(id="n2"), idempotency_key="k")


def test_a_repetition_by_a_handle_that_is_behind() -> None:
    """It catches up, though it was not asked to append anything new."""
    log = MemoryLog()
    behind = kept(log)
    handle_on(log).add_message("user", "two", idempotency_key="k")
    record(log, said("m3", "three"))

    behind.add_message("user", "two", idempotency_key="k")

    assert texts(behind) == ["one", "two", "three"]


def test_a_key_belongs_to_a_stream() -> None:
    """The same key in another context is another key."""
    log = MemoryLog()
    chat = kept(log)
    record(log, OPENED, stream="chat:b")
    other = handle_on(log, "chat:b")

    chat.add_message("user", "two", idempotency_key="k")
    other.add_message("user", "dos", idempotency_key="k")

    assert (texts(chat), texts(other)) == (["one", "two"], ["dos"])


def test_a_key_of_a_strict_call() -> None:
    """Repeating a strict call is harmless too: the answer that was lost is given again."""
    log = MemoryLog()
    chat = kept(log)
    first = chat.add_message("user", "two", expected_version=2, idempotency_key="k")
    again = handle_on(log)._journal
    again._version, again._state = 2, None

    repeated = ChatContext(journal=again).add_message("user", "two", expected_version=2, idempotency_key="k")

    assert repeated == first


# Queued decisions


def test_a_durability_that_is_none() -> None:
    """Refused by name."""
    durability: Any = "sometimes"

    with pytest.raises(InvalidInputError, match="sometimes"):
        Journal(MemoryLog(), Place(STREAM, STREAM), CHAT, version=0, durability=durability)


def test_ids_and_times_come_from_the_port() -> None:
    """What a context makes up it is given by its system."""
    chat = ChatContext(system=CountingSystem(1_000))

    message = chat.add_message("user", "hi")

    assert message.id == "msg_000000000001"
    assert 1_000 < message.created_at < 1_010


# Locks


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize(
    ("do", "times"),
    [
        (lambda journal: journal.events(until=1), 1),
        (lambda journal: journal.known, 1),
        (lambda journal: journal.decided_past(1), 1),
        (lambda journal: journal.forget(), 1),
        (lambda journal: journal.flush(), 1),
        # It flushes first.
        (lambda journal: journal.refresh(), 2),
        # It flushes and refreshes.
        (lambda journal: journal.repeated("a call", "key"), 3),
        (lambda journal: journal.move_to(MemoryLog(), journal.place, "commit", set()), 1),
        (lambda journal: journal._settle_transaction(None), 1),
    ],
)
def test_each_call_takes_the_lock(do: Callable[[Journal[Any]], object], times: int, loaded: bool) -> None:
    """Several threads may use one view."""
    log = MemoryLog()
    journal = (kept(log) if loaded else handle_on_new(log))._journal
    journal._lock = lock = CountedLock()  # type: ignore[assignment]

    do(journal)

    assert lock.taken == times


def test_a_command_that_needs_the_state_has_it_read() -> None:
    """Another thread may have let go of it since the call looked; an append needs none."""
    log = MemoryLog()
    journal = handle_on_new(log)._journal
    journal.execute(EvictItems(STREAM, ("m1",)))
    unread = handle_on(log)._journal
    unread.execute(AddItems(STREAM, (said("m2"),), fresh=True))

    assert (journal.version, unread.version, unread.is_loaded) == (3, 4, False)
    assert texts(handle_on(log)) == ["hello"]


def test_the_state_is_read_once_under_the_lock() -> None:
    """And looked at without it then: whoever waits for the disk holds it."""
    journal = handle_on_new(MemoryLog())._journal
    journal._lock = lock = CountedLock()  # type: ignore[assignment]

    _ = journal.state
    # Once for the state, and once for its events.
    assert lock.taken == 2
    journal.execute(AddItems(STREAM, (said("m2"),)))
    assert (journal.version, lock.taken) == (3, 3)
    _ = journal.state, journal.version
    assert lock.taken == 3
