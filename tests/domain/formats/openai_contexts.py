"""What the OpenAI formats meet beside contexts made by calls: imported messages and entries, whole and in pieces."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputParam
from pydantic import TypeAdapter

from refold.domain.chat.events import ChatItemEvent
from refold.domain.formats.openai.receive import items_from_openai_messages
from refold.domain.formats.responses.receive import items_from_openai_responses
from tests.domain.fakes import CountingSystem
from tests.domain.formats.provider_contexts import POOL
from tests.importing.shapes import answered, asked, call, said

Context = list[ChatItemEvent]

_MESSAGES: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionMessageParam])
_INPUT: TypeAdapter[Any] = TypeAdapter(ResponseInputParam)

LONG = "x" * 65
OLD_CALL = {"role": "assistant", "content": None, "function_call": {"name": "pay", "arguments": "{}"}}
TEXT = {"type": "text", "text": "a"}
VOICE = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
SHELL = {"id": "a", "type": "custom", "custom": {"name": "shell", "input": "ls"}}

# Messages of every shape, sound and unsound, alone or with what belongs to them.
IMPORTED: list[list[dict[str, Any]]] = [
    [said("user", name="mia"), said("user", name="two words"), said("user", None), said("user", [])],
    [said("user", [TEXT, VOICE]), said("user", [{"x": 1}, TEXT]), said("user", [{"type": "file", "file": {}}])],
    [said("system"), said("developer", [TEXT]), said("system", []), said("developer", None, name="x")],
    [said("assistant", None), said("assistant", None, refusal="no"), said("assistant", None, refusal=7)],
    [said("assistant", "a", tool_calls=None), said("assistant", "b", tool_calls=[]), {"role": "assistant"}],
    [said("assistant", [TEXT, {"type": "refusal", "refusal": "no"}]), said("assistant", None, audio={"id": "x"})],
    [asked(call("a"), call("b"), content="One moment."), answered("b"), answered("a", name="look_up")],
    [asked(call("a"), call("a"), content=[TEXT], name="helper"), answered("a", [TEXT, TEXT]), answered("a", [])],
    [asked(call(""), call("", "look up"), call(LONG)), answered(""), answered(LONG), answered("", [{"x": 1}])],
    [asked(SHELL, call("b", type="other")), answered("a", None), answered("b")],
    [asked(SHELL), answered("a"), asked(call("a"), function_call=None), answered("a")],
    [OLD_CALL, {"role": "function", "name": "pay", "content": None}],
    [OLD_CALL, {"role": "function", "name": "look_up", "content": "x"}, OLD_CALL],
    [{**OLD_CALL, "content": "text"}, said("user"), {"role": "function", "name": "pay", "content": [TEXT]}],
    [{**asked(call("a")), "function_call": {"name": "pay", "arguments": ""}}, answered("a")],
    [
        {**asked(call("a")), "content": "I pay.", "function_call": {"name": "pay", "arguments": "{}"}},
        answered("a"),
        {"role": "function", "name": "pay", "content": "paid"},
    ],
]

ANSWER = {
    "type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
    "content": [{"type": "output_text", "text": "a", "annotations": []}],
}  # fmt: skip
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
PICTURE = {"type": "input_image", "image_url": "https://e.x/a.png", "detail": "auto"}


def asking(call_id: str, **extra: Any) -> dict[str, Any]:
    """Return a call as the Responses API has it."""
    return {"type": "function_call", "call_id": call_id, "name": "look_up", "arguments": "{}", **extra}


def answering(call_id: str, output: Any = "found", **extra: Any) -> dict[str, Any]:
    """Return an output as the Responses API has it."""
    return {"type": "function_call_output", "call_id": call_id, "output": output, **extra}


RECEIVED: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "hi", "id": "m1"}, {"type": "message", "role": "user", "content": [PICTURE]}],
    [{"role": "developer", "content": "D"}, {"role": "system", "content": []}, {"role": "user", "content": []}],
    [REASONING, ANSWER, {"role": "assistant", "content": "plain"}],
    [{**ANSWER, "id": "x"}, {**ANSWER, "status": "incomplete"}, {**ANSWER, "content": [{"type": "refusal"}]}],
    [REASONING, asking("a", id="fc_1", status="completed"), asking("b"), answering("b"), answering("a", id=None)],
    [asking("a"), answering("a", [{"type": "input_text", "text": "x"}, PICTURE]), asking("a"), answering("a", [])],
    [asking("", name="look up", id=7), asking(LONG), answering(LONG), answering("")],
    [
        {**REASONING, "id": "__fake_id__"},
        asking("a", id="__fake_id__"),
        answering("a"),
        asking("b", id=""),
        answering("b"),
    ],
    [{**REASONING, "id": "rs_2"}, {"role": "user", "content": "go on"}, {**REASONING, "id": "rs_3"}],
    [{"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}],
]


def imported(messages: Sequence[Any]) -> Context:
    """Return the items of chat messages."""
    return items_from_openai_messages(messages, system_clock=CountingSystem())


def received(entries: Sequence[Any], instructions: str | None = None) -> Context:
    """Return the items of entries of the Responses API."""
    return items_from_openai_responses(entries, instructions, system_clock=CountingSystem())


def _pieces() -> list[Context]:
    anchored = [[*entries, {"role": "user", "content": "go on"}] for entries in RECEIVED]
    return [
        *map(imported, IMPORTED),
        *map(received, anchored),
        received(RECEIVED[0], "Be kind."),
        *([item] for item in POOL),
    ]


PIECES = _pieces()
# Whole pieces most of the time, then some items taken out and some put elsewhere, as evictions and inserts do.
_EDIT = st.tuples(st.booleans(), st.integers(0, 30), st.integers(0, 30))
_DRAWN = st.lists(st.integers(0, len(PIECES) + 80).map(lambda n: n % 24 if n >= len(PIECES) else n), max_size=6)


def _edited(drawn: Sequence[int], edits: Sequence[tuple[bool, int, int]]) -> Context:
    items = [item for index in drawn for item in PIECES[index]]
    for moves, source, target in edits:
        if items:
            item = items.pop(source % len(items))
            items[target : target if moves else 0] = [item] if moves else []
    return items


EDITED = st.builds(_edited, _DRAWN, st.lists(_EDIT, max_size=5))


def _consumed(value: Any) -> Any:
    """Walk through everything: pydantic validates an Iterable only when somebody takes from it."""
    if isinstance(value, dict):
        return {key: _consumed(inner) for key, inner in value.items()}
    return value if isinstance(value, str | bytes) or not hasattr(value, "__iter__") else list(map(_consumed, value))


def _check(adapter: TypeAdapter[Any]) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        _consumed(adapter.validate_python(value))

    return check


check_message_types = _check(_MESSAGES)
check_input_types = _check(_INPUT)
