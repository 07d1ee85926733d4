"""Events with types and values that every log refuses, each with words of the reason."""

from __future__ import annotations

from typing import Any

from refold.domain.chat.events import Forked, Image, ItemInserted, ItemsEvicted, MessageAdded, Named, Origin
from refold.domain.content import Content
from refold.domain.memory.events import MemoryRemembered
from refold.domain.moments import MomentNamed, StoreCopied
from refold.domain.pool.events import PoolAdded, PoolEvicted, QueueAppended, QueueNamed, QueueOpened
from refold.domain.spans import Ref, Segment, Span
from refold.domain.totals import Totals
from refold.domain.trajectory.events import (
    AttributeChange,
    MessageRecorded,
    NodeChanged,
    NodeRegistered,
    RunOpened,
    StepTaken,
)
from refold.domain.window.events import WindowAdded, WindowOpened


def said(**fields: Any) -> MessageAdded:
    """Return a message that is valid except for `fields`."""
    return MessageAdded(**{"id": "m", "created_at": 1.0, "role": "user", "content": ("hello",), **fields})


def evicted(*spans: Span, change: Totals | None = None) -> ItemsEvicted:
    """Return an event that evicts items."""
    return ItemsEvicted(items=spans, change=change or Totals(-1))


def node(**fields: Any) -> NodeRegistered:
    """Return a node that is valid except for `fields`."""
    return NodeRegistered(**{"type": "State", "label": "s", "fields": b'{"state":1}', "created_at": 1.0, **fields})


def changed(name: str, old: bytes, new: bytes) -> NodeChanged:
    """Return a change of an attribute."""
    return NodeChanged(node=Ref(1), changes=(AttributeChange(name, old, new),))


TOO_DEEP = b"[" * 101 + b"]" * 101
REFUSED: dict[str, tuple[Any, str]] = {
    "id is a number": (said(id=7), r"Expected `str`, got `int` - at `\$.id`"),
    "content is a dict": (said(content={"a": 1}), "content"),
    "unknown role": (said(role="tool"), r"'tool' - at `\$.role`"),
    "time without end": (said(created_at=float("inf")), "created_at"),
    "time that is no number": (said(created_at=float("nan")), "created_at"),
    "confidence that is no number": (said(confidence=float("nan")), "confidence"),
    "lone surrogate": (said(content="\ud800"), "surrogate"),
    "JSON that is none": (said(extra=b'{"a":'), "no JSON"),
    "JSON with a number that is none": (said(extra=b'{"a":NaN}'), "no JSON"),
    "JSON with a number that is too large": (said(extra=b'{"a":1e999}'), "no JSON"),
    "JSON with half a character": (said(extra=b'{"a":"\\ud800"}'), "no JSON"),
    "JSON with bytes that are no text": (said(extra=b'{"a":"\xff"}'), "no JSON"),
    "JSON that is no object": (said(metrics=b"[1]"), "no JSON"),
    "JSON that is too deep": (said(extra=b'{"a":' + TOO_DEEP + b"}"), "JSON_DEPTH_MAX"),
    "JSON in an origin": (said(origin=Origin(rest=b"7")), "no JSON"),
    "picture without data": (said(content=(Image(id="i", image="data:x"),)), "a data URL needs a comma"),
    "picture with unknown options": (said(content=(Image(id="i", image="x", encode_options=b"{}x"),)), "no JSON"),
    "item within an item": (ItemInserted(item=said(role="tool"), before=Ref(1)), "role"),
    "total beyond all": (evicted(change=Totals(-1, 0, 2**63 - 1)), "change"),
    "number of more than 64 bits": (QueueOpened(limit=2**63), "limit"),
    "number that cannot be encoded": (QueueOpened(limit=2**64), "stored"),
    "version beyond all": (Named(name="a", version=2**31), "version"),
    "version below all": (evicted(Span("", b"\x00\x01")), "version 0"),
    "list that ends within a number": (evicted(Span("", b"\x80")), "ends within a number"),
    "list with a number that is too long": (evicted(Span("", b"\xff" * 30)), "too long"),
    "list of too many": (evicted(Span("", b"\x01\xff\xff\x7f")), "NAMED_ITEMS_MAX"),
    "lists of too many together": (evicted(*(Span("", b"\x01\xc0\xc4\x07"),) * 9), "NAMED_ITEMS_MAX"),
    "name of no stream": (evicted(Span("chat:a@1", b"\x01\x01")), "cannot be the id"),
    "name of no stream in a fork": (
        Forked(parent="chat:", version=1, lineage=(Segment("chat:a", 1),), root="a"),
        "cannot be the id",
    ),
    "name of a version": (QueueNamed(name="not\0this", version=1), "cannot name a version"),
    "name of a moment": (MomentNamed(name="a", moment="yesterday"), "not a position"),
    "order of a copy": (
        StoreCopied(source="a.db", moment="1", events=1, root=b"", order=b"no zlib"),
        "order of copied events",
    ),
    "content that is two things": (QueueAppended(content=Content(text="a", json=b"1")), "not both"),
    "content that is no JSON": (QueueAppended(content=Content(json=b"{")), "no JSON"),
    "item of a pool without an id": (PoolAdded(content=Content(text="a"), description="d"), "has an id"),
    "list where a tuple is": (PoolEvicted(items="x", change=Totals()), "items"),  # type: ignore[arg-type]
    "unknown kind of memory": (
        MemoryRemembered(key="k", value=Content(text="v"), kind="x", first_at=1, at=1, change=Totals()),
        "kind",
    ),
    "unknown policy": (WindowOpened(max_tokens=1, policy="x"), "policy"),
    "priority that is no number": (
        WindowAdded(key="k", value="v", source="s", priority=float("nan"), quarters=1, change=Totals()),
        "in order",
    ),
    "size beyond all": (WindowAdded(key="k", value="v", source="s", quarters=2**62, change=Totals()), "quarters"),
    "unknown type of node": (node(type="Thing"), "type"),
    "node without what it requires": (node(fields=b"{}"), "must contain"),
    "node without fields": (node(fields=b""), "must contain"),
    "node with fields that are no object": (node(fields=b"[]"), "no JSON"),
    "change to nothing": (changed("state", b"1", b""), "no value"),
    "description that is no text": (changed("description", b'""', b"7"), "a description is a text"),
    "message that is no object": (MessageRecorded(record=b"7"), "no JSON"),
    "no message": (MessageRecorded(record=b""), "a JSON object"),
    "round beyond all": (RunOpened(round=2**63), "round"),
    "queue that is none": (StepTaken(queue="x", step=1), "queue"),
}
