"""The events whose bytes are kept: for each tag one that says as little as it can, and one that says it all."""

from typing import Any

from refold.domain.chat.events import (
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    Image,
    MessageAdded,
    Named,
    Opened,
    Origin,
)
from refold.domain.envelope import NO_DIGEST, Event, Meta
from refold.domain.positions import Position

ORIGIN = Origin(starts=False, rest=b'{"name":"mia"}')
WHOLE: dict[str, Any] = {"id": "i1", "created_at": 1_795_000_000.25, "agent_id": "triage", "origin": ORIGIN}
LEAST: dict[str, Any] = {"id": "i1", "created_at": 0.0}
IMAGE = Image(
    id="img_1",
    image="data:image/png;base64,AA==",
    inference_detail="high",
    encode_options=b'{"format":"PNG","quality":5,"resize_options":null}',
)

EVENTS: list[Event] = [
    Opened(),
    Opened(user="mia", session="s1", agent="triage", source="openai", attributes=b'{"team":"\xc3\xbcber"}'),
    MessageAdded(**LEAST, role="user", content=""),
    MessageAdded(
        **WHOLE,
        role="assistant",
        content=("漢字 \U0001f600\x00", Image(id="img_2", image="https://example.org/a.png"), IMAGE),
        interrupted=True,
        extra=b'{"a":[1,2.5,null]}',
        confidence=0.5,
        metrics=b"{}",
        audio_instructions="Speak.",
        text_instructions="",
    ),
    FunctionCalled(**LEAST, name="lookup", arguments="", call_id="c1"),
    FunctionCalled(**WHOLE, name="lookup", arguments='{"id": 7}', call_id="c1", metadata=b'{"a":true}'),
    FunctionReturned(**LEAST, name="lookup", output="", call_id="c1"),
    FunctionReturned(**WHOLE, name="lookup", output="shipped", call_id="c1", is_error=True),
    HandedOff(**LEAST, to_agent="billing"),
    HandedOff(**WHOLE, to_agent="billing", from_agent="triage", reason="a bill"),
    ConfigUpdated(**LEAST),
    ConfigUpdated(**WHOLE, instructions="Be brief.", tools=("lookup", "refund")),
    ConfigUpdated(**LEAST, tools=()),
    Named(name="before-lunch", version=1),
    Named(name="über", version=100_000),
]

# What chain_digest is given, for each example.
ENVELOPES: list[dict[str, Any]] = [
    {
        "previous": NO_DIGEST,
        "stream": "chat:a",
        "version": 1,
        "position": Position(-1, 1),
        "recorded_at": 0,
        "meta": Meta(),
        "payload": b"\x80",
    },
    {
        "previous": bytes(range(32)),
        "stream": "chat:über",
        "version": 70_000,
        "position": Position(1023, 2**40),
        "recorded_at": 1_795_000_000_250_000,
        "meta": Meta("mia", "trace-1", "chat:b@3", "key-1", "k1"),
        "payload": b"\x81\xa1a\x01",
    },
    {
        "previous": bytes(32),
        "stream": "chat:a",
        "version": 2,
        "position": Position(0, 2),
        "recorded_at": 1,
        "meta": Meta(idempotency_key="key-1"),
        "payload": b"",
    },
]
