"""What is read of other streams so that a context can be folded: in few questions, and little that is not needed."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

import msgspec
import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import Forked, Named
from refold.domain.chat.rules.decide import CHAT
from refold.domain.chat.state import packed as chat_packed
from refold.domain.chat.state.fold import ChatState, ReferencedItem, fold
from refold.domain.chat.state.loading import _last_taken, complete
from refold.domain.chat.state.packed import packed
from refold.domain.chat.state.unread_items import SCANS_MAX, Hashes, StoredItems
from refold.domain.context.context import Context
from refold.domain.context.snapshot import Packing
from refold.domain.errors import DamagedError
from refold.domain.log.envelope import Event
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import Range, StreamEnd
from refold.domain.spans import Ref, Segment
from refold.domain.trajectory import packed as run_packed
from refold.domain.trajectory.factory import RunFactory

from .chat_events import OPENED, STREAM, said
from .fakes import handle_on, record, texts


class WatchedLog(MemoryLog):
    """A log that notes what is asked of it, and may be damaged in one stream."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[Sequence[Range]] = []
        self.damaged = ""

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        """Note the question, then answer it if it does not touch the damage."""
        self.questions.append(ranges)
        if any(one.stream == self.damaged for one in ranges):
            raise DamagedError(self.damaged, "for a test")
        return super().read_ranges(ranges)

    @property
    def events_read(self) -> int:
        """How many events were asked for."""
        return sum(one.until - one.after for ranges in self.questions for one in ranges)


def rooted(log: MemoryLog, count: int) -> ChatContext:
    """Return a context `chat:a` with so many messages."""
    record(log, OPENED, *(said(f"m{number}", f"text {number}") for number in range(count)))
    return handle_on(log)


def line_of_forks(chat: ChatContext, depth: int) -> ChatContext:
    """Fork a context and its forks, each with a message of its own."""
    for generation in range(depth):
        chat = chat.fork()
        chat.add_message("user", f"generation {generation}")
    return chat


def read_again(log: MemoryLog, chat: ChatContext) -> list[str]:
    """Return what the messages say to somebody who has not read the context yet."""
    return texts(handle_on(log, f"chat:{chat.id}"))


@pytest.mark.parametrize("root", [3, 5_000])
def test_many_ancestors_are_few_questions(root: int) -> None:
    """Each once, more and more of them at a time."""
    log = WatchedLog()
    last = line_of_forks(rooted(log, root), 100)

    assert read_again(log, last)[-3:] == ["generation 97", "generation 98", "generation 99"]
    assert len(log.questions) < 8
    assert log.events_read == 1 + root + 2 * 99


def test_a_long_history_that_is_not_needed() -> None:
    """Behind a fork that carried a part of it, it is not read, however many forks follow."""
    log = WatchedLog()
    last = line_of_forks(rooted(log, 5_000).fork_filtered(1), 20)
    log.questions.clear()

    assert read_again(log, last) == ["text 4999", *(f"generation {number}" for number in range(20))]
    assert log.events_read < 100


def test_damage_in_what_is_not_needed() -> None:
    """A short history may be read along; that it is damaged is nobody's business."""
    log = WatchedLog()
    root = rooted(log, 5)
    last = line_of_forks(root.fork_brief("Be kind."), 3)
    log.damaged = "chat:a"

    assert read_again(log, last) == ["Be kind.", "generation 0", "generation 1", "generation 2"]
    with pytest.raises(DamagedError, match="chat:a"):
        read_again(log, root.fork())


def test_many_merges_are_one_question() -> None:
    """What they took is read together, in the order of the merges."""
    log = WatchedLog()
    chat = rooted(log, 1)
    for number in range(10):
        helper = chat.fork_brief("Help.")
        helper.add_message("assistant", f"answer {number}")
        asyncio.run(chat.merge_result(helper))
    log.questions.clear()

    assert read_again(log, chat) == ["text 0", *(f"answer {number}" for number in range(10))]
    assert len(log.questions) == 1


def test_a_fold_in_pages_holds_a_page_of_items() -> None:
    """However long the chat, its fork, and what left them: no item is read twice, and the snapshot is the same."""
    log, held = WatchedLog(), list[int]()
    chat = rooted(log, 200)
    with chat.stream() as out:
        for number in range(30):
            out.write(f"word {number} ")
    for item in chat.items[::5]:
        chat.evict(item.id)
    child = chat.fork()
    child.add_message("user", "more")
    child.clear()
    child.restore([one.id for one in chat.items[:70]])

    def noted(state: ChatState, events: Iterable[Any]) -> ChatState:
        state = fold(state, events)
        held.append(sum(item is not None for item in list.__iter__(state.items.raw.items)))
        return state

    watched = CHAT._replace(fold=noted)
    for one in (chat, child):
        stream, whole = f"chat:{one.id}", handle_on(log, f"chat:{one.id}")._journal.state
        log.questions.clear()
        state = watched.state_at(log, stream, whole.version, at_once=16)

        assert (packed(state), state.items.totals) == (packed(whole), whole.items.totals)
        assert log.questions == []
        assert list(state.items) == list(whole.items)
    assert max(held) <= 16


def test_a_fold_in_pages_meets_what_a_fold_at_once_meets() -> None:
    """A fork of nothing, and one whose parent is not in its lineage."""
    log = MemoryLog()
    rooted(log, 5)
    for stream, lineage in (("chat:b", [Segment("chat:a", 9)]), ("chat:c", [])):
        record(log, Forked(root="chat:a", parent="chat:a", version=9, lineage=tuple(lineage)), stream=stream)
        for read in (
            lambda: CHAT.state_at(log, stream, 1, at_once=4),  # noqa: B023
            lambda: complete(log, log.read_events(stream)),  # noqa: B023
        ):
            with pytest.raises(DamagedError, match=r"version does not exist|not in its lineage"):
                read()


@pytest.mark.parametrize("looks", [0, SCANS_MAX])
def test_where_a_name_may_be(looks: int) -> None:
    """It is looked for in all hashes, or in an index once it was asked for often: the same places, in order."""
    names = [str(number % 40) for number in range(100)]
    hashes = Hashes()
    for name in names:
        hashes.append(name)
    for _ in range(looks):
        hashes.places("none", 90)

    for name in ("0", "7", "39", "none"):
        assert list(hashes.places(name, 90)) == [place for place in range(90) if names[place] == name]
    assert (hashes._places is not None) == bool(looks)


@pytest.mark.parametrize("newer", [[], [2]])
def test_a_newer_form_of_an_item_is_kept(newer: Sequence[int]) -> None:
    """Those around it are read from the log, in one step if none of them was there."""
    stored = StoredItems(4, lambda places: [said(f"m{place}") for place in places])
    for place in newer:
        stored[place] = said(f"m{place}", "newer")

    expected = ["newer" if place in newer else "hello" for place in range(4)]
    assert [getattr(item, "content", None) for item in stored] == expected
    assert [item.id for item in stored] == ["m0", "m1", "m2", "m3"]


def test_the_last_items_behind_many_other_events() -> None:
    """More events are asked for each time; where none are left, the last items are not known."""
    events: list[Any] = [OPENED, said("m1"), *(Named(name=f"n{number}", version=2) for number in range(100))]
    asked: list[int] = []

    def last_events(count: int) -> Sequence[Any]:
        asked.append(count)
        return events[-count:]

    log: Any = None
    place = Ref(len(events), STREAM)
    assert _last_taken(log, place, last_events, 5) == ([ReferencedItem(Ref(2, STREAM), events[1])], (1, OPENED))
    assert asked == [5, 13, 26, 52, 104]
    assert _last_taken(log, place, lambda count: events[2:], 200) == (None, (0, None))


def opened_chat(user: str) -> Context[Any]:
    """Return a chat with a message, in a log of its own."""
    log = MemoryLog()
    record(log, msgspec.structs.replace(OPENED, user=user), said())
    return handle_on(log)


def opened_run(agent: str) -> Context[Any]:
    """Return a run with a query, in a log of its own."""
    run = RunFactory().run("mia", "s", agent=agent)
    run.register_query("why?")
    return run


@pytest.mark.parametrize(("module", "of"), [(chat_packed, opened_chat), (run_packed, opened_run)])
def test_a_snapshot_of_a_context_that_another_event_opened(module: Any, of: Callable[[str], Context[Any]]) -> None:
    """It is not taken for that of the context that is there now."""
    one, other = of("mia"), of("eva")
    data = module.packed(one._journal.state)

    assert module.unpacked(one._journal.log, one.stream_id, data) == one._journal.state
    with pytest.raises(DamagedError, match=r"its snapshot belongs to a (chat|run) that another event opened"):
        module.unpacked(other._journal.log, one.stream_id, data)


def test_a_snapshot_of_a_message_that_is_being_written() -> None:
    """It has the text up to its version, and goes on with the rest, whether its events were folded together or not."""
    log = MemoryLog()
    chat = rooted(log, 2)
    for pieces in (["One ", "two ", "three."], ["Four."], []):
        with chat.stream() as out:
            for piece in pieces:
                out.write(piece)
                out.flush()
            chat.add_message("user", "meanwhile")
    events: list[Any] = log.read_events(STREAM)

    one_by_one = CHAT.initial_state
    for version, event in enumerate(events, 1):
        one_by_one = fold(one_by_one, [event])
        for state in (one_by_one, fold(CHAT.initial_state, events[:version])):
            again = chat_packed.unpacked(log, STREAM, packed(state) or b"")
            assert packed(again) == packed(state)
            assert list(again.items) == list(state.items) == list(chat.at(version).recorded_items())
            assert packed(fold(again, events[version:])) == packed(chat._journal.state)

    stored: Any = chat_packed.unpacked(log, STREAM, packed(one_by_one) or b"").items.raw.items
    held = list(one_by_one.items.item_table.items)
    for places in (range(0), [], [0], [0, 2], [1, 0, 4], [3, 4], range(1, 5)):
        assert [*stored._read(places)] == [held[place] for place in places]

    # Only the fold knows which pieces of it another context has.
    record(log, OPENED, said("other"), stream="chat:b")
    other = handle_on(log, "chat:b")
    assert packed(other._journal.state) is not None
    asyncio.run(other.merge(chat))
    assert packed(other._journal.state) is None


def test_a_snapshot_has_no_name_that_the_run_makes_anew() -> None:
    """Only a name that somebody gave is kept as a hash of it."""
    run = RunFactory().run("mia", "s")
    query = run.register_query("why?")
    run.register_node("State", "made", [query], "next", state="done")
    made = run_packed.packed(run._journal.state)
    run.register_node("State", "given", [query], "next", "mine", state="done")
    given = run_packed.packed(run._journal.state)

    hashes = [msgspec.msgpack.decode(data, type=run_packed._Packed).given for data in (made, given)]
    assert [bool(one) for one in hashes] == [False, True]
    assert run_packed.unpacked(run._journal.log, run.stream_id, given) == run._journal.state


def test_code_without_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of contexts whose code cannot be read there are no snapshots, since nobody could tell which code made them."""
    log, chat = MemoryLog(), opened_chat("mia")
    end = StreamEnd(1, b"digest")
    Packing(lambda _: b"it", lambda *_: None, "json").keep(log, chat.stream_id, None, end)
    assert log.snapshot(chat.stream_id) is not None

    monkeypatch.setattr(sys.modules["json"], "__spec__", ModuleSpec("json", None))
    Packing(lambda _: b"it", lambda *_: None, "json").keep(log, "chat:other", None, end)
    assert log.snapshot("chat:other") is None
