"""A store of conversations beside the one of the framework itself: the same answers, and chats for everything else."""

import asyncio
import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.messages import UserPromptPart as Prompt
from pydantic_ai.models.test import TestModel

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.frameworks import open_chats
from refold.infrastructure.frameworks.pydantic_ai import conversations as conversations_module
from refold.pydantic_ai import RefoldConversations, messages_of, record


def asked(text: str) -> ModelMessage:
    """Return a question."""
    return ModelRequest([Prompt(text)])


def answered(text: str) -> ModelMessage:
    """Return an answer."""
    return ModelResponse([TextPart(text)])


CALL = ModelResponse([ToolCallPart("track", '{"order": 7}', "c1")])
OUTPUT = ModelRequest([ToolReturnPart("track", "in Lyon", "c1")])
SAID = st.lists(st.sampled_from([asked("a"), answered("b"), CALL, OUTPUT]), max_size=3)
NAMES = st.sampled_from(["one", "two/%.."])
PLACES = st.integers(0, 5)
SCOPES = st.sampled_from([None, None, "mia"])
STEPS = st.lists(
    st.tuples(st.just("save"), NAMES, SAID, SCOPES)
    | st.tuples(st.just("rewrite"), NAMES, SAID, PLACES)
    | st.tuples(st.just("branch"), NAMES, PLACES)
    | st.tuples(st.just("return"), NAMES, PLACES, PLACES)
    | st.tuples(st.just("fork"), NAMES, PLACES, NAMES)
    | st.tuples(st.just("delete"), NAMES, SCOPES)
    | st.tuples(st.just("load"), NAMES, PLACES)
    | st.tuples(st.just("list"), SCOPES, st.none() | PLACES),
    max_size=12,
)


async def took(store: ConversationStore, step: str, *given: Any) -> Any:
    """Take a step and return its answer."""
    if step == "list":
        records = await store.list_conversations(scope=given[0], limit=given[1])
        return [(record.conversation_id, record.scope, record.forked_from, len(record.branches)) for record in records]
    name = given[0]
    loaded = await store.load(name)
    if step == "save":
        conversation = loaded or Conversation(conversation_id=name)
        conversation.messages.extend(given[1])
        return len(await store.save(conversation, scope=given[2]))
    if step == "rewrite":
        kept = [] if loaded is None else loaded.messages[: given[2]]
        changed = Conversation(
            conversation_id=name, messages=[*kept, *given[1]], revision=loaded.revision if loaded else None
        )
        return len(await store.save(changed))
    if step == "branch":
        return (await store.branch(name, at=given[1], expected_revision=loaded.revision if loaded else "")).messages
    if step == "return":
        tips = (record.branches if (record := await store.read_record(name)) else []) or [""]
        tip = tips[given[1] % len(tips)]
        line = await store.read_history(tip or None)
        entry = line[given[2] % len(line)].id if line else ""
        revision = loaded.revision if loaded else ""
        return (await store.branch(name, from_entry=entry, expected_revision=revision or "")).messages
    if step == "fork":
        return (await store.fork(name, at=given[1], new_conversation_id=given[2])).messages
    if step == "delete":
        return await store.delete(name, scope=given[1])
    limited = await store.load(name, limit=given[1])
    return None if limited is None else (limited.messages, limited.usage, limited.new_message_index)


async def outcome_of(store: ConversationStore, step: tuple[Any, ...]) -> Any:
    """Return the answer of a step or its error, with all messages of all conversations then."""
    try:
        answer = await took(store, *step)
    except UserError as error:
        # Ids of entries differ between two stores.
        answer = type(error)
    histories = {}
    for name in ("one", "two/%.."):
        entries = await store.load_entries(name)
        histories[name] = None if entries is None else [entry.message for entry in entries]
        if entries:
            assert [entry.parent_id for entry in entries] == [None, *(entry.id for entry in entries[:-1])]
            assert await store.read_entry(entries[-1].id) == entries[-1]
            assert await store.read_history(entries[-1].id, limit=2) == entries[-2:]
    return answer, histories


async def compared(store: refold.Store, steps: list[tuple[Any, ...]]) -> None:
    """Take the same steps here and in the framework's own store."""
    ours, theirs = RefoldConversations(store), InMemoryConversationStore()
    for step in steps:
        assert await outcome_of(ours, step) == await outcome_of(theirs, step)
    again = RefoldConversations(store)
    records = await theirs.read_records()
    assert [record.conversation_id for record in await again.read_records()] == [r.conversation_id for r in records]
    for row in store.contexts():
        chat = store.chat(row.id)
        chat.to_openai_messages()
        chat.to_anthropic_messages()


@given(STEPS)
def test_it_answers_as_the_framework_does(steps: list[tuple[Any, ...]]) -> None:
    """Whatever is saved, rewritten, branched, forked and deleted."""

    async def run() -> None:
        with refold.open(":memory:") as store:
            await compared(store, steps)

    asyncio.run(run())


@settings(max_examples=10)
@given(STEPS)
def test_it_does_so_on_disk(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]) -> None:
    """The same on SQLite."""

    async def run() -> None:
        with refold.open(tmp_path_factory.mktemp("s") / "s.db") as store:
            await compared(store, steps)

    asyncio.run(run())


async def test_the_same_on_each_store(store: refold.Store) -> None:
    """One long history: a branch, the way back over a call whose output came later, a fork, a delete."""
    await compared(
        store,
        [
            ("save", "one", [asked("a"), CALL, OUTPUT, answered("b")], "mia"),
            ("branch", "one", 2),
            ("save", "one", [answered("c")], None),
            ("branch", "one", 0),
            ("return", "one", 0, 3),
            ("return", "one", 1, 1),
            ("fork", "one", 1, "two/%.."),
            ("save", "two/%..", [answered("d"), OUTPUT], None),
            ("rewrite", "two/%..", [asked("e")], 1),
            ("list", "mia", 1),
            ("delete", "one", None),
            ("save", "one", [asked("new")], None),
            ("return", "two/%..", 0, 2),
        ],
    )


async def test_a_conversation_is_a_chat(store: refold.Store) -> None:
    """An agent runs on it; messages are items, and who wrote them is known."""
    conversations = RefoldConversations(store)
    agent = Agent(TestModel(custom_output_text="It is in Lyon."))

    @agent.tool_plain
    def track(order: int) -> str:
        return f"{order}: Lyon"

    conversation = Conversation(conversation_id="support-42")
    entries = await conversations.save(await agent.run("Where is it?", conversation=conversation))
    chat = store.chat("support-42")

    assert [item.type for item in chat.items] == ["message", "function_call", "function_call_output", "message"]
    assert chat.items[0].id == entries[0].id
    assert {event.meta.actor for event in chat.recorded_events()} == {"pydantic_ai"}
    assert [hit.version for hit in store.search("Lyon")]
    before = chat.version
    loaded = await conversations.load("support-42")
    assert loaded is not None
    result = await agent.run("And now?", conversation=loaded)
    await conversations.save(result)
    again = await conversations.load("support-42")
    assert again is not None
    assert (again.messages, again.usage) == (result.all_messages(), result.conversation.usage)
    assert messages_of(store.chat("support-42").at(before)) == [entry.message for entry in entries]


async def test_the_actor_of_a_caller_counts(store: refold.Store) -> None:
    """Who the caller names did it, and not the framework."""
    with refold.acting(actor="mia"):
        await RefoldConversations(store).save(Conversation(conversation_id="c", messages=[asked("a")]))
    assert {event.meta.actor for event in store.chat("c").recorded_events()} == {"mia"}


async def test_what_others_add_is_part_of_it(store: refold.Store) -> None:
    """It is loaded with the rest; a conversation that was loaded before cannot be saved over it."""
    conversations = RefoldConversations(store)
    await conversations.save(Conversation(conversation_id="c", messages=[asked("a")]))
    before = await conversations.load("c")
    assert before is not None
    store.chat("c").add_message("assistant", "One moment.")
    before.messages.append(answered("b"))
    with pytest.raises(ConversationConflict):
        await conversations.save(before)
    after = await conversations.load("c")
    assert after is not None
    after.messages.append(answered("b"))
    await conversations.save(after)

    texts = [part.content for message in messages_of(store.chat("c")) for part in message.parts]  # type: ignore[union-attr]
    assert texts == ["a", "One moment.", "b"]


async def test_a_chat_of_others_is_a_conversation(store: refold.Store) -> None:
    """It can be loaded, continued and forked, and so can a fork that was made of a chat."""
    conversations = RefoldConversations(store)
    chat = store.chat("c")
    record(chat, [asked("a")])
    chat.fork("d")
    assert await conversations.list_conversations() == []
    for name in ("c", "d"):
        loaded = await conversations.load(name)
        assert loaded is not None
        assert loaded.messages == [asked("a")] or len(loaded.messages) == 1
        loaded.messages.append(answered(name))
        await conversations.save(loaded)
    forked = await conversations.fork("d", new_conversation_id="e")

    assert [len(store.chat(name).items) for name in "cde"] == [2, 2, 2]
    assert len(forked.messages) == 2
    assert (await conversations.load_entries("d")) == (await conversations.load_entries("e"))


async def test_two_writers(store: refold.Store) -> None:
    """One of them is refused and adds nothing; a fork of a chat that is there is refused, too."""
    first, second = RefoldConversations(store), RefoldConversations(store)
    await first.save(Conversation(conversation_id="c", messages=[asked("a")]))
    loaded = [await one.load("c") for one in (first, second)]

    async def saved(one: RefoldConversations, conversation: Conversation | None, text: str) -> object:
        assert conversation is not None
        conversation.messages.append(answered(text))
        try:
            return await one.save(conversation)
        except ConversationConflict as error:
            return error

    outcomes = await asyncio.gather(saved(first, loaded[0], "x"), saved(second, loaded[1], "y"))
    assert sum(isinstance(one, ConversationConflict) for one in outcomes) == 1
    assert len(store.chat("c").items) == 2
    with pytest.raises(ConversationConflict):
        await first.fork("c", new_conversation_id="c")


async def test_two_begin_one_conversation(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second is refused, also between the look for the chat and its making, and takes nothing out."""
    opened, others = refold.Store.chat, [RefoldConversations(store)]
    theirs = Conversation(conversation_id="c", messages=[asked("theirs")])

    def overtaken(self: refold.Store, *given: Any, create: bool = True, **settings: Any) -> refold.ChatContext:
        if create and others:
            # In a thread of its own, because this one is in a transaction.
            thread = threading.Thread(target=asyncio.run, args=(others.pop().save(theirs),))
            thread.start()
            thread.join()
        return opened(self, *given, create=create, **settings)

    monkeypatch.setattr(refold.Store, "chat", overtaken)
    conversations = RefoldConversations(store)
    with pytest.raises(ConversationConflict):
        await conversations.save(Conversation(conversation_id="c", messages=[asked("ours")]))
    loaded = await conversations.load("c")

    assert loaded is not None
    assert loaded.messages == theirs.messages


async def test_what_is_refused_changes_nothing(store: refold.Store) -> None:
    """An entry that is not in the history, a message without JSON, an entry that nobody has."""
    conversations = RefoldConversations(store)
    await conversations.save(Conversation(conversation_id="c", messages=[asked("a")]))
    version = store.chat("c").version
    record = await conversations.read_record("c")
    assert record is not None
    stray = ConversationEntry(id="x", parent_id=None, message=asked("b"))
    with pytest.raises(InvalidInputError, match="'x' is not in the history"):
        await conversations.write_record(record, new_entries=[stray], expected_revision=record.revision)
    loaded = await conversations.load("c")
    assert loaded is not None
    loaded.messages.append(ModelRequest([ToolReturnPart("track", object(), "c1")]))
    with pytest.raises(InvalidInputError, match="JSON"):
        await conversations.save(loaded)
    lost = ConversationRecord(conversation_id="d", head_id="nobody")
    with pytest.raises(ConversationConflict):
        await conversations.write_record(lost, expected_revision=None)
    with pytest.raises(LookupError):
        await conversations.read_history("nobody")

    assert store.chat("c").version == version
    assert [row.id for row in store.contexts()] == ["c"]


async def test_a_limit_that_leaves_no_entry(store: refold.Store) -> None:
    """0 and less are no entries, as with the framework's own read of a history."""
    conversations = RefoldConversations(store)
    await conversations.save(Conversation(conversation_id="c", messages=[asked("a"), answered("b")]))
    record = await conversations.read_record("c")
    assert record is not None

    for limit in (0, -1, -5):
        assert await conversations.read_history(record.head_id, limit=limit) == []
        assert await ConversationStore.read_history(conversations, record.head_id, limit=limit) == []


async def test_nothing_is_erased(tmp_path: Path) -> None:
    """A deleted conversation is in the past of its chat, also for another process, and its forks go on."""
    with refold.open(tmp_path / "s.db") as store:
        conversations = RefoldConversations(store)
        entries = await conversations.save(Conversation(conversation_id="c", messages=[asked("a"), answered("b")]))
        await conversations.fork("c", at=1, new_conversation_id="d")
        full = store.chat("c").version
        await conversations.delete("c")
    with refold.open(tmp_path / "s.db") as store:
        conversations = RefoldConversations(store)
        assert await conversations.load("c") is None
        assert len(store.chat("c").items) == 0
        assert messages_of(store.chat("c").at(full)) == [entry.message for entry in entries]
        forked = await conversations.load("d")
        assert forked is not None
        assert forked.messages == [entries[0].message]
        assert (await conversations.read_entry(entries[1].id)).parent_id == entries[0].id


async def test_a_save_costs_the_same_at_any_length(tmp_path: Path, events_read: list[int]) -> None:
    """A turn of a long conversation reads as many events as one of a short one; another process may write, too."""
    with refold.open(tmp_path / "s.db") as store, refold.open(tmp_path / "s.db") as other:
        conversations = RefoldConversations(store)
        costs = []
        for length in (50, 400):
            messages = [asked(f"{length} {number}") for number in range(length)]
            await conversations.save(Conversation(conversation_id=str(length), messages=messages))
            loaded = await conversations.load(str(length))
            assert loaded is not None
            loaded.messages.append(answered("b"))
            events_read.clear()
            await conversations.save(loaded)
            costs.append(sum(events_read))
            other.chat(str(length)).add_message("user", "And?")
            again = await conversations.load(str(length))
            assert again is not None
            assert len(again.messages) == length + 2
            costs.append(sum(events_read))

        assert costs[:2] == costs[2:]


async def test_a_head_may_be_of_another_conversation(store: refold.Store) -> None:
    """Then the conversation has that history, whose messages come into its chat."""
    conversations = RefoldConversations(store)
    entries = await conversations.save(Conversation(conversation_id="c", messages=[asked("a"), answered("b")]))
    await conversations.save(Conversation(conversation_id="d", messages=[asked("x")]))
    record = await conversations.read_record("d")
    assert record is not None
    moved = dataclasses.replace(record, head_id=entries[-1].id)
    await conversations.write_record(moved, expected_revision=record.revision)

    assert messages_of(store.chat("d")) == messages_of(store.chat("c")) == [entry.message for entry in entries]


async def test_records_that_cannot_be_kept_or_read(store: refold.Store) -> None:
    """One with a value that has no JSON is not saved, and one that another version saved is refused."""
    conversations = RefoldConversations(store)
    await conversations.save(Conversation(conversation_id="c", messages=[asked("a")]))
    record = await conversations.read_record("c")
    assert record is not None
    version = store.chat("c").version
    odd = dataclasses.replace(record, deferred_tool_requests=DeferredToolRequests(metadata={"c1": {"x": object()}}))
    with pytest.raises(InvalidInputError, match="the record of 'c' has no JSON"):
        await conversations.write_record(odd, expected_revision=record.revision)
    assert store.chat("c").version == version

    store.chat("c").saved_states.save("pydantic_ai", {"record": {"conversation_id": 7}})
    with pytest.raises(InvalidInputError, match="the installed Pydantic AI cannot read a saved record"):
        await conversations.load("c")


async def test_what_is_known_of_entries_has_a_limit(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that were forgotten are found again."""
    monkeypatch.setattr(conversations_module, "ENTRIES_KNOWN_MAX", 3)
    conversations, saved = RefoldConversations(store), []
    for name in "abcdef":
        saved += await conversations.save(Conversation(conversation_id=name, messages=[asked(name), answered(name)]))

    assert [(await conversations.read_entry(entry.id)).message for entry in saved] == [one.message for one in saved]
    assert len(conversations._sync._chat_of) <= 6


async def test_a_list_converts_no_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each conversation the newest message says whether others wrote to it; the others are not converted."""
    with refold.open(":memory:") as store:
        for name in "abc":
            messages = [asked(f"{name} {number}") for number in range(20)]
            await RefoldConversations(store).save(Conversation(conversation_id=name, messages=messages))
        store.chat("b").add_message("user", "And?")
        conversations, converted = RefoldConversations(store), list[Any]()
        entries_of = open_chats.entries_of

        def noted(*given: Any) -> list[Any]:
            found = entries_of(*given)
            converted.extend(found)
            return found

        monkeypatch.setattr(open_chats, "entries_of", noted)
        listed = {record.conversation_id: record for record in await conversations.read_records()}

        assert sorted(listed) == ["a", "b", "c"]
        # That of another writer is part of a message whose beginning is found from the start.
        assert len(converted) == 1 + 21 + 1
        assert [await conversations.read_record(name) for name in "abc"] == [listed[name] for name in "abc"]
        assert "+" in listed["b"].revision
