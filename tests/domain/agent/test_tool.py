"""Tools: what a function is called with, and what its hooks are told."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

import pytest
from pydantic import Field

from refold.domain.agent.errors import UnregisteredToolError
from refold.domain.agent.tool import AsyncGenTool, Tool, ToolRegistry, tool
from refold.domain.chat.context import ChatContext
from refold.domain.errors import InvalidInputError, RefoldError
from refold.domain.hooks.hook import NotAsyncError, ToolHook
from refold.domain.hooks.registry import HookRegistry, hook
from refold.domain.llm.tools import tool_schemas
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue


async def collected(values: AsyncIterator[Any]) -> list[Any]:
    """Return all values."""
    return [value async for value in values]


def test_a_function_becomes_a_tool() -> None:
    """With and without parentheses; it is registered by its name, and is called as before."""

    @tool
    async def double(x: int) -> int:
        """Twice as much."""
        return 2 * x

    @tool(tags=["t"])
    async def count(n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    assert isinstance(double, Tool)
    assert isinstance(count, AsyncGenTool)
    assert (double.metadata.name, double.metadata.description) == ("double", "Twice as much.")
    assert ToolRegistry.all() == [double, count]
    assert count.tags == {"t"}
    assert repr(count) == "AsyncGenTool('count')"
    assert asyncio.run(double(2)) == 4
    assert asyncio.run(collected(count(2))) == [0, 1]


def test_a_plain_function_is_no_tool() -> None:
    """The error is a TypeError, and nothing is registered."""
    with pytest.raises(NotAsyncError, match="Tool must be async") as refusal:
        tool(len)  # type: ignore[arg-type]

    assert isinstance(refusal.value, TypeError)
    assert isinstance(refusal.value, RefoldError)
    assert ToolRegistry.all() == []


def test_a_name_is_taken_once() -> None:
    """The error is a ValueError; a name that is freed can be taken again."""

    async def same() -> None: ...

    tool(same)
    with pytest.raises(InvalidInputError, match="'same' already registered"):
        tool(same)

    ToolRegistry.unregister("same")
    tool(same)
    with pytest.raises(UnregisteredToolError, match="'other' not found"):
        ToolRegistry.unregister("other")


def test_fixed_arguments_give_way_to_given_ones(caplog: pytest.LogCaptureFixture) -> None:
    """The log says so; a lambda is called each time."""
    counted = iter(range(10))

    @tool(role="user", count=lambda: next(counted))
    async def who(role: str, count: int) -> tuple[str, int]:
        return role, count

    assert asyncio.run(who()) == ("user", 0)
    with caplog.at_level(logging.WARNING):
        assert asyncio.run(who(role="admin")) == ("admin", 1)
    assert "Fixed kwarg 'role' is overridden in a call of tool 'who'" in caplog.text


def test_arguments_that_are_not_taken_are_left_out() -> None:
    """A missing one is still missed."""

    @tool
    async def one(x: int) -> int:
        return x

    @tool
    async def any_number(*args: int, **kwargs: int) -> tuple[Any, ...]:
        return args, kwargs

    assert asyncio.run(one(1, 2, y=3)) == 1
    assert asyncio.run(any_number(1, 2, y=3)) == ((1, 2), {"y": 3})
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        asyncio.run(one(y=3))


def test_hooks_are_told_of_a_call() -> None:
    """Before it, with its own arguments, and after it, with what it returned."""
    heard: list[Any] = []

    @tool(fixed=1)
    async def add(x: int, fixed: int) -> int:
        return x + fixed

    @add.before_invoke
    async def before(x: int, fixed: int) -> None:
        heard.append((x, fixed))

    @add.after_invoke
    async def after(result: int) -> None:
        heard.append(result)

    assert asyncio.run(add(2)) == 3
    assert heard == [(2, 1), 3]
    assert add.hooks == [(ToolHook.BEFORE_INVOKE, before), (ToolHook.AFTER_INVOKE, after)]


def test_hooks_are_told_of_every_value() -> None:
    """And at the end of all of them."""
    heard: list[Any] = []

    @tool
    async def count() -> AsyncIterator[int]:
        yield 1
        yield 2

    @count.on_yield
    async def each(value: int) -> None:
        heard.append(value)

    @count.after_invoke
    async def after(values: list[int]) -> None:
        heard.append(values)

    assert asyncio.run(collected(count())) == [1, 2]
    assert heard == [1, 2, [1, 2]]


def test_leaving_early_tells_what_there_was() -> None:
    """The function is closed first."""
    heard: list[Any] = []

    @tool
    async def count() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            heard.append("closed")

    @count.after_invoke
    async def after(values: list[int]) -> None:
        heard.append(values)

    async def leave() -> None:
        async with aclosing(count()) as values:
            async for _ in values:
                break

    asyncio.run(leave())

    assert heard == ["closed", [1]]


@pytest.mark.parametrize("yields", [False, True])
def test_a_failure_is_told(yields: bool) -> None:
    """Instead of what came of it; the times are set all the same."""
    heard: list[Any] = []

    async def fail() -> None:
        raise RuntimeError("no")

    async def fail_later() -> AsyncIterator[int]:
        yield 1
        raise RuntimeError("no")

    failing: Any = tool(fail_later) if yields else tool(fail)

    async def on_error(exc: Exception) -> None:
        heard.append(str(exc))

    async def after(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("it failed")

    failing.on_error(on_error)
    failing.after_invoke(after)
    with pytest.raises(RuntimeError, match="no"):
        asyncio.run(collected(failing()) if yields else failing())

    assert heard == ["no"]
    assert failing.metadata.end_time >= failing.metadata.start_time
    assert failing.metadata.dict()["end_time"] == failing.metadata.end_time.isoformat()


def test_a_locked_tool_runs_once_at_a_time() -> None:
    """In every event loop; its hooks after it do not hold up the next call."""
    order: list[str] = []

    @tool(lock=True)
    async def slow() -> None:
        order.append("in")
        await asyncio.sleep(0.002)
        order.append("out")

    async def twice() -> None:
        await asyncio.gather(slow(), slow())

    asyncio.run(twice())
    asyncio.run(twice())

    assert order == ["in", "out"] * 4


def test_global_hooks_choose_tools_by_their_tags() -> None:
    """As with all owners (SPEC P6.7)."""
    heard: list[int] = []

    @hook(ToolHook.AFTER_INVOKE, tags={"t"})
    async def tagged(result: int) -> None:
        heard.append(result)

    @tool(tags=["t"])
    async def one() -> int:
        return 1

    @tool
    async def two() -> int:
        return 2

    asyncio.run(one())
    asyncio.run(two())

    assert heard == [1]
    assert HookRegistry.get("tagged") is tagged


def test_subtools_have_the_path_as_their_name() -> None:
    """They are registered under it, in order; the tree has their short names."""

    @tool
    async def files() -> None:
        """Files."""

    @files.subtool(lock=True)
    async def read(path: str) -> str:
        """Read."""
        return path

    @read.subtool()
    async def lines() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(NotAsyncError, match="Tool must be async"):
        files.subtool()(len)  # type: ignore[arg-type]

    assert ToolRegistry.get("files.read") is read
    assert (ToolRegistry.get("files.read.lines"), lines.__name__) == (lines, "files.read.lines")
    assert asyncio.run(read("a")) == "a"
    assert (read.lock is not None, read.metadata.name) == (True, "read")
    below: dict[str, Any] = {"name": "lines", "description": None, "subtools": []}
    tree = {
        "name": "files",
        "description": "Files.",
        "subtools": [{"name": "read", "description": "Read.", "subtools": [below]}],
    }
    assert files.doc_tree() == tree
    assert ToolRegistry.definitions() == [tree]


@pytest.mark.filterwarnings("error")
def test_the_schema_has_every_parameter() -> None:
    """Names that mean something to pydantic, like those of private attributes and methods of models, are parameters."""

    @tool
    async def save(_quiet: bool, json: str, model_config: int = 1, copy: Annotated[int, Field(alias="n")] = 2) -> None:
        pass

    parameters = save.schema()["parameters"]
    assert list(parameters["properties"]) == ["_quiet", "json", "model_config", "copy"]
    assert parameters["properties"]["copy"] == {"default": 2, "title": "Copy", "type": "integer"}
    assert (parameters["required"], parameters["title"]) == (["_quiet", "json"], "save")


def test_a_tools_schema() -> None:
    """What a model must give: not what is fixed, nor what the agent gives; a model and a context take the tool."""

    @tool(unit="km")
    async def measure(
        start: Annotated[str, Field(description="a town")],
        queue: ContextQueue[str],
        ends: list[str],
        unit: str,
        pool: ContextPool[str] | None = None,
        limit: int = 5,
        *others: int,
    ) -> float:
        """Measure a way."""
        return 0.0

    @tool
    async def strange(what: "Nothing") -> None:  # type: ignore[name-defined]  # noqa: F821
        pass

    @tool
    async def listed(names: [str]) -> None:  # type: ignore[misc,valid-type]
        pass

    schema = measure.schema()
    assert (schema["name"], schema["description"]) == ("measure", "Measure a way.")
    assert {name: part["type"] for name, part in schema["parameters"]["properties"].items()} == {
        "start": "string",
        "ends": "array",
        "limit": "integer",
    }
    assert schema["parameters"]["required"] == ["start", "ends"]
    assert schema["parameters"]["properties"]["start"]["description"] == "a town"
    assert tool_schemas([measure]) == tool_schemas([schema])
    for wrong in (strange, listed):
        with pytest.raises(InvalidInputError, match=f"tool '{wrong.__name__}' have no JSON schema"):
            wrong.schema()
    chat = ChatContext()
    chat.add_function_call("measure", "{}")
    assert len(chat.copy(tools=[measure])) == 1
