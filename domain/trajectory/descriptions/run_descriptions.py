"""How the data nodes of a run get descriptions: a model is asked in the background for those that have none."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from ...context.transaction import current_transaction
from ...errors import ConcurrencyError, InvalidInputError, StorageClosedError, StorageError
from ...log.envelope import acting
from ...spans import Ref
from ..events import PortraitRequested
from ..nodes import DATA
from ..rules.commands import FailPortrait, RequestPortrait, WritePortrait
from ..rules.decide import is_undescribed
from ..run_queues import WorkingRun
from ..state.graph import RunGraph
from .prompts import Asking, Portrayer, asking_of, portrait_question
from .tasks import PortraitTasks, Semaphore, in_daemon_thread

PORTRAITS_AT_ONCE = 8
ATTEMPTS_MAX = 3
RECORDINGS_MAX = 5
# Between two attempts; twice as long each time.
FIRST_PAUSE_SECONDS = 0.5
# Who acts where the model has no name.
NAMELESS = "portrait"


class PortrayedRun(WorkingRun):
    """A run whose data nodes a model describes."""

    _asking: Asking | None = None

    def _prepare_portraits(self) -> None:
        self._portraits = PortraitTasks()
        self._semaphore = Semaphore(PORTRAITS_AT_ONCE)

    def portray_with(
        self,
        portrayer: Portrayer,
        *,
        model: str | None = None,
        limit: int = PORTRAITS_AT_ONCE,
        attempts_max: int = ATTEMPTS_MAX,
    ) -> None:
        """
        Say which model describes data nodes: an `LLM`, or a function, sync or async, from a prompt to a text.

        `model` is the name it is recorded by; an adapter knows its own. `limit` nodes are asked about at once, and
        `attempts_max` times each, with a pause in between, before they are left for the next `profiling()`.

        Raises:
            InvalidInputError: it can be neither asked nor called, a name that is none, or a number below 1.
        """
        for what, number in (("limit", limit), ("attempts_max", attempts_max)):
            if not isinstance(number, int) or number < 1:
                raise InvalidInputError(f"{what} is {number!r}: it is a whole number from 1 on")
        self._asking = asking_of(portrayer, model, attempts_max)
        self._semaphore.count = limit

    def profiling(self) -> int:
        """
        Have all data nodes without a description described in the background; return how many were begun.

        A node that is being described is not begun again. In a running event loop the tasks run in that, else in a
        thread. A failure is recorded, the description stays empty, and the node is begun
        again by the next call. What somebody else writes meanwhile stays.

        Raises:
            InvalidInputError: no model was given, or a transaction is open: its nodes are not recorded yet.
        """
        asking = self._asking
        if asking is None:
            raise InvalidInputError("no model describes nodes here: say which by `run.portray_with(...)`")
        if current_transaction(self._journal.log) is not None:
            raise InvalidInputError("profiling() within a transaction: call it behind the block, when all is recorded")
        return self._portraits.start(_undescribed(self._graph), partial(self._portray, asking=asking))

    async def wait_portraits(self, timeout: float | None = None) -> list[str]:
        """
        Wait for the portraits that are under way; return the names of nodes whose portraits still are.

        Those are some only where `timeout` seconds were not enough; they go on.
        """
        return list(map(self._graph.name_of, await self._portraits.wait(timeout)))

    wait_pending_tasks = wait_portraits  # the seed's name

    def finish_portraits(self, timeout: float | None = None) -> list[str]:
        """
        `wait_portraits()` for code without an event loop.

        Raises:
            InvalidInputError: a portrait is made in this very event loop, which would wait for itself.
        """
        return list(map(self._graph.name_of, self._portraits.wait_here(timeout)))

    async def _portray(self, ref: Ref, *, asking: Asking) -> None:
        actor = asking.model or NAMELESS
        # Of a store that was closed meanwhile nobody wants to hear any more.
        with suppress(StorageClosedError):
            async with self._semaphore.hold():
                with acting(actor=actor, because=f"{ref.stream or self.stream}@{ref.version}"):
                    request = await in_daemon_thread(self._request_portrait, ref, asking.model)
                if request is not None:
                    with acting(actor=actor, because=request):
                        await self._describe(ref, asking)

    def _request_portrait(self, ref: Ref, model: str | None) -> str | None:
        """Record that a model is asked; return the reference of that event, None where nobody needs to be asked."""
        before = self.version
        if not self._change(RequestPortrait(ref, model), None, None, catch_up=True).events:
            return None
        since = enumerate(self._journal.events(after=before, until=self.version), before + 1)
        versions = [number for number, event in since if isinstance(event, PortraitRequested) and event.node == ref]
        return f"{self.stream}@{versions[-1]}"

    async def _describe(self, ref: Ref, asking: Asking) -> None:
        """Ask until there is an answer, or nobody needs one any more."""
        for attempt in range(asking.attempts_max):
            await _pause(attempt)
            question = await in_daemon_thread(self._question, ref)
            if question is None:
                return
            answer = await asking.answer(question)
            if answer.failure is None:
                await self._recorded(WritePortrait(ref, answer.text, asking.model))
                return
            await self._recorded(FailPortrait(ref, answer.failure))

    def _question(self, ref: Ref) -> str | None:
        graph = self._graph
        return portrait_question(graph, ref) if is_undescribed(graph, ref) else None

    async def _recorded(self, command: WritePortrait | FailPortrait) -> None:
        """Record what came of it, also where the log has no time for it at the first try: answers are dear."""
        record = partial(self._change, command, None, None, catch_up=True)
        for attempt in range(RECORDINGS_MAX):
            await _pause(attempt)
            try:
                await in_daemon_thread(record)
                return
            except StorageClosedError:
                raise
            except (ConcurrencyError, StorageError):
                if attempt == RECORDINGS_MAX - 1:
                    raise


def _undescribed(graph: RunGraph) -> list[Ref]:
    """Return the data nodes without a description; one that was met again by its newest vertex alone."""
    data = (ref for ref in graph.vertices() if graph.type_of(ref) in DATA)
    return [ref for ref in data if graph.is_newest(ref) and is_undescribed(graph, ref)]


async def _pause(attempt: int) -> None:
    """Wait before an attempt that is not the first, longer each time."""
    import asyncio

    if attempt:
        await asyncio.sleep(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
