"""A session beside the SDK's own one: the same answers, and a chat that everything else can read."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from agents.memory import Session, SessionSettings
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.domain.errors import InvalidInputError
from refold.domain.log.envelope import acting
from refold.openai_agents import RefoldSession

QUESTION = {"role": "user", "content": "Where is my order?"}
THINKING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "look it up"}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "track", "arguments": '{"order": 7}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "in Lyon"}
ANSWER = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "It is in Lyon.", "annotations": [], "logprobs": []}],
}
CLICK = {"type": "computer_call", "id": "cu_1", "call_id": "c2", "action": {"type": "click", "x": 1, "y": 2}}
FORMS = (QUESTION, THINKING, CALL, OUTPUT, ANSWER, CLICK, {"type": "compaction", "encrypted_content": "x"}, {"odd": 1})
ENTRIES = st.lists(st.sampled_from(FORMS), max_size=4)
STEPS = st.lists(
    st.tuples(st.just("add"), ENTRIES)
    | st.tuples(st.just("pop"), st.none())
    | st.tuples(st.just("clear"), st.none())
    | st.tuples(st.just("get"), st.none() | st.integers(0, 5)),
    max_size=10,
)


async def took(session: Session, step: str, given: Any) -> Any:
    """Take a step and return its answer with all entries that are there then."""
    if step == "add":
        answer: Any = await session.add_items(given)
    elif step == "pop":
        answer = await session.pop_item()
    elif step == "clear":
        answer = await session.clear_session()
    else:
        answer = await session.get_items(given)
    return answer, await session.get_items()


@given(STEPS)
def test_it_answers_as_the_sdk_does(steps: list[tuple[str, Any]]) -> None:
    """Whatever entries come and go; and what is in the view can be sent to every provider."""

    async def compared() -> None:
        with refold.open(":memory:") as store:
            ours, theirs = RefoldSession(store, "s"), SQLiteSession("s")
            for step, given in steps:
                assert await took(ours, step, given) == await took(theirs, step, given)
            again = RefoldSession(store, "s")
            assert await again.get_items() == await theirs.get_items()
            ours.chat.to_openai_messages()
            ours.chat.to_anthropic_messages()
            ours.chat.to_openai_responses()
            theirs.close()

    asyncio.run(compared())


async def test_a_session_is_a_chat(store: refold.Store) -> None:
    """Messages, calls and outputs are items; reasoning goes back to its API, and no other provider is sent it."""
    session = RefoldSession(store, "s", user="mia")
    await session.add_items([QUESTION, THINKING, CALL])
    await session.add_items([OUTPUT, ANSWER])
    chat = store.chat("s")

    assert [item.type for item in chat.items] == [
        "message", "message", "function_call", "function_call_output", "message",
    ]  # fmt: skip
    assert isinstance(chat.items[3], refold.FunctionCallOutput)
    assert chat.items[3].name == "track"
    sent, _ = chat.to_openai_responses()
    assert [entry.get("type", "message") for entry in sent] == [
        "message", "reasoning", "function_call", "function_call_output", "message",
    ]  # fmt: skip
    assert sent[1] == THINKING
    assert [message["role"] for message in chat.to_openai_messages()] == ["user", "assistant", "tool", "assistant"]
    assert [hit.version for hit in store.search("Lyon")]
    fork = chat.at(4).fork("other")
    assert await RefoldSession(store, fork.id).get_items() == [QUESTION, THINKING, CALL]


async def test_what_others_add_is_part_of_it(store: refold.Store) -> None:
    """Another object, another process or a person writes to the chat; the session has it at once."""
    session = RefoldSession(store, "s")
    await session.add_items([QUESTION])
    store.chat("s").add_message("assistant", "One moment.")
    found = await session.get_items()

    assert found[0] == QUESTION
    assert (found[1]["role"], found[1]["content"][0]["text"]) == ("assistant", "One moment.")
    await session.add_items([ANSWER])
    assert (await session.get_items())[2] == ANSWER


async def test_two_writers_lose_nothing(store: refold.Store) -> None:
    """Each batch stays together, in both sessions."""
    first, second = RefoldSession(store, "s"), RefoldSession(store, "s")
    batches = [[{"role": "user", "content": f"{n}a"}, {"role": "user", "content": f"{n}b"}] for n in range(8)]
    await asyncio.gather(*((first, second)[n % 2].add_items(batch) for n, batch in enumerate(batches)))

    found = await first.get_items()
    assert found == await second.get_items()
    pairs = [found[index : index + 2] for index in range(0, len(found), 2)]
    assert sorted(pairs, key=str) == sorted(batches, key=str)


async def test_nothing_is_added_of_a_bad_batch(store: refold.Store) -> None:
    """The error names the entry."""
    session = RefoldSession(store, "s")
    await session.add_items([QUESTION])
    for bad in ("text", {"x": {1}}, {"x": float("nan")}):
        with pytest.raises(InvalidInputError, match=r"items\[1\]"):
            await session.add_items([ANSWER, bad])
    assert await session.get_items() == [QUESTION]


async def test_limits(store: refold.Store) -> None:
    """A limit of the call counts before the one of the settings."""
    session = RefoldSession(store, "s", session_settings=SessionSettings(limit=2))
    await session.add_items([QUESTION, CALL, OUTPUT, ANSWER])

    assert await session.get_items() == [OUTPUT, ANSWER]
    assert await session.get_items(1) == [ANSWER]
    assert await session.get_items(0) == []


async def test_what_leaves_stays_in_the_past(store: refold.Store) -> None:
    """A popped output leaves its call; cleared entries are in the chat's past, with who did it."""
    session = RefoldSession(store, "s", actor=lambda wrapper: wrapper or "sdk")
    await session.add_items([QUESTION, CALL, OUTPUT])
    full = session.chat.version
    assert await session.pop_item(wrapper="mia") == OUTPUT
    assert await session.get_items() == [QUESTION, CALL]
    with acting(actor="outer"):
        await session.clear_session()

    assert await session.get_items() == []
    assert await session.pop_item() is None
    assert len(session.chat.at(full).items) == 3
    events = session.chat.recorded_events(after=full)
    assert [event.meta.actor for event in events] == ["mia", "sdk"]


async def test_the_end_is_replaced_in_one_step(store: refold.Store) -> None:
    """The SDK's compaction replaces what it read, and nothing if another writer came first."""
    session = RefoldSession(store, "s")
    await session.add_items([QUESTION, CALL, OUTPUT, ANSWER])
    snapshot = await session._get_compaction_snapshot(3)
    assert snapshot is not None
    assert (snapshot.items, snapshot.complete) == ([CALL, OUTPUT, ANSWER], False)
    summary = {"type": "compaction", "encrypted_content": "x"}
    before = session.chat.version

    assert await snapshot.replace_suffix(1, [summary])
    assert await session.get_items() == [QUESTION, CALL, summary]
    assert len({event.recorded_at for event in session.chat.recorded_events(after=before)}) == 1
    assert not await snapshot.replace_suffix(1, [summary])
    late = await session._get_compaction_snapshot(9)
    assert late is not None
    assert late.complete
    store.chat("s").add_message("user", "and?")
    assert not await late.replace_suffix(0, [summary])
    assert len(await session.get_items()) == 4


async def test_a_session_in_another_process(tmp_path: Path) -> None:
    """It begins where the first one ended."""
    with refold.open(tmp_path / "s.db") as store:
        await RefoldSession(store, "s").add_items([QUESTION, THINKING, CALL])
    with refold.open(tmp_path / "s.db") as store:
        session = RefoldSession(store, "s")
        assert await session.get_items(2) == [THINKING, CALL]
        await session.add_items([OUTPUT])
        assert await session.get_items() == [QUESTION, THINKING, CALL, OUTPUT]
