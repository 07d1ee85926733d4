"""Branching an agent, saving it, and what it asks of a store (SPEC P7.1, P7.14, P7.15)."""

import asyncio
import json
from typing import Any

import pytest

import refold
from refold.domain.agent.agent import Agent, AgentRegistry
from refold.domain.agent.errors import UnregisteredToolError
from refold.domain.agent.tool import ToolRegistry, tool
from refold.domain.agent.turn import StopReason, Turn
from refold.domain.errors import InvalidInputError
from refold.domain.hooks.hook import UnregisteredHookError, UnserializableHookError
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue

from .agents import agent_with, run

NOTE = ContextItem("a note")
REPORT = ContextItem("a report", "what it says", "r1")


async def add(a: int, b: int = 0) -> int:
    """Return the sum."""
    return a + b


async def note(agent: Agent) -> None:
    """Do nothing, under a name."""


class Shelf:
    """A store that notes what it is asked for; what it gives is detached."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def pool(self, context_id: str, *, create: bool = True) -> ContextPool[Any]:
        """Open a pool, or create it."""
        self.opened.append(f"pool {context_id}")
        return ContextPool()

    def queue(self, context_id: str, *, create: bool = True) -> ContextQueue[Any]:
        """Open a queue, or create it."""
        self.opened.append(f"queue {context_id}")
        return ContextQueue(10)

    def adopt(self, context: Any, context_id: str) -> Any:
        """Keep a detached pool or queue from now on."""
        raise AssertionError("nobody asked for that")


def filled(**given: Any) -> Agent:
    """Return an agent with an item in its queue and pool, a turn that waits, and a hook."""
    agent = agent_with(add, tags=["z", "a"], **given)
    agent.before_turn(note)
    asyncio.run(agent.put(Turn("add", args=[1], kwargs={"b": 2})))
    asyncio.run(agent.context_queue.append(NOTE))
    asyncio.run(agent.context_pool.add(REPORT))
    return agent


def test_an_agent_has_a_queue_and_a_pool() -> None:
    """Its own, or those that it is given (SPEC P7.1)."""
    queue, pool = ContextQueue[Any](2), ContextPool[Any](1)

    ann, bob = agent_with(add), Agent("bob", "tests", [], pool, queue)

    assert (ann.context_queue.limit, ann.context_pool.limit) == (10, None)
    assert (bob.context_queue, bob.context_pool) == (queue, pool)


def test_a_branch_goes_its_own_way() -> None:
    """With what the agent has, but turns of its own (SPEC P7.14)."""
    agent = filled()

    child = agent.branch("child")
    asyncio.run(child.context_queue.append(NOTE))
    child.turns[0].args[0] = 10

    assert AgentRegistry.get("child") is child
    assert (child.description, child.tools, child.tags, child.hooks) == (
        agent.description,
        agent.tools,
        agent.tags,
        agent.hooks,
    )
    assert (child.context_pool.items, len(child.context_queue), len(agent.context_queue)) == ([REPORT], 2, 1)
    assert (run(child), run(agent)) == ([12], [3])


def test_a_branch_can_be_told_otherwise() -> None:
    """In its description, tools and hooks."""
    agent = filled()

    child = agent.branch("child", "another", [], hooks=[])

    assert (child.description, child.tools, child.hooks) == ("another", [], [])
    assert agent.branch("other", hooks=None).hooks == []
    with pytest.raises(InvalidInputError, match="'child' already registered"):
        agent.branch("child")


def test_an_agent_as_a_dict() -> None:
    """It comes back with all that it had, and is registered (SPEC P7.15)."""
    agent = filled()

    @agent.on_complete
    async def completed(turn: Turn[Any], stop_reason: StopReason) -> None: ...

    agent.pause()
    saved = agent.to_dict()
    AgentRegistry.clear()
    restored = Agent.from_dict(saved)

    assert restored.to_dict() == saved
    assert (saved["tags"], saved["hooks"], saved["turn_hooks"]) == (
        ["a", "z"],
        {"before_turn": ["note"]},
        {"on_complete": ["completed"]},
    )
    assert AgentRegistry.get("ann") is restored
    assert restored.is_paused
    restored.resume()
    assert run(restored) == [3]


def test_the_turn_that_ran_is_saved_and_runs_first() -> None:
    """A store of states may be written at any moment."""
    agent = filled()
    saved: list[dict[str, Any]] = []

    @agent.on_turn_value
    async def save(agent: Agent, turn: Turn[Any], value: int) -> None:
        saved.append(agent.to_dict())

    run(agent)
    AgentRegistry.clear()
    restored = Agent.from_dict(saved[0] | {"hooks": {}, "queue": [Turn[int]("add", args=[5]).to_dict()]})

    assert run(restored) == [3, 5]


def test_an_agent_whose_turn_gave_an_item_is_saved_as_json() -> None:
    """Also at the moment at which the turn has the item and is not over: it will run again."""

    async def give() -> ContextItem[str]:
        return NOTE

    agent, saved = agent_with(give), list[str]()

    @agent.on_complete
    async def save(turn: Turn[Any], stop_reason: StopReason) -> None:
        saved.append(json.dumps(agent.to_dict() | {"turn_hooks": {}}))

    run(agent, "give")
    AgentRegistry.clear()
    restored = Agent.from_dict(json.loads(saved[0]))
    assert restored.context_queue.history() == ""
    run(restored)
    assert restored.context_queue.history() == "a note"


def test_little_is_needed_to_make_an_agent() -> None:
    """What a dict does not have is as in a new one."""
    restored = Agent.from_dict({"name": "ann", "description": "", "tool_names": []})

    assert restored.to_dict() == Agent("bob", "", []).to_dict() | {"name": "ann"}


def test_what_cannot_be_restored_leaves_nothing_behind() -> None:
    """No agent is registered then."""
    saved = filled().to_dict()

    with pytest.raises(InvalidInputError, match="'ann' already registered"):
        Agent.from_dict(saved)
    AgentRegistry.clear()
    with pytest.raises(UnregisteredToolError, match="'gone' not found"):
        Agent.from_dict(saved | {"tool_names": ["gone"]})
    with pytest.raises(UnregisteredHookError, match="'gone' not found"):
        Agent.from_dict(saved | {"turn_hooks": {"on_error": ["gone"]}})

    assert Agent.from_dict(saved).name == "ann"


def test_a_closure_cannot_be_saved() -> None:
    """The first of a name can, since it is found again by it (SPEC P5.9)."""

    def attach(agent: Agent) -> None:
        @agent.after_turn
        async def log_turn(agent: Agent, turn: Turn[Any]) -> None: ...

    ann, bob = agent_with(add), Agent("bob", "tests", [])
    attach(ann)
    attach(bob)

    assert ann.to_dict()["hooks"] == {"after_turn": ["log_turn"]}
    with pytest.raises(UnserializableHookError, match="'log_turn'"):
        bob.to_dict()


def test_a_store_is_asked_for_a_queue_and_a_pool() -> None:
    """By the agent's name, whatever it is, or by the id that is given; what is given itself is not opened."""
    for given in ({"name": "ann"}, {"name": "a@b..c"}, {"name": "bob", "context_id": "shared"}):
        shelf = Shelf()
        agent_with(store=shelf, **given)
        expected = given.get("context_id", "agent-" + given["name"].replace("@", "%40").replace("..", ".%2E"))
        assert shelf.opened == [f"pool {expected}", f"queue {expected}"]

    shelf, queue = Shelf(), ContextQueue[Any](2)
    agent = Agent("cy", "tests", [], context_queue=queue, store=shelf)

    assert (agent.context_queue, shelf.opened) == (queue, ["pool agent-cy"])


def test_a_refused_agent_opens_nothing() -> None:
    """The store is not asked for contexts that nobody would use."""
    shelf = Shelf()
    saved = filled().to_dict()

    with pytest.raises(InvalidInputError, match="'ann' already registered"):
        Agent("ann", "tests", [], store=shelf)
    for wrong, error in (
        ({}, InvalidInputError),
        ({"name": "bob", "tool_names": ["gone"]}, UnregisteredToolError),
        ({"name": "bob", "hooks": {"on_error": ["gone"]}}, UnregisteredHookError),
        ({"name": "bob", "context_queue": {"limit": 1, "hooks": {"on_evict": ["gone"]}}}, UnregisteredHookError),
    ):
        with pytest.raises(error):
            Agent.from_dict(saved | wrong, store=shelf)

    assert shelf.opened == []


def test_a_refused_branch_makes_nothing() -> None:
    """Neither an agent nor a branch of its queue or pool, whatever it is refused for."""
    with refold.open(":memory:") as store:
        agent = filled(store=store)
        store.pool("taken")
        before = store.log.streams()
        ToolRegistry.clear()
        tool(add)
        agent.branch("bare", tools=[])
        made = store.log.streams()
        for given, saying in (
            ({"name": "child"}, "another tool is registered as 'add'"),
            ({"name": "ann", "tools": []}, "'ann' already registered"),
            ({"name": "bare", "tools": []}, "'bare' already registered"),
            ({"name": "child", "tools": [], "context_id": "taken"}, "taken"),
        ):
            with pytest.raises(InvalidInputError, match=saying):
                agent.branch(**given)

        assert made == sorted([*before, "pool:agent-bare", "queue:agent-bare"])
        assert store.log.streams() == made
        assert sorted(AgentRegistry._registry) == ["ann", "bare"]


def test_a_branch_of_a_subclass_is_an_agent() -> None:
    """What a subclass asks for when it is made, nobody knows."""

    class Named(Agent):
        """An agent with a name of its own."""

        def __init__(self) -> None:
            super().__init__("named", "tests", [])

    assert type(Named().branch("child")) is Agent
