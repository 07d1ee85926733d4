"""What a fork carries (SPEC V4), on a log in memory."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import Forked
from refold.domain.context.journal import Journal
from refold.domain.errors import DamagedError, InvalidInputError
from refold.domain.log.memory_log import MemoryLog
from refold.domain.spans import Segment, Span

from .chat_events import OPENED, called, configured, handed, returned, said
from .fakes import CountingSystem, LateLog, handle_on, record


def context(*items: Any) -> ChatContext:
    """Return a context with these items."""
    log = MemoryLog()
    record(log, OPENED, *items)
    return handle_on(log)


def ids(chat: Any) -> str:
    """Return the ids of what can be seen."""
    return " ".join(item.id for item in chat.items)


TALK = (
    said("s", "Be kind.", role="system"), said("u1"), called("f1"), handed("h1"), configured("c1", tools=("lookup",)),
    said("u2"), returned("o1"), said("d", "Be brief.", role="developer"), said("u3"), called("f3"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("turns", "expected"),
    [(1, "s d u3 f3"), (2, "s d u2 u3 f3"), (3, "s d u1 f1 h1 c1 u2 o1 u3 f3"), (9, "s d u1 f1 h1 c1 u2 o1 u3 f3")],
)
def test_the_last_turns(turns: int, expected: str) -> None:
    """Instructions first, then the turns; an output whose call is cut off is cut off too (V4.11 to V4.15)."""
    assert ids(context(*TALK).fork_filtered(turns)).partition(" cfgupd_")[0] == expected


@pytest.mark.parametrize(("agent", "expected"), [(None, "triage"), ("billing", "billing")])
def test_whose_a_fork_is(agent: str | None, expected: str) -> None:
    """The user's of its parent, and of the agent that is named, or else of the parent's."""
    parent = context(*TALK)
    forks = [parent.fork(agent=agent), parent.fork_filtered(1, agent=agent), parent.fork_brief("Help.", agent_id=agent)]
    opened: list[Any] = [one.history()[0].event for one in forks]

    assert [(one.user, one.session, one.agent) for one in opened] == [("mia", None, expected)] * 3


def test_what_is_in_force_comes_along() -> None:
    """Tools that were set before the cut are set in the fork by an item of its own (V4.14)."""
    parent = context(*TALK)
    child = parent.fork_filtered(1)

    assert child.active_config_at() == parent.active_config_at() == ("Be brief.", ["lookup"])
    event = child.history()[0].event
    assert isinstance(event, Forked)
    assert event.config is not None
    assert (event.config.instructions, event.config.tools) == (None, ("lookup",))


def test_tools_are_chosen_by_name() -> None:
    """Calls of others stay behind, with their outputs (V4.4)."""
    assert "f3" not in ids(context(*TALK).fork_filtered(1, tools=["other"])).split()
    assert ids(context(*TALK).copy(tools=["lookup"], exclude_instructions=True)) == "u1 f1 h1 c1 u2 o1 u3 f3"


def test_items_of_one_agent() -> None:
    """Messages and calls of others stay behind; instructions, handoffs and config updates come along (V4.4)."""
    parent = context(*TALK)
    parent.add_message("assistant", "mine", agent_id="sub", message_id="mine")

    assert ids(parent.copy(filter_agent_id="sub")) == "s h1 c1 d mine"


@pytest.mark.parametrize("turns", [0, -1])
def test_too_few_turns(turns: int) -> None:
    """Refused in the seed's words (V4.11)."""
    with pytest.raises(InvalidInputError, match="recent_turns must be >= 1"):
        context(*TALK).fork_filtered(turns)


def test_a_brief_needs_instructions() -> None:
    """Refused in the seed's words; a task is not needed (V4.17)."""
    chat = context(*TALK)
    with pytest.raises(InvalidInputError, match="requires non-empty instructions"):
        chat.fork_brief("")
    brief = chat.fork_brief("Do it.", agent_id="sub")
    assert [(item.role, item.agent_id) for item in brief.messages()] == [("system", "sub")]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": 9, "lineage": 9}, "the fork of chat:a@9"),
        ({"lineage": None}, "the fork of chat:a@2"),
        ({"carried": [1]}, "chat:a@1"),
        ({"carried": [2, 7]}, "chat:a@7"),
    ],
    ids=["a version that is not there", "no lineage", "no item", "an item that is not there"],
)
def test_a_damaged_fork(change: dict[str, Any], named: str) -> None:
    """What it names and is not there is told."""
    log = context(said("m"))._journal.log
    lineage = change.pop("lineage", 2)
    carried = change.pop("carried", None)
    event = Forked(
        parent="chat:a", version=change.get("version", 2), root="a",
        lineage=() if lineage is None else (Segment("chat:a", lineage),),
        carried=None if carried is None else (Span.of("chat:a", carried),),
    )  # fmt: skip
    record(log, event, stream="chat:b")

    with pytest.raises(DamagedError, match=f"{named} is damaged"):
        _ = handle_on(log, "chat:b").items


def test_made_up_ids_do_not_grow() -> None:
    """Each fork names all its ancestors, so their ids must stay short."""
    chat = ChatContext()
    forks = [chat]
    for _ in range(20):
        forks.append(forks[-1].fork())

    assert len({len(fork.id) for fork in forks[1:]}) == 1
    assert len({fork.id for fork in forks}) == 21


class BusySystem(CountingSystem):
    """Another thread comes in between, whenever an id is made for a fork."""

    def __init__(self) -> None:
        super().__init__()
        self.come_between: Callable[[], object] = lambda: None

    def new_id(self, prefix: str) -> str:
        """Let the other one work, unless it is its own id."""
        if prefix == "-":
            self.come_between()
        return super().new_id(prefix)


@pytest.mark.parametrize("way", ["fork", "fork_filtered", "copy"])
def test_a_parent_that_goes_on_meanwhile(way: str) -> None:
    """What another thread adds to the parent while a fork is made is not in it: its event does not name it."""
    system = BusySystem()
    parent = ChatContext(system=system)
    parent.add_message("user", "before", "before")
    system.come_between = lambda: parent.add_message("user", "meanwhile")

    child = getattr(parent, way)()
    shown = ids(child)
    child.cleanup()

    assert len(parent.items) == 2
    assert (shown, ids(child)) == ("before", "before")


def test_a_parent_to_which_others_queue_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork names no version that is not in the log: another thread queues before the flush, or behind the fork."""
    log = LateLog()
    record(log, OPENED, said("before"))
    parent = handle_on(log, durability="enqueue")
    flush = Journal.flush
    threads: list[threading.Thread] = []

    def flushed(journal: Journal[Any], deadline: float | None = None) -> None:
        flush(journal, deadline)
        if not threads:
            threads.append(threading.Thread(target=lambda: [parent.add_message("user", text) for text in "abc"]))
            threads[0].start()
            threads[0].join(0.2)

    monkeypatch.setattr(Journal, "flush", flushed)
    child = parent.fork("child")
    event, there = child.history()[0].event, log.head(parent.stream_id)
    threads[0].join()

    assert isinstance(event, Forked)
    assert event.version <= there
    assert ids(handle_on(log, "chat:child")) == ids(child) == "before"
    assert len(parent.items) == 4
