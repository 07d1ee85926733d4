"""What tools are shown of the queue and pool: all of it, live, to be read only (SPEC P7.7, P7.12, P7.17)."""

import asyncio
import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.agent.turn import Turn
from refold.domain.context.folded_stream import Place
from refold.domain.errors import DecisionRefusedError, ReadOnlyError
from refold.domain.hooks.hook import ContextQueueHook, UnregisteredHookError
from refold.domain.hooks.registry import HookDecorator, HookRegistry
from refold.domain.log.memory_log import MemoryLog
from refold.domain.pool.changes import Clearing
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue
from refold.domain.pool.rules import Clear

from .agents import agent_with, run

NOTE = ContextItem("a note")
REPORT = ContextItem("a report", "what it says", "r1")
# Async, but changes nothing.
READING = {"aflush", "fire", "select"}
# What a changing method is called with, where that is not an item.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "add": (REPORT,),
    "attach": (MemoryLog(), Place("pool:p", "p"), "commit", set()),
    "change": (Clearing(), None, None),
    "change_settings": (),
    "cleanup": (),
    "clear": (),
    "put_in": (Clear(),),
    "repeated": (Clearing(), None),
}
CHANGING_AT_ONCE = ["attach", "cleanup", "name_version", "put_in"]


class Memory(ContextQueue[str]):
    """A subclass with a way to read and a way to write of its own."""

    before_joining = HookDecorator(ContextQueueHook.AFTER_APPEND, "One of its own.")

    def __init__(self) -> None:
        super().__init__(3)
        self.separator, self.words = ", ", ["a"]

    def joined(self) -> str:
        """Return the contents in one line."""
        return self.separator.join(item.content for item in self)

    async def remember(self, text: str) -> None:
        """Append a text."""
        await self.append(ContextItem(text))

    def forget_words(self) -> None:
        """Change an attribute."""
        self.words = []


def test_a_tool_reads_the_agents_own() -> None:
    """Both, by their annotations; and what is changed meanwhile, it sees."""
    seen: list[Any] = []

    async def read(memory: ContextQueue[Any], text: str = "", pool: ContextPool[Any] | None = None) -> None:
        assert isinstance(memory, ContextQueue)
        assert isinstance(pool, ContextPool)
        seen.append((memory.history(), len(memory), bool(memory), memory.limit, memory.items, list(memory)))
        seen.append((pool.catalogue(), pool.get("r1"), pool["r1"], "r1" in pool, repr(pool)))
        await agent.context_queue.append(NOTE)
        seen.append(len(memory))

    agent = agent_with(read)
    asyncio.run(agent.context_queue.append(NOTE))
    asyncio.run(agent.context_pool.add(REPORT))

    run(agent, "read")

    assert seen == [
        ("a note", 1, True, 10, [NOTE], [NOTE]),
        ("- [r1] what it says", REPORT, REPORT, True, "ReadOnlyPool(limit=None, len=1)"),
        2,
    ]


def test_what_a_turn_gives_wins() -> None:
    """By name, by position, and also None (SPEC P7.8, P7.9)."""
    other = ContextQueue[Any](1)
    seen: list[Any] = []

    async def read(memory: ContextQueue[Any] | None = None) -> None:
        seen.append(memory)

    agent = agent_with(read)
    turns = [Turn[None]("read", kwargs={"memory": given}) for given in (other, None)]
    run(agent, *turns, Turn("read", args=[other]))

    assert seen == [other, None, other]


def test_outside_of_an_agent_nothing_is_handed_out() -> None:
    """A parameter that must be given is missed, another stays as it is (SPEC P7.12)."""

    async def need(memory: ContextQueue[Any]) -> None: ...

    async def want(memory: ContextQueue[Any] | None = None) -> ContextQueue[Any] | None:
        return memory

    agent_with(need, want)

    assert asyncio.run(Turn[Any]("want").returning()) is None
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'memory'"):
        asyncio.run(Turn[Any]("need").returning())


def test_what_holds_queues_or_pools_is_an_argument_like_others() -> None:
    """A list of them is none of the agent's own."""
    seen: list[Any] = []

    async def read(
        memories: list[ContextQueue[Any]] | None = None, pools: dict[str, ContextPool[Any]] | None = None
    ) -> None:
        seen.append((memories, pools))

    run(agent_with(read), "read")

    assert seen == [(None, None)]


def test_a_tool_cannot_write() -> None:
    """The error says what to do instead, and ends the run (SPEC P7.17)."""

    async def write(memory: ContextQueue[Any]) -> None:
        await memory.append(NOTE)

    agent = agent_with(write)

    with pytest.raises(DecisionRefusedError, match="is a view and cannot be changed"):
        run(agent, "write")

    assert len(agent.context_queue) == 0


def changing_names(kind: type) -> list[str]:
    """
    List what changes a container: its hook decorators, its async methods unless they are known to read, and a few.
    """
    members = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    changing = [name for name, member in members.items() if isinstance(member, HookDecorator)]
    changing += [name for name, member in members.items() if inspect.iscoroutinefunction(member)]
    return [*(name for name in changing if name not in READING), *CHANGING_AT_ONCE]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in (ContextQueue, ContextPool) for name in changing_names(kind)],
)
def test_every_changing_method_is_refused(kind: Callable[[int], Any], name: str) -> None:
    """Whatever queues and pools can do now or learn later, unless it is known to read."""
    view = kind(3).readonly

    with pytest.raises(ReadOnlyError):
        _call(getattr(view, name), *ARGUMENTS.get(name, (NOTE,)))


def _call(method: Callable[..., Any], *arguments: Any) -> None:
    made = method(*arguments)
    if asyncio.iscoroutine(made):
        asyncio.run(made)


def test_items_cannot_be_set() -> None:
    """Though a queue's can."""
    view = ContextQueue[Any](3).readonly

    with pytest.raises(DecisionRefusedError):
        view.items = [NOTE]


@pytest.mark.parametrize("show", [lambda queue: queue.readonly, lambda queue: queue.at(1)])
def test_a_view_takes_no_hooks(show: Callable[[Any], Any]) -> None:
    """It says so before one is registered; its list is that of what it shows, and is not changed either."""
    queue = ContextQueue[Any](3)
    view = show(queue)

    async def note(*args: Any) -> None: ...

    with pytest.raises(DecisionRefusedError, match="is a view: add the hooks to the object that it shows"):
        view.before_append(note)
    with pytest.raises(UnregisteredHookError):
        HookRegistry.get("note")
    attached = queue.after_append(note)
    with pytest.raises(DecisionRefusedError):
        view.hooks.append(attached)
    with pytest.raises(DecisionRefusedError):
        view.hooks = []

    assert view.hooks == view.branch().hooks == queue.hooks == [attached]


def test_a_branch_of_a_view_is_ones_own() -> None:
    """A tool may write into it, and nobody sees it."""
    queue, pool = ContextQueue[Any](3), ContextPool[Any]()
    asyncio.run(queue.append(NOTE))

    branch, pool_branch = queue.readonly.branch(), pool.readonly.branch()
    asyncio.run(branch.append(NOTE))
    asyncio.run(pool_branch.add(REPORT))

    assert (len(queue), len(branch), len(pool), len(pool_branch)) == (1, 2, 0, 1)
    assert type(pool_branch) is ContextPool


def test_a_view_of_a_subclass_is_one() -> None:
    """It is handed out where the subclass is asked for; its own methods read, and do not write (SPEC P7.10)."""
    seen: list[Any] = []

    async def read(memory: Memory) -> None:
        seen.append(memory.joined())
        with pytest.raises(DecisionRefusedError):
            await memory.remember("c")

    own = Memory()
    agent = agent_with(read, context_queue=own)
    asyncio.run(own.remember("a"))
    asyncio.run(own.remember("b"))

    run(agent, "read")

    assert seen == ["a, b"]
    assert len(own) == 2


def test_a_view_of_a_subclass_refuses_what_it_added() -> None:
    """Its hooks, its attributes, and its lists."""
    own = Memory()
    view: Any = own.readonly

    for change in (view.forget_words, view.words.clear, lambda: view.before_joining, lambda: delattr(view, "words")):
        with pytest.raises(DecisionRefusedError):
            change()
    with pytest.raises(AttributeError, match="'Memory' object has no attribute 'nothing'"):
        _ = view.nothing

    assert own.words == view.readonly.words == ["a"]
    with pytest.raises(TypeError, match="`branch` makes another context"):
        copy.copy(view)
    assert type(view.readonly) is type(own.at(1)) is type(view)
    assert type(view.branch()) is ContextQueue


def test_a_view_of_a_pools_subclass_branches_into_it() -> None:
    """As the pool itself does (SPEC P3.6)."""

    class OwnPool(ContextPool[Any]):
        """A subclass."""

    assert type(OwnPool().readonly.branch()) is OwnPool
