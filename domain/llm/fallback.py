"""
Several models behind one: when one fails or has become slow, the next is asked, and later the first again.

A provider that breaks off in the middle of an answer leaves text behind, and the next one's answer starts from
its beginning. Text that was handed on cannot be taken back, so by default an answer is handed on when it is
whole: whoever joins the pieces has one answer, never one and a half. `buffer=False` streams instead, and says
by a piece with `{"restart": True}` that the text before it is to be thrown away, as `collect` does.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..chat.items import ChatRole
from ..clock import REAL_SYSTEM, Stopwatch
from ..errors import InvalidInputError
from .base import LLM, LLMResponse

if TYPE_CHECKING:
    import asyncio

    from ..chat.view import ChatView


class Standing:
    """
    The place of each provider in a list.

    One that failed rests for `rest_seconds`, and for good after `attempts_allowed` failures. The last one
    stays in place when there is no other.
    """

    def __init__(self, count: int, *, rest_seconds: float, attempts_allowed: int) -> None:
        self._count, self._rest_seconds, self._attempts_allowed = count, rest_seconds, attempts_allowed
        self._failed_at: dict[int, float] = {}
        self.active = 0
        self.attempts: dict[int, int] = {}

    def next_after(self, index: int) -> int | None:
        """Return the provider to go on with when this one failed, or None."""
        # Those behind it have failed no more often than it has, so none of them is out before it is.
        return index + 1 if index + 1 < self._count else None

    def fail(self, index: int, now: float) -> None:
        """Count a failure of the active provider and go on to the next; that of another one changes nothing."""
        if index != self.active:
            # Somebody else's call failed there as well, and has moved on: one outage counts once.
            return
        self.attempts[index] = self.attempts.get(index, 0) + 1
        self._failed_at[index] = now
        following = self.next_after(index)
        self.active = index if following is None else following

    def recover(self, now: float) -> bool:
        """Go back to the first provider before the active one that has rested enough; return whether there is one."""
        for index in range(self.active):
            # All before the active one have failed, or it would not be active.
            is_out = self.attempts[index] >= self._attempts_allowed
            if not is_out and now - self._failed_at[index] > self._rest_seconds:
                self.active = index
                return True
        return False


class LatencyWatch:
    """Counts answers in a row that began late; without a threshold none is late."""

    def __init__(self, threshold_ms: float | None, hits_needed: int) -> None:
        self._threshold_ms, self._hits_needed = threshold_ms, max(1, hits_needed)
        self.hits = 0

    def is_too_slow(self, latency_ms: float) -> bool:
        """Take in one more answer; return whether enough of them in a row were late."""
        if self._threshold_ms is None:
            return False
        self.hits = self.hits + 1 if latency_ms > self._threshold_ms else 0
        return self.hits >= self._hits_needed


logger = logging.getLogger(__name__)


def _this_task() -> asyncio.Task[Any] | None:
    # Imported when a model is asked, since it takes a third of the time of `import refold`.
    import asyncio

    try:
        return asyncio.current_task()
    except RuntimeError:
        # An event may come from a thread without a loop.
        return None


@dataclass(eq=False)
class _Call:
    """One request to one provider, while it lasts."""

    index: int
    task: asyncio.Task[Any] | None = field(default_factory=_this_task)
    has_failed: bool = False
    has_spoken: bool = False


class FallbackLLM(LLM):
    """
    A model that asks the first of `providers` that works.

    A failed provider rests for `temporary_disable_sec` seconds, and for good after
    `permanent_disable_after_attempts` failures. `consecutive_latency_hits` answers in a row whose first piece
    takes longer than `latency_threshold_ms` count as a failure; that time is measured here, or, with
    `measure_latency=False`, reported by `record_latency` or `on_turn_metrics`. Each failure is one "error" event.

    Raises:
        InvalidInputError: there is no provider (a ValueError).
    """

    def __init__(
        self,
        providers: Sequence[LLM],
        temporary_disable_sec: float = 60.0,
        permanent_disable_after_attempts: int = 3,
        latency_threshold_ms: float | None = None,
        consecutive_latency_hits: int = 3,
        *,
        buffer: bool = True,
        measure_latency: bool = True,
        system: Stopwatch = REAL_SYSTEM,
    ) -> None:
        super().__init__()
        if not providers:
            raise InvalidInputError("LLM requires at least one provider")
        self.providers = list(providers)
        self._standing = Standing(
            len(self.providers),
            rest_seconds=temporary_disable_sec,
            attempts_allowed=permanent_disable_after_attempts,
        )
        self._latency = LatencyWatch(latency_threshold_ms, consecutive_latency_hits)
        self._buffer, self._measure_latency, self._system = buffer, measure_latency, system
        self._calls: list[_Call] = []
        self._heard: LLM = self.active_provider
        self._heard.on("error", self._on_provider_error)

    @property
    def active_provider(self) -> LLM:
        """The provider that the next call goes to, unless an earlier one has rested enough by then."""
        return self.providers[self._standing.active]

    @property
    def attempts(self) -> Mapping[int, int]:
        """How often each provider has failed, by its index; those that never did are left out."""
        return dict(self._standing.attempts)

    def check_recovery(self) -> bool:
        """Go back to an earlier provider that has rested enough; return whether there was one."""
        recovered = self._standing.recover(self._system.monotonic())
        self._listen_to_active()
        return recovered

    async def chat(
        self,
        messages: ChatView[Any],
        tools: Sequence[Any] | None = None,
        conversational_graph: Any | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[LLMResponse]:
        """
        Yield the answer of the first provider that gives a whole one.

        Raises:
            Exception: that of the last provider, when none is left to ask.
        """
        given = {"tools": tools, "conversational_graph": conversational_graph}
        # Providers need not know parameters that nobody uses.
        kwargs |= {name: value for name, value in given.items() if value is not None}
        self.check_recovery()
        asked: set[int] = set()
        while True:
            call = _Call(self._standing.active)
            asked.add(call.index)
            self._calls.append(call)
            try:
                async with aclosing(self._answer(call, messages, kwargs)) as answer:
                    async for response in answer:
                        yield response
                return
            except Exception as error:
                self._call_failed(call, str(error) or repr(error))
                if self._standing.active in asked:
                    raise
            finally:
                self._calls.remove(call)
            if call.has_spoken:
                yield LLMResponse(content="", role=ChatRole.ASSISTANT, metadata={"restart": True})

    def record_latency(self, latency_ms: float) -> None:
        """Take in how long the active provider took to begin, in milliseconds, where it is measured elsewhere."""
        if not self._latency.is_too_slow(latency_ms):
            return
        index = self._standing.active
        if self._standing.next_after(index) is None:
            # A slow provider is better than none, so nothing is counted against it.
            return
        logger.warning("%s is too slow (%.0f ms); going on with the next", self.active_provider.label, latency_ms)
        self._standing.fail(index, self._system.monotonic())
        self._latency.hits = 0
        self._listen_to_active()

    def on_turn_metrics(self, event: Mapping[str, Any]) -> None:
        """Take in the seed's `TURN_METRICS_ADDED` event; a turn that called tools does not count."""
        metrics = event.get("metrics") or {}
        if metrics.get("functionToolsCalled") or metrics.get("mcpToolMetrics") or metrics.get("ttft") is None:
            return
        self.record_latency(float(metrics["ttft"]))

    async def cancel_current_generation(self) -> None:
        """Stop what the active provider is saying."""
        await self.active_provider.cancel_current_generation()

    async def aclose(self) -> None:
        """Close all providers, also when closing one of them fails."""
        self._heard.off("error", self._on_provider_error)
        async with AsyncExitStack() as closing:
            closing.push_async_callback(super().aclose)
            for provider in reversed(self.providers):
                closing.push_async_callback(provider.aclose)

    async def _answer(
        self, call: _Call, messages: ChatView[Any], kwargs: dict[str, Any]
    ) -> AsyncGenerator[LLMResponse]:
        started, begun = self._system.monotonic(), None
        calls_tools = False
        whole: list[LLMResponse] = []
        answer = self.providers[call.index].chat(messages, **kwargs)
        try:
            async for response in answer:
                begun = self._system.monotonic() if begun is None else begun
                calls_tools = calls_tools or bool((response.metadata or {}).get("tool_calls"))
                if self._buffer:
                    whole.append(response)
                    continue
                call.has_spoken = True
                yield response
        finally:
            # Not every iterator can be closed; one that can must not go on when nobody listens.
            close = getattr(answer, "aclose", None)
            if close is not None:
                await close()
        if begun is not None and not calls_tools:
            self._measured(call, (begun - started) * 1_000)
        for response in whole:
            yield response

    def _measured(self, call: _Call, latency_ms: float) -> None:
        if self._measure_latency and call.index == self._standing.active:
            self.record_latency(latency_ms)

    def _on_provider_error(self, error: object) -> None:
        calls = [call for call in self._calls if call.index == self._standing.active]
        here = _this_task()
        # An event that is emitted within a call belongs to it, and to no other where several go on.
        call = next((call for call in reversed(calls) if call.task is here), calls[-1] if calls else None)
        if call is None:
            self._failed(self._standing.active, str(error))
        else:
            self._call_failed(call, str(error))

    def _call_failed(self, call: _Call, reason: str) -> None:
        if call.has_failed:
            # It has sent an event of this failure, and raises now: that is one failure.
            return
        call.has_failed = True
        self._failed(call.index, reason)

    def _failed(self, index: int, reason: str) -> None:
        logger.warning("%s failed: %s", self.providers[index].label, reason)
        self._standing.fail(index, self._system.monotonic())
        self._latency.hits = 0
        self._listen_to_active()
        self.emit("error", reason)

    def _listen_to_active(self) -> None:
        if self._heard is not self.active_provider:
            self._heard.off("error", self._on_provider_error)
            self._heard = self.active_provider
            self._heard.on("error", self._on_provider_error)
