"""
Simulated time: jobs that wait for simulated seconds take turns in its order, so that their events interleave.

A `Simulation` is the `System` of the store that the jobs write into. Nothing in it is drawn from the machine: the same
jobs make the same events, with the same ids and times.
"""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any, NamedTuple

from ...domain.chat.context import ChatContext
from ...domain.chat.roles import ChatRole
from ...domain.chat.usage import Usage
from ...domain.chat.view import ChatView
from ...domain.llm.base import LLM, LLMResponse
from ...domain.log.envelope import acting

HOUR = 3_600.0
DAY = 24 * HOUR
# US dollars for a million tokens: read, read from the cache, written.
PRICES = {"north-large": (3.0, 0.3, 15.0), "north-small": (0.25, 0.025, 1.25)}
PROMPT_TOKENS = 350
Job = Callable[[], Awaitable[None]]


class Simulation:
    """A clock that goes from step to step of its jobs, and a source of ids that gives the same ones each time."""

    def __init__(self, start: float) -> None:
        self.start = self._now = start
        self._ids = Random("ids")
        self._numbers = count()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._quiet = asyncio.Event()

    def now(self) -> float:
        """Return the simulated time, in seconds since 1970."""
        return self._now

    def new_id(self, prefix: str) -> str:
        """Return `prefix` and 12 hexadecimal digits, the same ones in each simulation."""
        return f"{prefix}{self._ids.getrandbits(48):012x}"

    async def wait(self, seconds: float) -> None:
        """Let other jobs go on until so many simulated seconds have passed; only for jobs of `run`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self._now + seconds, next(self._numbers), turn))
        self._quiet.set()
        await turn

    async def run(self, jobs: Sequence[tuple[float, Job]], waited: Callable[[float], object]) -> None:
        """
        Run jobs, each from so many seconds after the start on, one step at a time.

        `waited` is called before each step with the seconds since the start.
        """
        tasks = [asyncio.create_task(self._begin(after, job)) for after, job in jobs]
        await asyncio.sleep(0)
        while self._waiting:
            self._now, _, turn = heapq.heappop(self._waiting)
            self._quiet.clear()
            waited(self._now - self.start)
            turn.set_result(None)
            # Only one job is not waiting, so that the order of events does not depend on the machine.
            await self._quiet.wait()
        await asyncio.gather(*tasks)

    async def _begin(self, after: float, job: Job) -> None:
        try:
            await self.wait(after)
            await job()
        finally:
            self._quiet.set()


class ToolCall(NamedTuple):
    """A call that a model makes, and what the tool returns."""

    name: str
    arguments: dict[str, Any]
    output: str
    is_error: bool = False


class Conversation:
    """A chat in which a user and a model take turns, with pauses as long as people and models need."""

    def __init__(self, simulation: Simulation, chat: ChatContext, *, user: str, model: str = "north-large") -> None:
        self.simulation, self.chat, self.user, self.model = simulation, chat, user, model
        self.random = Random(chat.id)
        self._read = 0

    async def pause(self, low: float, high: float) -> None:
        """Wait for a time between two numbers of seconds."""
        await self.simulation.wait(self.random.uniform(low, high))

    async def ask(self, text: str) -> str:
        """Add what the user says, and return the id of the message."""
        await self.pause(25, 140)
        with acting(actor=self.user):
            return self.chat.add_message("user", text).id

    async def answer(self, text: str, *, agent: str | None = None) -> str:
        """Add what the model says, with what that cost, and return the id of the message."""
        await self.pause(2, 9)
        return self.chat.add_message("assistant", text, agent_id=agent, usage=self.usage(text)).id

    async def stream(self, text: str, *, fails_after: int | None = None) -> None:
        """Add what the model says piece by piece; its connection breaks after so many words."""
        words = text.split(" ")
        try:
            with self.chat.stream() as out:
                for number, word in enumerate(words):
                    if number == fails_after:
                        raise ConnectionError("the model closed the connection")
                    out.write(word + " " * (number + 1 < len(words)))
                    await self.pause(0.02, 0.12)
                out.use(self.usage(text))
        except ConnectionError:
            # The message stays in the chat, as far as it came.
            pass

    async def call(self, name: str, output: str, *, is_error: bool = False, **arguments: Any) -> str:
        """Add a call of a tool and its output, and return the call id."""
        [call_id] = await self.calls(ToolCall(name, arguments, output, is_error))
        return call_id

    async def calls(self, *calls: ToolCall) -> list[str]:
        """Add calls that a model makes at once, then their outputs as they come in; return the call ids."""
        await self.pause(1, 6)
        made = [await self.request(call, usage=number == 0) for number, call in enumerate(calls)]
        for call_id, call in zip(made, calls, strict=True):
            await self.pause(0.2, 8)
            self.chat.add_function_output(call.name, call.output, call_id, call.is_error)
        return made

    async def request(self, call: ToolCall, *, usage: bool = True) -> str:
        """Add a call without an output, and return its call id."""
        text = json.dumps(call.arguments, ensure_ascii=False)
        made = self.chat.add_function_call(call.name, text, usage=self.usage(text) if usage else None)
        return made.call_id

    def usage(self, text: str) -> Usage:
        """Return what an answer of the model uses: it reads the whole chat, the most of it from a cache."""
        read, cached = int(self.chat.estimated_tokens() * 1.06) + PROMPT_TOKENS, self._read
        # A chat that was made shorter is another prompt, and the cache has only its beginning.
        cached = cached if cached <= read else PROMPT_TOKENS
        self._read = read
        written = len(text) // 4 + 9
        new_price, cached_price, written_price = PRICES[self.model]
        cost = ((read - cached) * new_price + cached * cached_price + written * written_price) / 1e6
        return Usage(
            input_tokens=read,
            output_tokens=written,
            cached_tokens=cached,
            model=self.model,
            cost=Decimal(f"{cost:.6f}"),
        )


class PreparedModel(LLM):
    """A model that gives prepared answers, one after the other."""

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self.model = "north-small"
        self._answers = list(answers)

    async def chat(self, messages: ChatView[Any], *args: Any, **kwargs: Any) -> AsyncIterator[LLMResponse]:
        """Give the next answer."""
        yield LLMResponse(content=self._answers.pop(0), role=ChatRole.ASSISTANT)

    async def cancel_current_generation(self) -> None:
        """Do nothing: an answer is there at once."""


def prose(random: Random, words: str, sentences: int) -> str:
    """Return made-up sentences of some words, for texts whose length matters and not their meaning."""
    known, made = words.split(), []
    for _ in range(sentences):
        chosen = random.choices(known, k=random.randint(7, 19))
        made.append(" ".join(chosen).capitalize() + ".")
    return " ".join(made)
