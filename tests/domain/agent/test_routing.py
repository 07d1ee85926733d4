"""Where what tools give goes: into the queue, into the pool, behind the other turns, or to the caller (SPEC P7.2)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from refold.domain.agent.agent import Agent
from refold.domain.agent.errors import UnroutableItemError
from refold.domain.agent.tool import tool
from refold.domain.agent.turn import StopReason, Turn
from refold.domain.errors import InvalidInputError, RefoldError
from refold.domain.log.envelope import acting
from refold.domain.pool.items import ContextItem
from refold.domain.pool.queue import ContextQueue

from .agents import agent_with, run

NOTE = ContextItem("a note")
REPORT = ContextItem("a report", "what it says", "r1")
UNDESCRIBED = ContextItem("a report", id="r2")


def giving(value: Any) -> Any:
    """Return a tool function that returns this."""

    async def give() -> Any:
        return value

    return give


def held(agent: Agent) -> tuple[list[Any], list[Any]]:
    """Return what the queue and the pool hold."""
    return agent.context_queue.items, agent.context_pool.items


@pytest.mark.parametrize(
    ("value", "queued", "pooled"),
    [
        (NOTE, [NOTE], []),
        (REPORT, [], [REPORT]),
        ([NOTE, REPORT], [NOTE], [REPORT]),
        ((REPORT, NOTE, NOTE), [NOTE, NOTE], [REPORT]),
    ],
)
def test_items_are_routed_by_their_id(value: Any, queued: list[Any], pooled: list[Any]) -> None:
    """Each of a list as well, and the caller gets none of them (SPEC P7.2, P7.4, P7.5)."""
    agent = agent_with(giving(value))

    assert run(agent, "give") == []

    assert held(agent) == (queued, pooled)


@pytest.mark.parametrize("value", [None, [], (), "text", [NOTE, "text"], {"item": NOTE}])
def test_all_else_goes_to_the_caller(value: Any) -> None:
    """Also a list that holds anything else."""
    agent = agent_with(giving(value))

    assert run(agent, "give") == [value]

    assert held(agent) == ([], [])


def test_a_turn_is_put_behind_the_others() -> None:
    """Alone, or in a list with items."""

    async def one() -> int:
        return 1

    async def two() -> list[Any]:
        return [Turn("one"), NOTE, Turn("one")]

    agent = agent_with(one, two)

    assert run(agent, "two", Turn("one")) == [1, 1, 1]
    assert held(agent) == ([NOTE], [])


def test_hooks_see_routed_values_after_they_were_routed() -> None:
    """As the tool gave them (SPEC P7.4)."""
    agent = agent_with(giving([NOTE, NOTE]))
    seen: list[Any] = []

    @agent.on_turn_value
    async def note(agent: Agent, turn: Turn[Any], value: Any) -> None:
        seen.append((value, len(agent.context_queue)))

    run(agent, "give")

    assert seen == [([NOTE, NOTE], 2)]


def test_the_agent_is_who_wrote() -> None:
    """Unless whoever runs it has said who acts."""
    agent = agent_with(giving(NOTE))

    run(agent, "give")
    with acting(actor="mia"):
        run(agent, "give")

    actors = [event.meta.actor for event in agent.context_queue.recorded_events()]
    assert actors[-2:] == ["ann", "mia"]


def test_what_a_tool_yields_is_routed_at_once() -> None:
    """When it goes on, it finds it there (SPEC P7.3)."""
    seen: list[Any] = []

    async def write(memory: ContextQueue[Any]) -> AsyncIterator[Any]:
        for _ in range(2):
            yield NOTE
            seen.append(len(memory))
        yield [REPORT]
        yield "done"

    agent = agent_with(write)

    assert run(agent, "write") == ["done"]
    assert seen == [1, 2]
    assert held(agent) == ([NOTE, NOTE], [REPORT])


UNSTORABLE = ContextItem(object())
MISNAMED = ContextItem("a report", "what it says", 7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "refused", "why"),
    [
        (UNDESCRIBED, UNDESCRIBED, "has the id 'r2' and no description"),
        ([REPORT, NOTE, UNDESCRIBED], UNDESCRIBED, "has the id 'r2' and no description"),
        (UNSTORABLE, UNSTORABLE, "cannot be kept: the content of an item "),
        ([REPORT, NOTE, UNSTORABLE], UNSTORABLE, "cannot be kept: the content of an item "),
        ([NOTE, MISNAMED], MISNAMED, "cannot be kept: the id of an item is 7"),
    ],
)
def test_an_item_that_no_context_can_take_is_refused(value: Any, refused: Any, why: str) -> None:
    """Before anything is routed; the error says whose it was, and the turns behind it still wait (SPEC P7.6)."""

    async def one() -> int:
        return 1

    agent = agent_with(giving(value), one)
    turn = Turn[Any]("give")

    with pytest.raises(UnroutableItemError, match=f"an item that tool 'give' gave agent 'ann' {why}") as told:
        run(agent, turn, "one")

    assert isinstance(told.value, ValueError)
    assert isinstance(told.value, RefoldError)
    assert told.value.item == refused
    assert turn.output is value
    assert held(agent) == ([], [])
    assert run(agent) == [1]


@pytest.mark.parametrize(("has_tool", "fault"), [(True, "does not accept tool 'other'"), (False, "Turn has no tool")])
def test_a_turn_that_the_agent_cannot_take_is_refused(has_tool: bool, fault: str) -> None:
    """Before the items that came with it are routed."""

    async def other() -> None: ...

    foreign = Turn[None](tool(other))
    foreign.tool = foreign.tool if has_tool else None  # type: ignore[assignment]  # a mistake
    agent = agent_with(giving([NOTE, REPORT, foreign]))

    with pytest.raises(InvalidInputError, match=fault):
        run(agent, "give")

    assert (held(agent), agent.turns) == (([], []), [])


def test_the_items_of_a_list_go_into_the_queue_as_one() -> None:
    """In their order; a hook that refuses one refuses all, and nothing went into the pool before (SPEC P7.5)."""
    second = ContextItem("another note")
    agent = agent_with(giving([NOTE, REPORT, second]))
    heard: list[Any] = []

    @agent.context_queue.before_append
    async def look(queue: Any, incoming: Any, current: Any) -> None:
        heard.append(incoming)
        if len(heard) == 1:
            raise RuntimeError("not these")

    with pytest.raises(RuntimeError, match="not these"):
        run(agent, "give")
    before = held(agent)
    run(agent, "give")

    assert before == ([], [])
    assert heard == [[NOTE, second]] * 2
    assert held(agent) == ([NOTE, second], [REPORT])
    assert len(agent.context_queue.recorded_events()) == 3


def test_the_pools_items_of_a_list_come_one_by_one() -> None:
    """What was in before one was refused stays."""
    second = ContextItem("another report", "what it says", "r3")
    agent = agent_with(giving([REPORT, second]))

    @agent.context_pool.before_add
    async def refuse(pool: Any, item: ContextItem[Any]) -> None:
        if item.id == "r3":
            raise RuntimeError("not this one")

    with pytest.raises(RuntimeError, match="not this one"):
        run(agent, "give")

    assert held(agent) == ([], [REPORT])


def test_a_yielded_item_that_is_refused_stops_its_tool() -> None:
    """What it gave before stays."""
    ended: list[str] = []

    async def write() -> AsyncIterator[Any]:
        try:
            yield NOTE
            yield UNDESCRIBED
            ended.append("went on")
        finally:
            ended.append("stopped")

    agent = agent_with(write)
    turn = Turn[Any]("write")

    with pytest.raises(UnroutableItemError):
        run(agent, turn)

    assert ended == ["stopped"]
    assert turn.metadata.stop_reason is StopReason.CANCELLED
    assert held(agent) == ([NOTE], [])


def test_a_hook_of_the_queue_can_refuse_an_item() -> None:
    """Its error is what ends the run."""
    agent = agent_with(giving(NOTE))

    @agent.context_queue.before_append
    async def refuse(queue: Any, incoming: Any, current: Any) -> None:
        raise RuntimeError("not this one")

    with pytest.raises(RuntimeError, match="not this one"):
        run(agent, "give")

    assert held(agent) == ([], [])
    asyncio.run(agent.put(Turn("give")))
