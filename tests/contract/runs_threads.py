"""The contract of one run that many threads write while a model describes what they found."""

import asyncio
from collections import Counter
from typing import Any

from refold.domain.log.ports import LiveLog
from refold.domain.trajectory.run import Run
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from .writing import at_once, check_chain

THREADS, FINDS, PORTRAITS = 16, 5, 50


class Crowd:
    """A model that answers nobody before so many are asking at once."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.asking, self.asking_most = wanted, 0, 0

    async def __call__(self, prompt: str) -> str:
        """Wait for the others, then describe something."""
        self.asking += 1
        self.asking_most = max(self.asking, self.asking_most)
        while self.asking_most < self.wanted:
            await asyncio.sleep(0.001)
        self.asking -= 1
        return f"A portrait of {prompt.rpartition('about ')[2]}."


def run_on(log: LiveLog) -> Run:
    """Return a handle of the run, one of its own."""
    return Store(log, MemoryProjectionStore()).run("mia", "s")


def find(run: Run, thread: int, number: int) -> None:
    """Register an action, and what it found."""
    action = run.register_node(
        "Action", "d", [str(run.initial)], add_pt=True, action="look", params={}, output=None, success=True
    )
    label = f"{thread}/{number}"
    run.register_node("Knowledge", "", [action], label=label, knowledge_type="fact", knowledge_content=f"about {label}")


def check_finds(log: LiveLog, run: Run, finds: list[str]) -> Counter[tuple[str, Any]]:
    """
    Require that everything found is there once, behind an action of its own, and described; return the events counted.
    """
    assert sorted(run.nodes("Knowledge")) == sorted(f"Knowledge({label})" for label in finds)
    assert [run.node(f"Knowledge({label})").description for label in finds] == [f"A portrait of {x}." for x in finds]
    behind = [run.predecessors(f"Knowledge({label})") for label in finds]
    assert len({action for (action,) in behind}) == len(finds) == len(run.nodes("Action"))
    recorded = log.read(run.stream_id)
    check_chain(recorded)
    assert run_on(log).graph() == run.graph()
    return Counter((type(one.event).__name__, getattr(one.event, "node", None)) for one in recorded)


class RunThreadsContract:
    """What holds for a run, whatever log it lies in, when many write it at once. Needs the fixture `log`."""

    def test_sixteen_threads_and_fifty_portraits(self, log: LiveLog) -> None:
        """Through one handle: each node is described once, each step taken once, each message there once."""
        run, crowd, steps = run_on(log), Crowd(PORTRAITS), list[Any]()
        run.register_query("What is there?")
        run.portray_with(crowd, limit=PORTRAITS, model="m")

        def work(thread: int) -> None:
            for number in range(FINDS):
                find(run, thread, number)
                run.profiling()
                run.append_todo(f"{thread}/{number}")
                run.record_messages({"role": "user", "content": f"{thread}/{number}"})
                steps.append(run.pop_todo())

        raised = at_once(*(lambda thread=thread: work(thread) for thread in range(THREADS)))
        finds = [f"{thread}/{number}" for thread in range(THREADS) for number in range(FINDS)]

        assert (raised, run.finish_portraits(60), crowd.asking_most) == ([], [], PORTRAITS)
        counted = check_finds(log, run, finds)
        portraits = {key: count for key, count in counted.items() if key[0].startswith("Portrait")}
        assert set(portraits.values()) == {1}
        assert Counter(kind for kind, _ in portraits) == dict.fromkeys(
            ("PortraitRequested", "PortraitWritten"), len(finds)
        )
        assert sorted(step["name"] for step in steps) == sorted(finds)
        assert sorted(str(message.content) for message in run.messages()) == sorted(finds)

    def test_handles_that_describe_the_same(self, log: LiveLog) -> None:
        """Each asks for itself, and one answer is taken: those that came too late are told as such."""
        finds = [f"{thread}/0" for thread in range(6)]
        run_on(log).register_query("What is there?")
        for thread in range(6):
            find(run_on(log), thread, 0)

        def work() -> None:
            run = run_on(log)
            run.portray_with(Crowd(1))
            run.profiling()
            assert run.finish_portraits(60) == []

        assert at_once(*[work] * 4) == []
        counted = check_finds(log, run_on(log), finds)
        requests = {node: count for (kind, node), count in counted.items() if kind == "PortraitRequested"}
        assert {node: counted["PortraitWritten", node] for node in requests} == dict.fromkeys(requests, 1)
        assert all(counted["PortraitDiscarded", node] < count for node, count in requests.items())
        assert "PortraitFailed" not in {kind for kind, _ in counted}
