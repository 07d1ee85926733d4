"""`refold queue remove` and `refold pool remove`: items leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ....domain.pool.commands import Evict, Remove
from ....domain.pool.container import Container
from ....domain.pool.items import Held
from ..addresses import existing, stream_of
from ..changes import items, report
from ..containers import changed, container_in, held_in, named_items, named_shapes, totals_of
from ..naming import counted
from ..options import actor, as_json, changing, database, reason

NO_REASON = "evict"


def remove_command(kind: str, *, items_named: str) -> click.Command:
    """Return the command that takes items out of contexts of a kind."""
    help_text = f"""
    Take items out of CTX; `refold {kind} restore` brings them back.

    {items_named} is an id, or the @version that `refold {kind} show` prints beside an item.

    With --json: {{context, kind, version, items: [{{stream, version, id}}], tokens}}; an item is named by what brought
    it, and tokens is what left.
    """

    @click.command("remove", help=help_text, short_help="Take items out.")
    @click.argument("context", metavar="CTX", callback=existing)
    @items(required=True, metavar=items_named)
    @reason
    @actor
    @database
    @as_json
    def command(
        context: str, items: tuple[str, ...], reason: str | None, actor: str, location: str, as_json: bool
    ) -> None:
        with changing(location, actor) as store:
            container = container_in(store, stream_of(store, context, (kind,)))
            stream = container.stream
            way_out = f"to take out: `refold {kind} show {container.id}` lists what there is"
            leaving = named_items(stream, held_in(stream, container.shown_state), items, way_out)
            with store.transaction():
                _remove(container, leaving, reason)
            tokens = totals_of(leaving).tokens
            said = f"{counted(len(leaving), 'item')} removed, about {tokens:,} tokens"
            report(container, said, {"items": named_shapes(leaving, stream), "tokens": tokens}, as_json=as_json)

    return command


def _remove(container: Container[Any], leaving: Sequence[Held], reason: str | None) -> None:
    """From a pool an item is removed, which a merge hands on; from a queue it is evicted."""
    if container.kind.name == "pool":
        for held in leaving:
            _remove_one(container, str(held.event.id), reason)
    else:
        changed(container, lambda _: Evict(tuple(held.ref for held in leaving), reason or NO_REASON))


def _remove_one(container: Container[Any], item_id: str, reason: str | None) -> None:
    changed(container, lambda _: Remove(item_id, reason))
