"""
The events of a chat context.

A tag is kept for ever. A field is never renamed, retyped or reused, and a new field has a default. Open JSON is stored
as `bytes` in its canonical form. Items are events: an added item is stored once, here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, TypeGuard

import msgspec

from ..canonical import parse_json
from ..context.decider import VersionNamed
from ..errors import InvalidInputError
from ..log.admission import JsonObject, StreamName, Total, VersionNumber, one_of
from ..log.envelope import TaggedEvent
from ..spans import Ref, Segment, Span
from ..totals import Totals
from .roles import ROLES

# The text in the place of one that was erased, and the key of `extra` of such a message.
ERASED_TEXT, ARCHIVED_TEXT, ERASED = "[erased]", "[archived]", "erased"
# The number of items in `tail`: more than a page or the end of a prompt shows.
TAIL_ITEMS = 64
INSTRUCTION_ROLES = ("system", "developer")
# The reason why a message is incomplete while it is being written, or after its writer ended without finishing it.
UNFINISHED = "its writer has not finished it"


# `gc=False` throughout: frozen structs that hold only values cannot be part of a cycle, and a long history loads
# markedly faster when the garbage collector does not visit every event.
class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """
    The shape of an imported item at its source, so that it can be exported unchanged.

    `starts` is true for the first item of a source message. `rest` is canonical JSON of the parts that the items do not
    hold: see `source_shape` of each provider in `refold.domain.formats`. An item that is `apart` is an entry that only
    its source understands, such as reasoning: other providers are not sent it.
    """

    starts: bool = True
    rest: JsonObject = b""
    apart: bool = False


class Image(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An image part: `image` is a URL or a data URL; `encode_options` is canonical JSON or empty."""

    id: str
    image: str
    inference_detail: Annotated[str, one_of("auto", "high", "low")] = "auto"
    encode_options: JsonObject = b""

    def require_admissible(self) -> None:
        """Raise InvalidInputError if it cannot be shown as an image."""
        # Imported here: the models of items need pydantic.
        from .items import image_fault

        options = {"encode_options": parse_json(self.encode_options)} if self.encode_options else {}
        fault = image_fault({"id": self.id, "image": self.image, **options})
        if fault is not None:
            raise InvalidInputError(f"the image {self.id!r} cannot be one: {fault}")


class Opened(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="chat.opened.v1"):
    """The context was created. `attributes` is canonical JSON of further data from its source."""

    user: str | None = None
    session: str | None = None
    agent: str | None = None
    source: str | None = None
    attributes: JsonObject = b""


class _ItemEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """Base of the events that add an item; `created_at` is in seconds since 1970, UTC."""

    id: str
    created_at: float
    agent_id: str | None = None
    origin: Origin | None = None


class MessageAdded(_ItemEvent, frozen=True, kw_only=True, gc=False, tag="chat.message_added.v1"):
    """
    A message: text, or parts of text and images.

    `incomplete` says why it is not complete. A message that is written piece by piece begins so; pieces follow in
    events of their own. `until`, the version of the last of them, is not stored: the fold sets it.
    """

    role: Annotated[str, one_of(*ROLES)]
    content: str | tuple[str | Image, ...]
    interrupted: bool = False
    extra: JsonObject = b""
    confidence: float | None = None
    metrics: JsonObject = b""
    audio_instructions: str | None = None
    text_instructions: str | None = None
    incomplete: str | None = None
    until: VersionNumber = 0

    @property
    def parts(self) -> tuple[str | Image, ...]:
        """The content as parts: a text is one."""
        return (self.content,) if isinstance(self.content, str) else self.content


class FunctionCalled(_ItemEvent, frozen=True, kw_only=True, gc=False, tag="chat.function_called.v1"):
    """The model asked for a function; `arguments` is the model's own text. `erased` as for an output."""

    name: str
    arguments: str
    call_id: str
    metadata: JsonObject = b""
    erased: Total | None = None


class FunctionReturned(_ItemEvent, frozen=True, kw_only=True, gc=False, tag="chat.function_returned.v1"):
    """
    A function answered, or failed.

    `call_item_id` is the id of the call's item, if the output answers another call than its place among equal call ids
    says. If its texts were erased, `erased` is the number of tokens that the item counted, and goes on counting.
    """

    name: str
    output: str
    call_id: str
    is_error: bool = False
    call_item_id: str | None = None
    erased: Total | None = None


class HandedOff(_ItemEvent, frozen=True, kw_only=True, gc=False, tag="chat.handed_off.v1"):
    """Control went from one agent to another."""

    to_agent: str
    from_agent: str | None = None
    reason: str | None = None


class ConfigUpdated(_ItemEvent, frozen=True, kw_only=True, gc=False, tag="chat.config_updated.v1"):
    """
    The configuration changed during the conversation; None leaves that part unchanged.

    `tool_schemas` is canonical JSON of the definitions of `tools` that were given, by name. `settings` is canonical
    JSON of what else a request has, by name, such as `model`; a null unsets a setting.
    """

    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    tool_schemas: JsonObject = b""
    settings: JsonObject = b""


class MessageExtended(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="chat.message_extended.v1"):
    """Text was added to a message of this context that is written piece by piece."""

    item: Ref
    text: str
    change: Totals = Totals()


class MessageFinished(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="chat.message_finished.v1"):
    """
    The last piece of a message was written; `incomplete` says why more should have come, None that it is complete.

    `tokens` is the estimate of the whole message. Its role and its agent are repeated, so that it can be counted
    without the event that began it.
    """

    item: Ref
    role: Annotated[str, one_of(*ROLES)]
    text: str = ""
    incomplete: str | None = None
    agent_id: str | None = None
    metrics: JsonObject = b""
    tokens: Total = 0
    change: Totals = Totals()


class Named(VersionNamed, frozen=True, kw_only=True, gc=False, tag="chat.named.v1"):
    """A version of a chat was named."""


class StateSaved(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="chat.state_saved.v1"):
    """
    A framework saved data of its own beside the items, such as a checkpoint; the view is as before.

    `framework` names it, and `key` the data: the same key again replaces what was saved before. `value` is canonical
    JSON; empty: what was saved is deleted.
    """

    framework: str
    key: str
    value: JsonObject = b""


# The items that a model speaks or reads. The others are about the conversation: no provider is sent one as an item, and
# the instructions and tools of a changed configuration are sent apart.
Spoken = MessageAdded | FunctionCalled | FunctionReturned
ABOUT_CONVERSATION = (HandedOff, ConfigUpdated)
ChatItemEvent = MessageAdded | FunctionCalled | FunctionReturned | HandedOff | ConfigUpdated
# A snapshot has the kind of each item as its index here.
ITEM_EVENTS: tuple[type[ChatItemEvent], ...] = ChatItemEvent.__args__
# For loops over all items: to look a type up takes a tenth of the time of `isinstance` with a union, 130 ns less.
WITH_CALL_ID = frozenset({FunctionCalled, FunctionReturned})


# Events that change which items are in the view. They name items and never copy them; `change` is the growth of the
# view (negative if it shrinks), so that totals can be kept without reading an item.


class _ViewEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """
    Base of the events that change which items are in the view.

    `tail` names the last items in the view after the event, in order: all of them, or `TAIL_ITEMS`. With it the end of
    a long and often edited context can be read without its beginning. None: the event does not name them.
    """

    tail: tuple[Span, ...] | None = None


class ItemInserted(_ViewEvent, frozen=True, kw_only=True, gc=False, tag="chat.item_inserted.v1"):
    """An item was inserted directly before another one."""

    item: ChatItemEvent
    before: Ref


class InstructionsReplaced(_ViewEvent, frozen=True, kw_only=True, gc=False, tag="chat.instructions_replaced.v1"):
    """A system message took the place of the first one, and all other system messages left the view."""

    item: MessageAdded
    before: Ref
    replaced: tuple[Span, ...]
    change: Totals


class ItemsEvicted(_ViewEvent, frozen=True, kw_only=True, gc=False, tag="chat.items_evicted.v1"):
    """Items left the view; `how` is the call that did it: `evict`, `truncate`, `merge` or `change`."""

    items: tuple[Span, ...]
    change: Totals
    how: str = "evict"
    reason: str | None = None


class ItemsRestored(_ViewEvent, frozen=True, kw_only=True, gc=False, tag="chat.items_restored.v1"):
    """Items that had left the view are back in their places."""

    items: tuple[Span, ...]
    change: Totals
    reason: str | None = None


class ItemsPinned(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="chat.items_pinned.v1"):
    """Items were pinned: they stay in the view until they are unpinned."""

    items: tuple[Span, ...]
    reason: str | None = None


class ItemsUnpinned(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="chat.items_unpinned.v1"):
    """Items were unpinned: they may leave the view again."""

    items: tuple[Span, ...]
    reason: str | None = None


class ApprovalRequested(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="chat.approval_requested.v1"):
    """A call waits for a person's approval; `by` asked for it."""

    call: Ref
    by: str | None = None
    reason: str | None = None


class CallApproved(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="chat.call_approved.v1"):
    """A person allowed a call to run as the model made it."""

    call: Ref
    by: str
    reason: str | None = None


class CallRejected(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="chat.call_rejected.v1"):
    """A person forbade a call to run. The output after this event says so to the model."""

    call: Ref
    by: str
    reason: str | None = None


class CallChanged(_ViewEvent, frozen=True, kw_only=True, gc=False, tag="chat.call_changed.v1"):
    """A person allowed a call to run with other arguments: a call with these took the place of the model's."""

    item: FunctionCalled
    before: Ref
    replaced: tuple[Span, ...]
    change: Totals
    by: str
    reason: str | None = None


class Cleared(_ViewEvent, frozen=True, kw_only=True, gc=False, tag="chat.cleared.v1"):
    """All items left the view, pinned ones too."""

    change: Totals
    reason: str | None = None


class Summarized(_ViewEvent, frozen=True, kw_only=True, gc=False, tag="chat.summarized.v1"):
    """A summary took the place of the items that it summarises; `before` is the first item that was kept."""

    item: MessageAdded
    before: Ref
    folded: tuple[Span, ...]
    change: Totals
    model: str | None = None


class SummaryUndone(_ViewEvent, frozen=True, kw_only=True, gc=False, tag="chat.summary_undone.v1"):
    """A summary left the view, and the items that it summarised are back."""

    summary: Ref
    items: tuple[Span, ...]
    change: Totals


class Extent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An item that was written piece by piece, as it is with the pieces up to a version of its stream."""

    item: Ref
    until: VersionNumber


class Forked(_ViewEvent, frozen=True, kw_only=True, gc=False, tag="chat.forked.v1"):
    """
    The context was created as a child of `parent` at `version`, whose past it keeps.

    `lineage` has all ancestors, the root first and the parent last, each up to the version that counts here. `carried`
    names the items that were carried over, in their order here; None means all, unchanged. `config` is an item of the
    child itself; it is there if the carried items would not leave the same instructions and tools in force. `root`
    decides the slice. `change` is the total of the items with which the child begins. `extents` are those of carried
    items that were written piece by piece.
    """

    STREAM_FIELDS: ClassVar[tuple[str, ...]] = ("parent",)

    parent: StreamName
    version: VersionNumber
    lineage: tuple[Segment, ...]
    root: str
    how: str = "full"
    carried: tuple[Span, ...] | None = None
    pinned: tuple[Span, ...] = ()
    config: ConfigUpdated | None = None
    change: Totals = Totals()
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    extents: tuple[Extent, ...] = ()


class Placement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The place of items that a merge added: directly before an item, or (None) at the end."""

    before: Ref | None
    items: tuple[Span, ...]


class Merged(_ViewEvent, frozen=True, kw_only=True, gc=False, tag="chat.merged.v1"):
    """
    Another context, `source` at `version`, was merged into this one.

    `how` is `full`, `result` (only its last answer) or `summary` (the message after this event summarises it). `placed`
    names the merged items, `told` the summarised ones. `evicted` names items that the other side had evicted since
    `base`, the last version that both share; they stay here. The merged items got `agent_id`. `extents` are those of
    merged items that were written piece by piece.
    """

    STREAM_FIELDS: ClassVar[tuple[str, ...]] = ("source",)

    source: StreamName
    version: VersionNumber
    how: str = "full"
    base: Segment | None = None
    placed: tuple[Placement, ...] = ()
    told: tuple[Span, ...] = ()
    evicted: tuple[Span, ...] = ()
    agent_id: str | None = None
    change: Totals = Totals()
    extents: tuple[Extent, ...] = ()

    @property
    def taken(self) -> tuple[Span, ...]:
        """The merged items, place after place."""
        return tuple(span for placement in self.placed for span in placement.items)


class ConflictResolved(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="chat.conflict_resolved.v1"):
    """
    In a merge both sides had changed the same thing: `kind` is `config` or `summary`.

    `rule` is the caller's choice (`ours`, `theirs`, `newest`), `kept` the side that it chose.
    """

    STREAM_FIELDS: ClassVar[tuple[str, ...]] = ("source",)

    kind: str
    source: StreamName
    ours: tuple[Span, ...]
    theirs: tuple[Span, ...]
    rule: str
    kept: str


ViewEvent = (
    ItemInserted
    | InstructionsReplaced
    | ItemsEvicted
    | ItemsRestored
    | CallChanged
    | Cleared
    | Summarized
    | SummaryUndone
    | Forked
    | Merged
)
VIEW_EVENTS = ViewEvent.__args__
EditEvent = ViewEvent | ItemsPinned | ItemsUnpinned | ApprovalRequested | CallApproved | CallRejected | ConflictResolved
Piece = MessageExtended | MessageFinished
PIECES = Piece.__args__
OtherEvent = Opened | Piece | Named | StateSaved | EditEvent
ChatEvent = ChatItemEvent | OtherEvent


def added_item(event: object) -> ChatItemEvent | None:
    """Return the item that an event created, or None: a merge or a restoration only shows an item again."""
    if isinstance(event, ITEM_EVENTS):
        return event
    if isinstance(event, ItemInserted | InstructionsReplaced | CallChanged | Summarized):
        return event.item
    return event.config if isinstance(event, Forked) else None


def extents_of(items: Iterable[tuple[Ref, ChatItemEvent]]) -> tuple[Extent, ...]:
    """Return the extents of those items, given with their names, that were written piece by piece."""
    messages = ((ref, item.until) for ref, item in items if isinstance(item, MessageAdded))
    return tuple(Extent(ref, until) for ref, until in messages if until)


def with_agent(item: ChatItemEvent, agent_id: str) -> ChatItemEvent:
    """Return an item as a new one with another agent's id."""
    return msgspec.structs.replace(item, agent_id=agent_id, **({"until": 0} if isinstance(item, MessageAdded) else {}))


def is_instructions(item: ChatItemEvent) -> bool:
    """Return whether an item is a system or developer message."""
    return isinstance(item, MessageAdded) and item.role in INSTRUCTION_ROLES


def sets_config(item: ChatItemEvent) -> bool:
    """Return whether an item sets instructions, tools or settings."""
    # Asked of every item at each conversion: to compare types is faster than `is_instructions`.
    return type(item) is ConfigUpdated or (type(item) is MessageAdded and item.role in INSTRUCTION_ROLES)


def is_summary(item: ChatItemEvent) -> bool:
    """Return whether an item is a message that summarises others, by its `extra["summary"]`."""
    if not isinstance(item, MessageAdded) or b'"summary"' not in item.extra:
        return False
    return bool(parse_json(item.extra).get("summary"))


def is_apart(item: ChatItemEvent) -> bool:
    """Return whether an item is an entry that only its source understands."""
    return item.origin is not None and item.origin.apart


def is_user(item: object) -> TypeGuard[MessageAdded]:
    """Return whether an item is a message of the user, which begins a turn."""
    return isinstance(item, MessageAdded) and item.role == "user"
