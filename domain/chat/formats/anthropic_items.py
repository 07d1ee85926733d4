"""
From Anthropic messages back to items.

A message becomes the outputs in it, then one message of its texts and images, then its calls. Blocks that items
have no field for, such as thinking, lie in `extra["anthropic"]` of that message or in `metadata["anthropic"]` of
the call they stood before, and are sent again from there where the provider takes them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...errors import InvalidInputError
from ...system import System
from ..events import ChatItemEvent, Image
from .received import Receiver, as_text, field_of

__all__ = ["items_from_anthropic"]

Block = Mapping[str, Any]
ROLES = ("user", "assistant", "system")


def items_from_anthropic(
    messages: Iterable[Mapping[str, Any]], system: str | Sequence[Block] | None = None, *, system_clock: System
) -> list[ChatItemEvent]:
    """
    Return the items that Anthropic messages, and a system text, stand for; cache marks are left out.

    Raises:
        InvalidInputError: something is no message or block; the message says where and what was expected.
    """
    reader = _Reader(system_clock)
    if system is not None:
        reader.read("system", system, "system")
    for index, message in enumerate(messages):
        where = f"message {index} (from 0)"
        if not isinstance(message, Mapping):
            raise InvalidInputError(f"{where}: found {type(message).__name__}, expected an object")
        role = message.get("role")
        if role not in ROLES:
            raise InvalidInputError(f"{where}, field role: {role!r} is no role, expected one of {', '.join(ROLES)}")
        reader.read(role, message.get("content"), where)
    return reader.items


class _Reader:
    """Goes through the messages, and knows the names of the calls so far."""

    def __init__(self, system: System) -> None:
        self._receiver = Receiver(system)
        self._names: dict[str, str] = {}

    @property
    def items(self) -> list[ChatItemEvent]:
        return self._receiver.items

    def read(self, role: str, content: object, where: str) -> None:
        """
        Add the items of one message.
        """
        if isinstance(content, str):
            self._receiver.say(role, content, {}, where)
            return
        if not isinstance(content, list | tuple):
            raise InvalidInputError(f"{where}, field content: expected text or a list of blocks")
        said: list[str | Image] = []
        kept: list[Block] = []
        beside: list[Block] = []
        calls: list[tuple[Block, list[Block], str]] = []
        for number, block in enumerate(content):
            there = f"{where}, content[{number}]"
            if not isinstance(block, Mapping):
                raise InvalidInputError(f"{there}: found {type(block).__name__}, expected an object")
            kind = block.get("type")
            part = self._part(block, there)
            if said and (kept or (isinstance(part, Image) and isinstance(said[-1], str))) and part is not None:
                # A message is sent as its blocks, its images, its texts: what comes in another order is another one.
                self._receiver.say(role, said, _beside(beside), where)
                said, beside = [], []
            if kind == "tool_use":
                calls.append((block, kept, there))
                kept = []
            elif kind == "tool_result":
                self._answered(block, there)
            elif part is None:
                kept.append({key: value for key, value in block.items() if key != "cache_control"})
            else:
                said.append(part)
                beside, kept = beside + kept, []
        if said and kept and role == "user":
            self._receiver.say(role, said, _beside(beside), where)
            said, beside = [], []
        if said or beside or kept or not content:
            self._receiver.say(role, said, _beside(beside + kept), where)
        for call, before, there in calls:
            self._called(call, before, there)

    def _part(self, block: Block, where: str) -> str | Image | None:
        if block.get("type") == "text":
            return str(field_of(block, "text", str, where))
        if block.get("type") != "image":
            return None
        source = field_of(block, "source", dict, where)
        if source.get("type") == "url":
            return self._receiver.image(field_of(source, "url", str, where))
        if source.get("type") != "base64":
            return None
        media_type, data = field_of(source, "media_type", str, where), field_of(source, "data", str, where)
        return self._receiver.image(f"data:{media_type};base64,{data}")

    def _called(self, block: Block, before: list[Block], where: str) -> None:
        name, call_id = field_of(block, "name", str, where), field_of(block, "id", str, where)
        call_id = self._receiver.call(name, block.get("input", {}), call_id, _beside(before), where)
        self._names[call_id] = name

    def _answered(self, block: Block, where: str) -> None:
        call_id = field_of(block, "tool_use_id", str, where)
        output = _output_of(block.get("content", ""), where)
        is_error = bool(block.get("is_error"))
        self._receiver.answer(self._names.get(call_id, ""), output, call_id, is_error=is_error, where=where)


def _beside(blocks: list[Block]) -> dict[str, Any]:
    return {"anthropic": {"blocks": blocks}} if blocks else {}


def _output_of(content: Any, where: str) -> str:
    """Texts are joined; anything else in an output is kept as the JSON that it is."""
    if isinstance(content, list) and all(isinstance(part, Mapping) and part.get("type") == "text" for part in content):
        return "\n".join(field_of(part, "text", str, where) for part in content)
    return as_text(content, where)
