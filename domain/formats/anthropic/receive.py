"""
From Anthropic messages back to items.

A message becomes the outputs in it, then one message of its texts and images, then its calls. Blocks for which items
have no field, such as thinking, are stored in `extra["anthropic"]` of that message, or in `metadata["anthropic"]` of
the call that they precede. They are sent again from there if the provider accepts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ...arguments import require_several
from ...canonical import json_in_order
from ...chat.events import ChatItemEvent, FunctionReturned, Image, Origin
from ...clock import System
from ...errors import InvalidInputError
from ..receive import IdsOfPlaces, Receiver, as_plain_data, as_text, at_field, field_of, kind_of, place_of
from ..source_json import difference, is_same
from .source_shape import SYSTEM, AnthropicMessage, Beside, message_of, plain_blocks, role_of

Block = Mapping[str, Any]
Placed = tuple[int, Block]
ROLES = ("user", "assistant", "system")


def items_from_anthropic(
    messages: Iterable[Any],
    system: str | Sequence[Block] | None = None,
    *,
    system_clock: System,
    places: Sequence[str] = (),
) -> list[ChatItemEvent]:
    """
    Return the items of Anthropic messages and of a system text; cache marks are left out.

    Messages and their blocks are plain data or objects of the anthropic package. `places` name the messages in errors.

    Raises:
        InvalidInputError: an entry is not a message or block; the error says where and what was expected.
    """
    reader = AnthropicReader(system_clock)
    if system is not None:
        reader.read("system", as_plain_data(system), "system")
    for index, message in enumerate(require_several(messages, "the messages")):
        reader.read_message(as_plain_data(message), place_of(places, "messages", index))
    return reader.items


class AnthropicReader:
    """
    Reads messages one after the other, and remembers the names of the calls.

    `places` has for each item the indexes of its blocks: first the blocks kept beside it, then its own.
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
            raise InvalidInputError(f"{where}: found {kind_of(message)}, expected an object")
        role = message.get("role")
        if role not in ROLES:
            fault = f"{role!r} is no role" if "role" in message else "missing"
            raise InvalidInputError(f"{at_field(where, 'role')}: {fault}, expected one of {', '.join(ROLES)}")
        self.read(role, message.get("content"), where)

    def read(self, role: str, content: object, where: str) -> None:
        """Add the items of a content."""
        if isinstance(content, str):
            self._receiver.say(role, content, {}, where)
            self.places.append([0])
            return
        if not isinstance(content, list | tuple):
            fault = f"found {kind_of(content)}, expected text or a list of blocks"
            raise InvalidInputError(f"{at_field(where, 'content')}: {fault}")
        message = _Message()
        kept: list[Placed] = []
        calls: list[tuple[Placed, list[Placed]]] = []
        for place, block in enumerate(content):
            there = at_field(where, f"content[{place}]")
            if not isinstance(block, Mapping):
                raise InvalidInputError(f"{there}: found {kind_of(block)}, expected an object")
            kind = block.get("type")
            if kind == "tool_use":
                calls.append(((place, block), kept))
                kept = []
            elif kind == "tool_result":
                self._answered(place, block, there)
            elif (part := self._part(block, there)) is None:
                kept.append((place, block))
            else:
                # A message is sent as its kept blocks, then its images, then its texts. Blocks in another order start a
                # new message.
                if message.parts and (kept or (isinstance(part, Image) and isinstance(message.parts[-1][1], str))):
                    self._say(role, message, where)
                    message = _Message()
                message.parts.append((place, part))
                message.beside += kept
                kept = []
        if message.parts and kept and role == "user":
            self._say(role, message, where)
            message = _Message()
        message.beside += kept
        if message.parts or message.beside or not content:
            self._say(role, message, where)
        for (place, block), before in calls:
            self._called(place, block, before, at_field(where, f"content[{place}]"))

    def _say(self, role: str, message: _Message, where: str) -> None:
        self._receiver.say(role, [part for _, part in message.parts], _beside(message.beside), where)
        self.places.append([place for place, _ in (*message.beside, *message.parts)])

    def _part(self, block: Block, where: str) -> str | Image | None:
        if block.get("type") == "text":
            return str(field_of(block, "text", str, where))
        if block.get("type") != "image":
            return None
        source = field_of(block, "source", dict, where)
        where = at_field(where, "source")
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


class _Message:
    """Texts and images that become one message, and the other blocks that are kept beside it."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, str | Image]] = []
        self.beside: list[Placed] = []


def _beside(blocks: list[Placed]) -> dict[str, Any]:
    unmarked = [{key: value for key, value in block.items() if key != "cache_control"} for _, block in blocks]
    return {"anthropic": {"blocks": unmarked}} if unmarked else {}


def _output_of(content: Any, where: str) -> str:
    """Return an output as text: texts are joined, null is empty, and any other content is kept as JSON."""
    if content is None:
        return ""
    if isinstance(content, list) and all(isinstance(part, Mapping) and part.get("type") == "text" for part in content):
        return "\n".join(field_of(part, "text", str, where) for part in content)
    return as_text(content, where)


def shape_anthropic_messages(
    messages: Sequence[AnthropicMessage], system: Any = None, *, context_id: str, created_at: float
) -> list[list[ChatItemEvent]]:
    """
    Return the items of the system text, if there is one, and of each message.

    The ids are computed only from `context_id` and the places of the items.

    Raises:
        InvalidInputError: an entry is not a message or block; the error names the message's index, the field, and the
            expected value.
    """
    shaper = AnthropicShaper(context_id)
    first = [] if system is None else [shaper.system_items(system, created_at=created_at)]
    return first + [
        shaper.items_of(index, message, f"messages[{index}]", created_at=created_at)
        for index, message in enumerate(messages)
    ]


class AnthropicShaper:
    """Reads the messages of one source, in the order in which they came."""

    def __init__(self, context_id: str) -> None:
        self._places = _Places(IdsOfPlaces(context_id))
        self._reader = AnthropicReader(self._places)

    def system_items(self, system: Any, *, created_at: float) -> list[ChatItemEvent]:
        """Return the items of a request's system text."""
        return self._shaped(SYSTEM, {"role": SYSTEM, "content": system}, SYSTEM, created_at, {SYSTEM: True}, {})

    def items_of(
        self,
        place: int | str,
        message: Any,
        where: str,
        *,
        created_at: float,
        continues: bool = False,
        source: Mapping[str, Any] | None = None,
    ) -> list[ChatItemEvent]:
        """
        Return the items of the message at `place`.

        With `continues` the message is a continuation of the previous one. `source` is kept beside the first item.
        """
        beside = {"continues": True} if continues else {}
        return self._shaped(place, message, where, created_at, beside, source or {})

    def _shaped(
        self,
        place: int | str,
        message: Any,
        where: str,
        created_at: float,
        beside: Beside,
        source: Mapping[str, Any],
    ) -> list[ChatItemEvent]:
        self._places.go_to(place)
        reader, count = self._reader, len(self._reader.items)
        reader.read_message(message, where)
        items, places = reader.items[count:], reader.places[count:]
        besides = _besides(items, places, message)
        besides[0] = {**beside, **besides[0]}
        starts = "continues" not in beside
        shaped = _with_origins(items, besides, source, created_at, starts=starts, where=where)
        if is_same(message_of(shaped), message):
            return shaped
        besides = [{"role": one["role"]} if "role" in one else {} for one in besides]
        besides[0] |= {**beside, "whole": message, "items": len(items)}
        return _with_origins(items, besides, source, created_at, starts=starts, where=where)


class _Places:
    """A clock and ids for the reader; ids are computed from the place of a message."""

    def __init__(self, ids: IdsOfPlaces) -> None:
        self._ids = ids
        self._place: int | str = 0
        self._part = 0

    def go_to(self, place: int | str) -> None:
        """Go on to the next message."""
        self._place, self._part = place, 0

    def now(self) -> float:
        """Return 0: the caller sets the time of each message."""
        return 0.0

    def new_id(self, prefix: str) -> str:
        """Return the id of the next part of the message."""
        self._part += 1
        return self._ids.made(prefix, self._place, self._part - 1)


def _besides(
    items: Sequence[ChatItemEvent], places: Sequence[Sequence[int]], message: AnthropicMessage
) -> list[Beside]:
    """Return, for each item, the parts of its message that the item does not hold."""
    content, role = message["content"], message["role"]
    others = {name: value for name, value in message.items() if name not in ("role", "content")}
    first = {"message": others} if others else {}
    if isinstance(content, str):
        return [first]
    in_order = [place for some in places for place in some] == list(range(len(content)))
    besides = []
    for item, some in zip(items, places, strict=True):
        beside = _beside_blocks(item, [content[place] for place in some])
        beside |= {} if in_order else {"places": list(some)}
        besides.append(beside if role_of(item) == role else {**beside, "role": role})
    return [{**first, **besides[0]}, *besides[1:]]


def _beside_blocks(item: ChatItemEvent, blocks: Sequence[Any]) -> Beside:
    beside = _form_of_output(blocks[0].get("content")) if isinstance(item, FunctionReturned) else {}
    patches = {
        str(index): patch
        for index, (plain, came) in enumerate(zip(plain_blocks(item, beside), blocks, strict=True))
        if (patch := difference(plain, came))
    }
    return {**beside, "blocks": patches} if patches else beside


def _form_of_output(content: Any) -> Beside:
    if content is None or isinstance(content, str):
        return {}
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return {"texts": [len(part["text"]) for part in content]}
    return {"json": True}


def _with_origins(
    items: Sequence[ChatItemEvent],
    besides: Sequence[Beside],
    source: Mapping[str, Any],
    created_at: float,
    *,
    starts: bool,
    where: str,
) -> list[ChatItemEvent]:
    shaped = []
    for part, (item, beside) in enumerate(zip(items, besides, strict=True)):
        # The first item always records that its source is Anthropic, even if there is nothing else to keep.
        rest = {**source, "anthropic": beside} if part == 0 else {"anthropic": beside} if beside else None
        origin = Origin(starts=starts and part == 0, rest=json_in_order(rest, what=where) if rest is not None else b"")
        shaped.append(msgspec.structs.replace(item, created_at=created_at, origin=origin))
    return shaped
