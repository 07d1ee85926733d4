"""A process is killed at any point of an append: the lines are there with what is kept of them, or none is."""

import asyncio
from pathlib import Path
from typing import Any

from claude_agent_sdk import InMemorySessionStore, SessionKey

import refold
from refold.claude import RefoldSessions

from ..killed import Report, killed_at_each_moment, reported

KEY: SessionKey = {"project_key": "-home-mia", "session_id": "s1"}
SUB: SessionKey = {**KEY, "subpath": "subagents/agent-1"}
TURNS = 3


def lines(turn: int) -> list[Any]:
    """Return the lines of a turn: a question, a call, its result, an answer, and a title."""
    contents = [
        ("user", f"Where is order {turn}?"),
        ("assistant", [{"type": "tool_use", "id": f"c{turn}", "name": "track", "input": {"order": turn}}]),
        ("user", [{"type": "tool_result", "tool_use_id": f"c{turn}", "content": "in Lyon"}]),
        ("assistant", [{"type": "text", "text": f"Order {turn} is in Lyon."}]),
    ]
    said = [
        {
            "parentUuid": f"u{4 * turn + number - 1}" if turn or number else None,
            "uuid": f"u{4 * turn + number}",
            "timestamp": f"2026-11-23T10:0{turn}:0{number}.000Z",
            "sessionId": "s1",
            "type": role,
            "message": {"role": role, "content": content},
        }
        for number, (role, content) in enumerate(contents)
    ]
    return [*said, {"type": "custom-title", "customTitle": f"Order {turn}", "sessionId": "s1", "uuid": f"t{turn}"}]


async def work(place: Path, report: Report) -> None:
    """Append each turn to a session and to one of its subagents, whatever is there: lines that are there stay."""
    with refold.open(place) as store:
        sessions = RefoldSessions(store)
        for turn in range(TURNS):
            for number, key in enumerate((KEY, SUB)):
                await sessions.append(key, lines(turn))
                report(2 * turn + number)


async def everything(sessions: Any) -> Any:
    """Return what a store has of the session, without times."""
    loaded = [await sessions.load(key) or [] for key in (KEY, SUB)]
    summaries = [one["data"] for one in await sessions.list_session_summaries("-home-mia")]
    return loaded, summaries, await sessions.list_subkeys(KEY)


async def expected(appends: int) -> Any:
    """Return what the SDK's own store has after so many appends."""
    sessions = InMemorySessionStore()
    for number in range(appends):
        await sessions.append((KEY, SUB)[number % 2], lines(number // 2))
    return await everything(sessions)


async def checked(place: Path) -> None:
    """Require that what was reported is there, and at most one append more; then that the rest can be sent again."""
    done = len(reported(place))
    with refold.open(place) as store:
        assert await everything(RefoldSessions(store)) in [await expected(done), await expected(done + 1)]
        assert store.verify(processes=1).problems == ()
    await work(place, lambda _: None)
    with refold.open(place) as store:
        assert await everything(RefoldSessions(store)) == await expected(2 * TURNS)
        store.chat(RefoldSessions(store).chat_id(KEY)).to_anthropic_messages()


def test_a_killed_append_is_whole_or_not_there(tmp_path: Path) -> None:
    """Between any two steps of it; and lines that are sent again afterwards count once."""
    places = killed_at_each_moment("tests.frameworks.claude.test_kill", tmp_path)

    # Before and behind the items, the data beside them and the append of each batch, and behind its report.
    assert len(places) > 7 * 2 * TURNS
    assert reported(places[-1]) == list(range(2 * TURNS))
    for place in places:
        asyncio.run(checked(place))
