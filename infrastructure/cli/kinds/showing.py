"""`refold queue show` and its like: what a context of this kind holds, or some of its items."""

from __future__ import annotations

import click

from ..addresses import Reference, address
from ..addresses import reference as parse_reference
from ..changes import items
from ..options import as_json, database, reading
from ..seeing import items_seen
from ..showing import print_shown, shown_of


def show_command(kind: str, help_text: str, *, items_named: str) -> click.Command:
    """Return the command that shows contexts of a kind; `items_named` stands for an item in its help."""

    @click.command("show", help=help_text, short_help="Show what there is, now or at a moment of the past.")
    @click.argument("reference", metavar="CTX[@V]", callback=parse_reference)
    @items(required=False, metavar=items_named)
    @click.option("--at", "moment", metavar="X", callback=address, help="The moment, if it is not in CTX@V.")
    @click.option("--evicted", is_flag=True, help="What left, and why, instead of what is there.")
    @click.option("--tail", metavar="N", type=click.IntRange(min=1), help="The last N items only.")
    @database
    @as_json
    def command(
        reference: Reference,
        items: tuple[str, ...],
        moment: str | None,
        evicted: bool,
        tail: int | None,
        location: str,
        as_json: bool,
    ) -> None:
        fault = None
        if moment and reference.moments:
            fault = "the moment is given twice: in CTX@V and with --at"
        elif tail and (evicted or items):
            fault = f"--tail goes with neither --evicted nor {items_named}"
        if fault:
            raise click.UsageError(fault, click.get_current_context())
        with reading(location) as store:
            view = items_seen(store, reference, moment, kind)
            print_shown(shown_of(view, evicted=evicted, tail=tail, names=items), ids=True, as_json=as_json)

    return command
