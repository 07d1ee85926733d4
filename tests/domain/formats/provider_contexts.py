"""Contexts as providers' formats meet them: every kind of item, in any order, with all that goes wrong in real runs."""

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from refold.domain.canonical import canonical_json
from refold.domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded
from tests.domain.chat_events import configured, handed, said

# Hundreds of contexts, and in the deep profile tens of thousands: the rules are about what stands beside what.
MANY = settings(max_examples=settings().max_examples * 20)
FEW = settings(MANY, max_examples=MANY.max_examples // 2)

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
PICTURES = [
    PIXEL, "https://e.x/a.PNG?b=c.d", "http://e.x/a", "gs://b/a.webp", "file.png", "", "data:", "data:image/png",
    "data:image/png;base64,", "data:image/png;base64,!", "data:;base64,eA==", "data:,x", "data:image/svg+xml,<svg/>",
    "DATA:IMAGE/BMP;base64,eA==", "data:image/gif;base64,eA",
]  # fmt: skip
ARGUMENTS = [
    "{}", '{"a": 1, "b": [1, {"c": "é"}]}', "", " ", "null", "[1, 2]", "{bad", '"text"', "1e999", '{"a": NaN}',
    '{"a": "\\ud800"}', '{"a": 123456789012345678901234567890}', "[" * 2000, '{"arguments": "x"}',
]  # fmt: skip
CALL_IDS = ["c1", "c2", "c1_2", "c1_3", "functions.f:0", "über", "", "漢字"]
NAMES = ["f", "g", "get.weather", "7up", "", "name " * 30]
METADATA: list[dict[str, Any]] = [
    {}, {"thought_signature": "c2lnMQ=="}, {"thought_signature": "!!!"}, {"thought_signature": 7}, {"other": 1},
    {"anthropic": {"blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "thinking"}, 7]}},
    {"anthropic": 7},
]  # fmt: skip
EXTRA: list[dict[str, Any]] = [
    {"google": {"thought_signature": "c2ln"}}, {"google": None}, {"anthropic": {"blocks": 1}},
    {"anthropic": {"blocks": [{"type": "redacted_thinking", "data": "x", "cache_control": {"type": "ephemeral"}}]}},
    {"anthropic": {"blocks": [{"type": "document", "source": {"type": "text", "media_type": "text/plain",
                                                             "data": "d"}}]}},
]  # fmt: skip
CONTENTS: list[Any] = ["hi", "", "  ", "bye \n", ("a",), (), ("",), ("\n", "a"), ("a", "b"), ("a", "", " ")]


def packed(value: dict[str, Any]) -> bytes:
    """Return open JSON as it lies in an event."""
    return canonical_json(value, what="drawn") if value else b""


def call(call_id: str = "c1", name: str = "f", arguments: str = "{}", **fields: Any) -> FunctionCalled:
    """Return a function call."""
    metadata = packed(fields.get("metadata", {}))
    return FunctionCalled(
        id=f"call {call_id}", created_at=1.5, name=name, arguments=arguments, call_id=call_id, metadata=metadata
    )


def output(call_id: str = "c1", text: str = "found", *, name: str = "f", is_error: bool = False) -> FunctionReturned:
    """Return the output of a function."""
    return FunctionReturned(
        id=f"output {call_id}", created_at=1.5, name=name, output=text, call_id=call_id, is_error=is_error
    )


def pictured(url: str = PIXEL, *, role: str = "user", text: str = "look") -> MessageAdded:
    """Return a message of a text and an image."""
    return said("m1", (text, Image(id="img_1", image=url)), role=role)


def unmarked(messages: list[dict[str, Any]]) -> str:
    """Return the bytes of messages whose marks are not told apart."""
    return json.dumps([{**m, "content": [{**block, "cache_control": 0} for block in m["content"]]} for m in messages])


def with_signatures(items: Iterable[ChatItemEvent], signed: Iterable[bool]) -> list[ChatItemEvent]:
    """Return the items with each call signed or not, as the next of `signed` says."""
    answers = iter(signed)
    return [
        call(item.call_id, item.name, metadata={"thought_signature": "c2ln"} if next(answers) else {})
        if isinstance(item, FunctionCalled)
        else item
        for item in items
    ]


# Drawn from a pool: what matters is kinds, ids and order, and drawing is what takes the time. The plain calls and
# outputs stand in it several times, so that most batches find their outputs.
POOL: list[ChatItemEvent] = [
    *(said("m1", content, role=role) for content in CONTENTS for role in ("user", "assistant")),
    *(said("m2", ("b",), role=role, extra=packed(extra)) for extra in EXTRA for role in ("user", "assistant")),
    *(said("m3", (), role=role, extra=packed(EXTRA[4])) for role in ("user", "assistant")),
    *(pictured(url, role=role) for url in PICTURES for role in ("user", "assistant")),
    *(said("s1", content, role=role) for content in ("S", ("S", "T"), " ") for role in ("system", "developer")),
    *(call(call_id) for call_id in CALL_IDS),
    *(item for _ in range(8) for item in (call("c1"), call("c2", "g"))),
    *(output(call_id) for _ in range(8) for call_id in ("c1", "c2")),
    *(call("c1", name) for name in NAMES),
    *(call("c2", "g", arguments) for arguments in ARGUMENTS),
    *(call("c2", "g", metadata=metadata) for metadata in METADATA),
    *(
        output(call_id, text, is_error=is_error)
        for call_id in CALL_IDS
        for text in ("", "x")
        for is_error in (False, True)
    ),
    handed(),
    configured(instructions="Be brief.", tools=("f",)),
    configured(instructions=""),
    configured(tools=()),
]
CONTEXTS = st.lists(st.integers(0, len(POOL) - 1), max_size=16).map(lambda drawn: [POOL[index] for index in drawn])
