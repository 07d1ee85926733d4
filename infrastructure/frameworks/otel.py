"""
Spans of OpenTelemetry for what contexts record, by the GenAI conventions; and events that name the current span.

Only the API of OpenTelemetry is needed: without an SDK in the program, spans go nowhere and cost little.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable
from typing import Any, TypeVar

import msgspec
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, get_tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ...domain.chat.events import (
    UNFINISHED,
    CallChanged,
    ChatItemEvent,
    Cleared,
    FunctionCalled,
    FunctionReturned,
    ItemsEvicted,
    MessageAdded,
    MessageExtended,
    MessageFinished,
    Piece,
)
from ...domain.chat.pairing import IN_BATCH, answered_place
from ...domain.chat.pieces import written
from ...domain.chat.usage import usage_of
from ...domain.erasure.events import StoreErased
from ...domain.erasure.skeleton import skeleton_of
from ...domain.formats.documents import OtelForm
from ...domain.ids import split_stream_id
from ...domain.log.envelope import RecordedEvent, correlate_by
from ...domain.redaction import redacted
from ...domain.spans import Ref, refs_of

TRACEPARENT = "traceparent"
# The most calls that wait for their output, and answers that wait for their end; of more, the oldest are forgotten.
CALLS_AWAITED_MAX = 10_000
# The most calls of one chat that wait under the same id, as ids may repeat.
CALLS_OF_ID_MAX = 10
NANOS = 1_000_000_000
LAST_SECOND = (1 << 63) // NANOS
K = TypeVar("K")
V = TypeVar("V")
Item = TypeVar("Item", FunctionCalled, MessageAdded)
_PROPAGATOR = TraceContextTextMapPropagator()


def current_traceparent() -> str | None:
    """Return the current span in the form of the W3C header `traceparent`; None if there is none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get(TRACEPARENT)


def correlate_with_spans(on: bool = True) -> None:
    """
    Give every event that this process records the current span as its correlation id, from now on; False ends it.

    A correlation id that the program sets, as with `refold.acting`, comes first.
    """
    correlate_by(current_traceparent if on else None)


class Spans:
    """
    Writes spans for events: `chat MODEL` for an answer, and `execute_tool NAME` for a call with its output.

    The span of an answer begins at the item's own time and ends when it was recorded; that of a call ends at the time
    of its output. An event whose correlation id is a `traceparent` makes a child of that span. Other events have none.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None, *, content: bool = False) -> None:
        """Write to `tracer_provider`, or to the global one; with `content` also texts, arguments and outputs."""
        self._tracer = get_tracer("refold", tracer_provider=tracer_provider)
        self._content, self._form = content, OtelForm()
        # Calls with their versions, by chat and call id, each with its batch: the version of the first call in that.
        self._waiting: OrderedDict[tuple[str, str], list[tuple[int, tuple[int, FunctionCalled], str]]] = OrderedDict()
        # The call ids of these, by chat.
        self._waiting_in: dict[str, set[str]] = {}
        # The batches of chats that the next call goes on with.
        self._batches: OrderedDict[str, int] = OrderedDict()
        # Answers that are being written, with their pieces as far as these are shown.
        self._begun_answers: OrderedDict[Ref, tuple[MessageAdded, list[tuple[int, Piece]]]] = OrderedDict()

    def follow(self, events: Iterable[RecordedEvent]) -> None:
        """
        Write spans for events, such as those of `store.subscribe(after=store.now())`, until there are no more.

        After an error of the database another call with the same subscription goes on where this one was.
        """
        for recorded in events:
            self.write(recorded)

    def write(self, recorded: RecordedEvent) -> None:
        """Write the span that ends with an event, if one does; events come in the order of the log."""
        event = recorded.event
        if isinstance(event, ChatItemEvent) and not isinstance(event, IN_BATCH):
            self._batches.pop(recorded.stream, None)
        match event:
            case FunctionCalled():
                batch = self._batches.get(recorded.stream, recorded.version)
                _await(self._batches, recorded.stream, batch)
                self._await_call(recorded, event, batch)
            case CallChanged():
                self._change_call(recorded, event)
            case ItemsEvicted(items=items):
                self._forget_calls(recorded.stream, set(refs_of(items)))
            case Cleared():
                self._forget_calls(recorded.stream)
            case FunctionReturned():
                self._write_tool(recorded, event, self._asked(recorded, event))
            case MessageAdded(role="assistant", incomplete=incomplete) if incomplete == UNFINISHED:
                _await(self._begun_answers, Ref(recorded.version, recorded.stream), (event, []))
            case MessageAdded(role="assistant"):
                self._write_answer(recorded, event)
            case MessageExtended() | MessageFinished():
                self._write_piece(recorded, event)
            case StoreErased():
                self._forget_erased(event)

    def _forget_erased(self, event: StoreErased) -> None:
        """Remove the texts that were erased or archived meanwhile from calls and answers that wait."""
        gone = {Ref(version, one.stream) for one in event.erased for version, _ in one.versions()}
        for (stream, _), calls in self._waiting.items():
            calls[:] = [
                (batch, (version, _left(call) if Ref(version, stream) in gone else call), item_id)
                for batch, (version, call), item_id in calls
            ]
        for ref in self._begun_answers.keys() & gone:
            self._begun_answers[ref] = _left(self._begun_answers[ref][0]), []

    def _await_call(self, recorded: RecordedEvent, call: FunctionCalled, batch: int) -> None:
        key = recorded.stream, call.call_id
        same = self._waiting.pop(key, [])[1 - CALLS_OF_ID_MAX :]
        self._waiting_in.setdefault(recorded.stream, set()).add(call.call_id)
        for forgotten in _await(self._waiting, key, [*same, (batch, (recorded.version, call), call.id)]):
            self._forget_id(*forgotten)

    def _change_call(self, recorded: RecordedEvent, changed: CallChanged) -> None:
        """Let a call with other arguments wait in the place of the model's, or beside others if that is not known."""
        calls = self._waiting.get((recorded.stream, changed.item.call_id), [])
        replaced = set(refs_of(changed.replaced))
        for place, (batch, (version, _), _) in enumerate(calls):
            if Ref(version) in replaced:
                calls[place] = batch, (version, changed.item), changed.item.id
                return
        self._await_call(recorded, changed.item, recorded.version)

    def _forget_calls(self, stream: str, gone: Container[Ref] | None = None) -> None:
        """Forget waiting calls that left the view: all of a chat, or the calls at these places."""
        for call_id in [*self._waiting_in.get(stream, ())]:
            calls = self._waiting[stream, call_id]
            calls[:] = [] if gone is None else [call for call in calls if Ref(call[1][0]) not in gone]
            if not calls:
                del self._waiting[stream, call_id]
                self._forget_id(stream, call_id)

    def _forget_id(self, stream: str, call_id: str) -> None:
        """Forget that a call of this id waits."""
        self._waiting_in[stream].discard(call_id)
        if not self._waiting_in[stream]:
            del self._waiting_in[stream]

    def _asked(self, recorded: RecordedEvent, output: FunctionReturned) -> FunctionCalled | FunctionReturned:
        """Return the call that an output answers; the output itself if the call is not known."""
        key = recorded.stream, output.call_id
        calls = self._waiting.get(key)
        place = answered_place(calls, output.call_item_id) if calls else None
        if calls is None or place is None:
            return output
        _, call = calls.pop(place)[1]
        if not calls:
            del self._waiting[key]
            self._forget_id(*key)
        return call

    def _write_piece(self, recorded: RecordedEvent, piece: Piece) -> None:
        ref = piece.item.within(recorded.stream)
        answer, pieces = self._begun_answers.get(ref, (None, []))
        if self._content or isinstance(piece, MessageFinished):
            pieces.append((recorded.version, piece))
        if answer is not None and isinstance(piece, MessageFinished):
            del self._begun_answers[ref]
            self._write_answer(recorded, written(answer, pieces))

    def _write_answer(self, recorded: RecordedEvent, answer: MessageAdded) -> None:
        usage = usage_of(answer)
        span = self._begun(recorded, f"chat {usage.model or ''}".strip(), SpanKind.CLIENT, answer.created_at)
        _set(span, {
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": usage.model,
            "gen_ai.agent.name": answer.agent_id,
            "gen_ai.usage.input_tokens": usage.input_tokens or None,
            "gen_ai.usage.output_tokens": usage.output_tokens or None,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
        })  # fmt: skip
        if self._content:
            # Text by text: a hook that is given the whole JSON could return something that is no JSON.
            said = redacted([self._form.write([answer])])
            span.set_attribute("gen_ai.output.messages", msgspec.json.encode(said).decode())
        span.end(max(recorded.recorded_at * 1_000, _nanos(answer.created_at)))

    def _write_tool(
        self, recorded: RecordedEvent, output: FunctionReturned, call: FunctionCalled | FunctionReturned
    ) -> None:
        span = self._begun(recorded, f"execute_tool {output.name}".strip(), SpanKind.INTERNAL, call.created_at)
        _set(span, {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": output.name or None,
            "gen_ai.tool.call.id": output.call_id,
            "gen_ai.agent.name": output.agent_id,
            "error.type": "_OTHER" if output.is_error else None,
        })  # fmt: skip
        if output.is_error:
            span.set_status(Status(StatusCode.ERROR))
        if self._content:
            arguments = getattr(call, "arguments", None)
            _set(span, {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": output.output})
        span.end(max(_nanos(output.created_at), _nanos(call.created_at)))

    def _begun(self, recorded: RecordedEvent, name: str, kind: SpanKind, at: float) -> Span:
        parent = _PROPAGATOR.extract({TRACEPARENT: recorded.meta.correlation_id or ""}, context=Context())
        span = self._tracer.start_span(name, context=parent, kind=kind, start_time=_nanos(at))
        _set(span, {
            "gen_ai.conversation.id": split_stream_id(recorded.stream)[1],
            "refold.event": f"{recorded.stream}@{recorded.version}",
            "refold.actor": recorded.meta.actor,
        })  # fmt: skip
        return span


def _left(item: Item) -> Item:
    """Return what an erasure leaves of an item."""
    return skeleton_of(item)  # type: ignore[return-value]  # it is an event of the same type


def _await(waiting: OrderedDict[K, V], key: K, one: V) -> list[K]:
    """Let one wait, and return the keys of those that are forgotten for it."""
    waiting[key] = one
    return [waiting.popitem(last=False)[0] for _ in range(len(waiting) - CALLS_AWAITED_MAX)]


def _set(span: Span, attributes: dict[str, Any]) -> None:
    # Spans leave the program, so the hook of the process sees their texts.
    shown = redacted({name: value for name, value in attributes.items() if value is not None})
    span.set_attributes(shown)


def _nanos(seconds: float) -> int:
    # By whole microseconds: a float of nanoseconds would be inexact. An item may have any time, and a span has one that
    # is sent in 64 bits.
    return round(min(max(seconds, 0.0), LAST_SECOND) * 1_000_000) * (NANOS // 1_000_000)
