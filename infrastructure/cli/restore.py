"""`refold restore`: items come back into the view."""

from __future__ import annotations

import click

from .addresses import existing, opened
from .changes import items, named_items, note, report
from .naming import counted
from .options import actor, as_json, changing, database, reason


@click.command("restore")
@click.argument("context", metavar="CTX", callback=existing)
@items(required=False)
@reason
@actor
@database
@as_json
def command(context: str, items: tuple[str, ...], reason: str | None, actor: str, location: str, as_json: bool) -> None:
    """
    Put items back into the view of CTX, each into its place; without ITEM what left it last.

    ITEM is an id, or the @version that `refold show CTX --evicted` prints. A call comes back together with its output.
    What a summary tells comes back with `refold summarize CTX --undo`.

    With --json: {context, kind, version, item_ids, tokens}; tokens is what came back.
    """
    with changing(location, actor) as store:
        chat = opened(store, context)
        before = chat.estimated_tokens()
        back = chat.restore(named_items(chat, items) if items else None, reason=reason)
        tokens = chat.estimated_tokens() - before
        said = f"{counted(len(back), 'item')} restored, about {tokens:,} tokens"
        report(chat, said, {"item_ids": back, "tokens": tokens}, as_json=as_json)
    if not back:
        what = "what was named is in the view" if items else "nothing left the view that could be restored"
        note(f"{what}: nothing was changed")
