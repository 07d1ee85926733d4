"""A session beside the SDK's own one: the same answers, and a chat that everything else can read."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, set_tracing_disabled
from agents.extensions.memory import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession, Session, SessionSettings
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseOutputMessage

import refold
from refold.domain.errors import ConcurrencyError, InvalidInputError
from refold.domain.log.envelope import acting
from refold.openai_agents import RefoldSession

from .scripted_model import ORDERS, ScriptedModel, clerk

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
# A model of another provider may call it so.
FOREIGN = {"type": "function_call", "call_id": "c3", "name": "orders.track", "arguments": "{}"}
COMPACTION = {"type": "compaction", "encrypted_content": "x"}
FORMS = (QUESTION, THINKING, CALL, FOREIGN, OUTPUT, ANSWER, CLICK, COMPACTION, {"odd": 1})
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


async def test_reasoning_leaves_with_the_call_that_it_led_to(store: refold.Store) -> None:
    """The API refuses one without the other; the session's own calls take exactly one entry."""
    session = RefoldSession(store, "s")
    await session.add_items([QUESTION, THINKING, CALL, OUTPUT, ANSWER])
    chat = session.chat

    chat.evict(CALL["call_id"])
    assert await session.get_items() == [QUESTION, ANSWER]
    chat.restore()
    chat.evict(chat.items[1].id)
    assert await session.get_items() == [QUESTION, ANSWER]
    chat.restore(CALL["call_id"])
    assert await session.get_items() == [QUESTION, THINKING, CALL, OUTPUT, ANSWER]
    assert [await session.pop_item() for _ in range(3)] == [ANSWER, OUTPUT, CALL]
    assert await session.get_items() == [QUESTION, THINKING]


async def test_a_name_that_the_api_does_not_accept(store: refold.Store) -> None:
    """The session has it as it came; a request to the API has another one."""
    session = RefoldSession(store, "s")
    await session.add_items([QUESTION, FOREIGN])

    assert await session.get_items() == [QUESTION, FOREIGN]
    sent, _ = store.chat("s").to_openai_responses(pending="stub")
    assert [entry["name"] for entry in sent if entry.get("type") == "function_call"] == ["orders_track"]


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
    # A message that is written piece by piece is one of them as far as it was written.
    with store.chat("s").stream("assistant") as out:
        for piece in ("It is ", "on its way."):
            out.write(piece)
            out.flush()
            assert piece in str((await session.get_items())[3])


async def test_two_writers_lose_nothing(store: refold.Store) -> None:
    """Each batch stays together, in both sessions."""
    first, second = RefoldSession(store, "s"), RefoldSession(store, "s")
    batches = [[{"role": "user", "content": f"{n}a"}, {"role": "user", "content": f"{n}b"}] for n in range(8)]
    await asyncio.gather(*((first, second)[n % 2].add_items(batch) for n, batch in enumerate(batches)))

    found = await first.get_items()
    assert found == await second.get_items()
    pairs = [found[index : index + 2] for index in range(0, len(found), 2)]
    assert sorted(pairs, key=str) == sorted(batches, key=str)


async def test_an_output_gets_the_name_of_a_call_that_another_writer_added(store: refold.Store) -> None:
    """Only there is the chat read before entries are added: others depend on nothing that came in between."""
    one, two = RefoldSession(store, "s"), RefoldSession(store, "s")
    assert await two.get_items() == []
    await one.add_items([QUESTION, CALL])
    await two.add_items([OUTPUT])

    assert [getattr(item, "name", None) for item in store.chat("s").items] == [None, CALL["name"], CALL["name"]]
    assert await one.get_items() == await two.get_items() == [QUESTION, CALL, OUTPUT]


async def test_entries_are_the_callers_own(store: refold.Store) -> None:
    """Whoever changes them changes nothing in the session, at the first read and at later ones."""
    session = RefoldSession(store, "s")
    await session.add_items(list(FORMS))
    for _ in range(3):
        entries = await session.get_items()
        assert entries == list(FORMS)
        for entry in entries:
            for value in entry.values():
                if isinstance(value, list | dict):
                    value.clear()
            entry.clear()


async def test_nothing_is_added_of_a_bad_batch(store: refold.Store) -> None:
    """The error names the entry."""
    session = RefoldSession(store, "s")
    await session.add_items([QUESTION])
    for bad in ("text", {"x": {1}}, {"x": float("nan")}):
        with pytest.raises(InvalidInputError, match=r"items\[1\]"):
            await session.add_items([ANSWER, bad])
    assert await session.get_items() == [QUESTION]


async def test_a_limit_counts_entries(store: refold.Store) -> None:
    """What others put behind them, such as another agent, is no entry and leaves none out."""
    session = RefoldSession(store, "s")
    await session.add_items([{"role": "user", "content": str(number)} for number in range(4)])
    for number in range(5):
        session.chat.add_handoff(f"agent {number}")
        session.chat.add_config_update(instructions=f"Be brief {number}.")

    for _ in range(2):
        assert [entry["content"] for entry in await session.get_items(2)] == ["2", "3"]
    assert [len(await session.get_items(limit)) for limit in (0, 1, 3, 4, 99, -1)] == [0, 1, 3, 4, 4, 4]


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


async def test_the_end_is_not_replaced_if_others_write_meanwhile(
    store: refold.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK is told so, and all entries stay."""
    session = RefoldSession(store, "s")
    await session.add_items([QUESTION, CALL, OUTPUT, ANSWER])
    snapshot = await session._get_compaction_snapshot(3)
    assert snapshot is not None

    def overtaken(chat: refold.ChatContext, *_: object, **__: object) -> None:
        raise ConcurrencyError(chat.stream_id, expected=1, actual=2)

    with monkeypatch.context() as patched:
        patched.setattr(refold.ChatContext, "record_items", overtaken)
        assert not await snapshot.replace_suffix(1, [SUMMARY])
    assert await session.get_items() == [QUESTION, CALL, OUTPUT, ANSWER]


async def test_a_session_in_another_process(tmp_path: Path) -> None:
    """It begins where the first one ended."""
    with refold.open(tmp_path / "s.db") as store:
        await RefoldSession(store, "s").add_items([QUESTION, THINKING, CALL])
    with refold.open(tmp_path / "s.db") as store:
        session = RefoldSession(store, "s")
        assert await session.get_items(2) == [THINKING, CALL]
        await session.add_items([OUTPUT])
        assert await session.get_items() == [QUESTION, THINKING, CALL, OUTPUT]


def test_a_child_process_has_a_lock_of_its_own(tmp_path: Path) -> None:
    """It was forked while a call of another thread was going on, which ends in the parent alone."""
    is_held, is_over = threading.Event(), threading.Event()
    with refold.open(tmp_path / "s.db") as store:
        session = RefoldSession(store, "s")

        def hold() -> None:
            with session._lock:
                is_held.set()
                is_over.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        is_held.wait()
        child = os.fork()
        if child == 0:
            os._exit(0 if session._lock.acquire(timeout=20) else 1)
        is_over.set()
        thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Compacting:
    """A client of OpenAI's compaction that answers with a summary, after `meanwhile`."""

    def __init__(self, meanwhile: Callable[[], Awaitable[object]] | None = None) -> None:
        self.responses, self.asked = self, list[Any]()
        self._meanwhile = meanwhile

    async def compact(self, **request: Any) -> Any:
        """Answer a request."""
        self.asked.append(request["input"])
        if self._meanwhile:
            await self._meanwhile()
        return SimpleNamespace(output=[SUMMARY], usage=None)


def compacting(session: Any, client: Any) -> OpenAIResponsesCompactionSession:
    """Return the SDK's session that compacts this one after each run."""
    return OpenAIResponsesCompactionSession(
        "s", session, client=client, compaction_mode="input", should_trigger_compaction=lambda _: True
    )


class Answering(Model):
    """A model that says "done"."""

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        """Answer."""
        return ModelResponse(output=[DONE], usage=Usage(), response_id="resp_1")

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """The tests do not stream."""
        raise NotImplementedError


TALK: list[Any] = [{"role": "user", "content": str(number)} for number in range(4)]
SUMMARY: Any = {"type": "compaction", "id": "cmp", "encrypted_content": "summary"}
DONE = ResponseOutputMessage.model_validate(
    {**ANSWER, "content": [{"type": "output_text", "text": "done", "annotations": []}]}
)
AGENT = Agent(name="worker", model=Answering())
LIMITED = RunConfig(session_settings={"limit": 1})


async def test_the_sdk_compacts_what_the_model_saw(store: refold.Store) -> None:
    """A limited run replaces the end of the session, and keeps what it did not see, as with the SDK's own store."""
    set_tracing_disabled(True)
    for session in (RefoldSession(store, "s"), SQLiteSession("s")):
        client = Compacting()
        await session.add_items(TALK)
        await Runner.run(AGENT, "go on", session=compacting(session, client), run_config=LIMITED)

        assert await session.get_items() == [*TALK[:3], SUMMARY]
        assert len(client.asked[0]) == 3
    assert len(store.chat("s").evicted_items()) == 3


async def test_a_compaction_that_came_late_changes_nothing(store: refold.Store) -> None:
    """Somebody added an entry while the summary was made; data that was saved beside the entries does not count."""
    set_tracing_disabled(True)
    session = RefoldSession(store, "s")
    await session.add_items(TALK)
    client = Compacting(lambda: session.add_items([QUESTION]))
    await Runner.run(AGENT, "go on", session=compacting(session, client), run_config=LIMITED)
    assert len(await session.get_items()) == 4 + 2 + 1

    snapshot = await session._get_compaction_snapshot(1)
    assert snapshot is not None
    store.chat("s").saved_states.save("openai_agents", {"run_state": {"a": 1}})
    assert await snapshot.replace_suffix(0, [])
    assert (await session.get_items())[-1]["content"][0]["text"] == "done"


async def test_a_session_is_compacted_as_a_whole(store: refold.Store) -> None:
    """By hand: all entries are replaced in one transaction."""
    session = RefoldSession(store, "s")
    await session.add_items(TALK)
    before = session.chat.version
    await compacting(session, Compacting()).run_compaction({"force": True})

    assert await session.get_items() == [SUMMARY]
    assert len({event.recorded_at for event in session.chat.recorded_events(after=before)}) == 1
    assert len(session.chat.at(before).items) == 4


async def test_a_session_may_be_encrypted(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's wrapper keeps its envelopes here; what has expired leaves with the next compaction."""
    set_tracing_disabled(True)
    clock = [1_000]
    monkeypatch.setattr("cryptography.fernet.time.time", lambda: clock[0])
    session = RefoldSession(store, "s")
    outer = EncryptedSession("s", compacting(session, Compacting()), encryption_key="k", ttl=10)
    await outer.add_items([{"role": "user", "content": "expired"}] * 3)
    clock[0] += 11
    await outer.add_items(TALK)
    await Runner.run(AGENT, "go on", session=outer, run_config=RunConfig(session_settings={"limit": 4}))

    assert await outer.get_items() == [SUMMARY]
    assert len(await session.get_items()) == 1
    assert "expired" not in str(store.chat("s").to_openai_messages())


async def test_a_subclass_that_changes_entries_is_not_passed_by(store: refold.Store) -> None:
    """The SDK then replaces entries by the methods of the subclass."""

    class Loud(RefoldSession):
        async def add_items(self, items: Any, *, wrapper: Any = None) -> None:
            await super().add_items([{**item, "loud": True} for item in items], wrapper=wrapper)

    class Named(RefoldSession):
        name = "mine"

    loud = Loud(store, "s")
    await loud.add_items(TALK)
    assert await loud._get_compaction_snapshot(9) is None
    await compacting(loud, Compacting()).run_compaction({"force": True})
    assert await loud.get_items() == [{**SUMMARY, "loud": True}]
    assert await Named(store, "s")._get_compaction_snapshot(9) is not None


async def test_a_run_that_waits_is_kept_beside_the_entries(tmp_path: Path) -> None:
    """Another process approves the call and goes on."""
    set_tracing_disabled(True)
    ran: list[int] = []
    agent = clerk(ran.append, ScriptedModel(), needs_approval=True)
    with refold.open(tmp_path / "s.db") as store:
        session = RefoldSession(store, "s", durability="enqueue")
        result = await Runner.run(agent, "Where are my orders?", session=session)
        assert await session.run_state(agent) is None
        await session.save_run_state(result.to_state())
        assert store.log.head("chat:s") == session.chat.version
    with refold.open(tmp_path / "s.db") as store:
        session = RefoldSession(store, "s")
        state: Any = await session.run_state(agent)
        while state.get_interruptions():
            assert len(ran) < len(ORDERS)
            for waiting in state.get_interruptions():
                state.approve(waiting)
            result = await Runner.run(agent, state, session=session)
            state = result.to_state()

        assert result.final_output == "3 orders are in Lyon."
        assert ran == list(ORDERS)
        outputs = [entry for entry in await session.get_items() if entry.get("type") == "function_call_output"]
        assert len(outputs) == len(ORDERS)
