"""`refold evict`, `restore`, `pin` and `unpin`: which items are in the view of a chat."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from ...domain.chat.eviction import Eviction
from ...domain.context.description import counted
from ...domain.errors import InvalidInputError
from ..exchange.backup_file import is_backup
from ..views.changes import evicted_shape, named_items
from .args import argument, change_options, changing, existing, given_database, opened, path_text, reason, usage_error
from .backup import restore_options, restore_store
from .changes import items, report
from .completion import context, named_contexts
from .render import note


@click.command("evict")
@context
@items(required=True)
@reason
@change_options
def evict(context: str, items: tuple[str, ...], reason: str | None) -> None:
    """
    Take items out of the view of CTX; `refold restore` brings them back.

    ITEM is an id, or the @version that `refold show` prints beside an item. A call goes together with its output.
    A provider caches the beginning of a prompt, so evicting items near its end costs least.

    With --json: {context, kind, version, item_ids, tokens_removed, first_changed_item, first_changed_message,
    tokens_kept}; the latter three say where the prompt now differs, and how much of it stays the same before that.
    """
    with changing() as store:
        chat = opened(store, context)
        named = named_items(chat, items)
        pinned = {*chat.pinned_ids()}.intersection(named)
        if pinned:
            way_out = f"`refold unpin {quote(chat.stream_id)} {quote(min(pinned))}` lets it go"
            raise InvalidInputError(f"item {min(pinned)!r} of {chat.stream_id} is pinned: {way_out}")
        eviction = chat.evict(named, reason=reason)
        report(chat, _sentence(eviction), evicted_shape(eviction))
    if not eviction.item_ids:
        note("what was named had left the view before: nothing was changed")
    elif len(eviction.item_ids) > len(named):
        note("items that belong together leave together, so more left than was named")


def _sentence(eviction: Eviction) -> str:
    gone = f"{counted(len(eviction.item_ids), 'item')} evicted, about {eviction.tokens_removed:,} tokens"
    if not eviction.item_ids:
        return gone
    return (
        f"{gone}; the prompt changes from message {eviction.first_changed_message} (from 0) on, about "
        f"{eviction.tokens_kept:,} tokens before it can still come from the provider's cache"
    )


def _context_or_backup(ctx: click.Context, param: click.Parameter, value: str) -> str | Path:
    """Return the file of a backup, or the name of a context."""
    return Path(path_text(value)) if is_backup(Path(value)) else existing(ctx, param, value)


@click.command("restore")
@argument(
    "context",
    help="The context, or the file of a backup.",
    metavar="CTX|FILE",
    callback=_context_or_backup,
    shell_complete=named_contexts,
)
@items(required=False)
@restore_options
@reason
@change_options
def restore(
    context: str | Path,
    items: tuple[str, ...],
    moment: str | None,
    into: str | None,
    overwrite: bool,
    reason: str | None,
) -> None:
    """
    Put items back into the view of CTX, each in its place; without ITEM, those that left last. Or make a store from the
    FILE of a backup.

    ITEM is an id, or the @version that `refold show CTX --evicted` prints. A call comes back together with its output.
    Items that a summary replaced come back with `refold summarize CTX --undo`.

    FILE is what `refold backup` wrote. The store is made at --into, or at the place of --db: whole, or not at all. With
    --at it is as it was at a position (pos:17), a time or a named moment. Programs must have closed a store that is
    overwritten.

    With --json: {context, kind, version, item_ids, tokens}; tokens is what came back. Of a FILE: {file, target, source,
    source_lineage, lineage, moment, events, made_at}.
    """
    if isinstance(context, Path):
        if items or reason:
            raise usage_error("a backup is restored as a whole: name no items, and give no reason")
        restore_store(context, at=moment, into=into or given_database(), overwrite=overwrite)
        return
    if moment or into or overwrite:
        found = f"{context} is none" if Path(context).exists() else f"there is no file {context}"
        raise usage_error(f"--at, --into and --overwrite are for the file of a backup, and {found}")
    with changing() as store:
        chat = opened(store, context)
        before = chat.estimated_tokens()
        back = chat.restore(named_items(chat, items) if items else None, reason=reason)
        tokens = chat.estimated_tokens() - before
        said = f"{counted(len(back), 'item')} restored, about {tokens:,} tokens"
        report(chat, said, {"item_ids": back, "tokens": tokens})
    if not back:
        what = "what was named is in the view" if items else "nothing left the view that could be restored"
        note(f"{what}: nothing was changed")


def pin_command(name: str, about: str, *, is_pinned: bool) -> click.Command:
    """Return the command that pins items of a chat, or unpins them; `about` is the first line of its help."""
    help_text = f"""
    {about}

    ITEM is an id, or the @version that `refold show` prints beside an item.

    With --json: {{context, kind, version, pinned_ids}}, which has all items that are pinned now.
    """

    @click.command(name, help=help_text)
    @context
    @items(required=True)
    @reason
    @change_options
    def command(context: str, items: tuple[str, ...], reason: str | None) -> None:
        with changing() as store:
            chat = opened(store, context)
            before = chat.version
            (chat.pin if is_pinned else chat.unpin)(named_items(chat, items), reason=reason)
            pinned = chat.pinned_ids()
            report(chat, f"{counted(len(pinned), 'item')} pinned now", {"pinned_ids": pinned})
            if chat.version == before:
                note(f"what was named was {'pinned' if is_pinned else 'not pinned'}: nothing was changed")

    return command


pin = pin_command(
    "pin",
    "Keep items in the view of CTX, whoever evicts, truncates or summarises, until `refold unpin`.",
    is_pinned=True,
)
unpin = pin_command("unpin", "Let items of CTX leave the view again that were pinned.", is_pinned=False)
