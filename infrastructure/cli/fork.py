"""`refold fork`: a new context that begins where another one stands, or stood."""

from __future__ import annotations

from typing import Any

import click

from ...domain.chat.context import ChatContext
from ...domain.chat.view import ChatView
from ...domain.ids import split_stream_id
from ...domain.totals import Totals
from ..opening import KINDS
from .addresses import Reference, chat_in, new_id, seen_at, stream_of
from .addresses import reference as parse_reference
from .changes import Changed, report
from .containers import container_in, past_container, totals_of
from .options import actor, as_json, changing, database, optional_text
from .render import counted, one_line

FORKED = ("chat", "queue", "pool")


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

    It costs one event, however long CTX is. CTX is a chat, a queue or a pool. With --turns the instructions come along,
    and the last N turns.

    With --json: {context, kind, version, parent: {context, version}, how, items, tokens}; how is full, filtered (with
    --turns) or brief.
    """
    if turns and brief:
        raise click.UsageError("--turns and --brief exclude each other", click.get_current_context())
    if task and not brief:
        raise click.UsageError("--task goes with --brief", click.get_current_context())
    moment = next(iter(reference.moments), None)
    with changing(location, actor) as store:
        stream = stream_of(store, reference.context, FORKED)
        new = _id_of_a(split_stream_id(stream)[0], new)
        if stream.startswith("chat:"):
            view = seen_at(chat_in(store, stream), moment)
            child = _forked(view, new, turns=turns, brief=brief, task=task, agent=agent)
            how = "filtered" if turns else "brief" if brief else "full"
            _report(child, stream, view.version, how, child.recorded_items().totals, as_json)
            return
        if turns or brief or agent:
            fault = f"--turns, --brief and --agent go with chats, and this is {stream}"
            raise click.UsageError(fault, click.get_current_context())
        past = past_container(container_in(store, stream), moment)
        branch = past.branch(context_id=new)
        _report(branch, stream, past.version, "full", totals_of(branch.shown_state.items.values()), as_json)


def _id_of_a(kind: str, name: str) -> str:
    """A fork is of its parent's kind, which so need not be said."""
    said, _, context_id = name.partition(":")
    if said in KINDS and said != kind:
        raise click.UsageError(f"a fork of a {kind} is a {kind}, not a {said}: {name!r}", click.get_current_context())
    return context_id if said == kind else name


def _forked(
    view: ChatView[ChatContext], new: str, *, turns: int | None, brief: str | None, **about: Any
) -> ChatContext:
    if brief:
        return view.fork_brief(brief, about["task"], about["agent"], context_id=new)
    if turns:
        return view.fork_filtered(turns, context_id=new, agent=about["agent"])
    return view.fork(new, agent=about["agent"])


def _report(child: Changed, parent: str, version: int, how: str, held: Totals, as_json: bool) -> None:
    _, parent_id = split_stream_id(parent)
    shape = {
        "parent": {"context": parent_id, "version": version},
        "how": how,
        "items": held.items,
        "tokens": held.tokens,
    }
    said = f"forked from {one_line(parent_id)}@{version}: {counted(held.items, 'item')}, about {held.tokens:,} tokens"
    report(child, said, shape, as_json=as_json)
