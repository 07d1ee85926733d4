"""The contract of agents whose queue and pool are kept in a log: what their tools gave is there, whatever came then."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from refold.domain.agent.agent import Agent, AgentRegistry
from refold.domain.agent.turn import StopReason, Turn
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.log.envelope import acting
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..domain.agent.agents import agent_with, empty_registries, ran
from ..domain.pool.containers import contents, item
from .writing import check_chain

ITEMS = 12


async def note(text: str = "a note") -> ContextItem[str]:
    """Give an item for the queue."""
    return ContextItem(text)


async def find(*ids: str) -> list[ContextItem[Any]]:
    """Give items for the pool, and between them some for the queue."""
    return [one for item_id in ids for one in (item(item_id), ContextItem(f"found {item_id}"))]


def store_on(log: LiveLog) -> Store:
    """Return a store of its own on a log, as another process has one."""
    return Store(log, MemoryProjectionStore())


def actors(context: Any) -> list[str | None]:
    """Return who recorded what is in a queue or a pool."""
    return [event.meta.actor for event in context.recorded_events() if event.version > 1]


class AgentsContract:
    """What holds for agents, whatever log their contexts lie in. Needs the fixture `log`."""

    @pytest.fixture(autouse=True)
    def registries(self) -> Iterator[None]:
        """Begin and end with empty registries."""
        with empty_registries():
            yield

    async def test_what_is_routed_is_kept(self, log: LiveLog) -> None:
        """Another store has it when the hooks are told, under the name of the agent, or of whoever runs it."""
        agent = agent_with(note, find, store=store_on(log))
        seen: list[Any] = []

        @agent.on_turn_value
        async def look(agent: Agent, turn: Turn[Any], value: Any) -> None:
            other = store_on(log)
            seen.append((contents(other.queue("agent-ann")), contents(other.pool("agent-ann"))))

        assert await ran(agent, "note") == []
        with acting(actor="mia", correlation_id="t1"):
            assert await ran(agent, Turn("find", args=["a", "b"])) == []

        assert seen == [(["a note"], []), (["a note", "found a", "found b"], ["a", "b"])]
        queue, pool = store_on(log).queue("agent-ann"), store_on(log).pool("agent-ann")
        assert (actors(queue), actors(pool)) == (["ann", "mia", "mia"], ["mia", "mia"])
        assert queue.recorded_events()[-1].meta.correlation_id == "t1"
        check_chain(log.read("queue:agent-ann"))

    async def test_an_agent_of_the_same_name_goes_on(self, log: LiveLog) -> None:
        """With what the one before it left; its branches are found in the same way."""
        agent = agent_with(note, find, store=store_on(log))
        await ran(agent, "note", Turn("find", args=["a"]))
        child = agent.branch("child")
        await ran(child, Turn("note", args=["of the child"]))
        AgentRegistry.clear()

        again = Agent("ann", "tests", agent.tools, store=store_on(log))
        await ran(again, Turn("find", args=["b"]))
        child_again = Agent("child", "tests", agent.tools, store=store_on(log))

        assert contents(again.context_queue) == ["a note", "found a", "found b"]
        assert contents(again.context_pool) == ["a", "b"]
        assert contents(child_again.context_queue) == ["a note", "found a", "of the child"]
        assert contents(child_again.context_pool) == ["a"]

    async def test_a_branch_is_begun_once(self, log: LiveLog) -> None:
        """The next one of the name needs an id of its own."""
        agent = agent_with(note, store=store_on(log))
        agent.branch("child")
        AgentRegistry.unregister("child")

        with pytest.raises(InvalidInputError, match="pool:agent-child exists already"):
            agent.branch("child")
        store_on(log).queue("taken")
        with pytest.raises(InvalidInputError, match="queue:taken exists already"):
            agent.branch("child", context_id="taken")
        with pytest.raises(NotFoundError):
            AgentRegistry.get("child")

        assert log.head("pool:taken") == 0
        assert agent.branch("child", context_id="second").context_queue.id == "second"

    async def test_a_run_that_is_cancelled_leaves_what_was_routed(self, log: LiveLog) -> None:
        """And nothing of what comes behind it; the turns that wait go on in the same agent."""

        async def search() -> AsyncIterator[Any]:
            yield ContextItem("first")
            yield [item("a"), ContextItem("second")]
            reached.set()
            await asyncio.sleep(30)
            yield ContextItem("third")

        reached = asyncio.Event()
        agent = agent_with(search, note, store=store_on(log))
        turn = Turn[Any]("search")
        running = asyncio.create_task(ran(agent, turn, "note"))
        await asyncio.wait_for(reached.wait(), 20)
        running.cancel()
        await asyncio.wait([running])

        assert turn.metadata.stop_reason is StopReason.CANCELLED
        assert contents(store_on(log).queue("agent-ann")) == ["first", "second"]
        assert contents(store_on(log).pool("agent-ann")) == ["a"]
        await ran(agent)
        assert contents(store_on(log).queue("agent-ann")) == ["first", "second", "a note"]

    async def test_tools_read_what_was_routed(self, log: LiveLog) -> None:
        """Live, at every step, what another agent writes too; and they cannot write."""
        store = store_on(log)
        other = agent_with(note, name="bob", store=store_on(log), context_id="shared")

        async def search(memory: ContextQueue[Any], pool: ContextPool[Any]) -> AsyncIterator[Any]:
            yield [ContextItem("first"), item("a")]
            seen.append((memory.history(), pool.catalogue(), memory.version))
            await ran(other, "note")
            memory.refresh()
            seen.append((memory.history(), memory.at(2).history(), memory.id))
            with pytest.raises(RuntimeError, match="is a view"):
                await memory.append(ContextItem("mine"))

        seen: list[Any] = []
        agent = agent_with(search, store=store, context_id="shared")
        await ran(agent, "search")

        assert seen == [("first", "- [a] about a", 2), ("first\na note", "first", "shared")]
        assert contents(store.queue("shared")) == ["first", "a note"]

    async def test_agents_share_a_queue_and_a_pool(self, log: LiveLog) -> None:
        """Each with handles of its own, at once: nothing is lost, and each one's items are in its order."""
        names = ["ann", "bob", "cy"]
        tools = agent_with(find, name="any").tools
        agents = [agent_with(*tools, name=name, store=store_on(log), context_id="shared") for name in names]

        await asyncio.gather(
            *(
                ran(agent, *[Turn[Any]("find", args=[f"{agent.name}-{number}"]) for number in range(ITEMS)])
                for agent in agents
            )
        )

        queue, pool = store_on(log).queue("shared"), store_on(log).pool("shared")
        came = [left.item.content for left in queue.evicted()] + contents(queue)
        for name in names:
            mine = [f"{name}-{number}" for number in range(ITEMS)]
            assert [content for content in contents(pool) if content.startswith(name)] == mine
            assert [text for text in came if text.startswith(f"found {name}")] == [f"found {one}" for one in mine]
            assert actors(pool).count(name) == ITEMS
        assert (len(came), len(queue), set(actors(queue))) == (len(names) * ITEMS, 10, set(names))

    async def test_an_agent_as_a_dict_goes_on_with_what_is_kept(self, log: LiveLog) -> None:
        """As it is by now, with the hooks that it had; the dict overwrites nothing."""
        agent = agent_with(note, find, store=store_on(log), context_id="shared")
        await ran(agent, "note")
        await agent.put(Turn("find", args=["a"]))

        @agent.context_queue.after_append
        async def count(appended: Any, current: Any) -> None:
            counted.append(len(current))

        counted: list[int] = []
        saved = agent.to_dict()
        await ran(agent, Turn("note", args=["a later note"]))
        AgentRegistry.clear()
        restored = Agent.from_dict(saved, store=store_on(log))

        assert saved["kept_as"] == {"context_pool": "shared", "context_queue": "shared"}
        assert contents(restored.context_queue) == ["a note", "found a", "a later note"]
        assert restored.to_dict() == agent.to_dict() | {"queue": saved["queue"]}
        await ran(restored)
        assert counted == [2, 3, 4]
        assert contents(store_on(log).queue("shared"))[-1] == "found a"

    async def test_an_agent_as_a_dict_without_its_store(self, log: LiveLog) -> None:
        """Is detached, with what the dict holds; another store does not have what is named."""
        agent = agent_with(note, store=store_on(log))
        await ran(agent, "note")
        saved = agent.to_dict()
        AgentRegistry.clear()

        with pytest.raises(NotFoundError, match="there is no pool 'agent-ann'"):
            Agent.from_dict(saved, store=store_on(MemoryLog()))
        restored = Agent.from_dict(saved)
        await ran(restored, "note")

        assert (contents(restored.context_queue), len(agent.context_queue)) == (["a note", "a note"], 1)
        assert "kept_as" not in restored.to_dict()

    async def test_a_detached_agent_as_a_dict_is_kept_from_then_on(self, log: LiveLog) -> None:
        """Under its name, once: what is there already is never replaced, and a refusal leaves nothing behind."""
        agent = agent_with(note, find)
        await ran(agent, "note", Turn("find", args=["a"]))
        saved = agent.to_dict()
        AgentRegistry.clear()
        taken = store_on(MemoryLog())
        taken.queue("agent-ann")

        with pytest.raises(InvalidInputError, match="the agent's dict has another queue, which was not stored"):
            Agent.from_dict(saved, store=taken)
        restored = Agent.from_dict(saved, store=store_on(log))
        await ran(restored, "note")

        assert [row.key for row in taken.contexts()] == ["queue:agent-ann"]
        assert contents(store_on(log).queue("agent-ann")) == ["a note", "found a", "a note"]
        assert contents(store_on(log).pool("agent-ann")) == ["a"]
        assert restored.to_dict()["kept_as"] == {"context_pool": "agent-ann", "context_queue": "agent-ann"}

    async def test_a_hook_that_refuses_leaves_nothing_on_disk(self, log: LiveLog) -> None:
        """Of a list, nothing is recorded in the queue, nor in the pool behind it."""
        agent = agent_with(find, store=store_on(log))

        @agent.context_queue.on_evict
        async def refuse(queue: Any, leaving: Any) -> None:
            raise RuntimeError("stays")

        with pytest.raises(RuntimeError, match="stays"):
            await ran(agent, Turn("find", args=[str(number) for number in range(11)]))

        assert (log.head("queue:agent-ann"), log.head("pool:agent-ann")) == (1, 1)
