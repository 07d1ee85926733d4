"""
Answers about the items of a context: their texts, those of a version, those that left and why, and their changes; also
those that compare two versions, or the prompts of a chat with those under another policy.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...domain.chat import describe as chats
from ...domain.chat.events import (
    UNFINISHED,
    ChatItemEvent,
    Forked,
    ItemsPinned,
    ItemsUnpinned,
    Merged,
    MessageAdded,
    MessageFinished,
    added_item,
)
from ...domain.chat.pieces import written
from ...domain.chat.replay import policy_of
from ...domain.chat.usage import NO_USAGE, usage_of
from ...domain.clock import exact
from ...domain.errors import DamagedError, InvalidInputError, NotFoundError
from ...domain.ids import split_stream_id
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.memory.events import MemoryRemembered
from ...domain.pool.events import AddedEvent
from ...domain.spans import Ref, refs_of
from ...domain.window.events import WindowItemEvent
from ..context_streams import stream_named
from ..log.codec import tag_of
from ..queries.origins import Item, first_events, id_of, pieces_of
from ..store import Store
from ..views.answer_shapes import difference_shape, gone_shape, transition_shape
from ..views.contexts import ChatItemView, ItemView, RunView, entry_shapes, view_at
from ..views.damage import UnreadableEvent, events_of
from ..views.differences import changes_between, side_by_side
from ..views.shapes import Entry, Shape, describe, item_shape, item_text, replay_shape
from .answers import PAGE_MAX, as_json, item_view
from .parameters import Parameters

# A text is cut to this many characters, unless the question asks for whole texts.
BODY_MAX = 4_000


def items_answer(store: Store, given: Parameters) -> list[Shape]:
    """Return items by their origins, `stream@version`, in the order of the question."""
    if not 1 <= len(given.refs) <= PAGE_MAX:
        raise InvalidInputError(f"{len(given.refs)} items are asked for: ask for 1 to {PAGE_MAX}, each as ref=STREAM@V")
    refs = [item_ref(text) for text in given.refs]
    most = None if given.text("whole") else BODY_MAX
    try:
        found = first_events(store.log, refs)
    except DamagedError:
        return [_body_or_damage(store, ref, most) for ref in refs]
    return [body_shape(with_origin(store.log, found[ref]), most) for ref in refs if ref in found]


def with_origin(log: Log, recorded: RecordedEvent) -> RecordedEvent:
    """Return an event with an item: the merge of an answer has the answer, as its writer left it."""
    event = recorded.event
    if not isinstance(event, Merged) or event.how != "result":
        return recorded
    [origin] = first_events(log, [ref.within(recorded.stream) for ref in refs_of(event.taken)]).values()
    item: object = added_item(origin.event)
    if isinstance(item, MessageAdded) and (pieces := pieces_of(log, origin.stream, origin.version)):
        item = written(item, pieces)
    return msgspec.structs.replace(recorded, event=item)


def _body_or_damage(store: Store, ref: Ref, most: int | None) -> Shape:
    (found,) = events_of(store.log, ref.stream, ref.version - 1, ref.version)
    if isinstance(found, UnreadableEvent):
        return {"ref": str(ref), "speaker": "damaged", "body": f"this event is damaged: {found.error.reason}", "cut": 0}
    return body_shape(found, most)


def item_ref(text: str) -> Ref:
    """Return the event that a text names; raise InvalidInputError if it names none."""
    try:
        return Ref.parse(text)
    except ValueError as error:
        raise InvalidInputError(str(error)) from error


def body_shape(recorded: RecordedEvent, most: int | None) -> Shape:
    """Return an item as it was recorded, with its text; `cut` is the number of characters that were left out."""
    item = _item_of(recorded.event)
    about = {
        "ref": recorded.reference, "at": exact(recorded.recorded_at), "actor": recorded.meta.actor,
        "type": tag_of(recorded.event),
    }  # fmt: skip
    if item is None:
        text = describe(recorded.event).words(as_json)
        return {**about, "speaker": "event", "body": text, "cut": 0}
    text = item_text(item, as_json)
    speaker = getattr(item, "description", None) or id_of(item) or ""
    happened, thoughts, apart = None, "", None
    if isinstance(item, ChatItemEvent):
        speaker, happened, thoughts = chats.speaker_of(item), item.created_at, "\n".join(chats.thoughts_of(item))
        apart = chats.source_entry_type(item)
    return {
        **about,
        "id": id_of(item),
        "speaker": speaker,
        "body": text[:most],
        "cut": max(0, len(text) - most) if most else 0,
        "thoughts": thoughts[:most],
        # The name of an entry that only its source understands.
        "apart": apart,
        "call_id": getattr(item, "call_id", None),
        "name": getattr(item, "name", None),
        "happened_at": happened,
        "usage": _usage_of(item),
        # Whether this is the beginning of a message that was written piece by piece; `pieces` has the rest.
        "grows": getattr(item, "incomplete", None) == UNFINISHED,
    }


def _usage_of(item: Item) -> Shape | None:
    """Return what a provider counted for an item, as far as it is given."""
    usage = usage_of(item) if isinstance(item, ChatItemEvent) else NO_USAGE
    return {name: value for name, value in msgspec.to_builtins(usage).items() if value} or None


def _item_of(event: object) -> Item | None:
    if isinstance(event, AddedEvent | WindowItemEvent | MemoryRemembered):
        return event
    return added_item(event)


def view_answer(store: Store, given: Parameters) -> Shape:
    """Return the items of a context at a version, as `refold show --json` prints them."""
    view = item_view(store, given.required("context"), given.text("version"))
    tail, skip = given.whole("tail", PAGE_MAX, 1, PAGE_MAX), given.whole("skip", 0)
    # One more than is wanted says whether there are more.
    entries = view.entries(tail=tail + 1, skip=skip)
    return {
        "context": view.stream, "version": view.version, "head": view.head, "tokens": view.tokens,
        "settings": view.settings, "more": len(entries) > tail,
        "items": [item_shape(entry) for entry in entries[-tail:]],
    }  # fmt: skip


def left_answer(store: Store, given: Parameters) -> Shape:
    """Return the items that left a context up to a version, the newest departure first, with how and why."""
    limit, skip = given.whole("limit", PAGE_MAX, 1, PAGE_MAX), given.whole("skip", 0)
    view = item_view(store, given.required("context"), given.text("version"))
    shown = view.evicted(tail=limit, skip=skip)[::-1]
    items = entry_shapes((entry for entry, _ in shown), (how for _, how in shown))
    return {"count": view.evicted_count, "more": view.evicted_count > skip + limit, "items": items}


def why_answer(store: Store, given: Parameters) -> Shape:
    """Return whether an item is in the view of a context, and how it left."""
    stream = stream_named(store.log, given.required("context"))
    return gone_shape(store.why_gone(stream, given.required("item")))


def audit_answer(store: Store, given: Parameters) -> list[Shape]:
    """Return every change of a context that holds items, or of one of its items, oldest first."""
    stream = stream_named(store.log, given.required("context"))
    found = store.audit(stream, item=given.text("item"))
    return [transition_shape(one) for one in found]


def pins_answer(store: Store, given: Parameters) -> list[tuple[str, int, int]]:
    """Return the origins of the items that a chat pinned, each from which version to before which; 0 is no end."""
    stream = stream_named(store.log, given.required("context"))
    return _pins(store, stream, store.log.head(stream))


def _pins(store: Store, stream: str, until: int) -> list[tuple[str, int, int]]:
    pins: list[tuple[str, int, int]] = []
    since: dict[str, int] = {}
    for recorded in store.log.read(stream, until=until):
        match recorded.event:
            case Forked(how="full") as forked:
                inherited = _pins(store, forked.parent, forked.version)
                since |= {origin: 1 for origin, _, end in inherited if not end}
            case ItemsPinned(items=spans) | Forked(pinned=spans):
                for ref in refs_of(spans):
                    since.setdefault(str(ref.within(stream)), recorded.version)
            case ItemsUnpinned(items=spans):
                names = (str(ref.within(stream)) for ref in refs_of(spans))
                pins += [(name, since.pop(name), recorded.version) for name in names if name in since]
    return pins + [(name, version, 0) for name, version in since.items()]


def pieces_answer(store: Store, given: Parameters) -> Shape:
    """
    Return the texts of a message that was written piece by piece: its beginning, and each piece with its version.

    The third field of a piece says why the message was incomplete from then on; null, that it was complete.
    """
    ref = item_ref(given.required("event"))
    found = first_events(store.log, [ref]).get(ref)
    message = None if found is None else _item_of(found.event)
    if not isinstance(message, MessageAdded):
        raise NotFoundError(f"no message was added by {ref}")
    pieces = [
        (version, piece.text, piece.incomplete if isinstance(piece, MessageFinished) else UNFINISHED)
        for version, piece in pieces_of(store.log, ref.stream, ref.version)
    ]
    begun = chats.body_of(msgspec.structs.replace(message, incomplete=None))
    last = pieces[-1][2] if pieces else message.incomplete
    return {"begun": begun, "incomplete": message.incomplete, "pieces": pieces, "is_written": last != UNFINISHED}


def diff_answer(store: Store, given: Parameters) -> Shape:
    """Return the items, or the nodes of a run, that differ between two versions, `CONTEXT@VERSION` each."""
    before, after = (view_at(store, given.required(name)) for name in ("before", "after"))
    if isinstance(before, RunView) and isinstance(after, RunView):
        return _graph_diff(before, after)
    if isinstance(before, RunView) or isinstance(after, RunView):
        raise InvalidInputError("a run can be compared with a run only: the others hold items, and no graph")
    olds, news = before.entries(), after.entries()
    changes = changes_between(olds, news)
    return {
        "before": side_shape(before, olds),
        "after": side_shape(after, news),
        "tokens": after.tokens - before.tokens,
        "added": [_whole(store.log, entry) for entry in changes.added],
        "removed": [_whole(store.log, entry) for entry in changes.removed],
        "changed": [{"from": _whole(store.log, one), "to": _whole(store.log, other)} for one, other in changes.changed],
        "moved": [_whole(store.log, entry) for entry in changes.moved],
        # The items of both in one order, by their origins; the page asks for the unchanged ones only to show them.
        "lines": [
            [sort, before and before.recorded.reference, after and after.recorded.reference]
            for sort, before, after in side_by_side(olds, news, changes)
        ],
    }


def _graph_diff(before: RunView, after: RunView) -> Shape:
    sides = {
        name: {"context": view.stream, "version": view.version, "nodes": len(view.run.graph())}
        for name, view in (("before", before), ("after", after))
    }
    return {**sides, **difference_shape(after.run.diff(before.run), before, after)}


def _whole(log: Log, entry: Entry) -> Shape:
    """Return an item with its text as it is at that version: a message may have been written piece by piece."""
    text = item_text(entry.item, as_json)
    shape = body_shape(with_origin(log, entry.recorded), BODY_MAX)
    return {**shape, "body": text[:BODY_MAX], "cut": max(0, len(text) - BODY_MAX)}


def side_shape(view: ItemView, entries: Sequence[Entry]) -> Shape:
    """Return one side of a comparison: a context at a version, with the numbers of its items and tokens."""
    return {"context": view.stream, "version": view.version, "items": len(entries), "tokens": view.tokens}


def replay_answer(store: Store, given: Parameters) -> Shape:
    """Return the calls of a chat with their prompts' tokens, as recorded and under a policy; or both prompts of one."""
    stream = stream_named(store.log, given.required("context"))
    kind, context_id = split_stream_id(stream)
    if kind != "chat":
        raise InvalidInputError(f"{stream} is no chat: only the prompts of a chat are run again")
    policy = given.required("policy")
    chat = store.chat(context_id, create=False)
    replay = chat.replay(policy_of(policy))
    about = {"context": stream, "policy": policy, "version": chat.version}
    call = given.whole("seen", 0)
    if not call:
        return {**about, **replay_shape(replay)}
    view = ChatItemView(store.log, chat, chat.version)
    prompts = {
        name: view.entries_of([item.id for item in replay.seen(call, then=then)])
        for name, then in (("then", True), ("now", False))
    }
    return {
        **about,
        "seen": call,
        **{name: [entry.recorded.reference for entry in entries] for name, entries in prompts.items()},
    }
