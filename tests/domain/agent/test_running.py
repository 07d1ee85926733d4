"""Running an agent: one turn after the other, pausing, and leaving early (SPEC P7.4, P7.13, P7.16)."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from refold.domain.agent.agent import Agent, AgentRegistry, PauseGate
from refold.domain.agent.errors import (
    SafeExecutionError,
    TurnTimeoutError,
    UnregisteredAgentError,
    UnregisteredToolError,
)
from refold.domain.agent.tool import tool
from refold.domain.agent.turn import StopReason, Turn
from refold.domain.errors import InvalidInputError
from refold.domain.hooks.hook import AgentHook, current_context_queue
from refold.domain.hooks.registry import HookRegistry

from .agents import agent_with, ran, run


async def one() -> int:
    """Return 1."""
    return 1


async def count() -> AsyncIterator[int]:
    """Count to two."""
    yield 1
    yield 2


async def fail() -> None:
    """Fail."""
    raise RuntimeError("no")


async def sleep() -> None:
    """Take long."""
    await asyncio.sleep(30)


def test_turns_run_one_after_the_other() -> None:
    """And yield with their values, one or several."""
    agent = agent_with(one, count)
    turns = [Turn[int]("count"), Turn[int]("one")]

    async def pairs() -> list[Any]:
        for turn in turns:
            await agent.put(turn)
        assert (agent.turns, list(agent)) == (turns, turns)
        return [pair async for pair in agent.run()]

    assert asyncio.run(pairs()) == [(turns[0], 1), (turns[0], 2), (turns[1], 1)]
    assert agent.turns == []


def test_hooks_are_told_of_each_step() -> None:
    """In this order."""
    agent = agent_with(one)
    heard: list[str] = []

    def note(moment: str) -> Any:
        async def noted(*args: Any) -> None:
            assert args[0] is agent
            heard.append(moment)

        return noted

    for kind in (AgentHook.AFTER_TURN, AgentHook.ON_TURN_VALUE, AgentHook.BEFORE_TURN, AgentHook.AFTER_PUT):
        agent.hooks.append(HookRegistry.wrap(note(kind.value), kind))
    agent.before_put(note("before_put"))

    run(agent, "one")

    assert heard == ["before_put", "after_put", "before_turn", "on_turn_value", "after_turn"]


def test_an_agent_lends_its_turn_hooks() -> None:
    """For the turn that runs; they are not the turn's own, nor saved with it."""
    agent = agent_with(one, fail)
    heard: list[Any] = []

    @agent.on_complete
    async def completed(turn: Turn[Any], stop_reason: StopReason) -> None:
        heard.append((stop_reason, turn.hooks, agent.to_dict()["current_turn"]["hooks"]))

    @agent.on_error
    async def failed(turn: Turn[Any], error: Exception) -> None:
        heard.append(str(error))

    run(agent, "one")
    with pytest.raises(RuntimeError):
        run(agent, "fail")

    assert agent.turn_hooks == [completed, failed]
    assert heard == [(StopReason.COMPLETED, [], {}), "no", (StopReason.ERROR, [], {})]


def test_a_failure_ends_the_run() -> None:
    """The turns behind it wait for the next one."""
    agent = agent_with(fail, one)

    with pytest.raises(RuntimeError, match="no"):
        run(agent, "fail", "one")

    assert len(agent.turns) == 1
    assert run(agent) == [1]


def test_a_turn_that_takes_too_long_ends_the_run() -> None:
    """With its own error."""
    with pytest.raises(TurnTimeoutError):
        run(agent_with(sleep), Turn("sleep", timeout=0.01))


def test_a_turn_needs_a_tool_of_the_agent() -> None:
    """Others are refused, and so is a turn for an agent that is not there."""
    agent = agent_with(one)
    tool(count)

    with pytest.raises(InvalidInputError, match="Agent 'ann' does not accept tool 'count'"):
        run(agent, "count")
    with pytest.raises(UnregisteredAgentError, match="'bob' not found"):
        asyncio.run(agent.send("bob", Turn("one")))


def test_turns_are_sent_to_other_agents() -> None:
    """By their names."""
    ann = agent_with(one)
    bob = agent_with(*ann.tools, name="bob")

    asyncio.run(ann.send("bob", Turn("one")))

    assert (run(ann), run(bob)) == ([], [1])


def test_an_agent_has_a_name_of_its_own_and_registered_tools() -> None:
    """What is refused is not registered."""
    known = tool(one)
    ann = Agent("ann", "tests", [known])

    async def same() -> None: ...

    same.__name__ = "one"
    with pytest.raises(InvalidInputError, match="'ann' already registered"):
        Agent("ann", "tests", [])
    with pytest.raises(InvalidInputError, match="not the instance given"):
        Agent("bob", "tests", [type(known)(same)])
    same.__name__ = "other"
    with pytest.raises(UnregisteredToolError, match="'other' not found"):
        Agent("bob", "tests", [type(known)(same)])

    assert AgentRegistry.get("ann") is ann
    with pytest.raises(UnregisteredAgentError, match="'bob' not found"):
        AgentRegistry.get("bob")


def test_nothing_is_set_while_an_agent_runs() -> None:
    """Nor is it run a second time (SPEC P7.16)."""
    agent = agent_with(one)
    refused: list[str] = []

    @agent.before_turn
    async def meddle(agent: Agent) -> None:
        with pytest.raises(SafeExecutionError) as refusal:
            agent.context_queue = agent.context_queue.branch()
        refused.append(str(refusal.value))
        with pytest.raises(SafeExecutionError, match="running"):
            await anext(agent.run())

    assert run(agent, "one") == [1]
    assert refused == ["Cannot change property 'context_queue' while the agent is running."]


def test_a_paused_agent_starts_no_turn() -> None:
    """Until it is resumed, and in the next event loop again; nothing of it is set meanwhile (SPEC P7.16)."""
    agent = agent_with(one)
    heard: list[str] = []

    @agent.on_pause
    async def paused(agent: Agent) -> None:
        heard.append("paused")

    @agent.on_resume
    async def resumed(agent: Agent) -> None:
        heard.append("resumed")

    async def resume_later() -> list[Any]:
        running = asyncio.create_task(ran(agent, "one"))
        await asyncio.sleep(0.01)
        assert (running.done(), agent.is_paused) == (False, True)
        agent.resume()
        return await running

    for _ in range(2):
        agent.pause()
        with pytest.raises(SafeExecutionError, match="Cannot change property 'name' while the agent is paused"):
            agent.name = "bob"
        assert asyncio.run(resume_later()) == [1]

    assert heard == ["paused", "resumed"] * 2
    agent.name = "bob"


async def test_another_thread_may_resume_an_agent() -> None:
    """As a user interface does."""
    agent = agent_with(one)
    agent.pause()
    running = asyncio.create_task(ran(agent, "one"))
    await asyncio.sleep(0.01)

    threading.Thread(target=agent.resume).start()

    assert await asyncio.wait_for(running, 10) == [1]


def test_a_loop_that_was_closed_over_a_pause_is_forgotten() -> None:
    """Nobody waits there any more, and resuming is fine."""
    gate = PauseGate()
    gate.close()
    waiting = gate.passed().__await__()

    async def begin_to_wait() -> None:
        next(waiting)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin_to_wait())
    loop.close()
    gate.open()
    waiting.close()

    asyncio.run(gate.passed())
    assert not gate.is_closed


def test_a_subclass_may_set_things_first() -> None:
    """Before the agent itself is made."""

    class Named(Agent):
        """Sets something of its own."""

        def __init__(self) -> None:
            self.purpose = "tests"
            super().__init__("named", self.purpose, [])

    assert Named().purpose == "tests"


def test_a_pause_lets_the_turn_that_runs_come_to_its_end() -> None:
    """The next one waits."""
    agent = agent_with(count, one)

    async def pause_in_between() -> list[Any]:
        values = []
        async with aclosing(agent.run()) as pairs:
            async for _, value in pairs:
                values.append(value)
                agent.pause()
                if len(values) == 2:
                    asyncio.get_running_loop().call_later(0.01, agent.resume)
        return values

    asyncio.run(agent.put(Turn("count")))
    asyncio.run(agent.put(Turn("one")))
    assert asyncio.run(pause_in_between()) == [1, 2, 1]


@pytest.mark.parametrize("way", ["closed", "cancelled", "failing hook"])
def test_leaving_early_stops_the_turn_that_runs(way: str) -> None:
    """It is not put back, its hooks see how it ended, and the agent can be run again at once (SPEC P7.13)."""
    agent = agent_with(count, one)
    ends: list[StopReason] = []

    @agent.on_complete
    async def ended(turn: Turn[Any], stop_reason: StopReason) -> None:
        ends.append(stop_reason)

    @agent.on_turn_value
    async def stop(agent: Agent, turn: Turn[Any], value: int) -> None:
        if way == "cancelled":
            await asyncio.sleep(30)
        if way == "failing hook":
            raise RuntimeError("no")

    async def leave() -> list[Any]:
        if way == "cancelled":
            running = asyncio.create_task(ran(agent, "count", "one"))
            await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.wait([running])
        elif way == "failing hook":
            with pytest.raises(RuntimeError, match="no"):
                await ran(agent, "count", "one")
        else:
            await agent.put(Turn("count"))
            await agent.put(Turn("one"))
            async with aclosing(agent.run()) as pairs:
                async for _ in pairs:
                    break
        assert current_context_queue.get() is None
        agent.hooks = []
        return await ran(agent)

    assert asyncio.run(leave()) == [1]
    assert ends == [StopReason.CANCELLED, StopReason.COMPLETED]


def test_breaking_off_is_tidied_up_by_the_loop() -> None:
    """Without `aclosing` it takes the loop a moment; nobody's context is left changed."""
    agent = agent_with(count)
    problems: list[Any] = []

    async def leave() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        await agent.put(Turn("count"))
        async for _ in agent.run():
            break
        assert current_context_queue.get() is None

    asyncio.run(leave())

    assert problems == []
    assert run(agent, "count") == [1, 2]
