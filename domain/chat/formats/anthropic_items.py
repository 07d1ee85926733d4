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

Block = Mapping[str, Any]
Placed = tuple[int, Block]
ROLES = ("user", "assistant", "system")


def items_from_anthropic(
    messages: Iterable[Mapping[str, Any]], system: str | Sequence[Block] | None = None, *, system_clock: System
) -> list[ChatItemEvent]:
    """
    Return the items that Anthropic messages, and a system text, stand for; cache marks are left out.

    Raises:
        InvalidInputError: something is no message or block; the message says where and what was expected.
    """
    reader = AnthropicReader(system_clock)
    if system is not None:
        reader.read("system", system, "system")
    for index, message in enumerate(messages):
        reader.read_message(message, f"message {index} (from 0)")
    return reader.items


class AnthropicReader:
    """
    Goes through the messages, and knows the names of the calls so far.

    `places` has for each item the indexes of the blocks that it stands for: those beside it, then its own.
    """

    def __init__(self, system: System) -> None:
        self._receiver = Receiver(system)
        self._names: dict[str, str] = {}
        self.places: list[list[int]] = []

    @property
    def items(self) -> list[ChatItemEvent]:
        """The items of all messages so far."""
        return self._receiver.items

    def read_message(self, message: object, where: str) -> None:
        """Add the items of one message."""
        if not isinstance(message, Mapping):
            raise InvalidInputError(f"{where}: found {type(message).__name__}, expected an object")
        role = message.get("role")
        if role not in ROLES:
            raise InvalidInputError(f"{where}, field role: {role!r} is no role, expected one of {', '.join(ROLES)}")
        self.read(role, message.get("content"), where)

    def read(self, role: str, content: object, where: str) -> None:
        """Add the items of a content."""
        if isinstance(content, str):
            self._receiver.say(role, content, {}, where)
            self.places.append([0])
            return
        if not isinstance(content, list | tuple):
            raise InvalidInputError(f"{where}, field content: expected text or a list of blocks")
        said = _Said()
        kept: list[Placed] = []
        calls: list[tuple[Placed, list[Placed]]] = []
        for place, block in enumerate(content):
            there = f"{where}, content[{place}]"
            if not isinstance(block, Mapping):
                raise InvalidInputError(f"{there}: found {type(block).__name__}, expected an object")
            kind = block.get("type")
            if kind == "tool_use":
                calls.append(((place, block), kept))
                kept = []
            elif kind == "tool_result":
                self._answered(place, block, there)
            elif (part := self._part(block, there)) is None:
                kept.append((place, block))
            else:
                # A message is sent as its blocks, its images, its texts: what comes in another order is another one.
                if said.parts and (kept or (isinstance(part, Image) and isinstance(said.parts[-1][1], str))):
                    self._say(role, said, where)
                    said = _Said()
                said.parts.append((place, part))
                said.beside += kept
                kept = []
        if said.parts and kept and role == "user":
            self._say(role, said, where)
            said = _Said()
        said.beside += kept
        if said.parts or said.beside or not content:
            self._say(role, said, where)
        for (place, block), before in calls:
            self._called(place, block, before, f"{where}, content[{place}]")

    def _say(self, role: str, said: _Said, where: str) -> None:
        self._receiver.say(role, [part for _, part in said.parts], _beside(said.beside), where)
        self.places.append([place for place, _ in (*said.beside, *said.parts)])

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

    def _called(self, place: int, block: Block, before: list[Placed], where: str) -> None:
        name, call_id = field_of(block, "name", str, where), field_of(block, "id", str, where)
        call_id = self._receiver.call(name, block.get("input", {}), call_id, _beside(before), where)
        self._names[call_id] = name
        self.places.append([*(beside for beside, _ in before), place])

    def _answered(self, place: int, block: Block, where: str) -> None:
        call_id = field_of(block, "tool_use_id", str, where)
        output = _output_of(block.get("content", ""), where)
        is_error = bool(block.get("is_error"))
        self._receiver.answer(self._names.get(call_id, ""), output, call_id, is_error=is_error, where=where)
        self.places.append([place])


class _Said:
    """Texts and images that become one message, and the other blocks that lie beside it."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, str | Image]] = []
        self.beside: list[Placed] = []


def _beside(blocks: list[Placed]) -> dict[str, Any]:
    unmarked = [{key: value for key, value in block.items() if key != "cache_control"} for _, block in blocks]
    return {"anthropic": {"blocks": unmarked}} if unmarked else {}


def _output_of(content: Any, where: str) -> str:
    """Texts are joined; anything else in an output is kept as the JSON that it is, and null is nothing."""
    if content is None:
        return ""
    if isinstance(content, list) and all(isinstance(part, Mapping) and part.get("type") == "text" for part in content):
        return "\n".join(field_of(part, "text", str, where) for part in content)
    return as_text(content, where)
