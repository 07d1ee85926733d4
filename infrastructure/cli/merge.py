"""`refold merge`: what one context has comes into another one."""

from __future__ import annotations

import asyncio
from typing import Literal

import click

from ...domain.chat.calls.past import ReadOnlyChatContext
from ...domain.chat.context import ChatContext
from ...domain.chat.events import ConflictResolved, Merged
from ...domain.chat.rules.commands import MergeRule
from ...domain.errors import InvalidInputError
from .addresses import Reference, existing, opened, seen_at
from .addresses import reference as parse_reference
from .changes import after, note, report
from .naming import count_of, counted, places_of
from .options import actor, as_json, changing, database, optional_text
from .terminal import one_line

__all__ = ["command"]

WHAT = {"config": "the instructions or tools", "summary": "a summary of the same items"}


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
    help="Who wins where both changed the same  [default: ours, which is INTO].",
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

    With --json: {context, kind, version, source: {context, version}, how, items, tokens, conflicts: [{kind, rule,
    kept}]}; items counts what was taken; kind is config or summary, kept is ours or theirs.
    """
    if how == "result" and (rule or instructions):
        raise click.UsageError("--on-conflict and --instructions go with --how full", click.get_current_context())
    if how == "full" and agent_id:
        raise click.UsageError("--agent-id goes with --how result", click.get_current_context())
    with changing(location, actor) as store:
        source, target = opened(store, reference.context), opened(store, into)
        if source.id == target.id:
            raise InvalidInputError(f"chat:{target.id} cannot be merged into itself: name two contexts")
        view, before = seen_at(source, next(iter(reference.moments), None)), target.version
        if how == "result":
            asyncio.run(target.merge_result(view, agent_id=agent_id))
        else:
            asyncio.run(target.merge(view, instructions=instructions, on_conflict=rule or "ours"))
        _report(target, source, view, before, how, as_json)


def _report(
    target: ChatContext, source: ChatContext, view: ReadOnlyChatContext, before: int, how: str, as_json: bool
) -> None:
    merged: list[Merged] = after(target, before, Merged)
    conflicts: list[ConflictResolved] = after(target, before, ConflictResolved)
    items, tokens = (sum(getattr(one.change, name) for one in merged) for name in ("items", "tokens"))
    shape = {
        "source": {"context": source.id, "version": view.version},
        "how": how,
        "items": items,
        "tokens": tokens,
        "conflicts": [{"kind": one.kind, "rule": one.rule, "kept": one.kept} for one in conflicts],
    }
    said = f"{counted(items, 'item')} taken from {one_line(source.id)}@{view.version}, about {tokens:,} tokens"
    report(target, said, shape, as_json=as_json)
    _explain(target, merged, conflicts)


def _explain(target: ChatContext, merged: list[Merged], conflicts: list[ConflictResolved]) -> None:
    if not merged:
        note(f"chat:{target.id} has nothing to take from there that it did not have before: nothing was changed")
    for one in conflicts:
        what, other = WHAT[one.kind], "theirs" if one.kept == "ours" else "ours"
        note(f"both sides changed {what}: {one.kept} kept (--on-conflict {other} would keep the others)")
    for merge in merged:
        if merge.evicted:
            stays = f"{counted(count_of(merge.evicted), 'item')} evicted there ({places_of(merge.evicted)})"
            note(f"still here: {stays}; `refold evict` lets go of them here, too")
