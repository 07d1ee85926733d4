"""A store of sessions: the SDK's own contracts, and chats that everything else can read."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from claude_agent_sdk import InMemorySessionStore, SessionKey, list_sessions_from_store, project_key_for_directory
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.claude import RefoldSessions
from refold.domain.errors import InvalidInputError
from refold.domain.log.envelope import acting
from refold.domain.log.gate import behind_gate
from tests.support.effort import rows_read

KEY: SessionKey = {"project_key": "-home-mia", "session_id": "s1"}
SUB: SessionKey = {**KEY, "subpath": "subagents/agent-1"}
TIME = "2026-11-23T10:00:0{}.000Z"


def line(number: int, role: str, content: Any, **fields: Any) -> Any:
    """Return a line of a transcript that follows the one before."""
    parent = None if number == 1 else f"u{number - 1}"
    head = {"parentUuid": parent, "isSidechain": False, "sessionId": "s1", "cwd": "/srv/mia", "type": role}
    message = {"role": role, "content": content}
    return {**head, "uuid": f"u{number}", "timestamp": TIME.format(number), "message": message, **fields}


QUESTION = line(1, "user", "Where is my order?")
THINKING = line(2, "assistant", [{"type": "thinking", "thinking": "look", "signature": "sig"}])
CALL = line(3, "assistant", [{"type": "tool_use", "id": "c1", "name": "track", "input": {"order": 7}}])
RESULT = line(4, "user", [{"type": "tool_result", "tool_use_id": "c1", "content": "in Lyon"}], toolUseResult={"n": 1})
ANSWER = line(5, "assistant", [{"type": "text", "text": "It is in Lyon."}])
TITLE = {"type": "custom-title", "customTitle": "Orders", "sessionId": "s1"}
ODD = {"type": "user", "uuid": "u9", "message": "no object", "parentUuid": None}
LINES = [QUESTION, THINKING, CALL, RESULT, ANSWER]
KEYS = st.sampled_from([KEY, SUB, {**KEY, "session_id": "s2"}, {**KEY, "project_key": "p.2/%"}])
STEPS = st.lists(
    st.tuples(st.just("append"), KEYS, st.lists(st.sampled_from([*LINES, TITLE, ODD]), min_size=1, max_size=4))
    | st.tuples(st.just("delete"), KEYS, st.none()),
    max_size=8,
)


@pytest.mark.parametrize("place", ["memory", "sqlite", "postgres"])
async def test_the_contracts_of_the_sdk(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """All 14, each in a store of its own: the SDK leaves out contracts of methods that are missing, and none is."""
    numbers = count(1)
    with ExitStack() as stack:

        def made() -> RefoldSessions:
            location = ":memory:" if place == "memory" else str(tmp_path / f"{next(numbers)}.db")
            if place == "postgres":
                location = stack.enter_context(request.getfixturevalue("pg_server").database())
            return RefoldSessions(stack.enter_context(refold.open(location)))

        await run_session_store_conformance(made)


async def state_of(store: Any) -> Any:
    """Return everything that a store answers, without times."""
    keys = [KEY, SUB, {**KEY, "session_id": "s2"}, {**KEY, "project_key": "p.2/%"}]
    found: list[Any] = [await store.load(key) or None for key in keys]
    for key in keys:
        found.append(sorted(one["session_id"] for one in await store.list_sessions(key["project_key"])))
        summaries = await store.list_session_summaries(key["project_key"])
        found.append(sorted((one["session_id"], str(sorted(one["data"].items()))) for one in summaries))
        found.append(await store.list_subkeys({"project_key": key["project_key"], "session_id": key["session_id"]}))
    return found


@given(STEPS)
def test_it_answers_as_the_sdk_does(steps: list[tuple[str, Any, Any]]) -> None:
    """Whatever is appended and deleted, as long as no line is repeated: the SDK's own store keeps repeated lines."""

    async def compared() -> None:
        numbers = count(1)
        with refold.open(":memory:") as opened:
            ours, theirs = RefoldSessions(opened), InMemorySessionStore()
            for step, key, entries in steps:
                for store in (ours, theirs):
                    if step == "delete":
                        await store.delete(key)
                if step == "append":
                    fresh = [{**one, "uuid": f"n{next(numbers)}", "parentUuid": None} for one in entries]
                    await ours.append(key, fresh)
                    await theirs.append(key, fresh)
                assert await state_of(ours) == await state_of(theirs)
            for row in opened.contexts():
                opened.chat(row.id).to_anthropic_messages()
                opened.chat(row.id).to_openai_messages()

    asyncio.run(compared())


async def test_a_session_is_a_chat(store: refold.Store, tmp_path: Path) -> None:
    """Messages, calls and results are items; who wrote them is known; no provider is sent the titles."""
    sessions = RefoldSessions(store)
    await sessions.append(KEY, [*LINES[:3], TITLE])
    await sessions.append(KEY, LINES[3:])
    chat = store.chat(sessions.chat_id(KEY))

    assert await sessions.load(KEY) == [*LINES[:3], TITLE, *LINES[3:]]
    roles = [message["role"] for message in chat.to_openai_messages()]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert chat.pending_calls() == []
    assert [item.name for item in chat.items if isinstance(item, refold.FunctionCallOutput)] == ["track"]
    assert {event.meta.actor for event in chat.recorded_events()} == {"claude"}
    assert [hit.version for hit in store.search("Lyon")]
    directory = tmp_path / "orders"
    own: SessionKey = {"project_key": project_key_for_directory(directory), "session_id": str(uuid4())}
    await sessions.append(own, [{**QUESTION, "sessionId": own["session_id"]}])
    (listed,) = await list_sessions_from_store(sessions, str(directory))
    assert (listed.session_id, listed.first_prompt) == (own["session_id"], "Where is my order?")


async def test_the_tokens_of_an_answer_count_once(store: refold.Store) -> None:
    """They come with each of its lines, and more are known with the last; a fork of the session counts none again."""
    sessions = RefoldSessions(store)
    lines: list[Any] = []
    for one, read, written in ((THINKING, 100, 1), (CALL, 100, 30), (ANSWER, 140, 9)):
        usage = {"input_tokens": read, "output_tokens": written, "service_tier": "standard"}
        about = {"id": "m2" if one is ANSWER else "m1", "model": "c-1", "usage": usage}
        lines.append({**one, "message": {**one["message"], **about}})
    for batch in ([QUESTION], lines[:1], [lines[1], RESULT], lines[2:], lines[2:]):
        await sessions.append(KEY, batch)
    forked: list[Any] = [{**one, "uuid": f"f{one['uuid']}", "forkedFrom": {"sessionId": "s1"}} for one in lines]
    await sessions.append({**KEY, "session_id": "s2"}, forked)

    rows = store.usage(by=["model", "context"])
    assert [(row.model, row.counted_in, row.counted_out, row.context[-2:]) for row in rows if row.model] == [
        ("c-1", 240, 39, "s1")
    ]
    assert await RefoldSessions(store).load(KEY) == [QUESTION, *lines[:2], RESULT, lines[2]]


async def test_a_repeated_batch_counts_once(store: refold.Store) -> None:
    """The SDK sends a batch again after an error; lines without a uuid are added again, as it says."""
    sessions = RefoldSessions(store)
    await sessions.append(KEY, LINES[:2])
    before = store.chat(sessions.chat_id(KEY)).version
    await sessions.append(KEY, LINES[:2])
    assert store.chat(sessions.chat_id(KEY)).version == before
    await sessions.append(KEY, [LINES[1], LINES[2], LINES[2]])
    assert await sessions.load(KEY) == LINES[:3]
    await sessions.delete(KEY)
    assert await sessions.load(KEY) is None
    await sessions.append(KEY, LINES[:2])
    await sessions.append(KEY, LINES[:2])
    assert await sessions.load(KEY) == LINES[:2]


async def test_a_first_line_whose_parent_is_lost(store: refold.Store) -> None:
    """A session of one line begins with it."""
    sessions = RefoldSessions(store)
    await sessions.append(KEY, [ANSWER])

    assert await sessions.load(KEY) == [{**ANSWER, "parentUuid": None}]


async def test_an_item_beyond_all_years(store: refold.Store) -> None:
    """One whose time was given in milliseconds has the last time there is."""
    sessions = RefoldSessions(store)
    store.chat(sessions.chat_id(KEY)).add_message("user", "Where?", created_at=1.7643e12)

    [line] = await sessions.load(KEY) or []
    assert line["timestamp"] == "9999-12-31T23:59:59.999Z"  # type: ignore[typeddict-item]  # lines have more fields


async def test_a_lost_parent_is_repaired(store: refold.Store) -> None:
    """A line that follows one that is not there is loaded behind the line before it, and so is what others added."""
    sessions = RefoldSessions(store)
    await sessions.append(KEY, [QUESTION, ANSWER])
    store.chat(sessions.chat_id(KEY)).add_message("user", "And the other one?")
    found = await sessions.load(KEY)
    assert found is not None

    uuids = [one["uuid"] for one in found]
    assert [one.get("parentUuid") for one in found] == [None, *uuids[:-1]]
    assert found[1] == {**ANSWER, "parentUuid": "u1"}
    assert found[2]["message"] == {"role": "user", "content": [{"type": "text", "text": "And the other one?"}]}
    assert found[2]["sessionId"] == "s1"


async def test_a_lost_parent_of_a_line_that_nobody_knows_stays(store: refold.Store) -> None:
    """What Refold cannot import is the SDK's own affair, and comes back as it was."""
    sessions = RefoldSessions(store)
    odd = [{"type": "odd", "uuid": ["u9"]}, {"type": "odd", "parentUuid": {"u": 9}}]
    lines = [QUESTION, {**ANSWER, "parentUuid": "lost", "message": 7}, *odd]
    await sessions.append(KEY, lines)

    assert await sessions.load(KEY) == lines


async def test_two_writers_lose_nothing(store: refold.Store) -> None:
    """Each batch stays together, and the summary has all of them."""
    first, second = RefoldSessions(store), RefoldSessions(store)
    batches = [[line(1, "user", f"{n}", uuid=f"{n}a"), line(1, "user", f"{n}", uuid=f"{n}b")] for n in range(6)]
    await asyncio.gather(*((first, second)[n % 2].append(KEY, batch) for n, batch in enumerate(batches)))
    found = await first.load(KEY)

    assert found is not None
    pairs = [found[index : index + 2] for index in range(0, len(found), 2)]
    assert sorted(pairs, key=str) == sorted(batches, key=str)
    assert len(await second.list_session_summaries(KEY["project_key"])) == 1


async def test_what_is_refused_changes_nothing(store: refold.Store) -> None:
    """A line that is no object, and a key without a part."""
    sessions = RefoldSessions(store)
    bad_lines: list[Any] = ["text", {"type": "x", "value": {1}}, {"type": "x", "value": float("nan")}]
    for bad in bad_lines:
        with pytest.raises(InvalidInputError):
            await sessions.append(KEY, [QUESTION, bad])
    for name in ("", "\ud800"):
        broken: Any = {"project_key": "p", "session_id": name}
        for refused in (sessions.append(broken, [QUESTION]), sessions.list_subkeys(broken), sessions.delete(broken)):
            with pytest.raises(InvalidInputError, match="session_id"):
                await refused
    with pytest.raises(InvalidInputError, match="project_key"):
        await sessions.list_sessions("\ud800")
    assert store.contexts() == []


async def test_an_append_costs_the_same_at_any_length(tmp_path: Path, events_read: list[int]) -> None:
    """A batch for a long transcript reads as many events as one for a short one; another process may write, too."""
    with refold.open(tmp_path / "s.db") as store, refold.open(tmp_path / "s.db") as other:
        sessions = RefoldSessions(store)
        costs = []
        for length in (50, 400):
            key: SessionKey = {**KEY, "session_id": str(length)}
            await sessions.append(key, [line(1, "user", f"{number}", uuid=f"x{number}") for number in range(length)])
            assert len(await sessions.load(key) or ()) == length
            events_read.clear()
            await sessions.append(key, [ANSWER])
            costs.append(sum(events_read))
            other.chat(sessions.chat_id(key)).add_message("user", "And?")
            assert len(await sessions.load(key) or ()) == length + 2
            costs.append(sum(events_read))

        assert costs[:2] == costs[2:]


async def test_a_delete_is_whole_or_nothing(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session with its sub-agents: if one of them cannot be deleted now, all of them stay."""
    sessions, clear, left = RefoldSessions(store), refold.ChatContext.clear, [2]
    for key in (KEY, SUB, {**KEY, "subpath": "subagents/agent-2"}):
        await sessions.append(key, [QUESTION])
    # By these names later versions find them.
    assert {row.name for row in store.saved_states("claude")} == {"main/-home-mia", "sub/-home-mia/s1"}
    before = await state_of(sessions)

    def interrupted(chat: refold.ChatContext, **settings: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        clear(chat, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(refold.ChatContext, "clear", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sessions._delete(KEY)
    assert await state_of(sessions) == before
    await sessions.delete(KEY)
    assert [await sessions.load(key) for key in (KEY, SUB)] == [None, None]
    assert await sessions.list_subkeys({"project_key": KEY["project_key"], "session_id": KEY["session_id"]}) == []


async def test_an_erasure_of_a_user_finds_the_sub_agents(store: refold.Store) -> None:
    """Their transcripts have the user of the session, whose chat was made with one; others have none."""
    sessions = RefoldSessions(store)
    main, sub = map(sessions.chat_id, (KEY, SUB))
    store.chat(main, user="mia")
    for key in (KEY, SUB, {**SUB, "session_id": "s2"}):
        await sessions.append(key, [line(1, "user", "I moved to Elm Street 5.")])

    assert {one.context for one in store.erase(user="mia", why="ticket 7").contexts} == {f"chat:{main}", f"chat:{sub}"}
    store.erase(user="mia", why="ticket 7", dry_run=False)
    assert [one["message"]["content"][0]["text"] for one in await sessions.load(SUB) or []] == ["[erased]"]


@pytest.mark.parametrize(
    "allow",
    [
        lambda actor, action, context: actor == "bot",
        lambda actor, action, context: action != "read" or "agent" in context,
    ],
    ids=["one actor", "session unread"],
)
async def test_sub_agents_are_recorded_by_who_may(allow: Callable[[str | None, str, str], bool]) -> None:
    """The user of the session is recorded, and shown to nobody: no right to read it is needed."""
    with refold.open(":memory:", allow=lambda actor, action, context: allow(actor, action, context or "")) as store:
        sessions = RefoldSessions(store, actor="bot")
        with acting(actor="bot"):
            store.chat(sessions.chat_id(KEY), user="mia")
        await sessions.append(SUB, [line(1, "user", "hello")])

        begun = behind_gate(store.log).read_events(f"chat:{sessions.chat_id(SUB)}", until=1)
        assert [getattr(event, "user", None) for event in begun] == ["mia"]


async def test_lists_read_no_other_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a project, or the sub-agents of a session: the rows of others are not read."""
    with refold.open(":memory:") as store:
        sessions = RefoldSessions(store)
        for project in ("-home-mia", "-home-mia-2", "-home"):
            for session in ("s1", "s11"):
                for rest in ({}, {"subpath": "a"}):
                    key: Any = {"project_key": project, "session_id": session, **rest}
                    await sessions.append(key, [QUESTION])
        read = rows_read(store, monkeypatch)

        listed = await sessions.list_sessions("-home-mia")
        assert ([one["session_id"] for one in listed], len(read)) == (["s1", "s11"], 4)
        read.clear()
        assert await sessions.list_subkeys({"project_key": "-home-mia", "session_id": "s1"}) == ["a"]
        assert len(read) == 1
        assert await sessions.list_sessions("x" * 9_999) == await sessions.list_sessions("") == []
