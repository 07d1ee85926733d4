"""
From items to the input of OpenAI's Responses API; the result is always valid.

The rules are those of chat completions. Instructions go beside the input; call ids and the ids of items are unique in
the whole input, as this API requires; outputs follow their calls. Reasoning and other items that were imported from the
API are sent before the item that they preceded, and leave with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from ...chat import events as chat
from ...chat.pairing import pair_calls
from ...errors import MISSHAPEN
from ..openai.send import RESPONSES_ID_MAX, function_name, unique_call_ids
from ..openai.source_shape import grouped, rest_of
from ..send import NO_OUTPUT, Inline, parts_of_output, place_instructions
from .receive import KEPT_KINDS
from .source_shape import (
    LEFT_OUT,
    SHORT_ORIGIN,
    ResponsesItem,
    is_of_api,
    is_sound_item,
    item_as_came,
    left_out,
    message_id,
    plain_item,
    plain_without,
)

REASONING = "reasoning"


def openai_responses_input(items: Iterable[chat.ChatItemEvent]) -> tuple[list[ResponsesItem], str | None]:
    """
    Return (input, instructions) of a request to the Responses API.

    Without items the input is empty, which the API refuses.
    """
    return _Input(list(items)).converted()


class _Input:
    """Collects the input of one request."""

    def __init__(self, items: list[chat.ChatItemEvent]) -> None:
        self._items = items
        self._output_of = pair_calls(items).output_of
        calls = [index for index, item in enumerate(items) if type(item) is chat.FunctionCalled]
        recorded = [items[index].call_id for index in calls]  # type: ignore[union-attr]  # they are calls
        self._call_ids = dict(zip(calls, unique_call_ids(recorded, length_max=RESPONSES_ID_MAX), strict=True))
        self._input: list[ResponsesItem] = []
        self._behind: list[ResponsesItem] = []
        # Entries that are apart, until the item that follows them.
        self._waiting: list[ResponsesItem] = []

    def converted(self) -> tuple[list[ResponsesItem], str | None]:
        """Return the input and the instructions beside it."""
        instructions, in_place = self._instructions()
        for group in grouped(self._items):
            first = self._items[group[0]]
            if isinstance(first, chat.MessageAdded) and (
                first.role not in chat.INSTRUCTION_ROLES or group[0] in in_place
            ):
                self._add(first)
            self._add_exchange([index for index in group if type(self._items[index]) is chat.FunctionCalled])
        sent = _with_unique_ids(filter(is_of_api, [*self._input, *self._waiting, *self._behind]))
        return _without_idle_reasoning(sent), instructions

    def _instructions(self) -> tuple[str | None, set[int]]:
        """If all instructions came from this API, they stay where they were, beside the input or in it."""
        placed = place_instructions(self._items)
        if not placed.as_recorded:
            return placed.text, set()
        spoken = [
            (index, item.content, rest_of(item).get("responses"))
            for index, item in enumerate(self._items)
            if isinstance(item, chat.MessageAdded) and item.role in chat.INSTRUCTION_ROLES
        ]
        if any(beside is None for _, _, beside in spoken):
            return placed.text, set()
        apart = [str(content) for _, content, beside in spoken if beside and beside.get("instructions")]
        in_place = {index for index, _, beside in spoken if not (beside and beside.get("instructions"))}
        return (apart[-1] if apart else None), in_place

    def _add_exchange(self, calls: Sequence[int]) -> None:
        for index in calls:
            self._add(self._items[index], self._call_ids[index])
        last = len(self._items)
        for place, index in sorted((self._output_of.get(index, last), index) for index in calls):
            call_id = self._call_ids[index]
            if place < last:
                self._add(self._items[place], call_id)
            else:
                self._input.append({"type": "function_call_output", "call_id": call_id, "output": NO_OUTPUT})

    def _add(self, item: chat.ChatItemEvent, call_id: str | None = None) -> None:
        if not isinstance(item, chat.Spoken):
            return
        if chat.is_apart(item):
            self._waiting += [entry for entry in entries_of(item) if entry.get("type") in KEPT_KINDS]
            return
        self._input += self._waiting
        self._waiting = []
        beside = rest_of(item).get("responses") if item.origin is not None and item.origin.rest else None
        made = None
        if beside:
            # An origin with a shape that no import creates is ignored.
            with suppress(*MISSHAPEN):
                came = item_as_came(item, beside)
                if not is_of_api(came):
                    # Without what another program or model added; the rest may be more than the item holds.
                    came = {name: value for name, value in came.items() if name not in ("id", "provider_data")}
                before, after = _kept_entries(beside, "before"), _kept_entries(beside, "after")
                made = came if is_sound_item(came) else None
                self._input += before
                self._behind += after
        made = made or _made_anew(item)
        self._input.append(made if call_id is None else {**made, "call_id": call_id})


def entries_of(item: chat.Spoken) -> list[ResponsesItem]:
    """Return the entries of an item as they came from the API, or as they are sent to it if it is from elsewhere."""
    origin = item.origin
    own = origin is None or not origin.apart
    if origin is None or not origin.rest:
        return [_made_anew(item)] if own else []
    is_short = len(origin.rest) <= SHORT_ORIGIN
    if own and is_short and origin.rest.startswith(LEFT_OUT) and (names := left_out(origin.rest)):
        return [plain_without(item, names)]
    beside = rest_of(item).get("responses")
    if beside:
        # `suppress` would cost as much as the rest does, and a session has thousands of entries.
        try:
            came = [item_as_came(item, beside)] if own else []
            return [*_kept_entries(beside, "before"), *came, *_kept_entries(beside, "after")]
        except MISSHAPEN:
            pass
    return [_made_anew(item)] if own else []


def _kept_entries(beside: Any, where: str) -> list[ResponsesItem]:
    """
    Return the entries that are kept before or after an item.

    Raises:
        TypeError: they are not entries.
    """
    if where not in beside:
        return []
    entries = [*beside[where]]
    if not all(isinstance(one, dict) for one in entries):
        raise TypeError(f"what is kept {where} an item has something that is no entry")
    return entries


def _made_anew(item: chat.Spoken) -> ResponsesItem:
    made = plain_item(item, {})
    if type(item) is chat.FunctionCalled:
        made["name"] = function_name(item.name)
    elif type(item) is chat.FunctionReturned and (parts := parts_of_output(item)):
        made["output"] = [_output_part(part) for part in parts if part]
    return made


def _output_part(part: str | Inline) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {"type": "input_image", "image_url": f"data:{part.media_type};base64,{part.data}", "detail": "auto"}


def _with_unique_ids(items: Iterable[ResponsesItem]) -> list[ResponsesItem]:
    """Return the items with unique ids: the API would refuse an item that was imported twice."""
    seen: dict[Any, int] = {}
    kept: list[ResponsesItem] = []
    for item in items:
        known = item.get("id")
        times = seen[known] = seen.get(known, 0) + 1 if known is not None else 0
        if times < 2:
            kept.append(item)
        elif item.get("type") == "message":
            kept.append({**item, "id": message_id(f"{times} {known}")})
        elif item.get("type") in ("function_call", "function_call_output"):
            kept.append({key: value for key, value in item.items() if key != "id"})
    return kept


def _without_idle_reasoning(items: Sequence[ResponsesItem]) -> list[ResponsesItem]:
    """Return the items without reasoning that nothing of the model follows: the API would refuse it."""
    kept: list[ResponsesItem] = []
    is_followed = False
    for item in reversed(items):
        if item.get("type") != REASONING:
            is_followed = item.get("role", "assistant") == "assistant" and item.get("type") != "function_call_output"
        elif not is_followed:
            continue
        kept.append(item)
    return kept[::-1]
