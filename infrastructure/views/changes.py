"""
Changes of chats, as programs outside make them: the items that they name, and the result in the shapes of JSON.

The command line prints these shapes, and a server for agents answers with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

from ...domain.chat.context import ChatContext
from ...domain.chat.events import ConflictResolved, Merged
from ...domain.chat.state.sequence import Items
from ...domain.context.context import Context
from ...domain.errors import NotFoundError
from ...domain.ids import split_stream_id
from ...domain.spans import Ref
from ...domain.totals import Totals
from .shapes import Shape

if TYPE_CHECKING:
    from ...domain.chat.eviction import Eviction

# `@3`, or `other@3`: where an item was added. No context has versions of more digits.
PLACE = re.compile(r"(.*)@([0-9]{1,18})", re.DOTALL)


def named_items(chat: ChatContext, names: Iterable[str]) -> list[str]:
    """
    Return the ids of items that are named by their ids, or by where they were added: `@3`, `other@3`.

    Raises:
        NotFoundError: the context never held one of them.
    """
    held = chat.recorded_items()
    found = {name: _ordinal(chat, held, name) for name in names}
    for name, ordinal in found.items():
        if ordinal is None:
            raise NotFoundError(
                f"{chat.stream_id} has no item {name!r}: `refold show {quote(chat.stream_id)} --ids` lists them, with "
                "--evicted those that left the view"
            )
    return [held.item_table.items[ordinal].id for ordinal in found.values() if ordinal is not None]


def _ordinal(chat: ChatContext, held: Items, name: str) -> int | None:
    if (by_id := held.named(name)) is not None:
        return by_id
    refs = places(chat.stream_id, name)
    own = (Ref(ref.version) if ref.stream == chat.stream_id else ref for ref in refs)
    return next((found for ref in own if (found := held.of_ref(ref)) is not None), None)


def places(stream: str, name: str) -> list[Ref]:
    """Return where an item of a context was added by a name like `@3` or `other@3`; none if it is no such name."""
    place = PLACE.fullmatch(name)
    if place is None:
        return []
    context, version = place.groups()
    # An id may look as if it began with a kind, so both readings are tried.
    streams = [f"{split_stream_id(stream)[0]}:{context}", context] if context else [stream]
    return [Ref(int(version), one) for one in streams]


def after(chat: ChatContext, version: int, kind: type[Any]) -> list[Any]:
    """Return the events of a type that were added to a context after `version`."""
    return [one.event for one in chat.history(after=version) if isinstance(one.event, kind)]


def changed_shape(context: Context[Any], shape: Shape) -> Shape:
    """Return the result of a change for JSON: the context, its version, and the fields of `shape`."""
    return {"context": context.id, "kind": context.stream_kind, "version": context.version, **shape}


def evicted_shape(eviction: Eviction) -> Shape:
    """Return what an eviction took out of the view, and where the prompt is another one now."""
    return {
        "item_ids": eviction.item_ids,
        "tokens_removed": eviction.tokens_removed,
        "first_changed_item": eviction.first_changed_item,
        "first_changed_message": eviction.first_changed_message,
        "tokens_kept": eviction.tokens_kept,
    }


def forked_shape(parent: str, version: int, how: str, held: Totals) -> Shape:
    """Return the parent of a fork, a stream, and what the fork holds."""
    return {
        "parent": {"context": split_stream_id(parent)[1], "version": version},
        "how": how,
        "items": held.items,
        "tokens": held.tokens,
    }


def merged_shape(
    source: Context[Any], how: str, merged: Sequence[Merged], conflicts: Sequence[ConflictResolved]
) -> Shape:
    """Return what a merge of chats took from its source, at the version that was merged."""
    items, tokens = (sum(getattr(one.change, name) for one in merged) for name in ("items", "tokens"))
    return {
        "source": {"context": source.id, "version": merged[-1].version if merged else source.version},
        "how": how,
        "items": items,
        "tokens": tokens,
        "conflicts": [{"kind": one.kind, "rule": one.rule, "kept": one.kept} for one in conflicts],
    }
