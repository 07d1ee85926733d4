"""
The skeleton of an event: what is left of it when its texts are erased.

It is an event of the same type. Ids, roles, names of functions, call ids, references to other events, numbers and times
stay, so that contexts fold as before, and a request made of them is one that a provider accepts. All texts of people,
models and functions are gone, and so is JSON of unknown shape. An event without any of these is its own skeleton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..canonical import canonical_json, parse_json
from ..chat import events as chat
from ..chat.pieces import erased_tokens
from ..chat.tokens import estimate_tokens
from ..chat.usage import metrics_of, usage_in, usage_of
from ..content import Content, estimated_tokens
from ..log.envelope import NO_META, Event, Meta
from ..memory import events as memory
from ..pool import events as pool
from ..trajectory import events as run
from ..trajectory.nodes import own_fields
from ..window import events as window

ERASED = chat.ERASED_TEXT
NO_ARGUMENTS = "{}"
# The fields of a recorded message that are kept: its type, and how an output belongs to its call.
MESSAGE_FIELDS = ("type", "role", "id", "tool_call_id", "status")
CALL_LISTS = ("tool_calls", "invalid_tool_calls")
CALL_FIELDS = ("id", "name", "type")
NAME_BYTES = 8


class Mask(NamedTuple):
    """
    The names that are erased besides the texts. A `user` is erased wherever an event names the user. With a `salt`, the
    names by which items are found (keys of memories and windows, labels of nodes) become pseudonyms: equal names stay
    equal. `text` takes the place of a text.
    """

    user: str | None = None
    salt: bytes = b""
    text: str = ERASED

    def masked(self, text: object) -> str:
        """Return what takes the place of a text; what is erased already stays so."""
        return ERASED if text == ERASED else self.text

    def name(self, name: str) -> str:
        """Return the name of an item as the skeleton has it."""
        if not self.salt or not name or name.startswith(ERASED):
            return name
        return f"{ERASED} {blake2b(name.encode(), key=self.salt, digest_size=NAME_BYTES).hexdigest()}"

    def person(self, name: str | None) -> str | None:
        """Return the name of somebody who did something, or ERASED if it is the user's."""
        return ERASED if name is not None and name == self.user else name

    def owner(self, name: str | None) -> str | None:
        """Return the owner of a context, or None if it is the user."""
        return None if name == self.user else name


TEXTS = Mask()
S = TypeVar("S", bound=msgspec.Struct)
Rule = Callable[[Any, Mask], Any]


def skeleton_of(event: Event, mask: Mask = TEXTS) -> Event:
    """Return the skeleton of an event; the event itself where nothing in it is to be erased."""
    whole = _WHOLE.get(type(event))
    if whole is not None:
        left: Event = whole(event, mask)
        # Nothing in the texts of a message without any says that it was erased before.
        return event if left == event else left
    return _changed(event, **{name: rule(getattr(event, name), mask) for name, rule in _rules_of(type(event)).items()})


def persons_skeleton(event: Event, mask: Mask) -> Event:
    """Return an event without the name of the mask's user; the event itself where it does not name the user."""
    if mask.user is None:
        return event
    rules = ((name, rule) for name, rule in _rules_of(type(event)).items() if rule in (_masked_user, _owner))
    return _changed(event, **{name: rule(getattr(event, name), mask) for name, rule in rules})


def meta_skeleton(meta: Meta, mask: Mask, *, is_erased: bool) -> Meta:
    """
    Return what is left of the envelope of an event; `is_erased` says whether the event itself loses a text.

    The fingerprint goes with the texts, since it is a hash of them; the actor goes if it is the user. The trace, the
    cause and the idempotency key stay.
    """
    if meta is NO_META:
        return meta
    fingerprint = None if is_erased else meta.fingerprint
    return msgspec.structs.replace(meta, actor=mask.person(meta.actor), fingerprint=fingerprint)


def _changed(event: S, **fields: Any) -> S:
    """Return an event with changed fields, the event itself if they are as before."""
    different = {name: value for name, value in fields.items() if getattr(event, name) != value}
    return msgspec.structs.replace(event, **different) if different else event


def _text(value: str | None, mask: Mask) -> str | None:
    return mask.masked(value) if value else value


def _none(_: object, __: Mask) -> None:
    return None


def _nothing(_: object, __: Mask) -> str:
    return ""


def _no_json(_: object, __: Mask) -> bytes:
    return b""


def _masked_user(value: str | None, mask: Mask) -> str | None:
    return mask.person(value)


def _owner(value: str | None, mask: Mask) -> str | None:
    return mask.owner(value)


def _incomplete(value: str | None, mask: Mask) -> str | None:
    """The reason why a message is incomplete may be the message of an error."""
    return value if value in (None, chat.UNFINISHED) else mask.masked(value)


def _metrics(value: bytes, _: Mask) -> bytes:
    found = parse_json(value) if value else None
    return _usage(usage_in(found)) if isinstance(found, dict) else b""


def _usage(usage: Any) -> bytes:
    kept = metrics_of(None, usage)
    return canonical_json(kept, what="a usage") if kept else b""


# Items of chats


def _item(item: chat.ChatItemEvent | None, mask: Mask) -> chat.ChatItemEvent | None:
    if item is None:
        return None
    left = _item_texts(item, mask)
    if left is item or isinstance(left, chat.ABOUT_CONVERSATION):
        return left
    tokens = estimate_tokens(item)
    if isinstance(left, chat.MessageAdded):
        extra = {**(parse_json(left.extra) or {}), chat.ERASED: tokens}
        return msgspec.structs.replace(left, extra=canonical_json(extra, what="an erased message"))
    return msgspec.structs.replace(left, erased=tokens)


def _item_texts(item: chat.ChatItemEvent, mask: Mask) -> chat.ChatItemEvent:
    origin = item.origin and _changed(item.origin, rest=b"")
    match item:
        case chat.MessageAdded():
            return _message(item, origin, mask)
        case chat.FunctionCalled():
            return _changed(item, arguments=NO_ARGUMENTS, metadata=_usage(usage_of(item)), origin=origin)
        case chat.FunctionReturned():
            return _changed(item, output=mask.masked(item.output) if item.output else "", origin=origin)
        case chat.HandedOff():
            return _changed(item, reason=None, origin=origin)
        case chat.ConfigUpdated():
            instructions = _text(item.instructions, mask)
            return _changed(item, instructions=instructions, tool_schemas=b"", settings=b"", origin=origin)


def _message(item: chat.MessageAdded, origin: chat.Origin | None, mask: Mask) -> chat.MessageAdded:
    # A message that is written piece by piece may begin with no text.
    is_text = bool(item.content) or item.incomplete is not None
    is_parts = isinstance(item.content, tuple) and item.content
    said = ERASED if item.content in (ERASED, (ERASED,)) else mask.text
    content: Any = (said,) if is_parts else said if is_text else item.content
    if erased_tokens(item) is not None:
        # An archived item may be erased later.
        return _changed(item, content=content)
    return _changed(
        item,
        content=content,
        origin=origin,
        extra=canonical_json({"summary": True}, what="a summary") if chat.is_summary(item) else b"",
        metrics=_usage(usage_of(item)),
        audio_instructions=None,
        text_instructions=None,
        incomplete=_incomplete(item.incomplete, mask),
    )


# Items of other kinds


def _content(content: Content, beside: str, mask: Mask) -> Content:
    return Content(text=mask.masked(content.text or ""), erased=estimated_tokens(content, beside))


def _container_item(event: pool.AddedEvent, mask: Mask) -> pool.AddedEvent:
    return _changed(
        event,
        content=_content(event.content, event.description or "", mask),
        description=_text(event.description, mask),
    )


def _remembered(event: memory.MemoryRemembered, mask: Mask) -> memory.MemoryRemembered:
    return _changed(event, key=mask.name(event.key), value=_content(event.value, event.key, mask), tags=())


# Runs


def _bare(value: Any, mask: Mask) -> Any:
    """Return what is left of a value of a node: nothing but whether it is there, true or false."""
    return value if value is None or isinstance(value, bool) else mask.masked(value)


def _node(event: run.NodeEvent, mask: Mask) -> run.NodeEvent:
    given = parse_json(event.fields) or {}
    fields = {name: _bare(given[name], mask) for name in own_fields(run.type_of(event)) if name in given}
    return _changed(
        event,
        label=mask.name(event.label),
        description=_text(event.description, mask),
        fields=canonical_json(fields, what="the fields of a node"),
    )


def _changes(changes: tuple[run.AttributeChange, ...], mask: Mask) -> tuple[run.AttributeChange, ...]:
    return tuple(run.AttributeChange(one.name, _bare_json(one.old, mask), _bare_json(one.new, mask)) for one in changes)


def _bare_json(value: bytes, mask: Mask) -> bytes:
    found = parse_json(value)
    # An empty description is one that is still to be written.
    return value if found == "" else canonical_json(_bare(found, mask), what="a value")


def _record(record: bytes, mask: Mask) -> bytes:
    found: Mapping[str, Any] = parse_json(record)
    left: dict[str, Any] = {name: found[name] for name in MESSAGE_FIELDS if isinstance(found.get(name), str)}
    left["content"] = mask.masked(found["content"]) if found.get("content") else ""
    for name in CALL_LISTS:
        calls = found.get(name)
        if isinstance(calls, list):
            left[name] = [_call(call) for call in calls if isinstance(call, dict)]
    about = found.get("response_metadata")
    usage = metrics_of(None, usage_in(about)) if isinstance(about, dict) else None
    return canonical_json({**left, **({"response_metadata": usage} if usage else {})}, what="a message")


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: call[name] for name in CALL_FIELDS if isinstance(call.get(name), str)}
    function = call.get("function")
    if isinstance(function, dict):
        kept["function"] = {"name": str(function.get("name", "")), "arguments": NO_ARGUMENTS}
    return {**kept, "args": {}} if "args" in call else kept


_WHOLE: dict[type, Rule] = {
    **dict.fromkeys(chat.ITEM_EVENTS, _item),
    **dict.fromkeys((pool.QueueAppended, pool.PoolAdded, pool.PoolReplaced), _container_item),
    memory.MemoryRemembered: _remembered,
    run.QueryRegistered: _node,
    run.NodeRegistered: _node,
}
_REASON: dict[str, Rule] = {"reason": _none}
_DECISION: dict[str, Rule] = {"by": _masked_user, **_REASON}
_ADDED: dict[str, Rule] = {"item": _item}
_PIECE: dict[str, Rule] = {"text": _nothing}
_OWNER: dict[str, Rule] = {"user": _owner}
# The name of a planned step is a sentence of a model as often as the name of a function.
_STEP: dict[str, Rule] = {"name": _text, "params": _no_json}
# By class, for all of its subclasses, too: the fields with texts, and what is left of each. All other fields stay:
# tests/domain/erasure has the list of them.
_FIELDS: dict[type, dict[str, Rule]] = {
    chat.Opened: {**_OWNER, "source": _none, "attributes": _no_json},
    chat.MessageExtended: _PIECE,
    chat.MessageFinished: {**_PIECE, "incomplete": _incomplete, "metrics": _metrics},
    chat.StateSaved: {"value": _no_json},
    **dict.fromkeys((chat.ItemInserted, chat.InstructionsReplaced, chat.Summarized), _ADDED),
    chat.CallChanged: _ADDED | _DECISION,
    chat.ItemsEvicted: _REASON,
    chat.ItemsRestored: _REASON,
    chat.ItemsPinned: _REASON,
    chat.ItemsUnpinned: _REASON,
    chat.Cleared: _REASON,
    **dict.fromkeys((chat.ApprovalRequested, chat.CallApproved, chat.CallRejected), _DECISION),
    chat.Forked: {**_OWNER, "config": _item},
    pool.OpenedEvent: _OWNER,
    pool.BranchedEvent: _OWNER,
    pool.EvictedEvent: {"reason": lambda reason, mask: reason if reason == "limit" else mask.masked(reason)},
    pool.PoolRemoved: _REASON,
    window.WindowOpened: _OWNER,
    window.WindowItemEvent: {"key": lambda key, mask: mask.name(key), "value": _text, "source": _text},
    window.WindowEvicted: _REASON,
    memory.MemoryForgotten: _REASON,
    run.RunOpened: {**_OWNER, "source": _none},
    run.NodeChanged: {"changes": _changes},
    run.NodeRemoved: _REASON,
    run.PortraitWritten: {"description": _text},
    run.PortraitFailed: {"error": _text},
    run.PortraitDiscarded: {"description": _text},
    run.StepQueued: _STEP,
    run.StepRefused: _STEP,
    run.MessageRecorded: {"record": _record},
    run.RunClosed: _REASON,
}


@cache
def _rules_of(kind: type) -> dict[str, Rule]:
    return {name: rule for base in kind.__mro__ for name, rule in _FIELDS.get(base, {}).items()}
