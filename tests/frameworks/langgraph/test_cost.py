"""How much is done for what is new, and that no change is missed all the same."""

import dataclasses
import gc
from collections import Counter
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from pydantic import BaseModel

from refold.domain.concurrency.collector import MANY
from refold.domain.errors import InvalidInputError
from refold.infrastructure.frameworks.conversation import Conversation
from refold.infrastructure.frameworks.langgraph import messages as forms
from refold.infrastructure.frameworks.langgraph.messages import Copies
from refold.infrastructure.store import Store
from refold.langgraph import RefoldSaver

from .graphs import put, thread, values


@dataclasses.dataclass(eq=False)
class Elements:
    """A type that compares its elements, like an array."""

    elements: list[int]

    def __eq__(self, other: object) -> bool:
        """Refuse to say whether all are equal."""
        raise ValueError("the truth value of some elements is ambiguous")


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is done for many messages, and each message that is made."""
    asked: Counter[str] = Counter()

    def count(where: Any, name: str) -> None:
        plain = getattr(where, name)

        def counting(*args: Any, **named: Any) -> Any:
            asked[name] += 1
            return plain(*args, **named)

        monkeypatch.setattr(where, name, counting)

    for name in ("each", "show"):
        count(Conversation, name)
    count(forms, "_new_message")
    count(BaseModel, "model_construct")
    return asked


def events_in(store: Store) -> int:
    """Return the number of events in a store."""
    return sum(map(store.log.head, store.log.streams()))


def test_a_step_is_one_append_and_grows_with_what_is_new(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages before are neither written again nor named."""
    saver, config = RefoldSaver(memory), thread()
    messages: list[HumanMessage] = []
    appends: list[int] = []
    append = memory.log.append

    def counted(batch: Any) -> Any:
        appends.append(sum(len(new.events) for new in batch))
        return append(batch)

    monkeypatch.setattr(memory.log, "append", counted)
    for number in range(300):
        messages = [*messages, HumanMessage(f"message {number}", id=f"h{number}")]
        config = put(saver, config, messages=messages)

    # An item and a checkpoint; the first time also the chat and the thread.
    assert appends == [4] + [2] * 299
    assert len(memory.chat("t").items) == 300
    assert values(RefoldSaver(memory), config)["messages"] == messages


def test_a_short_thread_is_opened_without_reading_its_checkpoint_again(
    memory: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way back to the newest checkpoint reads it, and what it names, with the events around it."""
    put(RefoldSaver(memory), thread(), messages=[HumanMessage("a", id="1")], turns=1)
    pages: list[tuple[int, int | None]] = []
    read = type(memory.log).read

    def noting(log: Any, stream: str, **wanted: Any) -> Any:
        pages.append((wanted.get("after", 0), wanted.get("until")))
        return read(log, stream, **wanted)

    monkeypatch.setattr(type(memory.log), "read", noting)
    assert values(RefoldSaver(memory), thread())["turns"] == 1
    assert [page for page in pages if page[0] > 0] == []
    assert len(pages) == 3


def test_a_fork_and_a_load_touch_what_is_new(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load makes each message once; a save converts those that were loaded once; a fork compares no forms."""
    asked = counted(monkeypatch)
    messages = [HumanMessage(f"message {number}", id=f"h{number}") for number in range(300)]
    saver = RefoldSaver(memory)
    put(saver, put(saver, thread(), messages=messages), messages=[*messages, HumanMessage("more", id="more")])
    assert asked == {}

    fresh = RefoldSaver(memory)
    newest, older = fresh.list(thread())
    assert asked == {"each": 2, "_new_message": 601}
    before = events_in(memory)
    put(fresh, older.config, messages=[*messages, HumanMessage("other", id="other")])
    assert asked == {"each": 3, "_new_message": 601}
    # The beginning of the fork, its name in the thread, the message and the checkpoint.
    assert events_in(memory) == before + 4
    assert [len(values(fresh, one)["messages"]) for one in (thread(), newest.config)] == [301, 301]


def test_a_fork_from_another_branch_touches_what_is_new(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that knows nothing of either goes on from an old checkpoint, and compares no forms of messages."""
    messages = [HumanMessage(f"message {number}", id=f"h{number}") for number in range(30)]
    saver = RefoldSaver(memory)
    put(saver, thread(), messages=messages)
    (first,) = saver.list(thread())
    older = first.config
    put(saver, older, messages=[*messages, HumanMessage("left", id="left")])
    put(saver, older, messages=[*messages, HumanMessage("right", id="right")])
    asked = counted(monkeypatch)

    fresh = RefoldSaver(memory)
    assert len(values(fresh, thread())["messages"]) == 31
    config = put(fresh, older, messages=[*messages, HumanMessage("third", id="third")])
    assert asked["show"] == 0
    assert [one.content for one in values(fresh, config)["messages"][29:]] == ["message 29", "third"]
    assert values(RefoldSaver(memory), config) == values(fresh, config)


def test_messages_that_did_not_change_are_not_compared(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph says which channels changed; a step that only counts costs the same at any number of messages."""
    saver, messages = RefoldSaver(memory), [HumanMessage("a", id="1"), HumanMessage("b", id="2")]
    config = put(saver, thread(), messages=messages, turns=1)
    found = saver.get_tuple(config)
    assert found is not None
    monkeypatch.setattr(Copies, "begin", lambda *_: pytest.fail("messages were compared"))
    checkpoint = found.checkpoint | {"id": empty_checkpoint()["id"]}
    checkpoint["channel_values"]["turns"] = 2
    checkpoint["channel_versions"]["turns"] = 2
    config = saver.put(found.config, checkpoint, {"source": "loop", "step": 1}, {"turns": 2})

    assert values(RefoldSaver(memory), config) == {"messages": messages, "turns": 2}


def test_the_collector_does_not_go_over_many_messages(memory: Store) -> None:
    """Neither when they are loaded, nor when they are compared for the first time."""
    messages = [HumanMessage(f"text {number}", id=str(number)) for number in range(MANY)]
    put(RefoldSaver(memory), thread(), messages=messages)
    saver, phases = RefoldSaver(memory), []

    def note(phase: str, _: dict[str, int]) -> None:
        phases.append(phase)

    gc.callbacks.append(note)
    try:
        loaded = saver.get_tuple(thread())
        assert loaded is not None
        given = loaded.checkpoint["channel_values"]["messages"]
        put(saver, loaded.config, messages=[*given, HumanMessage("new", id="new")])
    finally:
        gc.callbacks.remove(note)
    # Otherwise it begins for every 700 objects, and each message and each copy has several.
    assert phases.count("start") <= MANY * 4 // 700


def test_a_message_that_was_changed_in_place_is_saved(memory: Store) -> None:
    """A saver cannot know by the object whether it is what was saved."""
    saver, messages = RefoldSaver(memory), [HumanMessage("a", id="1"), HumanMessage("b", id="2")]
    config = put(saver, thread(), messages=messages)
    messages[0].content = "changed"
    config = put(saver, config, messages=[*messages, HumanMessage("c", id="3")])

    assert [one.content for one in values(saver, config)["messages"]] == ["changed", "b", "c"]
    assert [one.content for one in values(RefoldSaver(memory), config)["messages"]] == ["changed", "b", "c"]


def test_a_further_field_that_was_changed_in_place_is_saved(memory: Store) -> None:
    """A message may have fields that its class does not name."""
    saver, messages = RefoldSaver(memory), [HumanMessage("a", id="1", mood="calm"), HumanMessage("b", id="2")]
    config = put(saver, thread(), messages=messages)
    messages[0].mood = "cross"  # type: ignore[attr-defined]
    config = put(saver, config, messages=messages)

    for one in (saver, RefoldSaver(memory)):
        assert [getattr(message, "mood", None) for message in values(one, config)["messages"]] == ["cross", None]


def test_values_that_refuse_to_be_compared_are_saved(memory: Store) -> None:
    """An array compares its elements; such a message is looked at as a whole."""
    saver = RefoldSaver(memory)
    messages = [ToolMessage("out", tool_call_id="c", id="1", artifact=Elements([1, 2]))]
    config = put(saver, thread(), messages=messages)
    config = put(saver, config, messages=[*messages, HumanMessage("more", id="2")])
    messages[0].artifact.elements.append(3)
    config = put(saver, config, messages=[*messages, HumanMessage("more", id="2")])

    artifact, more = values(saver, config)["messages"]
    # LangChain dumps an artifact with its message, as plain data.
    assert (artifact.artifact, more.content) == ({"elements": [1, 2, 3]}, "more")


def test_only_the_last_messages_are_compared_where_that_is_enough(
    memory: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append to a long thread then costs what is new: no earlier message is looked into."""
    looked: list[int] = []
    are_kept = Copies._are_kept

    def noting(copies: Copies, messages: list[Any], start: int) -> bool:
        looked.append(len(copies) - start)
        return are_kept(copies, messages, start)

    monkeypatch.setattr(Copies, "_are_kept", noting)
    saver = RefoldSaver(memory, compare_last=2)
    messages: list[Any] = [HumanMessage("a", id=f"{number}") for number in range(30)]
    config = put(saver, thread(), messages=messages)
    messages = [*messages, HumanMessage("b", id="30")]
    put(saver, config, messages=messages)
    assert looked == [0, 2]

    again = RefoldSaver(memory, compare_last=2)
    found = again.get_tuple(thread())
    assert found is not None
    loaded = found.checkpoint["channel_values"]["messages"]
    config = put(again, found.config, messages=[*loaded, HumanMessage("c", id="31")])
    # Others that are the same cost a whole look, once.
    others = values(RefoldSaver(memory), config)["messages"]
    config = put(again, config, messages=[*others, HumanMessage("d", id="32")])
    put(again, config, messages=[*others, HumanMessage("d", id="32"), HumanMessage("e", id="33")])
    assert looked == [0, 2, 2, 32, 2]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_where_the_last_messages_are_compared_their_changes_are_saved(memory: Store, *, is_loaded: bool) -> None:
    """So are other objects anywhere; a change in place of an earlier one is saved with the next change of these."""
    saver = RefoldSaver(memory, compare_last=2)
    messages: list[Any] = [HumanMessage("a", id=f"{number}") for number in range(5)]
    config = put(saver, thread(), messages=messages)
    if is_loaded:
        found = RefoldSaver(memory).get_tuple(thread()) and saver.get_tuple(thread())
        assert found is not None
        messages, config = found.checkpoint["channel_values"]["messages"], found.config
    messages[0].content = "in place"
    messages = [*messages, HumanMessage("b", id="5")]
    config = put(saver, config, messages=messages)
    assert [one.content for one in values(RefoldSaver(memory), config)["messages"]] == [*"aaaaab"]
    messages[4].content = "changed"
    config = put(saver, config, messages=messages)
    saved = [one.content for one in values(RefoldSaver(memory), config)["messages"]]
    assert saved == ["in place", "a", "a", "a", "changed", "b"]
    messages = [messages[0], HumanMessage("another", id="1"), *messages[2:]]
    config = put(saver, config, messages=messages)
    saved = [one.content for one in values(RefoldSaver(memory), config)["messages"]]
    assert saved == ["in place", "another", "a", "a", "changed", "b"]


@pytest.mark.parametrize("compare_last", [-1, 1.5, True])
def test_the_number_of_compared_messages_is_a_whole_one(memory: Store, compare_last: Any) -> None:
    """So it is refused at once, not at the first save."""
    with pytest.raises(InvalidInputError, match="compare_last"):
        RefoldSaver(memory, compare_last=compare_last)
