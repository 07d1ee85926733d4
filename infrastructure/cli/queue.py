"""`refold queue`: what a context queue holds, and what goes in and out."""

from __future__ import annotations

import click

from ...domain.pool.items import ContextItem
from .addresses import existing
from .container_commands import add_to, container_for, create, limit, remove_command, restore_command, show_command
from .context_kinds import content, group, is_json, parsed
from .options import actor, as_json, changing, database, optional_text
from .search import search_command

SHOW_HELP = """
    Show what a queue holds, the oldest first, now or at a moment of its past; with ITEM those items only.

    ITEM is an id, or the @version that is printed beside an item.

    With --json: what `refold show --json` prints.
"""


@click.command("add", short_help="Put an item in.")
@click.argument("context", metavar="CTX", callback=existing)
@content("CONTENT")
@is_json("CONTENT")
@click.option("--description", metavar="TEXT", callback=optional_text, help="What it is about.")
@create
@limit
@actor
@database
@as_json
def add(
    context: str,
    content: str,
    is_json: bool,
    description: str | None,
    create: bool,
    limit: int | None,
    actor: str,
    location: str,
    as_json: bool,
) -> None:
    """
    Put an item into the queue CTX, as the newest one; where there is no room the oldest leaves.

    CONTENT is a text, or with --parse JSON; - takes it from stdin.

    With --json: {context, kind, version, item: {stream, version, id}, replaced, evicted: [{stream, version, id}]};
    items are named by what brought them, replaced is null in a queue.
    """
    item = ContextItem(parsed(content, is_json=is_json), description)
    with changing(location, actor) as store:
        add_to(container_for(store, context, "queue", create=create, limit=limit), item, as_json=as_json)


command = group(
    "queue",
    "Show, fill and search context queues: the newest items, up to a limit.",
    [
        show_command("queue", SHOW_HELP, items_named="ITEM"),
        add,
        remove_command("queue", items_named="ITEM"),
        restore_command("queue", items_named="ITEM"),
        search_command("queue", "--context", "CTX"),
    ],
)
