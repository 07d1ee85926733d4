"""`refold merge`: what one context has comes into another one."""

from __future__ import annotations

from typing import Literal

import click

from ...domain.chat.rules.commands import MergeRule
from ...domain.errors import InvalidInputError
from ...domain.ids import split_stream_id
from .addresses import Reference, chat_in, existing, stream_of
from .addresses import reference as parse_reference
from .chat_merging import merge_chats
from .container_merging import merge_containers
from .containers import container_in, past_container
from .options import actor, as_json, changing, database, optional_text

MERGED = ("chat", "queue", "pool")


@click.command("merge")
@click.argument("reference", metavar="FROM[@V]", callback=parse_reference)
@click.argument("into", metavar="INTO", callback=existing)
@click.option(
    "--how", type=click.Choice(["full", "result"]), default="full", show_default=True, help="All, or the last answer."
)
@click.option(
    "--on-conflict",
    "rule",
    type=click.Choice(["ours", "theirs", "newest"]),
    help="Who wins where both changed the same  [default: ours, which is INTO; in pools newest].",
)
@click.option("--instructions", is_flag=True, help="Take instructions and tools along, too.")
@click.option("--agent-id", metavar="A", callback=optional_text, help="With --how result: whose answer it is.")
@actor
@database
@as_json
def command(
    reference: Reference,
    into: str,
    how: Literal["full", "result"],
    rule: MergeRule | None,
    instructions: bool,
    agent_id: str | None,
    actor: str,
    location: str,
    as_json: bool,
) -> None:
    """
    Take what FROM has, or had at V, and INTO never had. FROM stays as it is, and nothing is taken twice.

    Both are chats, or queues, or pools. What was removed from the pool FROM since both were the same leaves INTO, too.

    With --json: {context, kind, version, source: {context, version}, how, items, tokens, conflicts: [{kind, rule,
    kept}]}; items counts what was taken; kind is config, summary or item, kept is ours or theirs. Queues and pools have
    dropped and evicted, too, which name what left: [{stream, version, id}]; a conflict of theirs has the item's id.
    """
    if how == "result" and (rule or instructions):
        raise click.UsageError("--on-conflict and --instructions go with --how full", click.get_current_context())
    if how == "full" and agent_id:
        raise click.UsageError("--agent-id goes with --how result", click.get_current_context())
    moment = next(iter(reference.moments), None)
    with changing(location, actor) as store:
        source = stream_of(store, reference.context, MERGED)
        kind, _ = split_stream_id(source)
        target = stream_of(store, into, (kind,))
        if source == target:
            raise InvalidInputError(f"{target} cannot be merged into itself: name two contexts")
        if kind == "chat":
            merge_chats(
                chat_in(store, target),
                chat_in(store, source),
                moment,
                how=how,
                rule=rule or "ours",
                instructions=instructions,
                agent_id=agent_id,
                as_json=as_json,
            )
            return
        if how == "result" or instructions or (rule and kind == "queue"):
            fault = (
                f"--how result and --instructions go with chats, --on-conflict with chats and pools: this is {source}"
            )
            raise click.UsageError(fault, click.get_current_context())
        past = past_container(container_in(store, source), moment)
        merge_containers(container_in(store, target), past, rule=rule or "newest", as_json=as_json)
