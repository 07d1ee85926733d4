"""
The rules of Anthropic's Messages API (SPEC X3): each rule that a request breaks is a line of text.

Written from the provider's errors, not from the converter.
"""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MARKS_MAX = 4
ONLY_IN = {
    "tool_use": "assistant", "thinking": "assistant", "redacted_thinking": "assistant",
    "tool_result": "user", "image": "user", "document": "user",
}  # fmt: skip
MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def faults(messages: Sequence[dict[str, Any]], system: Any = None, *, prefill: bool = False) -> list[str]:
    """Return the faults of a request; `prefill` allows the last message to be the assistant's, as older models do."""
    found = list(_unwritable([messages, system])) or [*_order(messages, prefill=prefill)]
    for index, message in enumerate(messages):
        found += [f"messages.{index}: {fault}" for fault in _content(message)]
    return [*found, *_pairs(messages), *_marks(messages, system)]


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a message's content as blocks, as the provider reads a text."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _unwritable(request: Any) -> Iterator[str]:
    try:
        json.dumps(request, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        yield f"the request cannot be written as JSON: {error}"


def _order(messages: Sequence[dict[str, Any]], *, prefill: bool) -> Iterator[str]:
    roles = [message["role"] for message in messages]
    if not roles:
        yield "at least one message is required"
        return
    if roles[0] != "user":
        yield "first message must use the user role"
    if any(role not in ("user", "assistant") for role in roles):
        yield "a role that does not exist"
    if any(one == other for one, other in itertools.pairwise(roles)):
        yield "roles must alternate"
    if roles[-1] == "assistant" and not prefill:
        yield "this model does not support assistant message prefill"
    last = blocks_of(messages[-1])[-1:]
    if roles[-1] == "assistant" and last and last[0].get("text", "x")[-1:].isspace():
        yield "final assistant content cannot end with trailing whitespace"


def _content(message: dict[str, Any]) -> Iterator[str]:
    if not message["content"]:
        yield "content must be non-empty"
    is_behind = False
    for block in blocks_of(message):
        kind = block["type"]
        if ONLY_IN.get(kind, message["role"]) != message["role"]:
            yield f"{kind} blocks are not permitted within {message['role']} turns"
        if kind == "text" and not block["text"].strip():
            yield "text content blocks must contain non-whitespace text"
        if kind == "image":
            yield from _image(block["source"])
        if kind == "tool_use":
            yield from _use(block)
        if kind == "tool_result" and block["is_error"] and not block["content"].strip():
            yield "content cannot be empty if `is_error` is true"
        if kind == "tool_result" and is_behind:
            yield "tool_result blocks must come first"
        is_behind = is_behind or kind != "tool_result"


def _image(source: dict[str, Any]) -> Iterator[str]:
    if source["type"] == "url" and not source["url"].lower().startswith("https://"):
        yield "only HTTPS URLs are supported"
    if source["type"] == "base64" and source["media_type"] not in MEDIA_TYPES:
        yield "media_type is not one of those supported"
    if source["type"] == "base64" and not re.fullmatch(r"(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/=]{4}", source["data"]):
        yield "image data is not base64"


def _use(block: dict[str, Any]) -> Iterator[str]:
    if not ID.fullmatch(block["id"]):
        yield "tool_use.id should match its pattern"
    if not NAME.fullmatch(block["name"]):
        yield "tool_use.name should match its pattern"
    if not isinstance(block["input"], dict):
        yield "tool_use.input should be an object"


def _pairs(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    asked: list[str] = []
    for index, message in enumerate(messages):
        answered = [block["tool_use_id"] for block in blocks_of(message) if block["type"] == "tool_result"]
        if answered != asked:
            yield f"messages.{index}: tool_use {asked} are answered by {answered}"
        asked = [block["id"] for block in blocks_of(message) if block["type"] == "tool_use"]
        if len({*asked}) < len(asked) or seen & {*asked}:
            yield f"messages.{index}: tool_use ids must be unique"
        seen.update(asked)
    if asked:
        yield f"tool_use {asked} have no tool_result"


def _marks(messages: Sequence[dict[str, Any]], system: Any) -> Iterator[str]:
    blocks = [block for message in messages for block in blocks_of(message)]
    blocks += system if isinstance(system, list) else []
    marked = [block for block in blocks if "cache_control" in block]
    if len(marked) > MARKS_MAX:
        yield f"a maximum of {MARKS_MAX} blocks with cache_control may be provided, found {len(marked)}"
    if any(block["type"] in ("thinking", "redacted_thinking") or block.get("text") == "" for block in marked):
        yield "cache_control cannot be set for thinking or empty text blocks"
    if isinstance(system, list) and any(not block["text"].strip() for block in system):
        yield "system: text content blocks must be non-empty"
