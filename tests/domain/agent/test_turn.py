"""Turns: how they end, what stops them, and what they are saved as."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC
from typing import Any

import pytest

from refold.domain.agent.agent import Agent
from refold.domain.agent.errors import SafeExecutionError, TurnTimeoutError, UnregisteredToolError, WrongRunMethodError
from refold.domain.agent.tool import tool
from refold.domain.agent.turn import StopReason, Turn, TurnMetadata
from refold.domain.errors import InvalidInputError, RefoldError
from refold.domain.hooks.hook import Hook, TurnHook
from refold.domain.hooks.registry import hook


async def add(a: int, b: int = 0) -> int:
    """Return the sum."""
    return a + b


async def count() -> AsyncIterator[int]:
    """Count to two."""
    yield 1
    yield 2


async def sleep(seconds: float = 30) -> None:
    """Take long."""
    await asyncio.sleep(seconds)


def noting(turn: Turn[Any]) -> list[Any]:
    """Return a list into which the turn's hooks write how it went."""
    heard: list[Any] = []

    async def note(_turn: Any, *args: Any) -> None:
        heard.extend(args or ["-"])

    for attach in (turn.before_run, turn.after_run, turn.on_error, turn.on_timeout, turn.on_complete):
        attach(note)
    return heard


async def yielded(turn: Turn[Any]) -> list[Any]:
    """Return all that a turn yields."""
    return [value async for value in turn.yielding()]


def test_a_turn_returns() -> None:
    """Its output stays with it; functions among its arguments are called when it runs."""
    tool(add)
    turn = Turn[int]("add", args=[1], kwargs={"b": lambda: 2})
    heard = noting(turn)

    assert asyncio.run(turn.returning()) == 3

    assert turn.output == 3
    assert heard == ["-", 3, StopReason.COMPLETED]
    metadata = turn.metadata
    assert metadata.start_time is not None
    assert metadata.end_time is not None
    assert metadata.end_time >= metadata.start_time
    assert metadata.end_time.tzinfo is UTC


def test_a_turn_yields() -> None:
    """At the end its output is the list of all."""
    turn = Turn[int](tool(count))
    heard = noting(turn)

    assert asyncio.run(yielded(turn)) == [1, 2]

    assert turn.output == [1, 2]
    assert heard == ["-", [1, 2], StopReason.COMPLETED]


def test_a_turn_needs_a_registered_tool() -> None:
    """By name or itself."""
    with pytest.raises(UnregisteredToolError, match="'add' not found"):
        Turn("add")
    with pytest.raises(KeyError, match="'add' not found"):
        Turn(add)


def test_the_other_way_to_run_is_refused() -> None:
    """And nothing is run, not even a hook."""
    adding, counting = Turn[int](tool(add), args=[1]), Turn[int](tool(count))
    heard = [noting(adding), noting(counting)]

    with pytest.raises(WrongRunMethodError, match=r"'count' is an async generator: use yielding\(\)"):
        asyncio.run(counting.returning())
    with pytest.raises(WrongRunMethodError, match=r"'add' is not an async generator: use returning\(\)"):
        asyncio.run(yielded(adding))

    assert heard == [[], []]
    assert counting.metadata == adding.metadata == TurnMetadata()


def test_a_turn_runs_once_at_a_time() -> None:
    """And what it runs on stays as it is meanwhile."""
    turn = Turn[None](tool(sleep), kwargs={"seconds": 0})
    refused: list[str] = []

    @turn.before_run
    async def again(turn: Turn[Any]) -> None:
        for attempt in (turn.returning, lambda: setattr(turn, "timeout", 1)):
            with pytest.raises(SafeExecutionError) as refusal:
                attempt()
            refused.append(str(refusal.value).split(":")[0])

    asyncio.run(turn.returning())

    assert refused == [
        "returning() cannot be called",
        "Cannot change property 'timeout' while the turn is running.",
    ]
    turn.timeout = 1


@pytest.mark.parametrize("yields", [False, True])
def test_a_turn_may_take_so_long(yields: bool) -> None:
    """The tool is stopped, and the error is a TimeoutError."""
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("stopped")

    async def slow_to_yield() -> AsyncIterator[int]:
        yield 1
        await slow()

    turn = Turn[Any](tool(slow_to_yield) if yields else tool(slow), timeout=0.02)
    heard = noting(turn)

    with pytest.raises(TurnTimeoutError, match=r"Turn timed out after 0.02s") as expiry:
        asyncio.run(yielded(turn) if yields else turn.returning())

    assert isinstance(expiry.value, TimeoutError)
    assert isinstance(expiry.value, RefoldError)
    assert ended == ["stopped"]
    assert heard == ["-", "-", StopReason.TIMEOUT]


@pytest.mark.parametrize("yields", [False, True])
def test_a_timeout_of_the_tools_own_is_its_failure(yields: bool) -> None:
    """It says nothing about the turn's time."""

    async def ask() -> None:
        raise TimeoutError("no answer")

    async def ask_and_yield() -> AsyncIterator[int]:
        yield 1
        raise TimeoutError("no answer")

    turn = Turn[Any](tool(ask_and_yield) if yields else tool(ask))
    with pytest.raises(TimeoutError, match="no answer"):
        asyncio.run(yielded(turn) if yields else turn.returning())

    assert turn.metadata.stop_reason is StopReason.ERROR


def test_the_consumers_time_does_not_count() -> None:
    """Only that of the tool does."""
    turn = Turn[int](tool(count), timeout=0.1)

    async def consume_slowly() -> list[int]:
        values = []
        async for value in turn.yielding():
            values.append(value)
            await asyncio.sleep(0.08)
        return values

    assert asyncio.run(consume_slowly()) == [1, 2]


def test_a_failure_ends_a_turn() -> None:
    """The hooks are told of it, and it is raised."""

    async def fail() -> None:
        raise RuntimeError("no")

    turn = Turn[None](tool(fail))
    heard = noting(turn)

    with pytest.raises(RuntimeError, match="no") as failure:
        asyncio.run(turn.returning())

    assert heard == ["-", failure.value, StopReason.ERROR]


def test_closing_a_turn_stops_its_tool() -> None:
    """At once: it has tidied up when the caller goes on, and never gets further."""
    order: list[str] = []

    async def slow() -> AsyncIterator[int]:
        try:
            yield 1
            order.append("further")
            yield 2
        finally:
            await asyncio.sleep(0)
            order.append("tidied")

    turn = Turn[int](tool(slow))
    heard = noting(turn)

    async def leave() -> None:
        async with aclosing(turn.yielding()) as values:
            assert await anext(values) == 1
        order.append("left")
        await asyncio.sleep(0.01)

    asyncio.run(leave())

    assert order == ["tidied", "left"]
    assert heard == ["-", StopReason.CANCELLED]


def test_a_cancelled_turn_says_so() -> None:
    """And can be run again."""
    turn = Turn[None](tool(sleep))

    async def cancel() -> None:
        task = asyncio.create_task(turn.returning())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())

    ends = [turn.metadata.stop_reason]
    turn.kwargs = {"seconds": 0}
    asyncio.run(turn.returning())
    assert [*ends, turn.metadata.stop_reason] == [StopReason.CANCELLED, StopReason.COMPLETED]


def test_a_hook_that_fails_at_the_end_leaves_a_turn_that_can_be_changed() -> None:
    """It does not count as running for ever."""
    turn = Turn[int](tool(add), args=[1])

    @turn.on_complete
    async def failing(turn: Turn[Any], stop_reason: StopReason) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        asyncio.run(turn.returning())

    turn.hooks = []
    assert asyncio.run(turn.returning()) == 1


def test_hooks_are_lent_for_a_while() -> None:
    """They come behind the turn's own, which are afterwards what they were before."""
    turn = Turn[int](tool(add), args=[1])
    heard: list[str] = []

    def saying(word: str) -> Hook:
        async def say(*args: Any) -> None:
            heard.append(word)

        return Hook(say, TurnHook.BEFORE_RUN)

    turn.hooks = own = [saying("own")]
    with turn.lending([saying("lent")]):
        turn.hooks.append(saying("for this run"))
        asyncio.run(turn.returning())
    turn.hooks.append(saying("added"))
    asyncio.run(turn.returning())

    assert heard == ["own", "for this run", "lent", "own", "added"]
    assert turn.hooks[0] is own[0]


def test_nobody_lends_hooks_to_a_turn_that_runs() -> None:
    """They would be called instead of those of whoever runs it."""
    turn = Turn[int](tool(add), args=[1])

    @turn.before_run
    async def meddle(turn: Turn[Any]) -> None:
        with pytest.raises(SafeExecutionError, match="is running"), turn.lending([]):
            raise AssertionError("it runs")

    assert asyncio.run(turn.returning()) == 1


def test_a_turn_as_a_dict() -> None:
    """It comes back with its output, its metadata and its hooks (SPEC P5.7)."""
    turn = Turn[int](tool(add), 30, [1], {"b": lambda: 2}, ["z", "a"])

    @turn.before_run
    async def note(turn: Turn[Any]) -> None: ...

    asyncio.run(turn.returning())
    saved = turn.to_dict()

    assert list(saved) == ["tool_name", "args", "kwargs", "timeout", "metadata", "output", "hooks", "tags"]
    assert (saved["kwargs"], saved["hooks"], saved["tags"]) == ({"b": 2}, {"before_run": ["note"]}, ["a", "z"])
    restored: Turn[int] = Turn.from_dict(saved)
    assert restored.to_dict() == saved
    assert (restored.hooks, restored.metadata) == ([note], turn.metadata)
    assert Turn[int].from_dict({"tool_name": "add"}).to_dict() == Turn[int]("add").to_dict()


def test_a_copy_is_a_turn_of_its_own() -> None:
    """It makes the same call, and shares no list with the first."""

    class OwnTurn(Turn[int]):
        """A subclass."""

    turn = OwnTurn(tool(add), args=[1])
    copied = turn.copy()
    copied.args.append(2)
    copied.hooks.append(hook(TurnHook.BEFORE_RUN)(_do_nothing))

    assert type(copied) is OwnTurn
    assert (turn.args, turn.hooks, turn.metadata is copied.metadata) == ([1], [], False)
    assert asyncio.run(copied.returning()) == 3


async def _do_nothing(turn: Turn[Any]) -> None: ...


@pytest.mark.parametrize(
    ("name", "value"), [("hooks", 5), ("args", "abc"), ("kwargs", ["a"]), ("timeout", "10"), ("timeout", [1])]
)
def test_what_a_turn_cannot_use_is_refused_when_it_is_set(name: str, value: object) -> None:
    """The error names the attribute, and the turn keeps what it had."""
    turn = Turn[int](tool(add).__name__, timeout=5)
    before = turn.to_dict()

    with pytest.raises(InvalidInputError, match=f"^{name} of the turn is "):
        setattr(turn, name, value)

    assert turn.to_dict() == before


def test_a_turn_may_have_no_limit_of_time() -> None:
    """None stands for no limit, and any number for one."""
    given: list[Any] = [None, 1, 0.5]
    adding = tool(add)

    assert [Turn[int](adding, timeout=one).timeout for one in given] == given


@pytest.mark.parametrize("tags", [5, [5], [["a"]], ["\ud800"]])
def test_tags_are_texts(tags: Any) -> None:
    """Those of agents, turns, tools and hooks are checked as those of queues."""
    add_up = tool(add)
    makers: list[Callable[[], object]] = [
        lambda: Turn(add_up, tags=tags),
        lambda: Agent("ann", "tests", [add_up], tags=tags),
        lambda: add_up.subtool(tags=tags)(sleep),
        lambda: Hook(sleep, TurnHook.ON_ERROR, tags=tags),
    ]

    for make in makers:
        with pytest.raises(InvalidInputError, match="tag"):
            make()


def test_an_agent_takes_only_tools() -> None:
    """A text, a function that is no tool, and hooks that are no list are refused with what to give."""
    wrong: list[Any] = ["add", [add]]
    agent = Agent("ann", "tests", [])

    for tools in wrong:
        with pytest.raises(InvalidInputError, match=r"the tools|a tool of the agent"):
            Agent("bob", "tests", tools)
    for name in ("hooks", "turn_hooks"):
        with pytest.raises(InvalidInputError, match=f"^{name} of the agent is 5: give a list"):
            setattr(agent, name, 5)
