"""Answers that compare: two versions of a context, and the prompts of a chat with those under another policy."""

from __future__ import annotations

from collections.abc import Sequence

from ...domain.chat.replay import policy_of
from ...domain.errors import InvalidInputError
from ...domain.ids import split_stream_id
from ..context_streams import stream_named
from ..store import Store
from ..views.answer_shapes import difference_shape
from ..views.contexts import ChatItemView, ItemView, RunView, view_at
from ..views.differences import changes_between, graph_difference, side_by_side
from ..views.shapes import Entry, Shape, item_text, replay_shape
from .answers import as_json
from .item_answers import BODY_MAX, body_shape
from .parameters import Parameters


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
        "before": _side(before, olds),
        "after": _side(after, news),
        "tokens": after.tokens - before.tokens,
        "added": [_whole(entry) for entry in changes.added],
        "removed": [_whole(entry) for entry in changes.removed],
        "changed": [{"from": _whole(one), "to": _whole(other)} for one, other in changes.changed],
        "moved": [_whole(entry) for entry in changes.moved],
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
    return {**sides, **difference_shape(graph_difference(before, after), before, after)}


def _whole(entry: Entry) -> Shape:
    """Return an item with its text as it is at that version: a message may have been written piece by piece."""
    text = item_text(entry.item, as_json)
    return {**body_shape(entry.recorded, BODY_MAX), "body": text[:BODY_MAX], "cut": max(0, len(text) - BODY_MAX)}


def _side(view: ItemView, entries: Sequence[Entry]) -> Shape:
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
