"""Events name the current span, and become spans themselves."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

import refold
import refold.chat
from refold.domain.chat.context import ChatContext
from refold.domain.positions import BEGINNING
from refold.infrastructure.frameworks.otel import CALLS_AWAITED_MAX, CALLS_OF_ID_MAX
from refold.infrastructure.store import Store
from refold.otel import Spans, correlate_with_spans, current_traceparent
from tests.support.effort import calls_of

CONVENTIONS = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """What was exported."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> Iterator[TracerProvider]:
    """A provider of this test alone."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    correlate_with_spans()
    yield made
    correlate_with_spans(False)
    made.shutdown()


def talk(chat: ChatContext) -> None:
    """Ask, call a tool twice, and answer."""
    chat.add_message("user", "Where are my orders?")
    chat.add_function_call("track", '{"order":7}', call_id="c1", agent_id="clerk")
    chat.add_function_call("track", "{}", call_id="c2")
    chat.add_function_output("track", "Lyon", "c1")
    chat.add_function_output("track", "no such order", "c2", is_error=True)
    chat.add_message("assistant", "In Lyon.", model="m-1", input_tokens=9, output_tokens=2, cached_tokens=4)


def test_events_in_a_span_become_its_children(
    store: Store, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    """Names, kinds, times, tokens, errors and parents are those of the conventions; texts only where asked for."""
    with provider.get_tracer("test").start_as_current_span("turn") as turn:
        talk(store.chat("trip", agent="clerk"))
    outer = turn.get_span_context()
    exporter.clear()

    spans = Spans(provider)
    for recorded in store.chat("trip").history():
        spans.write(recorded)
    found = exporter.get_finished_spans()

    assert [span.name for span in found] == ["execute_tool track", "execute_tool track", "chat m-1"]
    assert [span.kind.name for span in found] == ["INTERNAL", "INTERNAL", "CLIENT"]
    assert {span.context.trace_id for span in found} == {outer.trace_id}
    assert {span.parent.span_id for span in found if span.parent} == {outer.span_id}
    assert all(span.start_time <= span.end_time for span in found if span.start_time and span.end_time)
    assert [span.status.status_code for span in found] == [StatusCode.UNSET, StatusCode.ERROR, StatusCode.UNSET]
    names = {name for span in found for name in span.attributes or {}}
    assert {name for name in names if name.startswith("gen_ai.")} <= CONVENTIONS
    assert not [name for name in names if "messages" in name or "arguments" in name or "result" in name]
    answer = dict(found[2].attributes or {})
    assert answer["gen_ai.usage.cache_read.input_tokens"] == 4
    assert answer["refold.event"] == "chat:trip@7"


def test_texts_where_asked_for(store: Store, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    """Arguments, outputs and the answer as messages of the conventions."""
    talk(store.chat("trip"))

    Spans(provider, content=True).follow(store.chat("trip").history())
    tool, failed, answer = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]

    assert (tool["gen_ai.tool.call.arguments"], tool["gen_ai.tool.call.result"]) == ('{"order":7}', "Lyon")
    assert failed["error.type"] == "_OTHER"
    said = json.loads(str(answer["gen_ai.output.messages"]))
    assert said == [{"role": "assistant", "parts": [{"type": "text", "content": "In Lyon."}]}]


def test_calls_of_one_id(store: Store, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    """Each output has the arguments of its own call: the first in the newest batch, or the one that it names."""
    chat = store.chat("trip")
    chat.add_function_call("track", "0", call_id="c")
    chat.add_message("assistant", "Again.")
    for arguments in "1234":
        chat.add_function_call("track", arguments, call_id="c")
    chat.add_handoff("clerk")
    named = chat.add_function_call("track", "5", call_id="c")
    chat.add_items([refold.chat.FunctionCallOutput(name="track", output="5", call_id="c", call_item_id=named.id)])
    for output in "12340":
        chat.add_function_output("track", output, "c")
    chat.add_function_output("track", "of no call", "c")

    spans = Spans(provider, content=True)
    spans.follow(chat.history())
    tools = [dict(span.attributes or {}) for span in exporter.get_finished_spans() if span.name != "chat"]

    found = [(one.get("gen_ai.tool.call.arguments"), one["gen_ai.tool.call.result"]) for one in tools]
    assert found == [*[(one, one) for one in "512340"], (None, "of no call")]
    assert not spans._waiting


@pytest.mark.parametrize("is_cleared", [False, True])
def test_a_call_that_left_the_view(
    is_cleared: bool, store: Store, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    """The output has the arguments of the call that is left, and those of no call that was evicted or cleared."""
    chat, other = store.chat("trip"), store.chat("other")
    for one in (chat, other):
        one.add_function_call("track", "1", call_id="c")
    if is_cleared:
        chat.clear()
        chat.add_function_call("track", "2", call_id="c")
    else:
        chat.add_function_call("track", "2", call_id="c")
        chat.evict([chat.items[0].id])
    for one in (chat, other):
        one.add_function_output("track", "out", "c")

    spans = Spans(provider, content=True)
    spans.follow([*other.history()[:-1], *chat.history(), *other.history()[-1:]])
    found = [(span.attributes or {}).get("gen_ai.tool.call.arguments") for span in exporter.get_finished_spans()]

    assert found == ["2", "1"]
    assert not spans._waiting


def test_a_call_that_a_person_changed(store: Store, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    """Its span has the arguments with which the tool ran, also beside a call of the same id, and in a fork."""
    chat = store.chat("trip")
    calls = [chat.add_function_call("pay", arguments, call_id="c") for arguments in ('{"sum":70}', '{"sum":1}')]
    fork = store.chat("trip").fork("fork")
    for one in (chat, fork):
        one.approvals.change(calls[0].id, {"sum": 35}, by="mia")
        for _ in calls:
            one.add_function_output("pay", "paid", "c")

    spans = Spans(provider, content=True)
    for one in (chat, fork):
        spans.follow(one.history())
    found = [(span.attributes or {}).get("gen_ai.tool.call.arguments") for span in exporter.get_finished_spans()]

    assert found == ['{"sum":35}', '{"sum":1}', '{"sum":35}', None]
    assert not spans._waiting


def test_items_of_any_time(store: Store, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    """One that no span can have, as a stranger may have written it, does not end the spans of the others."""
    chat = store.chat("trip")
    for at in (-1e300, 1e300):
        chat.add_items([refold.chat.ChatMessage(role=refold.chat.ChatRole.ASSISTANT, content=["hi"], created_at=at)])

    Spans(provider).follow(chat.history())

    found = [(span.start_time or 0, span.end_time or 0) for span in exporter.get_finished_spans()]
    assert [0 <= start <= end < 1 << 63 for start, end in found] == [True, True]


@pytest.mark.parametrize("content", [False, True])
def test_an_answer_that_is_written_piece_by_piece(
    content: bool, store: Store, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    """It has one span when it is finished, with all that was said and used."""
    chat = store.chat("trip")
    with chat.stream("assistant") as out:
        for part in ("In ", "Lyon."):
            out.write(part)
            out.flush()
        out.use(model="m-1", input_tokens=9, output_tokens=2)
    spans, (*begun, finished) = Spans(provider, content=content), chat.history()
    spans.follow(begun)
    assert exporter.get_finished_spans() == ()
    spans.follow([finished])

    [answer] = exporter.get_finished_spans()
    told = dict(answer.attributes or {})
    assert (answer.name, told["gen_ai.usage.input_tokens"]) == ("chat m-1", 9)
    assert told["refold.event"] == finished.reference
    assert answer.start_time == round(chat.items[0].created_at * 1_000_000) * 1_000
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "In Lyon."}]}]
    assert json.loads(str(told.get("gen_ai.output.messages", "[]"))) == (said if content else [])


def test_what_was_erased_meanwhile(store: Store, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    """A call that waits for its output, and an answer that is being written, go without the texts."""
    spans, chat = Spans(provider, content=True), store.chat("trip")
    chat.add_function_call("track", '{"order":7}', call_id="c1")
    with chat.stream("assistant", agent_id="clerk") as out:
        out.write("In Lyon.")
        out.flush()
        seen = store.log.read_all(after=BEGINNING, limit=100)
        spans.follow(seen.events)
        store.erase(context="trip", why="asked", dry_run=False)
    chat.add_function_output("track", "later", "c1")
    with store.subscribe(after=seen.moment) as events:
        for recorded in events:
            spans.write(recorded)
            if len(exporter.get_finished_spans()) == 2:
                events.stop()

    answer, tool = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    assert (tool["gen_ai.tool.call.arguments"], tool["gen_ai.tool.call.result"]) == ("{}", "later")
    assert "Lyon" not in str(answer["gen_ai.output.messages"])


def test_texts_are_redacted(store: Store, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    """By the hook of the process, as all that leaves it; the messages stay JSON."""
    talk(store.chat("trip"))
    refold.redact(lambda text: text.replace("Lyon", "[hidden]").replace("order", '"'))
    try:
        Spans(provider, content=True).follow(store.chat("trip").history())
    finally:
        refold.redact(None)

    tool, _, answer = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    assert (tool["gen_ai.tool.call.arguments"], tool["gen_ai.tool.call.result"]) == ('{""":7}', "[hidden]")
    [said] = json.loads(str(answer["gen_ai.output.messages"]))
    assert said["parts"] == [{"type": "text", "content": "In [hidden]."}]


def test_live(store: Store, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    """A thread that follows the store writes spans while others record."""
    done = threading.Event()

    class Told(Spans):
        def write(self, recorded: Any) -> None:
            super().write(recorded)
            if getattr(recorded.event, "content", None) == ("In Lyon.",):
                done.set()

    with store.subscribe(after=store.now()) as events:
        follower = threading.Thread(target=Told(provider).follow, args=(events,))
        follower.start()
        talk(store.chat("trip"))
        assert done.wait(60)
        events.stop()
        follower.join(60)

    assert len(exporter.get_finished_spans()) == 3


async def test_the_correlation_id_is_the_current_span(provider: TracerProvider) -> None:
    """Also behind an await; one that the program sets comes first, and nothing is set outside of spans."""
    with refold.open(":memory:") as store:
        chat = store.chat("trip")
        assert current_traceparent() is None
        with provider.get_tracer("test").start_as_current_span("turn") as turn:
            said = current_traceparent()
            chat.add_message("user", "one")
            await asyncio.to_thread(chat.add_message, "user", "two")
            with refold.acting(actor="mia", correlation_id="ticket-9"):
                chat.add_message("user", "three")
            with refold.acting(actor="mia"):
                chat.add_message("user", "four")
        chat.add_message("user", "five")
        correlate_with_spans(False)
        with provider.get_tracer("test").start_as_current_span("turn"):
            chat.add_message("user", "six")
        context = turn.get_span_context()

        found = [one.meta.correlation_id for one in chat.history()][1:]
        assert str(said).startswith(f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-")
        assert found == [said, said, "ticket-9", said, None, None]
        assert chat.history()[4].meta.actor == "mia"


def test_other_ids_have_no_parent_and_calls_do_not_pile_up(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    """An id of the user's own begins a trace; an output whose call is unknown is a span all the same."""
    spans = Spans(provider)
    with refold.open(":memory:") as store:
        chat = store.chat("trip")
        with refold.acting(correlation_id="ticket-9"):
            chat.add_function_output("track", "Lyon", "c1")
        chat.add_function_call("track", "{}", call_id="c2")
        call = chat.history()[-1]
        for number in range(CALLS_AWAITED_MAX + 5):
            spans.write(another_call(call, number))
        spans.write(chat.history()[1])
        for _ in range(CALLS_OF_ID_MAX + 5):
            spans.write(call)

    assert len(spans._waiting) == len(spans._waiting_in[call.stream]) == CALLS_AWAITED_MAX
    assert len(spans._waiting[call.stream, "c2"]) == CALLS_OF_ID_MAX
    (only,) = exporter.get_finished_spans()
    assert only.parent is None


def test_an_eviction_looks_at_the_calls_of_its_chat(provider: TracerProvider) -> None:
    """However many wait in other chats."""
    counts = list[int]()
    with refold.open(":memory:") as store:
        chat = store.chat("trip")
        call = chat.add_function_call("track", "{}", call_id="c1")
        chat.evict([call.id])
        _, called, evicted = chat.history()
        for others in (10, 1_000):
            spans = Spans(provider)
            for number in range(others):
                spans.write(msgspec.structs.replace(called, stream=f"chat:c{number}"))
            spans.write(called)
            counts.append(calls_of(lambda spans=spans: spans.write(evicted)))  # type: ignore[misc]
            assert len(spans._waiting) == len(spans._waiting_in) == others

    assert counts[0] == counts[1]


def another_call(recorded: Any, number: int) -> Any:
    """Return an event with a call id of its own."""
    event = msgspec.structs.replace(recorded.event, call_id=f"n{number}")
    return msgspec.structs.replace(recorded, event=event)
