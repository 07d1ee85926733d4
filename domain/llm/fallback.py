"""
Several models behind one: if one fails or becomes slow, the next is asked, and later the first again.

A provider may fail in the middle of an answer, and the next one's answer begins from the start. Text that was already
yielded cannot be taken back: a piece with `{"restart": True}` means that the text before it must be discarded, as
`collect` does. With `buffer=True` an answer is yielded only when it is complete: joining the pieces then gives exactly
one answer.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..chat.roles import ChatRole
from ..clock import REAL_SYSTEM, Stopwatch
from ..errors import InvalidInputError
from .base import LLM, LLMResponse

if TYPE_CHECKING:
    import asyncio

    from ..chat.view import ChatView

logger = logging.getLogger(__name__)


class ProviderStates:
    """
    The state of each provider in a list.

    A failed provider is not used for `rest_seconds`, and never again after `attempts_allowed` failures. The last one
    stays in use, because no other follows it.
    """

    def __init__(self, count: int, *, rest_seconds: float, attempts_allowed: int) -> None:
        self._count, self._rest_seconds, self._attempts_allowed = count, rest_seconds, attempts_allowed
        self._failed_at: dict[int, float] = {}
        self.active = 0
        self.attempts: dict[int, int] = {}

    def next_after(self, index: int) -> int | None:
        """Return the provider that follows a failed one, or None."""
        # The following providers have failed no more often than this one, so none of them has been excluded before it.
        return index + 1 if index + 1 < self._count else None

    def fail(self, index: int, now: float) -> None:
        """Count a failure and switch to the next provider; a failure of an inactive provider changes nothing."""
        if index != self.active:
            # Another call has failed there already and has switched: one outage counts once.
            return
        self.attempts[index] = self.attempts.get(index, 0) + 1
        self._failed_at[index] = now
        following = self.next_after(index)
        self.active = index if following is None else following

    def recover(self, now: float) -> bool:
        """
        Switch back to the first provider before the active one that has rested long enough; return whether there is
        one.
        """
        for index in range(self.active):
            # All providers before the active one have failed at least once.
            is_out = self.attempts[index] >= self._attempts_allowed
            if not is_out and now - self._failed_at[index] > self._rest_seconds:
                self.active = index
                return True
        return False


class LatencyWatch:
    """Counts consecutive answers that began late; without a threshold no answer is late."""

    def __init__(self, threshold_ms: float | None, hits_needed: int) -> None:
        self._threshold_ms, self._hits_needed = threshold_ms, max(1, hits_needed)
        self.hits = 0

    def is_too_slow(self, latency_ms: float) -> bool:
        """Add the latency of an answer; return whether enough consecutive answers were late."""
        if self._threshold_ms is None:
            return False
        self.hits = self.hits + 1 if latency_ms > self._threshold_ms else 0
        return self.hits >= self._hits_needed


def _this_task() -> asyncio.Task[Any] | None:
    # Imported only when a model is asked, because this import takes a third of the time of `import refold`.
    import asyncio

    try:
        return asyncio.current_task()
    except RuntimeError:
        # An event may come from a thread without an event loop.
        return None


@dataclass(eq=False)
class _Call:
    """One request in progress to one provider."""

    index: int
    task: asyncio.Task[Any] | None = field(default_factory=_this_task)
    has_failed: bool = False
    has_yielded: bool = False


class FallbackLLM(LLM):
    """
    A model that asks the first working provider of `providers`.

    A failed provider is not used for `temporary_disable_sec` seconds, and never again after
    `permanent_disable_after_attempts` failures. If the first piece takes longer than `latency_threshold_ms` in
    `consecutive_latency_hits` consecutive answers, that is a failure. The time is measured here or, with
    `measure_latency=False`, reported by `record_latency` or `on_turn_metrics`. Each failure emits one "error" event.

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
        buffer: bool = False,
        measure_latency: bool = True,
        system: Stopwatch = REAL_SYSTEM,
    ) -> None:
        super().__init__()
        if not providers:
            raise InvalidInputError("LLM requires at least one provider")
        self.providers = list(providers)
        self._states = ProviderStates(
            len(self.providers),
            rest_seconds=temporary_disable_sec,
            attempts_allowed=permanent_disable_after_attempts,
        )
        self._latency = LatencyWatch(latency_threshold_ms, consecutive_latency_hits)
        self._buffer, self._measure_latency, self._system = buffer, measure_latency, system
        self._calls: list[_Call] = []
        self._listened_to: LLM = self.active_provider
        self._listened_to.on("error", self._on_provider_error)

    @property
    def active_provider(self) -> LLM:
        """The provider of the next call, unless an earlier one has rested long enough by then."""
        return self.providers[self._states.active]

    @property
    def attempts(self) -> Mapping[int, int]:
        """The number of failures of each provider, by its index; providers without failures are left out."""
        return dict(self._states.attempts)

    def check_recovery(self) -> bool:
        """Switch back to an earlier provider that has rested long enough; return whether there was one."""
        recovered = self._states.recover(self._system.monotonic())
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
        Yield the answer of the first provider that gives a complete one.

        Raises:
            Exception: the error of the last provider, if no other is left to ask.
        """
        given = {"tools": tools, "conversational_graph": conversational_graph}
        # Parameters that were not given are not passed on, so providers need not support them.
        kwargs |= {name: value for name, value in given.items() if value is not None}
        self.check_recovery()
        asked: set[int] = set()
        while True:
            call = _Call(self._states.active)
            asked.add(call.index)
            self._calls.append(call)
            try:
                async with aclosing(self._answer(call, messages, kwargs)) as answer:
                    async for response in answer:
                        yield response
                return
            except Exception as error:
                self._call_failed(call, str(error) or repr(error))
                if self._states.active in asked:
                    raise
            finally:
                self._calls.remove(call)
            if call.has_yielded:
                yield LLMResponse(content="", role=ChatRole.ASSISTANT, metadata={"restart": True})

    def record_latency(self, latency_ms: float) -> None:
        """Record the time, in milliseconds, until the active provider's first piece, if it is measured elsewhere."""
        if not self._latency.is_too_slow(latency_ms):
            return
        index = self._states.active
        if self._states.next_after(index) is None:
            # A slow provider is better than none, so its slowness does not count as a failure.
            return
        logger.warning("%s is too slow (%.0f ms); going on with the next", self.active_provider.label, latency_ms)
        self._states.fail(index, self._system.monotonic())
        self._latency.hits = 0
        self._listen_to_active()

    def on_turn_metrics(self, event: Mapping[str, Any]) -> None:
        """Record the latency in the seed's `TURN_METRICS_ADDED` event; a turn that called tools does not count."""
        metrics = event.get("metrics") or {}
        if metrics.get("functionToolsCalled") or metrics.get("mcpToolMetrics") or metrics.get("ttft") is None:
            return
        self.record_latency(float(metrics["ttft"]))

    async def cancel_current_generation(self) -> None:
        """Stop the answer of the active provider."""
        await self.active_provider.cancel_current_generation()

    async def aclose(self) -> None:
        """Close all providers, also when closing one of them fails."""
        self._listened_to.off("error", self._on_provider_error)
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
                call.has_yielded = True
                yield response
        finally:
            # A provider must stop when its answer is no longer read. Not every iterator can be closed.
            close = getattr(answer, "aclose", None)
            if close is not None:
                await close()
        is_active = call.index == self._states.active
        if self._measure_latency and is_active and begun is not None and not calls_tools:
            self.record_latency((begun - started) * 1_000)
        for response in whole:
            yield response

    def _on_provider_error(self, error: object) -> None:
        calls = [call for call in self._calls if call.index == self._states.active]
        here = _this_task()
        # If several calls are in progress, the event belongs to the call of this task.
        call = next((call for call in reversed(calls) if call.task is here), calls[-1] if calls else None)
        if call is None:
            self._failed(self._states.active, str(error))
        else:
            self._call_failed(call, str(error))

    def _call_failed(self, call: _Call, reason: str) -> None:
        if call.has_failed:
            # The provider sent an event for this failure and then raised; both together are one failure.
            return
        call.has_failed = True
        self._failed(call.index, reason)

    def _failed(self, index: int, reason: str) -> None:
        logger.warning("%s failed: %s", self.providers[index].label, reason)
        self._states.fail(index, self._system.monotonic())
        self._latency.hits = 0
        self._listen_to_active()
        self.emit("error", reason)

    def _listen_to_active(self) -> None:
        if self._listened_to is not self.active_provider:
            self._listened_to.off("error", self._on_provider_error)
            self._listened_to = self.active_provider
            self._listened_to.on("error", self._on_provider_error)
