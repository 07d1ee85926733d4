"""`refold queue restore` and `refold pool restore`: items come back."""

from __future__ import annotations

import click

from ....domain.pool.commands import Restore
from ....domain.pool.items import Held
from ..addresses import existing, stream_of
from ..changes import items, report
from ..containers import changed, container_in, departures_of, made_room, named_items, named_shapes, totals_of
from ..naming import counted
from ..options import actor, as_json, changing, database


def restore_command(kind: str, *, items_named: str) -> click.Command:
    """Return the command that puts items back into contexts of a kind."""
    help_text = f"""
    Put items back into CTX that had left it, as the newest; where there is no room the oldest leave.

    {items_named} is an id, which means the item that left last with it, or the @version that `refold {kind} show
    --evicted` prints beside an item.

    With --json: {{context, kind, version, items: [{{stream, version, id}}], tokens, evicted}}; tokens is what came
    back, evicted names items as items does.
    """

    @click.command("restore", help=help_text, short_help="Put items back.")
    @click.argument("context", metavar="CTX", callback=existing)
    @items(required=True, metavar=items_named)
    @actor
    @database
    @as_json
    def command(context: str, items: tuple[str, ...], actor: str, location: str, as_json: bool) -> None:
        with changing(location, actor) as store:
            container = container_in(store, stream_of(store, context, (kind,)))
            stream = container.stream
            way_out = f"to restore: `refold {kind} show {container.id} --evicted` lists what left"
            left = {ref: Held(ref, one.held.event) for ref, one in departures_of(container).gone().items()}
            back = named_items(stream, left, items, way_out)
            evicted = made_room(container, changed(container, lambda _: Restore(tuple(back))))
            shape = {
                "items": named_shapes(back, stream),
                "tokens": totals_of(back).tokens,
                "evicted": named_shapes(evicted, stream),
            }
            said = f"{counted(len(back), 'item')} restored, about {totals_of(back).tokens:,} tokens"
            said += f"; {counted(len(evicted), 'item')} left to make room" if evicted else ""
            report(container, said, shape, as_json=as_json)

    return command
