"""The contract of agents of several processes that share a queue and a pool."""

import asyncio

from refold.domain.agent.turn import Turn
from tests.support.processes import Program

from ..domain.agent.agents import agent_with, empty_registries, ran
from ..domain.pool.containers import contents
from .agents import actors, find, store_on
from .stores import Store
from .writing import check_chain

ITEMS = 12
WRITER = Program("tests.contract.agent_writer")


class SharedAgentsContract:
    """What holds between processes. Needs the fixture `store`."""

    def test_processes_run_agents_on_one_pool(self, store: Store) -> None:
        """Each gets all its items in, in its order; who gave what is in the log."""
        log = store.open()
        writers = [WRITER.start(store.place, name, str(ITEMS)) for name in ("ann", "bob")]
        printed = [writer.communicate(timeout=100)[0].split() for writer in writers]

        pool = store_on(log).pool("shared", create=False)
        assert [writer.returncode for writer in writers] == [0, 0]
        assert sorted(contents(pool)) == sorted(printed[0] + printed[1])
        for name, lines in zip(("ann", "bob"), printed, strict=True):
            mine = [content for content in contents(pool) if content.startswith(name)]
            assert mine == lines == [f"{name}-{number}" for number in range(ITEMS)]
            assert actors(pool).count(name) == ITEMS
        check_chain(log.read(pool.stream_id))

    def test_a_killed_run_leaves_what_was_routed(self, store: Store) -> None:
        """All that the tool saw routed; the next agent of the name goes on."""
        writer = WRITER.start(store.place, "ann", str(ITEMS), "kill")
        printed = writer.communicate(timeout=100)[0].split()
        log = store.open()

        assert writer.returncode == -9
        assert contents(store_on(log).pool("shared", create=False)) == printed
        assert printed == [f"ann-{number}" for number in range(ITEMS)]
        with empty_registries():
            again = agent_with(find, store=store_on(log), context_id="shared")
            asyncio.run(ran(again, Turn("find", args=["b"])))
            assert contents(again.context_pool) == [*printed, "b"]
