"""
From Anthropic messages to items that give them back as they were.

The items are those of `anthropic_items`; what they do not say themselves lies in `Origin.rest` (see
`anthropic_origin`). Each message is rebuilt on the way in; should it ever come out different, it is kept whole, so
that the round trip holds whatever a message looks like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...canonical import canonical_json
from ..events import ChatItemEvent, FunctionReturned, Origin
from .anthropic_items import AnthropicReader
from .anthropic_origin import SYSTEM, AnthropicMessage, Beside, message_of, plain_blocks, role_of
from .json_patch import difference, is_same
from .source_ids import IdsOfPlaces


def shape_anthropic_messages(
    messages: Sequence[AnthropicMessage], system: Any = None, *, context_id: str, created_at: float
) -> list[list[ChatItemEvent]]:
    """
    Return the items of the system text, if there is one, and of each message; their ids follow from `context_id` and
    their place alone.

    Raises:
        InvalidInputError: something is no message or block; the error names the message's index, the field, and
            what was expected there.
    """
    shaper = AnthropicShaper(context_id)
    first = [] if system is None else [shaper.system_items(system, created_at=created_at)]
    return first + [
        shaper.items_of(index, message, f"message {index} (from 0)", created_at=created_at)
        for index, message in enumerate(messages)
    ]


class AnthropicShaper:
    """Goes through the messages of one source, in the order in which they came."""

    def __init__(self, context_id: str) -> None:
        self._places = _Places(IdsOfPlaces(context_id))
        self._reader = AnthropicReader(self._places)

    def system_items(self, system: Any, *, created_at: float) -> list[ChatItemEvent]:
        """Return the items of a request's system text."""
        return self._shaped(SYSTEM, {"role": SYSTEM, "content": system}, SYSTEM, created_at, beside={SYSTEM: True})

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

        With `continues` it goes on with the message before. `source` is kept beside the first item.
        """
        beside = {"continues": True} if continues else {}
        return self._shaped(place, message, where, created_at, beside=beside, source=source or {})

    def _shaped(
        self,
        place: int | str,
        message: Any,
        where: str,
        created_at: float,
        *,
        beside: Beside,
        source: Mapping[str, Any] | None = None,
    ) -> list[ChatItemEvent]:
        self._places.go_to(place)
        reader, count = self._reader, len(self._reader.items)
        reader.read_message(message, where)
        items, places = reader.items[count:], reader.places[count:]
        besides = _besides(items, places, message)
        besides[0] = {**beside, **besides[0]}
        starts = "continues" not in beside
        shaped = _with_origins(items, besides, source or {}, created_at, starts=starts, where=where)
        if is_same(message_of(shaped), message):
            return shaped
        besides = [{"role": one["role"]} if "role" in one else {} for one in besides]
        besides[0] |= {**beside, "whole": message, "items": len(items)}
        return _with_origins(items, besides, source or {}, created_at, starts=starts, where=where)


class _Places:
    """What the reader takes for clock and chance: ids follow from the place it is at."""

    def __init__(self, ids: IdsOfPlaces) -> None:
        self._ids = ids
        self._place: int | str = 0
        self._part = 0

    def go_to(self, place: int | str) -> None:
        """Go on to the next message."""
        self._place, self._part = place, 0

    def now(self) -> float:
        """Return no time in particular: each message has its own."""
        return 0.0

    def new_id(self, prefix: str) -> str:
        """Return the id of the next part of the message."""
        self._part += 1
        return self._ids.made(prefix, self._place, self._part - 1)


def _besides(
    items: Sequence[ChatItemEvent], places: Sequence[Sequence[int]], message: AnthropicMessage
) -> list[Beside]:
    """Return what the items do not say of their message."""
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
        # The first item says that this came from Anthropic, even where it says nothing else.
        rest = {**source, "anthropic": beside} if part == 0 else {"anthropic": beside} if beside else None
        origin = Origin(starts=starts and part == 0, rest=canonical_json(rest, what=where) if rest is not None else b"")
        shaped.append(msgspec.structs.replace(item, created_at=created_at, origin=origin))
    return shaped
