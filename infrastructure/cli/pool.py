"""`refold pool`: what a context pool holds, and what goes in and out."""

from __future__ import annotations

import click

from ...domain.pool.items import ContextItem
from .addresses import existing
from .container_commands import add_to, container_for, create, limit, remove_command, restore_command, show_command
from .context_kinds import content, group, is_json, parsed
from .options import actor, as_json, changing, database, required_text
from .search import search_command

SHOW_HELP = """
    Show a pool's catalogue, which is the ids and descriptions of its items, now or at a moment of its past; with ID
    what these items hold.

    ID is an id, or the @version that is printed beside an item.

    With --json: what `refold show --json` prints, contents always.
"""


@click.command("add", short_help="Put an item in.")
@click.argument("context", metavar="CTX", callback=existing)
@click.argument("item_id", metavar="ID", callback=required_text)
@content("CONTENT")
@click.option("--description", metavar="TEXT", callback=required_text, required=True, help="What it is about.")
@is_json("CONTENT")
@create
@limit
@actor
@database
@as_json
def add(
    context: str,
    item_id: str,
    content: str,
    description: str,
    is_json: bool,
    create: bool,
    limit: int | None,
    actor: str,
    location: str,
    as_json: bool,
) -> None:
    """
    Put an item into the pool CTX, in the place of the one that has its ID; a new one is the newest, and where there is
    no room the oldest leaves.

    CONTENT is a text, or with --parse JSON; - takes it from stdin.

    With --json: {context, kind, version, item: {stream, version, id}, replaced, evicted: [{stream, version, id}]};
    items are named by what brought them, replaced is null where there was none.
    """
    item = ContextItem(parsed(content, is_json=is_json), description, item_id)
    with changing(location, actor) as store:
        add_to(container_for(store, context, "pool", create=create, limit=limit), item, as_json=as_json)


command = group(
    "pool",
    "Show, fill and search context pools: items by id, to be chosen by their descriptions.",
    [
        show_command("pool", SHOW_HELP, items_named="ID"),
        add,
        remove_command("pool", items_named="ID"),
        restore_command("pool", items_named="ID"),
        search_command("pool", "--context", "CTX"),
    ],
)
