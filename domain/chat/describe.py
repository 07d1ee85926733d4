"""The events of a chat in words and as data, and the text of its items."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ..arguments import is_data_url
from ..canonical import parse_json
from ..context.description import (
    ITSELF,
    Change,
    Fact,
    Left,
    because,
    counted,
    in_pairs,
    joined,
    named,
    named_version,
    place_of,
    places_of,
    sized,
    source_of,
)
from ..log.envelope import Event
from ..spans import refs_of, span_of
from . import events as chat
from .pairing import APPROVAL_STATES

FORKS = {"full": "everything", "filtered": "the last turns", "brief": "nothing", "copy": "a copy"}


# By type and not by `match`, which is slower: the fold of a chat asks for every edit.
_LEFT_BY: dict[type[Event], Callable[[Any], Left]] = {
    chat.ItemsEvicted: lambda event: Left(event.items, event.how, event.reason),
    chat.InstructionsReplaced: lambda event: Left(event.replaced, "replace"),
    chat.Summarized: lambda event: Left(event.folded, "summarize"),
    chat.SummaryUndone: lambda event: Left((span_of(event.summary),), "undo_summary"),
    chat.Cleared: lambda event: Left(None, "clear", event.reason),
    chat.CallChanged: lambda event: Left(event.replaced, "change", event.reason),
}
# The types of blocks and items with which providers and frameworks return thinking, the fields that say the type, those
# of the text, and the text for thinking that was encrypted.
THOUGHTS = ("thinking", "redacted_thinking", "reasoning", "text_reasoning")
SORT_FIELDS = ("type", "part_kind", "block_type")
THOUGHT_FIELDS = ("thinking", "reasoning", "text", "content")
HIDDEN = "(encrypted)"
# The fields of an entry that say nothing to people, what is left out of a picture in one, and how much of it is shown.
HIDDEN_FIELDS = frozenset({"type", "id", "status", "encrypted_content"})
# No colon before the comma: a text of many such beginnings would be searched to its end from each of them.
DATA_URL = re.compile(r"(data:[^:;,\"]*;base64,)[^\"]*", re.IGNORECASE)
ENTRY_CHARACTERS = 1_000


def left_by(event: Event) -> Left | None:
    """Return which items left the view with an event, or None."""
    left = _LEFT_BY.get(type(event))
    return None if left is None else left(event)


def describe(event: chat.ChatEvent) -> Change:
    """Return the effect of an event on a chat."""
    if isinstance(event, chat.ChatItemEvent):
        return Change(lambda _: text_with_role(event), adds_item=True)
    match event:
        case chat.Opened():
            about = {"user": event.user, "session": event.session, "agent": event.agent, "source": event.source}
            opened: dict[str, Any] = {name: value for name, value in about.items() if value is not None}
            opened |= {"attributes": parse_json(event.attributes)} if event.attributes else {}
            return Change(lambda _: in_pairs(**about), opened=opened)
        case chat.Named():
            return named_version(event.name, event.version)
        case chat.StateSaved(framework=framework, key=key, value=value):
            did = "saved" if value else "deleted"
            return Change(lambda _: f"{framework} {did} {key}")
        case chat.MessageExtended(item=item, text=text):
            return Change(lambda _: f"{place_of(item)} goes on: {text}")
        case chat.MessageFinished(item=item, text=text, incomplete=reason):
            end = "is complete" if reason is None else f"is incomplete: {reason}"
            facts = (Fact("incomplete", chat.UNFINISHED, reason, item),)
            return Change(lambda _: joined([f"{place_of(item)} {end}", text]), facts=facts)
        case _:
            return _edited(event)


def _edited(event: chat.EditEvent) -> Change:
    left = left_by(event)
    match event:
        case chat.ItemInserted(item=item):
            return Change(lambda _: f"before {place_of(event.before)}: {_spoken_line(item)}", adds_item=True)
        case chat.InstructionsReplaced(item=item, replaced=items):
            return Change(lambda _: f"in the place of {named(items)}: {_spoken_line(item)}", left=left, adds_item=True)
        case chat.ItemsEvicted(items=items, how=how, reason=reason):
            by = f"by {how}" if how != "evict" else ""
            return Change(
                lambda _: joined([named(items), sized(event.change), by, because(reason)]),
                left=left,
                reason=reason or (how if by else None),
            )
        case chat.ItemsRestored(items=items, reason=reason):
            return Change(
                lambda _: joined([named(items), sized(event.change), because(reason)]), came=items, reason=reason
            )
        case chat.ItemsPinned(items=items, reason=reason) | chat.ItemsUnpinned(items=items, reason=reason):
            is_so = isinstance(event, chat.ItemsPinned)
            pins = tuple(Fact("pinned", not is_so, is_so, ref, reason=reason) for ref in refs_of(items))
            return Change(lambda _: joined([named(items), because(reason)]), facts=pins)
        case chat.ApprovalRequested() | chat.CallApproved() | chat.CallRejected() | chat.CallChanged():
            return _decided(event)
        case chat.Cleared(change=change, reason=reason):
            return Change(
                lambda _: joined([counted(-change.items, "item"), sized(change), because(reason)]),
                left=left,
                reason=reason,
            )
        case chat.Summarized(item=item, folded=items):
            by = f"by {event.model}" if event.model else ""
            return Change(lambda _: f"{joined([named(items), by])}: {_spoken_line(item)}", left=left, adds_item=True)
        case chat.SummaryUndone(items=items):
            return Change(
                lambda _: f"{named(items)} back in the place of the summary {place_of(event.summary)}",
                left=left,
                came=items,
            )
        case chat.Forked():
            return _forked(event)
        case chat.Merged():
            return _merged(event)
        case chat.ConflictResolved():
            return _resolved(event)


def _decided(event: chat.ApprovalRequested | chat.CallApproved | chat.CallRejected | chat.CallChanged) -> Change:
    """Return the change by a request of an approval, or by a decision: an attribute of the call."""
    by = f"by {event.by}" if event.by else ""
    if isinstance(event, chat.CallChanged):
        fact = Fact("approval", new=f"changed {by}", ref=ITSELF, name=event.item.id, reason=event.reason)
        return Change(
            lambda _: f"{joined([named(event.replaced), by, because(event.reason)])}: {_spoken_line(event.item)}",
            facts=(fact,),
            left=left_by(event),
            adds_item=True,
            reason=joined([f"changed {by}", event.reason or ""]),
        )
    fact = Fact("approval", new=f"{APPROVAL_STATES[type(event)]} {by}".strip(), ref=event.call, reason=event.reason)
    return Change(lambda _: joined([f"call {place_of(event.call)}", by, because(event.reason)]), facts=(fact,))


def _forked(event: chat.Forked) -> Change:
    carried = FORKS.get(event.how, event.how)
    if event.carried:
        carried += f": {named(event.carried)}"
    config = "instructions and tools in force" if event.config else ""
    return Change(
        lambda _: joined([f"from {source_of(event.parent, event.version)}", carried, config]),
        opened={"parent": f"{event.parent}@{event.version}", "how": event.how},
        adds_item=event.config is not None,
    )


def _merged(event: chat.Merged) -> Change:
    taken = event.taken
    base = source_of(event.base.stream, event.base.version) if event.base else ""
    source = source_of(event.source, event.version)

    def words(_: object) -> str:
        if event.how == "summary":
            return f"{source}, {named(event.told)} in a summary"
        return joined([
            source,
            "its result" if event.how == "result" else "",
            named(taken) if taken else "no items",
            f"since {base}" if base else "",
            f"stays here though evicted there: {named(event.evicted)}" if event.evicted else "",
        ])  # fmt: skip

    # With another agent's id the item is a new one, which this event created.
    adds_item = bool(event.agent_id and taken)
    merged = Fact("merged", new=f"{event.source}@{event.version}")
    return Change(words, facts=(merged,), adds_item=adds_item, came=() if adds_item else taken)


def _resolved(event: chat.ConflictResolved) -> Change:
    sides = f"ours {places_of(event.ours)}, theirs {places_of(event.theirs)}"
    return Change(
        lambda _: f"{event.kind}: {event.kept} kept, as {event.rule!r} wants it; {sides}",
        facts=(Fact(f"conflict of {event.kind}", new=event.kept, reason=f"the rule {event.rule!r}"),),
    )


def speaker_of(item: chat.ChatItemEvent) -> str:
    """Return the role of a message, or the kind of an item that has no role."""
    match item:
        case chat.MessageAdded(role=role):
            return role
        case chat.FunctionCalled():
            return "call"
        case chat.FunctionReturned(is_error=is_error):
            return "error" if is_error else "output"
        case chat.HandedOff():
            return "handoff"
        case chat.ConfigUpdated():
            return "config"


def body_of(item: chat.ChatItemEvent) -> str:
    """Return the text of an item, in full."""
    match item:
        case chat.MessageAdded(parts=parts, incomplete=reason):
            texts = [part if isinstance(part, str) else _image(part) for part in parts]
            sort = source_entry_type(item)
            texts[:0] = [] if sort is None else [f"[{sort}, for its source only]", *_entry_texts(item)]
            return "\n".join(texts if reason is None else [*texts, f"[incomplete: {reason}]"])
        case chat.FunctionCalled(name=name, arguments=arguments):
            return f"{name}({arguments})"
        case chat.FunctionReturned(name=name, output=output):
            return f"{name or '(unknown function)'}: {output}"
        case chat.HandedOff(from_agent=source, to_agent=target, reason=reason):
            return f"{source or '(nobody)'} -> {target}" + (f": {reason}" if reason else "")
        case chat.ConfigUpdated(instructions=instructions, tools=tools):
            texts = [] if instructions is None else [f"instructions: {instructions}"]
            texts += [] if tools is None else [f"tools: {', '.join(tools) or '(none)'}"]
            texts += [f"tool schemas: {item.tool_schemas.decode()}"] if item.tool_schemas else []
            settings = parse_json(item.settings) if item.settings else {}
            return "\n".join([*texts, *(f"{name}: {_value(value)}" for name, value in settings.items())])


def source_entry_type(item: chat.ChatItemEvent) -> str | None:
    """Return what an entry that only its source understands is called there, as `reasoning`; None for other items."""
    if not chat.is_apart(item):
        return None
    kept = [_first_part(one) for one in _rest_of(item).values()]
    objects = [*_objects(kept), *_objects(_beside(item))]
    sorts = [sort for one in objects if (sort := _entry_type_in(one)) is not None]
    # Thinking of Pydantic AI is kept without its type, and no other entry without a type has a text.
    is_signed = any("signature" in one for one in objects)
    has_text = bool(thoughts_of(item)) or (isinstance(item, chat.MessageAdded) and bool(item.content))
    unnamed = "thinking" if is_signed or has_text else "entry"
    return next((sort for sort in sorts if sort in THOUGHTS), sorts[0] if sorts else unnamed)


def is_thinking(item: chat.ChatItemEvent) -> bool:
    """Return whether an item is thinking that is kept apart, in front of the message or the calls it led to."""
    return source_entry_type(item) in THOUGHTS


def _entry_texts(item: chat.ChatItemEvent) -> Iterator[str]:
    """Yield the fields of an entry of the Responses API, as of a tool that the provider ran; not of thinking."""
    for entry in _list(_object(_rest_of(item).get("responses")).get("before")):
        if isinstance(entry, dict) and entry.get("type") not in THOUGHTS:
            fields = {name: value for name, value in entry.items() if name not in HIDDEN_FIELDS and value}
            text = DATA_URL.sub(r"\1…", _value(fields)) if fields else ""
            yield from [text if len(text) <= ENTRY_CHARACTERS else f"{text[:ENTRY_CHARACTERS]}…"] if text else ()


def _first_part(kept: Any) -> Any:
    """Return what is kept of the first part of a message, without that of the parts behind it."""
    changed = _object(_object(_object(kept).get("patch")).get("in"))
    parts = _object(changed.get("parts")).get("in")
    return kept if parts is None else _object(parts).get("0")


def _entry_type_in(kept: dict[str, Any]) -> str | None:
    """Return the type that an object names; in a patch, the type that replaces the plain one."""
    for name in SORT_FIELDS:
        found = kept.get(name)
        found = found.get("is") if isinstance(found, dict) else found
        if isinstance(found, str):
            return found
    return None


def _beside(item: chat.ChatItemEvent) -> dict[str, Any]:
    """Return what a provider's answer had that a message or a call has no field for."""
    match item:
        case chat.MessageAdded(extra=kept) | chat.FunctionCalled(metadata=kept):
            return _object(parse_json(kept))
        case _:
            return {}


def _rest_of(item: chat.ChatItemEvent) -> dict[str, Any]:
    return _object(parse_json(item.origin.rest)) if item.origin else {}


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in plain JSON, the outer ones first."""
    waiting = deque([value])
    while waiting:
        one = waiting.popleft()
        if isinstance(one, dict):
            yield one
        waiting.extend(one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())


def _value(setting: object) -> str:
    return setting if isinstance(setting, str) else json.dumps(setting, ensure_ascii=False)


def text_with_role(item: chat.ChatItemEvent) -> str:
    """Return the text of an item; a message follows its role, because the type of its event does not name the role."""
    prefix = f"{item.role}: " if isinstance(item, chat.MessageAdded) else ""
    thoughts = thoughts_of(item)
    return prefix + body_of(item) + (f" (thinking: {' '.join(thoughts)})" if thoughts else "")


def thoughts_of(item: chat.ChatItemEvent) -> list[str]:
    """Return the thinking of a model that its provider returned with a message or a call; HIDDEN if it is encrypted."""
    if not isinstance(item, chat.MessageAdded | chat.FunctionCalled):
        return []
    kept, rest = _beside(item), _rest_of(item)
    # An entry for its source only is kept in a form of its own, or in that of the Responses API.
    around = [*_objects(rest)] if chat.is_apart(item) else [*_blocks_beside(rest)]
    blocks = [*_list(_object(kept.get("anthropic")).get("blocks")), *around]
    parts = [*_list(_object(kept.get("google")).get("parts")), *around]
    given = [_object(rest.get("whole") or _object(rest.get("message")).get("set"))]
    given += [_object(_object(_object(one.get("patch")).get("set")).get("additional_kwargs")) for one in _kept_in(rest)]
    said: list[Any] = [
        _reasoning_text(block) for block in blocks if isinstance(block, dict) and _entry_type_in(block) in THOUGHTS
    ]
    said += [part.get("text") for part in parts if isinstance(part, dict) and part.get("thought")]
    said += [one.get(name) for one in given for name in ("reasoning_content", "reasoning")]
    return [thought for thought in said if isinstance(thought, str) and thought]


def _blocks_beside(rest: dict[str, Any]) -> Iterator[Any]:
    """Yield what the Responses API has beside a message, and the blocks of a framework's message that holds more."""
    responses = _object(rest.get("responses"))
    yield from (*_list(responses.get("before")), *_list(responses.get("after")))
    for kept in _kept_in(rest):
        changed = _object(_object(kept.get("patch")).get("in"))
        content = _object(changed.get("content"))
        parts = _object(_object(content.get("in")).get("parts"))
        for blocks in (content, parts, changed.get("contents"), changed.get("blocks")):
            yield from _list(_object(blocks).get("is"))


def _kept_in(rest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what each form keeps beside an item."""
    return [kept for kept in rest.values() if isinstance(kept, dict)]


def _reasoning_text(block: dict[str, Any]) -> str:
    said = next((block[name] for name in THOUGHT_FIELDS if isinstance(block.get(name), str)), None)
    if said is not None:
        return str(said)
    texts = [_object(part).get("text") for part in (*_list(block.get("summary")), *_list(block.get("content")))]
    return "\n".join(text for text in texts if isinstance(text, str)) or HIDDEN


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _spoken_line(item: chat.ChatItemEvent) -> str:
    return f"{speaker_of(item)}: {body_of(item)}"


def _image(image: chat.Image) -> str:
    # A data URL holds the whole picture as text, which a reader cannot use.
    shown = image.image.partition(",")[0] + ",…" if is_data_url(image.image) else image.image
    return f"[image {shown}]"
