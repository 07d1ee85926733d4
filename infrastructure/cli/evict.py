"""`refold evict`: items leave the view."""

from __future__ import annotations

from typing import Any

import click

from ...domain.chat.calls.eviction import Eviction
from ...domain.errors import InvalidInputError
from .addresses import existing, opened
from .changes import items, named_items, note, report
from .naming import counted
from .options import actor, as_json, changing, database, reason


@click.command("evict")
@click.argument("context", metavar="CTX", callback=existing)
@items(required=True)
@reason
@actor
@database
@as_json
def command(context: str, items: tuple[str, ...], reason: str | None, actor: str, location: str, as_json: bool) -> None:
    """
    Take items out of the view of CTX; `refold restore` brings them back.

    ITEM is an id, or the @version that `refold show` prints beside an item. A call goes together with its output.
    A provider keeps the beginning of a prompt that it has seen, so what is evicted last costs least.

    With --json: {context, kind, version, item_ids, tokens_removed, first_changed_item, first_changed_message,
    tokens_kept}; the latter three say where the prompt is another one now, and how much of it stays as it was before.
    """
    with changing(location, actor) as store:
        chat = opened(store, context)
        named = named_items(chat, items)
        pinned = {*chat.pinned_ids()}.intersection(named)
        if pinned:
            raise InvalidInputError(
                f"item {min(pinned)!r} of chat:{chat.id} is pinned: `refold unpin {chat.id} {min(pinned)}` lets it go"
            )
        eviction = chat.evict(named, reason=reason)
        report(chat, _sentence(eviction), _shape(eviction), as_json=as_json)
    if not eviction.item_ids:
        note("what was named had left the view before: nothing was changed")
    elif len(eviction.item_ids) > len(named):
        note("calls and outputs leave together, so more left than was named")


def _shape(eviction: Eviction) -> dict[str, Any]:
    return {
        "item_ids": eviction.item_ids,
        "tokens_removed": eviction.tokens_removed,
        "first_changed_item": eviction.first_changed_item,
        "first_changed_message": eviction.first_changed_message,
        "tokens_kept": eviction.tokens_kept,
    }


def _sentence(eviction: Eviction) -> str:
    gone = f"{counted(len(eviction.item_ids), 'item')} evicted, about {eviction.tokens_removed:,} tokens"
    if not eviction.item_ids:
        return gone
    return (
        f"{gone}; the prompt changes from message {eviction.first_changed_message} (from 0) on, about "
        f"{eviction.tokens_kept:,} tokens before it can still come from the provider's cache"
    )
