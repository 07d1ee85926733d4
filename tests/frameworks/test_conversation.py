"""A conversation of a framework as a chat: messages come back as they were, and every framework reads all of them."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, MessageAdded
from refold.domain.chat.items import ChatMessage, FunctionCall, FunctionCallOutput
from refold.domain.chat.roles import ChatRole
from refold.domain.errors import ConcurrencyError
from refold.domain.formats.receive import Receiver
from refold.domain.formats.source_json import is_same
from refold.infrastructure.frameworks.conversation import Conversation, Message
from refold.infrastructure.frameworks.open_chats import OpenChats


class Notes:
    """A form with texts, calls and outputs; a message may have any other fields."""

    def __init__(self, name: str = "notes") -> None:
        self.name = name

    def read(self, message: Message, into: Receiver) -> None:
        """Add a text, calls or an output."""
        if "answers" in message:
            into.answer("", message["text"], message["answers"], is_error=False, where="a note")
            return
        if message.get("text") or not message.get("calls"):
            into.say(message["by"], message.get("text") or (), {}, "a note")
        for call in message.get("calls", ()):
            into.call(call["name"], call["with"], call["id"], {}, "a note")

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        """Return a note."""
        first = items[0]
        if isinstance(first, FunctionReturned):
            return {"id": first.id, "text": first.output, "answers": first.call_id}
        calls = [
            {"id": item.call_id, "name": item.name, "with": item.arguments}
            for item in items
            if isinstance(item, FunctionCalled)
        ]
        by = first.role if isinstance(first, MessageAdded) else "assistant"
        note: Message = {"id": first.id, "by": by}
        if isinstance(first, MessageAdded) and first.content:
            note["text"] = first.content if isinstance(first.content, str) else "".join(map(str, first.content))
        return {**note, "calls": calls} if calls else note


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
CALLS = st.lists(st.fixed_dictionaries({"id": st.sampled_from("cd"), "name": st.just("f"), "with": TEXTS}), max_size=2)
SAID = st.fixed_dictionaries(
    {"by": st.sampled_from(["user", "assistant", "system"])},
    optional={"id": st.sampled_from("abc"), "text": TEXTS, "calls": CALLS, "n": st.integers(-3, 3) | st.booleans()},
)
ANSWERED = st.fixed_dictionaries({"text": TEXTS, "answers": st.sampled_from("cd")}, optional={"ok": st.booleans()})
NOTES = st.lists(SAID | ANSWERED, max_size=8)


def parts(messages: Sequence[Message], name: str) -> list[Any]:
    """Return the texts, calls or answers of messages, of all together."""
    found = [message[name] for message in messages if message.get(name)]
    return [call for calls in found for call in calls] if name == "calls" else found


def called(messages: Sequence[Message]) -> list[Message]:
    """Return messages without the answers to no call: another framework is not sent them."""
    made: set[str] = set()
    found = []
    for message in messages:
        made |= {call["id"] for call in message.get("calls", ())}
        if message.get("answers") in {None, *made}:
            found.append(message)
    return found


def noted(**fields: Any) -> Message:
    """Return a note of the user."""
    return {"by": "user", "text": "", **fields}


@given(NOTES, NOTES)
def test_messages_come_back_as_they_were(first: list[Message], more: list[Message]) -> None:
    """Whatever fields they have, in their order, also after a reload, and as items that every framework reads."""
    notes = Conversation(Notes())
    with refold.open(":memory:") as store:
        chat = store.chat("c")
        notes.add(chat, first)
        notes.add(chat, more)

        assert is_same(notes.messages(chat), [*first, *more])
        chat.cleanup()
        assert is_same(notes.messages(chat), [*first, *more])
        others = Conversation(Notes("others")).messages(chat)
        sound = called([*first, *more])
        for part in ("text", "calls", "answers"):
            assert parts(others, part) == parts(sound, part)
        chat.to_openai_messages()
        chat.to_anthropic_messages()


@given(NOTES, st.lists(NOTES, max_size=3))
def test_a_view_is_made_to_show_any_messages(first: list[Message], shown: list[list[Message]]) -> None:
    """After each step the view is the list that was asked for; the past stays what it was."""
    notes = Conversation(Notes())
    with refold.open(":memory:") as store:
        chat = store.chat("c")
        notes.add(chat, first)
        past = {chat.version: first}
        for wanted in shown:
            # Parts of what is there, between new ones.
            mixed = [*wanted[:2], *notes.messages(chat)[1::2], *wanted[2:]]
            with store.transaction():
                notes.show(chat, mixed)
            assert is_same(notes.messages(chat), mixed)
            past[chat.version] = mixed

        for version, messages in past.items():
            assert is_same(notes.messages(chat.at(version)), messages)


def test_messages_that_stay_are_not_recorded_again() -> None:
    """Showing the same list changes nothing, one more costs one item, and one fewer an eviction."""
    notes = Conversation(Notes())
    with refold.open(":memory:") as store:
        chat = store.chat("c")
        notes.add(chat, [noted(id=str(number), text="t") for number in range(5)])
        before = chat.version
        notes.show(chat, notes.messages(chat))
        assert chat.version == before

        notes.show(chat, [*notes.messages(chat), noted(id="new")])
        assert [event.event.id for event in chat.recorded_events(after=before)] == ["new"]
        left = notes.messages(chat)
        del left[1:3]
        notes.show(chat, left, reason="trimmed")
        assert [item.id for item in chat.items] == ["0", "3", "4", "new"]
        assert [gone.reason for gone in chat.evicted_items()] == ["trimmed"] * 2


def test_items_of_other_sources_are_messages_too() -> None:
    """What was added by hand has a message; a handoff has none."""
    notes = Conversation(Notes())
    with refold.open(":memory:") as store:
        chat = store.chat("c")
        chat.add_items([ChatMessage(id="m1", role=ChatRole.USER, content=["q"])])
        chat.add_items([FunctionCall(id="i1", name="f", arguments="{}", call_id="c1")])
        chat.add_items([FunctionCallOutput(id="i2", name="f", output="7", call_id="c1")])
        chat.add_handoff("billing")

        assert notes.messages(chat) == [
            {"id": "m1", "by": "user", "text": "q"},
            {"id": "i1", "by": "assistant", "calls": [{"id": "c1", "name": "f", "with": "{}"}]},
            {"id": "i2", "text": "7", "answers": "c1"},
        ]


def test_a_message_that_lost_an_item_is_what_is_left() -> None:
    """Its patch no longer fits, and its call is gone with its output."""
    notes = Conversation(Notes())
    with refold.open(":memory:") as store:
        chat = store.chat("c")
        call = {"id": "c1", "name": "f", "with": "{}"}
        notes.add(chat, [{"id": "a", "by": "assistant", "text": "t", "calls": [call], "mood": "good"}])
        chat.evict("c1")

        assert notes.messages(chat) == [{"id": "a", "by": "assistant", "text": "t"}]


def test_a_message_takes_no_item_of_its_neighbour() -> None:
    """One lost its call, the next one its text: the call that is left is none of the first one, which is not whole."""
    notes = Conversation(Notes())
    calls = [{"id": name, "name": "f", "with": "{}"} for name in ("c1", "c2")]
    with refold.open(":memory:") as store:
        chat = store.chat("c")
        said = [noted(id=name, text=name, calls=[call], mood="good") for name, call in zip("ab", calls, strict=True)]
        notes.add(chat, said)
        left = chat.items[3].id
        chat.evict("c1")
        chat.evict("b")
        expected = [
            {"id": "a", "by": "user", "text": "a"},
            {"id": left, "by": "assistant", "calls": [calls[1]]},
        ]
        with OpenChats(store, notes).taken("c") as found:
            assert found is not None
            last = [msgspec.json.decode(entry.encoded) for entry in found.last(1)]

        assert notes.messages(chat) == expected
        assert last == expected[1:]
        chat.restore()
        chat.restore()
        assert notes.messages(chat) == said


def test_another_writer_is_noticed() -> None:
    """Nothing is added at a version that is not the newest."""
    notes = Conversation(Notes())
    with refold.open(":memory:") as store:
        chat = store.chat("c")
        notes.add(chat, [noted()])
        late = chat.version
        notes.add(chat, [noted()], expected_version=late)

        with pytest.raises(ConcurrencyError):
            notes.add(chat, [noted()], expected_version=late)
        assert len(chat.items) == 2


def test_what_is_pinned_leaves_when_the_framework_deletes_it() -> None:
    """A pin keeps an item from policies: what a framework shows is exactly what it has."""
    with refold.open(":memory:") as store:
        notes, chat = Conversation(Notes()), store.chat("c")
        notes.add(chat, [{"id": name, "by": "user", "text": name} for name in "ab"])
        chat.pin(["a"])

        notes.show(chat, [{"id": "b", "by": "user", "text": "b"}])

        assert ([item.id for item in chat.items], chat.pinned_ids()) == (["b"], [])
        chat.restore()
        assert chat.pinned_ids() == ["a"]
