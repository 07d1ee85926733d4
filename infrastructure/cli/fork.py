"""`refold fork`: a new context that begins where another one stands, or stood."""

from __future__ import annotations

from typing import Any

import click

from ...domain.chat.calls.forkable import ForkableChat
from ...domain.chat.context import ChatContext
from .addresses import Reference, new_id, opened, seen_at
from .addresses import reference as parse_reference
from .changes import report
from .naming import counted
from .options import actor, as_json, changing, database, optional_text
from .terminal import one_line

__all__ = ["command"]


@click.command("fork")
@click.argument("reference", metavar="CTX[@V]", callback=parse_reference)
@click.argument("new", metavar="NEW", callback=new_id)
@click.option("--turns", metavar="N", type=click.IntRange(min=1), help="Take the last N turns only.")
@click.option("--brief", metavar="TEXT", callback=optional_text, help="Take nothing; TEXT is the new instructions.")
@click.option("--task", metavar="TEXT", callback=optional_text, help="With --brief: what the user wants of it.")
@click.option("--agent", metavar="A", callback=optional_text, help="The agent of the new context  [default: CTX's].")
@actor
@database
@as_json
def command(
    reference: Reference,
    new: str,
    turns: int | None,
    brief: str | None,
    task: str | None,
    agent: str | None,
    actor: str,
    location: str,
    as_json: bool,
) -> None:
    """
    Make the context NEW, which begins as CTX is, or was at V, and goes its own way. CTX stays as it is.

    It costs one event, however long CTX is. With --turns the instructions come along, and the last N turns.

    With --json: {context, kind, version, parent: {context, version}, how, items, tokens}; how is full, filtered (with
    --turns) or brief.
    """
    if turns and brief:
        raise click.UsageError("--turns and --brief exclude each other", click.get_current_context())
    if task and not brief:
        raise click.UsageError("--task goes with --brief", click.get_current_context())
    with changing(location, actor) as store:
        parent = opened(store, reference.context)
        view = seen_at(parent, next(iter(reference.moments), None))
        how = "filtered" if turns else "brief" if brief else "full"
        child = _forked(view, new, turns=turns, brief=brief, task=task, agent=agent)
        _report(child, parent, view.version, how, as_json)


def _forked(view: ForkableChat, new: str, *, turns: int | None, brief: str | None, **about: Any) -> ChatContext:
    if brief:
        return view.fork_brief(brief, about["task"], about["agent"], context_id=new)
    if turns:
        return view.fork_filtered(turns, context_id=new, agent=about["agent"])
    return view.fork(new, agent=about["agent"])


def _report(child: ChatContext, parent: ChatContext, version: int, how: str, as_json: bool) -> None:
    held, tokens = len(child.recorded_items()), child.estimated_tokens()
    shape = {
        "parent": {"context": parent.id, "version": version},
        "how": how,
        "items": held,
        "tokens": tokens,
    }
    said = f"forked from {one_line(parent.id)}@{version}: {counted(held, 'item')}, about {tokens:,} tokens"
    report(child, said, shape, as_json=as_json)
