"""
The changes that the page can make, if the server was started for it, and the preview of a merge.

Each change is one of the store's own calls. For a preview the merge is made in a transaction that is rolled back, so
that it is the same merge, and nothing is recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...domain.chat.context import ChatContext
from ...domain.chat.events import ConflictResolved, ItemsEvicted, Merged
from ...domain.errors import InvalidInputError
from ...domain.ids import split_stream_id
from ...domain.log.envelope import acting
from ...domain.spans import Ref, Segment, Span, refs_of
from ..context_streams import context_named
from ..queries.origins import first_events
from ..store import Store
from ..views.contexts import ChatItemView, view_at
from ..views.differences import changes_between
from ..views.shapes import Entry, Shape
from .item_answers import body_shape, side_shape, with_origin
from .jobs import Action, Jobs
from .parameters import Parameters

ACTOR = "inspector"
# The beginning of a text is enough to know an item by.
BODY_MAX = 400
ITEMS_MAX = 100
CONFLICT = "ours, theirs or newest: which side wins where both changed the same; ours if it is left out"
INSTRUCTIONS = "1: take items that set instructions or tools, too"


class _RolledBackError(Exception):
    """Ends the transaction of a preview."""


def preview_answer(store: Store, given: Parameters) -> Shape:
    """Return what a merge would do: the base, what each side did since, what comes in, and the conflicts."""
    target, theirs = _chat(store, given.required("target")), _source(store, given)
    stream = target.stream_id
    ours = ChatItemView(store.log, target, target.version)
    before, there = ours.entries(), theirs.entries()
    events, after = _previewed(store, target, theirs, _options(given))
    merged = next((event for event in events if isinstance(event, Merged)), Merged(source=theirs.stream, version=1))
    taken = _refs([span for placement in merged.placed for span in placement.items], stream)
    leaving = _refs([span for event in events if isinstance(event, ItemsEvicted) for span in event.items], stream)
    known = {entry.recorded.reference for entry in before} | set(map(str, taken))
    return {
        "base": merged.base and {"context": merged.base.stream, "version": merged.base.version},
        "ours": _side(store, ours, before, merged.base),
        "theirs": _side(store, theirs, there, merged.base),
        "taken": _bodies(store, taken),
        "stays_out": _bodies(store, [_ref(one) for one in there if one.recorded.reference not in known]),
        "leaving": _bodies(store, leaving),
        "kept": _bodies(store, _refs(merged.evicted, stream)),
        "conflicts": [_conflict(store, event, stream) for event in events if isinstance(event, ConflictResolved)],
        "result": after,
    }


def _source(store: Store, given: Parameters) -> ChatItemView:
    """
    Return the chat to take from, `CTX` or `CTX@V`, as it was then.

    Raises:
        InvalidInputError: it is no chat, or a range.
    """
    view = view_at(store, given.required("source"))
    if not isinstance(view, ChatItemView):
        raise InvalidInputError(f"{view.stream} is no chat: only chats are merged here")
    return view


def _options(given: Parameters) -> dict[str, Any]:
    return {"on_conflict": given.text("on_conflict") or "ours", "instructions": given.text("instructions") == "1"}


def _chat(store: Store, name: str) -> ChatContext:
    return store.chat(split_stream_id(context_named(store.log, name, ("chat",)))[1], create=False)


def _previewed(
    store: Store, target: ChatContext, source: ChatItemView, options: dict[str, Any]
) -> tuple[Sequence[object], Shape]:
    """Return the events that the merge would record, and the size of the target then."""
    with suppress(_RolledBackError), store.transaction() as changes:
        asyncio.run(target.merge(source.chat, **options))
        events = changes.events_of(target.stream_id)
        after = {"items": len(target.items), "tokens": target.estimated_tokens()}
        raise _RolledBackError
    return events, after


def _side(store: Store, view: ChatItemView, entries: Sequence[Entry], base: Segment | None) -> Shape:
    """Return a side with what it added and removed since the base."""
    about = side_shape(view, entries)
    if base is None:
        return {**about, "added": None, "removed": None}
    changes = changes_between(ChatItemView(store.log, _chat(store, base.stream), base.version).entries(), entries)
    return {
        **about,
        "added": _bodies(store, [_ref(one) for one in changes.added]),
        "removed": _bodies(store, [_ref(one) for one in changes.removed]),
    }


def _ref(entry: Entry) -> Ref:
    return Ref(entry.recorded.version, entry.recorded.stream)


def _refs(spans: Sequence[Span], stream: str) -> list[Ref]:
    return [ref.within(stream) for ref in refs_of(spans)]


def _conflict(store: Store, event: ConflictResolved, stream: str) -> Shape:
    sides = {name: _bodies(store, _refs(getattr(event, name), stream)) for name in ("ours", "theirs")}
    return {"kind": event.kind, "rule": event.rule, "kept": event.kept, **sides}


def _bodies(store: Store, refs: Sequence[Ref]) -> Shape:
    """Return items by their origins, the first ones with their texts, and how many there are."""
    found = first_events(store.log, refs[:ITEMS_MAX])
    items = [with_origin(store.log, found[ref]) for ref in refs[:ITEMS_MAX] if ref in found]
    return {"count": len(refs), "items": [body_shape(item, BODY_MAX) for item in items]}


def _fork(jobs: Jobs, given: Parameters) -> Shape:
    chat = _chat(jobs.store, given.required("context"))
    version = given.whole("version", chat.version, 1)
    with acting(actor=given.text("actor") or ACTOR):
        child = (chat if version == chat.version else chat.at(version)).fork(given.required("name"))
    return {"context": child.stream_id, "version": child.version}


def _merge(jobs: Jobs, given: Parameters) -> Shape:
    """Merge a chat into another one; with `version` only if that is still the newest version of the target."""
    store = jobs.store
    target, expected = _chat(store, given.required("target")), given.whole("version", 0) or None
    with acting(actor=given.text("actor") or ACTOR):
        asyncio.run(target.merge(_source(store, given).chat, expected_version=expected, **_options(given)))
    return {"context": target.stream_id, "version": target.version}


def _decide(jobs: Jobs, given: Parameters) -> Shape:
    chat = _chat(jobs.store, given.required("context"))
    call, decision = given.required("call_id"), given.required("decision")
    decide = {"approve": chat.approvals.approve, "reject": chat.approvals.reject}.get(decision)
    if decide is None:
        raise InvalidInputError(f"the decision is {decision!r}: give approve or reject")
    decide(call, by=given.text("actor") or ACTOR, because=given.text("because"))
    return {"context": chat.stream_id, "version": chat.version}


CHANGES: dict[str, Action] = {
    "fork": Action(
        _fork, "Fork a chat at a version.",
        {"context": "the chat", "version": "the version; the newest one if it is left out", "name": "the new chat's id",
         "actor": "who does it"},
    ),
    "merge": Action(
        _merge, "Merge a chat into another one.",
        {"source": "the chat to take from, at a version as `chat:side@3`", "target": "the chat to change",
         "on_conflict": CONFLICT, "instructions": INSTRUCTIONS, "actor": "who does it",
         "version": "refuse it unless this is still the newest version of the target"},
    ),
    "decide": Action(
        _decide, "Approve or reject a call.",
        {"context": "the chat", "call_id": "the call", "decision": "approve or reject", "because": "why",
         "actor": "who does it"},
    ),
}  # fmt: skip
