"""Runs that found something, and what a model is told about it."""

import asyncio
import threading
from typing import Any

from refold.domain.trajectory.events import PortraitDiscarded, PortraitFailed, PortraitRequested, PortraitWritten
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.graph import RunGraph
from refold.domain.trajectory.prompts import portrait_question
from refold.domain.trajectory.run import Run

WRITTEN = ["PortraitRequested", "PortraitWritten"]
PORTRAITS = (PortraitRequested, PortraitWritten, PortraitFailed, PortraitDiscarded)


def run_that_acted(factory: RunFactory | None = None, round_number: int = 0) -> tuple[Run, str]:
    """Return a run with a query and an action, and the action's name."""
    run = (factory or RunFactory()).run("mia", "s", round_number)
    query = run.register_query("How many orders?")
    action = run.register_node(
        "Action", "look", [query], action="Tool(find)", params={"in": "shop"}, output="orders.csv", success=True
    )
    return run, action


def run_with_finds(count: int) -> Run:
    """Return a run with an action and so many pieces of knowledge, `Knowledge(k0)` and on."""
    run, action = run_that_acted()
    for number in range(count):
        find(run, action, f"k{number}")
    return run


def find(run: Run, behind: str, label: str, description: str = "") -> str:
    """Register a piece of knowledge."""
    return run.register_node(
        "Knowledge", description, [behind], label=label, knowledge_type="fact", knowledge_content=f"about {label}"
    )


def question_about(run: Run, name: str) -> str:
    """Return what a model is asked about a node."""
    graph = RunGraph(run._state)
    return portrait_question(graph, graph.resolve(name))


def description(run: Run, label: str = "k0") -> str:
    """Return the description of a piece of knowledge."""
    return run.node(f"Knowledge({label})").description


def describe(run: Run, portrayer: Any, **options: Any) -> int:
    """Have all that is undescribed described, and return how many were begun."""
    run.portray_with(portrayer, **options)
    begun = run.profiling()
    assert run.finish_portraits(20) == []
    return begun


def told(run: Run) -> list[str]:
    """Return the events of portraits in their order, by their kinds."""
    return [type(event.event).__name__ for event in run.recorded_events() if isinstance(event.event, PORTRAITS)]


class Portrayer:
    """A model that answers when it is let, and counts how many ask at once."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.is_open, self.asked, self.asking, self.asking_most = is_open, 0, 0, 0
        # It is asked in several threads, whose counts would be lost now and then.
        self._counting = threading.Lock()

    async def __call__(self, prompt: str) -> str:
        """Wait until it is open, then describe something."""
        with self._counting:
            self.asked += 1
            self.asking += 1
            self.asking_most = max(self.asking, self.asking_most)
        try:
            await asyncio.sleep(0.001)
            while not self.is_open:
                await asyncio.sleep(0.001)
        finally:
            with self._counting:
                self.asking -= 1
        return f"A portrait of {prompt.rpartition('about ')[2]}."

    async def open_for(self, count: int) -> None:
        """Let it answer as soon as so many ask at once."""
        while self.asking < count:
            await asyncio.sleep(0.001)
        self.is_open = True
