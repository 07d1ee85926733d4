"""
Conversations in documents of other programs: ATIF, GenAI messages of OpenTelemetry, ShareGPT, Responses items, Gemini.

A message that was imported is written as it came. A document is read again, to find what it has no place for.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from ...domain.arguments import require_path
from ...domain.canonical import json_in_order, parse_json
from ...domain.chat.events import ChatItemEvent, Image, Opened, Origin, Spoken
from ...domain.chat.state.sequence import Items
from ...domain.chat.view import ChatView
from ...domain.context.description import counted
from ...domain.errors import InvalidInputError
from ...domain.formats.atif import ANYONE, AtifForm
from ...domain.formats.documents import DocumentForm, Documents, GeminiForm, OtelForm, ShareGptForm
from ...domain.formats.messages import dialect_of, named_outputs
from ...domain.formats.openai.source_shape import rest_of
from ...domain.formats.receive import Fields, IdsOfPlaces
from ...domain.formats.responses.receive import items_from_session
from ...domain.formats.responses.send import entries_of
from ...domain.log.gate import leaving
from ...domain.log.ports import LiveLog
from ..frameworks.conversation import Conversation, Message, ViewMessage
from .event_files import writing_file

TranscriptForm = Literal["atif", "otel", "sharegpt", "responses", "gemini"]
TRANSCRIPT_FORMS: tuple[TranscriptForm, ...] = get_args(TranscriptForm)
NEW_FORM: dict[str, Callable[[], DocumentForm]] = {
    "atif": AtifForm,
    "otel": OtelForm,
    "sharegpt": ShareGptForm,
    "gemini": GeminiForm,
}
RESPONSES_TYPE = re.compile(r"message|reasoning|item_reference|compaction|\w+_call(_output)?")
_KINDS = {"HandedOff": "handoff", "ConfigUpdated": "config update"}
_NOTHING_BEFORE = Items()
# Fields that a document has under other names, or in another place.
_NOT_COMPARED = ("origin", "until")
_DECODED = ("extra", "metrics", "metadata")


class ResponsesForm(Documents):
    """The items of the Responses API: each is a message of its own."""

    name = "responses"
    fields = ("input", "output", "instructions")

    def is_document(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value is a request with a list, or an answer."""
        has_list = any(isinstance(entry.get(name), list) for name in ("input", "output"))
        return has_list and "role" not in entry and "type" not in entry

    def is_message(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value is an item that no other API has."""
        is_known = RESPONSES_TYPE.fullmatch(str(entry.get("type", "message"))) is not None
        return is_known and dialect_of(entry) == "responses"

    def messages_in(self, document: Mapping[str, Any]) -> list[Message]:
        """Return the instructions as a message, then the items."""
        given, asked = document.get("instructions"), document.get("input")
        listed = {
            **document,
            "instructions": [{"role": "system", "content": given}] if isinstance(given, str) and given else given,
            "input": [{"role": "user", "content": asked}] if isinstance(asked, str) and asked else asked,
        }
        fields = Fields("a document", {name: value or None for name, value in listed.items()})
        return [message for name in ("instructions", "input", "output") for message in fields.several(name)]

    def document(self, messages: Sequence[Message], context_id: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the input of a request."""
        return {"id": context_id, **attributes, "input": list(messages)}


def document_form(name: str) -> Documents:
    """Return a form for one conversation."""
    return ResponsesForm() if name == "responses" else NEW_FORM[name]()


def form_of(entries: Sequence[Any]) -> TranscriptForm | None:
    """Return the form of the entries of a file, if they are documents or messages of one of these forms."""
    objects = [entry for entry in entries if isinstance(entry, dict)]
    if any("messages" in entry or "traj" in entry for entry in objects):
        return None
    for name in TRANSCRIPT_FORMS:
        form = document_form(name)
        if any(map(form.is_document, objects)) or any(map(form.is_message, objects)):
            return name
    return None


def groups_of(name: str, messages: Sequence[Any], context_id: str = "") -> list[list[ChatItemEvent]]:
    """
    Return the items of each message of a conversation; with `context_id` their ids are the same at every import.

    Raises:
        InvalidInputError: an entry is no message of this form.
    """
    for number, message in enumerate(messages):
        Fields(f"messages[{number}]", message)
    conversation: Conversation | None = None
    if name == "responses":
        groups = [[item] for item in _with_mark(items_from_session(messages))]
    else:
        conversation = Conversation(NEW_FORM[name]())
        groups = conversation.items_of(messages)
    named = iter(named_outputs([item for group in groups for item in group], _NOTHING_BEFORE))
    groups = [[next(named) for _ in group] for group in groups]
    if not context_id:
        return groups
    ids = IdsOfPlaces(context_id)
    renamed = []
    for place, group in enumerate(groups):
        made = [ids.made(item.id.partition("_")[0] + "_", place, part) for part, item in enumerate(group)]
        if conversation is None or not group:
            renamed.append([msgspec.structs.replace(item, id=one) for item, one in zip(group, made, strict=True)])
        else:
            renamed.append(conversation.with_ids(group, made))
    return renamed


def _with_mark(items: list[ChatItemEvent]) -> list[ChatItemEvent]:
    """Return items of the Responses API, one of them marked: fields beside them go only into documents of this form."""
    if items and not any(item.origin is not None and item.origin.rest for item in items):
        items[0] = msgspec.structs.replace(
            items[0], origin=Origin(rest=json_in_order({"responses": {}}, what="an item"))
        )
    return items


def messages_of(name: str, items: Sequence[ChatItemEvent]) -> list[ViewMessage]:
    """Return the messages of items in a form, each with the ids of its items."""
    if name != "responses":
        form = NEW_FORM[name]()
        return Conversation(form, form.grouped).kept(items)
    spoken = [(end, item) for end, item in enumerate(items, 1) if isinstance(item, Spoken)]
    return [ViewMessage(entry, (item.id,), end, is_own=True) for end, item in spoken for entry in entries_of(item)]


class Transcript(NamedTuple):
    """A chat as a document, and what of it the document has no place for, in words."""

    document: dict[str, Any]
    lost: tuple[str, ...]


def transcript_of(chat: ChatView[Any], form: TranscriptForm) -> Transcript:
    """
    Return a chat, as it is in its view, as a document of this form.

    Raises:
        InvalidInputError: the chat has nothing that the form has a place for.
    """
    made = _transcript_of(chat, form)
    if made is None:
        raise InvalidInputError(f"{chat.id} has no message that {form} has a place for: add one, or leave it out")
    return made


def _transcript_of(chat: ChatView[Any], form: TranscriptForm) -> Transcript | None:
    items = list(chat.recorded_items())
    kept = messages_of(form, items)
    if not kept:
        return None
    attributes, lost = _attributes_of(chat, form), []
    if "final_metrics" in attributes and not _is_as_imported(chat, items):
        attributes = {name: value for name, value in attributes.items() if name != "final_metrics"}
        lost = ["final_metrics, because the chat is not the one that was imported"]
    whole = document_form(form)
    document = whole.document([one.message for one in kept], chat.id, attributes)
    again = groups_of(form, whole.messages_in(document))
    return Transcript(document, (*lost, *_lost(items, kept, again)))


def export_transcripts(
    log: LiveLog,
    path: str | os.PathLike[str],
    chats: Iterable[ChatView[Any]],
    form: TranscriptForm,
    *,
    skip_empty: bool = False,
) -> dict[str, tuple[str, ...]]:
    """
    Write chats into a file, which is replaced as a whole, as JSON Lines; one chat is one JSON document.

    Return for each chat what the form has no place for. The key is the chat's id; for a second version, `ID@VERSION`.

    Raises:
        InvalidInputError: a chat has nothing that the form has a place for, unless those are skipped; or the file
            cannot be written, and stays as it was.
    """
    lost: dict[str, tuple[str, ...]] = {}
    with writing_file(require_path(path), log) as file:
        for chat in chats:
            made = _transcript_of(chat, form) if skip_empty else transcript_of(chat, form)
            if made is None:
                continue
            lost[chat.id if chat.id not in lost else f"{chat.id}@{chat.version}"] = made.lost
            file.write(msgspec.json.encode(leaving(made.document, log)) + b"\n")
    return lost


def _attributes_of(chat: ChatView[Any], form: str) -> dict[str, Any]:
    """Return the fields beside the messages: of the document from which a chat was imported, else the chat's agent."""
    opened = chat.history(until=1)[0].event
    # An import marks one item, which may have left the view since.
    held = chat._state.items
    known = (held.item_table.items[place] for place in range(held.reach))
    is_of_form = any(item.origin is not None and item.origin.rest and form in rest_of(item) for item in known)
    if is_of_form and isinstance(opened, Opened):
        return parse_json(opened.attributes) or {}
    return {"agent": {**ANYONE, "name": opened.agent}} if form == "atif" and opened.agent else {}


def _is_as_imported(chat: ChatView[Any], items: Sequence[ChatItemEvent]) -> bool:
    return len(items) == chat._state.items.reach and all(item.origin is not None for item in items)


def _lost(
    items: Sequence[ChatItemEvent], kept: Sequence[ViewMessage], again: Sequence[Sequence[ChatItemEvent]]
) -> list[str]:
    """Return what is not the same in the items of the messages that were read `again`."""
    known = {item.id: item for item in items}
    counts: Counter[str] = Counter()
    compared: set[str] = set()
    for one, group in zip(kept, again, strict=True):
        for item_id, after in zip(one.item_ids, [*group, *([None] * len(one.item_ids))], strict=False):
            if item_id not in compared:
                compared.add(item_id)
                counts.update(_changed(known[item_id], after))
    left_out = Counter(_KINDS.get(type(item).__name__, "item") for item in items if item.id not in compared)
    whole = [counted(count, kind) for kind, count in left_out.items()]
    return whole + [f"{field} of {counted(count, 'item')}" for field, count in sorted(counts.items())]


def _changed(before: ChatItemEvent, after: ChatItemEvent | None) -> list[str]:
    if type(before) is not type(after):
        return ["kind"]
    names = [name for name in before.__struct_fields__ if name not in _NOT_COMPARED]
    return [name for name in names if not _is_in(_plain(before, name), _plain(after, name))]


def _is_in(before: Any, after: Any) -> bool:
    """Return whether a value is the same; an object may have more, as the model of an answer with each of its calls."""
    return bool(before == after) or (isinstance(before, dict) and {**after, **before} == after)


def _plain(item: Any, name: str) -> Any:
    value = getattr(item, name)
    if name in _DECODED:
        return parse_json(value) if value else {}
    if name == "content":
        parts = (value,) if isinstance(value, str) else value
        return [part.image if isinstance(part, Image) else part for part in parts if part != ""]
    if name == "created_at":
        return round(value, 6)
    return value
