"""
Items, events and contexts in the shapes of JSON, as the command line prints them and the page gets them; events also
in words.

The shapes are stable. A field may be added; none changes its meaning or is removed. Times are UTC with microseconds.
Positions are text, which may only be compared for equality. An unknown value is null.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import msgspec

from ...domain.canonical import parse_json
from ...domain.chat import describe as chats
from ...domain.chat.events import ChatItemEvent, FunctionCalled
from ...domain.chat.pairing import Approval
from ...domain.clock import exact, within_years
from ...domain.content import Content, plain_content
from ...domain.context.description import Change, WriteJson, place_of
from ...domain.erasure import events as erasures
from ...domain.kinds import EVERY_KIND, Folder
from ...domain.log.envelope import Event, RecordedEvent
from ...domain.memory.events import MemoryRemembered
from ...domain.moments import StoreCopied, describe_copy
from ...domain.pool.describe import text_of
from ...domain.pool.events import AddedEvent
from ...domain.spans import Ref, Span
from ...domain.window.events import WindowItemEvent
from ..log.codec import tag_of
from ..queries.origins import Item

if TYPE_CHECKING:
    from ...domain.chat.replay import Replay
    from ...projections.catalogue import CatalogueRow

# In microseconds: an item that is older than its record by more than this has two times.
OLDER = 60 * 1_000_000
# The numbers of each call of a replay, and of all its calls together.
REPLAY_FIELDS = ("tokens_then", "tokens_now", "cached_then", "cached_now")
Shape = dict[str, Any]


class Entry(NamedTuple):
    """
    An item as it is shown, the event that added it, the context that shows it (a stream), whether it is pinned, and
    whether it is a call without an output. `approval` is that of a call.
    """

    item: Item
    recorded: RecordedEvent
    shown_in: str
    is_pinned: bool = False
    is_pending: bool = False
    approval: Approval | None = None

    @property
    def happened_at(self) -> int:
        """The time of an item of a chat, or else the time when it was recorded, in microseconds since 1970, UTC."""
        if isinstance(self.item, ChatItemEvent):
            return int(within_years(self.item.created_at) * 1_000_000)
        return self.recorded.recorded_at

    @property
    def is_older(self) -> bool:
        """Whether an item happened long before it was recorded, as items of an import did."""
        return self.recorded.recorded_at - self.happened_at > OLDER

    @property
    def place(self) -> str:
        """The place where it was added, in the form of an address: `@3`, or `other@3` for another context."""
        return place_of(Ref(self.recorded.version, self.recorded.stream), self.shown_in)


def context_shape(row: CatalogueRow) -> Shape:
    """Return a context of the list for JSON: its owner, its length, and its last change."""
    return {
        "id": row.id,
        "kind": row.kind,
        "version": row.version,
        "items": row.items,
        "turns": row.turns,
        "tokens": row.tokens,
        "user": row.user or None,
        "session": row.session or None,
        "agent": row.agent or None,
        "source": row.source or None,
        "parent": row.parent or None,
        "opened_at": exact(row.opened_at),
        "changed_at": exact(row.changed_at),
        "changed_by": row.changed_by or None,
    }


def item_shape(entry: Entry) -> Shape:
    """
    Return an item for JSON, with the stream and version where it was added.

    The stream differs from that of the shown context if the item came with a fork or a merge.
    """
    recorded = entry.recorded
    return {
        "version": recorded.version,
        "stream": recorded.stream,
        "position": str(recorded.position),
        "recorded_at": exact(recorded.recorded_at),
        "actor": recorded.meta.actor,
        # Only items of a chat can be pinned.
        **({"pinned": entry.is_pinned} if isinstance(entry.item, ChatItemEvent) else {}),
        **(_call_shape(entry) if isinstance(entry.item, FunctionCalled) else {}),
        "item": plain_item(entry.item),
    }


def _call_shape(entry: Entry) -> Shape:
    return {"pending": entry.is_pending, "approval": approval_shape(entry.approval)}


def approval_shape(approval: Approval | None) -> Shape | None:
    """Return the approval of a call for JSON: its state, by whom, why, and the version of the event."""
    return None if approval is None else msgspec.structs.asdict(approval)


def replay_shape(replay: Replay) -> Shape:
    """Return the calls of a replay and their sums for JSON."""
    sums = {"calls": len(replay.calls), **{field: getattr(replay, field) for field in REPLAY_FIELDS}}
    return {"calls": [call._asdict() for call in replay.calls], "sums": sums}


def named_shape(ref: Ref, stream: str, item_id: str | None) -> dict[str, Any]:
    """Return the name of an item of the context `stream` for JSON: stream and version of its origin, and its id."""
    full = ref.within(stream)
    return {"stream": full.stream, "version": full.version, "id": item_id}


def envelope_shape(recorded: RecordedEvent) -> Shape:
    """Return where and when an event was recorded, by whom and because of what."""
    meta = recorded.meta
    return {
        "position": str(recorded.position),
        "stream": recorded.stream,
        "version": recorded.version,
        "recorded_at": exact(recorded.recorded_at),
        "actor": meta.actor,
        "correlation_id": meta.correlation_id,
        "causation": meta.causation,
    }


def event_shape(recorded: RecordedEvent) -> Shape:
    """Return an event with its envelope; `type` is its stored tag, `event` has its fields, defaults left out."""
    return {
        **envelope_shape(recorded),
        "idempotency_key": recorded.meta.idempotency_key,
        "type": tag_of(recorded.event),
        "event": plain_fields(recorded.event, recorded.stream),
        "digest": recorded.digest.hex(),
    }


def plain_fields(event: Any, stream: str = "") -> dict[str, Any]:
    """
    Return an event of `stream` as plain data, without the fields that have their default.

    Items are named by the stream and version that added them: `versions` are ranges, both ends included.
    """
    named = ((name, getattr(event, name), default, is_binary) for name, default, is_binary in _fields(event.__class__))
    return {
        name: value.hex() if is_binary else _plain(value, stream)
        for name, value, default, is_binary in named
        if value != default
    }


def describe(event: Event) -> Change:
    """Return the change that an event made to its context; an event of no known kind is described by its fields."""
    of_kind = _describing().get(type(event))
    return Change(lambda write: write(plain_fields(event))) if of_kind is None else of_kind(event)


@cache
def _describing() -> dict[type[Event], Callable[[Any], Change]]:
    """Return by type of event the function that describes it."""
    folders = [*(kind.folder() for kind in EVERY_KIND), Folder(erasures.ErasureEvent, erasures.describe)]
    by_type = {event_type: folder.describe for folder in folders for event_type in get_args(folder.events)}
    return {**by_type, StoreCopied: describe_copy}


@cache
def _fields(event_type: Any) -> tuple[tuple[str, Any, bool], ...]:
    """
    Return the fields of an event type, each with its default, and whether it has bytes that are no JSON.

    Cached, because reading them takes longer than all else.
    """
    fields = msgspec.structs.fields(event_type)
    return tuple((field.name, field.default, field.type is bytes) for field in fields)


def _plain(value: Any, stream: str) -> Any:
    if isinstance(value, Span):
        versions = [[run.start, run[-1]] for run in value.ranges()]
        return {"stream": value.stream or stream, "versions": versions}
    if isinstance(value, Ref):
        return {"stream": value.stream or stream, "version": value.version}
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        # An item in an event is one of several types.
        return {**({"type": str(tag)} if tag else {}), **plain_fields(value, stream)}
    if isinstance(value, bytes):
        # The other bytes, whose fields have an annotation, are canonical JSON of any form.
        return parse_json(value)
    if isinstance(value, tuple | list):
        return [_plain(inner, stream) for inner in value]
    return value


def item_text(item: Item, write: WriteJson) -> str:
    """Return the text of an item, in full; `write` writes what is no text as JSON."""
    match item:
        case AddedEvent(content=content) | MemoryRemembered(value=content):
            return text_of(content, write)
        case WindowItemEvent(value=value):
            return value
        case _:
            return chats.body_of(item)


def plain_item(item: Item) -> dict[str, Any]:
    """
    Return an item as plain data. An item of a chat is as in `ChatContext.to_dict()`; contents and values are their
    JSON, next to the name of their class.
    """
    match item:
        case AddedEvent():
            return {"id": item.id, "description": item.description, **_content_shape("content", item.content)}
        case WindowItemEvent():
            return {"key": item.key, "value": item.value, "source": item.source, "priority": item.priority}
        case MemoryRemembered():
            times = {"timestamp": exact(item.first_at), "updated_at": exact(item.at)}
            about = {"kind": item.kind, "tags": list(item.tags)}
            return {"key": item.key, **_content_shape("value", item.value), **about, **times}
        case _:
            # Imported here: the models of items need pydantic.
            from ...domain.chat.item_conversion import item_of
            from ...domain.chat.items import items_to_dict

            plain: dict[str, Any] = items_to_dict([item_of(item)])["items"][0]
            return plain


def _content_shape(name: str, content: Content) -> dict[str, Any]:
    return {name: plain_content(content), f"{name}_type": content.type or None}
