"""
From the input or the output of OpenAI's Responses API to items that can be converted back.

Messages, function calls and their outputs become items; data for which items have no field is stored in `Origin.rest`
(see `source_shape`). Reasoning and the calls of tools that run at OpenAI, which contain their results, are kept
unchanged beside the next message or call. Some kinds are valid only together with others, such as the calls and outputs
of a computer. They are refused here: the API would refuse them later if they were separated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ...arguments import has_no_data, require_several
from ...canonical import json_in_order, require_json
from ...chat import events as chat
from ...chat.pairing import is_of_model
from ...clock import REAL_SYSTEM, System
from ...errors import InvalidInputError
from ..openai.receive import MESSAGE_ROLES, refusal_in, role_in
from ..openai.send import is_function_name
from ..receive import Fields, as_plain_data, place_of
from ..source_json import difference, is_same, joined_output
from .source_shape import item_as_came, plain_item

KEPT_KINDS = (
    "reasoning",
    "compaction",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_list_tools",
    "mcp_call",
)
KINDS = ("message", "function_call", "function_call_output", *KEPT_KINDS)
TEXT_PARTS = ("input_text", "output_text")
DETAILS = ("auto", "low", "high")

Beside = dict[str, Any]


def items_from_openai_responses(
    entries: Iterable[Any], instructions: str | None = None, *, system_clock: System, places: Sequence[str] = ()
) -> list[chat.ChatItemEvent]:
    """
    Return the items of a request's `input`, or of a response's `output`, with new ids, all with the same time.

    Entries are plain data or objects of the openai package. `instructions` become a system message in front.
    `openai_responses_input` returns valid entries unchanged, and `instructions` beside them. `places` name the entries
    in errors.

    Raises:
        InvalidInputError: an entry is of a kind that cannot be kept, a field is missing or wrong, or text is not
            Unicode; or there is no item beside which entries of a kept kind can be stored. The error names the entry.
    """
    reader = _Reader(system_clock)
    if instructions is not None:
        reader.instruct(instructions)
    for fields in _read_fields(entries, "entries", places):
        reader.read(fields)
    return reader.finished()


def items_from_session(entries: Iterable[Any]) -> list[chat.ChatItemEvent]:
    """
    Return one item for each entry of a session, whatever its kind; `entries_of` returns each unchanged.

    An entry that is no message, call or output of a shape that this API has is apart.

    Raises:
        InvalidInputError: an entry is no JSON object.
    """
    items: list[chat.ChatItemEvent] = []
    reader = _Reader(REAL_SYSTEM)
    for fields in _read_fields(entries, "items"):
        items.append(reader.item_of(fields, items))
    return items


def _read_fields(entries: Iterable[Any], what: str, places: Sequence[str] = ()) -> Iterator[Fields]:
    for index, entry in enumerate(require_several(entries, f"the {what}")):
        where = place_of(places, what, index)
        plain = as_plain_data(entry)
        require_json(plain, what=where)
        yield Fields(where, plain)


class _Reader:
    """Reads the entries of one request or response, in order."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._at = system.now()
        self._drafts: list[tuple[chat.Spoken, Beside]] = []
        self._kept: list[Any] = []
        self._names: dict[str, str] = {}

    def instruct(self, instructions: str) -> None:
        """Add the instructions of a request."""
        self._drafts.append((self._message("system", instructions), {"instructions": True}))

    def read(self, fields: Fields) -> None:
        """Add the next entry."""
        kind = fields.value.get("type", "message")
        if kind == "message":
            self._read_message(fields)
        elif kind == "function_call":
            self._read_call(fields)
        elif kind == "function_call_output":
            self._read_output(fields)
        elif kind in KEPT_KINDS:
            self._kept.append(fields.value)
        else:
            raise fields.unexpected_value("type", kind, "one of " + ", ".join(KINDS))

    def item_of(self, fields: Fields, before: Sequence[chat.ChatItemEvent]) -> chat.ChatItemEvent:
        """Return the item of a single entry; an entry that cannot be read becomes an item that is apart."""
        self._drafts.clear()
        if fields.value.get("type", "message") not in KEPT_KINDS:
            with suppress(InvalidInputError):
                self.read(fields)
                ((item, beside),) = self._drafts
                if type(item) is chat.FunctionCalled and not is_function_name(item.name):
                    # Without any data beside it, the call would be returned with a name that the API accepts.
                    beside = {"patch": {}, **beside}
                return msgspec.structs.replace(
                    item, origin=chat.Origin(starts=_starts(item, before), rest=_rest_of(item, beside))
                )
        rest = json_in_order({"responses": {"before": [fields.value]}}, what=fields.where)
        return msgspec.structs.replace(self._message("assistant", ()), origin=chat.Origin(rest=rest, apart=True))

    def finished(self) -> list[chat.ChatItemEvent]:
        """Return the items of all entries."""
        if self._kept and not self._drafts:
            kind = self._kept[0].get("type")
            raise InvalidInputError(f"there is no message and no call that the {kind} item could be kept beside")
        if self._kept:
            self._drafts[-1][1]["after"] = self._kept
        items: list[chat.ChatItemEvent] = []
        for item, beside in self._drafts:
            origin = chat.Origin(starts=_starts(item, items), rest=_rest_of(item, beside))
            items.append(msgspec.structs.replace(item, origin=origin))
        return items

    def _draft(self, item: chat.Spoken, beside: Beside, came: Any) -> None:
        patch = difference(plain_item(item, beside), came)
        beside = {**beside, "patch": patch} if patch else beside
        if not is_same(item_as_came(item, beside), came):
            beside = {"patch": {"is": came}}
        if self._kept and not isinstance(item, chat.FunctionReturned):
            beside = {**beside, "before": self._kept}
            self._kept = []
        self._drafts.append((item, beside))

    # Messages

    def _read_message(self, fields: Fields) -> None:
        role = role_in(fields)
        if role not in MESSAGE_ROLES:
            raise fields.unexpected_value("role", role, "one of " + ", ".join(MESSAGE_ROLES))
        content = fields.value.get("content")
        if isinstance(content, str):
            self._draft(self._message(role, content), {}, fields.value)
            return
        parts, foreign = self._parts(fields, "content")
        interrupted = role == "assistant" and fields.value.get("status") == "incomplete"
        message = self._message(role, tuple(parts), interrupted=interrupted)
        self._draft(message, {"parts": foreign} if foreign else {}, fields.value)

    def _message(self, role: str, content: Any, *, interrupted: bool = False) -> chat.MessageAdded:
        return chat.MessageAdded(
            id=self._system.new_id("msg_"), created_at=self._at, role=role, content=content, interrupted=interrupted
        )

    def _parts(self, fields: Fields, name: str) -> tuple[list[str | chat.Image], list[list[Any]]]:
        parts: list[str | chat.Image] = []
        foreign: list[list[Any]] = []
        for index, part in enumerate(self._list(fields, name)):
            known = self._part(part)
            if known is None:
                foreign.append([index, part.value])
            else:
                parts.append(known)
        return parts, foreign

    def _list(self, fields: Fields, name: str) -> list[Fields]:
        listed = fields.value.get(name)
        if not isinstance(listed, list):
            raise fields.unexpected(name, listed, "text or a list of parts")
        return [Fields(fields.where, part, f"{name}[{index}]") for index, part in enumerate(listed)]

    def _part(self, fields: Fields) -> str | chat.Image | None:
        part = fields.value
        if part.get("type") in TEXT_PARTS:
            return fields.text("text")
        if part.get("type") == "refusal":
            return refusal_in(part) or None
        url = part.get("image_url")
        if part.get("type") != "input_image" or not isinstance(url, str) or has_no_data(url):
            return None
        detail = part.get("detail")
        return chat.Image(
            id=self._system.new_id("img_"),
            image=url,
            inference_detail=detail if detail in DETAILS else "auto",
        )

    # Calls and outputs

    def _read_call(self, fields: Fields) -> None:
        call = chat.FunctionCalled(
            id=self._system.new_id("call_"),
            created_at=self._at,
            name=fields.text("name"),
            arguments=fields.text("arguments"),
            call_id=fields.text("call_id"),
        )
        self._names[call.call_id] = call.name
        self._draft(call, {}, fields.value)

    def _read_output(self, fields: Fields) -> None:
        call_id = fields.text("call_id")
        output = fields.value.get("output")
        beside: Beside = {}
        if not isinstance(output, str):
            listed = self._list(fields, "output")
            for part in listed:
                if part.value.get("type") in TEXT_PARTS:
                    part.text("text")
            output, beside = joined_output([part.value for part in listed], TEXT_PARTS)
        returned = chat.FunctionReturned(
            id=self._system.new_id("output_"),
            created_at=self._at,
            name=self._names.get(call_id, ""),
            output=output,
            call_id=call_id,
        )
        self._draft(returned, beside, fields.value)


def _rest_of(item: chat.Spoken, beside: Beside) -> bytes:
    # Instructions from the input always get the mark `responses`, even if it is empty.
    return json_in_order({"responses": beside}, what=item.id) if beside or chat.is_instructions(item) else b""


def _starts(item: chat.Spoken, before: Sequence[chat.ChatItemEvent]) -> bool:
    """Return whether an item begins a message: a call belongs to the answer before it."""
    return not (type(item) is chat.FunctionCalled and before and is_of_model(before[-1]))
