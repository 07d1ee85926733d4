"""`refold unpin`: items that may leave the view again."""

from __future__ import annotations

import click

from .addresses import existing
from .changes import items
from .options import actor, as_json, database, reason
from .pinning import pinned_or_not


@click.command("unpin")
@click.argument("context", metavar="CTX", callback=existing)
@items(required=True)
@reason
@actor
@database
@as_json
def command(context: str, items: tuple[str, ...], reason: str | None, actor: str, location: str, as_json: bool) -> None:
    """
    Let items of CTX leave the view again that were pinned.

    ITEM is an id, or the @version that `refold show` prints beside an item.

    With --json: {context, kind, version, pinned_ids}, which has all items that are pinned now.
    """
    pinned_or_not(context, items, is_pinned=False, reason=reason, actor=actor, location=location, as_json=as_json)
