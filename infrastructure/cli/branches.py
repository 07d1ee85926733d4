"""`refold fork` makes a context that begins as another one; `refold merge` takes one context into another."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import click

from ...domain.chat.context import ChatContext, ReadOnlyChatContext
from ...domain.chat.events import ConflictResolved, Merged
from ...domain.chat.rules.commands import MergeRule
from ...domain.chat.view import ChatView
from ...domain.context.address import Reference
from ...domain.context.context import Context
from ...domain.context.description import count_of, counted, places_of
from ...domain.errors import InvalidInputError
from ...domain.ids import split_stream_id
from ...domain.pool.container import Container
from ...domain.pool.events import MergedEvent, PoolConflictResolved
from ...domain.pool.merge import Merging, side_of
from ...domain.totals import Totals, total_of
from ..views.changes import after, forked_shape, merged_shape
from . import args
from .changes import report
from .completion import context_and_moment, named_contexts, reference_argument
from .containers import changed, container_in, evicted_for_room, items_in, named_shapes, past_container, room_note
from .render import note, one_line

FORKED = ("chat", "queue", "pool")
WHAT = {"config": "the instructions or tools", "summary": "a summary of the same items"}
MERGED = ("chat", "queue", "pool")


@click.command("fork")
@context_and_moment
@args.argument("new", help="The id of the new one.", metavar="NEW", callback=args.new_id)
@args.number("--turns", help="For a chat: begin with the instructions and the last N turns only.")
@args.text("--brief", metavar="TEXT", help="For a chat: begin with no items; TEXT is the new instructions.")
@args.text("--task", metavar="TEXT", help="With --brief: the first user message.")
@args.text("--agent", metavar="A", help="The agent of the new chat.  [default: the parent's]")
@args.change_options
def fork(
    reference: Reference, new: str, turns: int | None, brief: str | None, task: str | None, agent: str | None
) -> None:
    """
    Make the context NEW, which begins with what CTX holds, or held at V. CTX does not change.

    A fork costs one event, however long CTX is. CTX is a chat, a queue or a pool. With --turns, NEW gets the
    instructions and the last N turns only.

    With --json: {context, kind, version, parent: {context, version}, how, items, tokens}; how is full, filtered (with
    --turns) or brief.
    """
    if turns and brief:
        raise args.usage_error("--turns and --brief exclude each other")
    if task and not brief:
        raise args.usage_error("--task goes with --brief")
    with args.changing() as store:
        stream = args.stream_of(store, reference.context, FORKED)
        kind, _ = split_stream_id(stream)
        new = args.id_of_new(kind, new, f"a fork of a {kind}")
        if stream.startswith("chat:"):
            view = args.chat_at(args.chat_in(store, stream), reference.moment)
            child = _forked(view, new, turns=turns, brief=brief, task=task, agent=agent)
            how = "filtered" if turns else "brief" if brief else "full"
            _report_fork(child, stream, view.version, how, child.recorded_items().totals)
            return
        if turns or brief or agent:
            raise args.usage_error(f"--turns, --brief and --agent go with chats, and this is {stream}")
        past = past_container(container_in(store, stream), reference.moment)
        branch = past.branch(context_id=new)
        _report_fork(branch, stream, past.version, "full", total_of(branch.shown_state.items.values()))


def _forked(
    view: ChatView[ChatContext], new: str, *, turns: int | None, brief: str | None, **about: Any
) -> ChatContext:
    if brief:
        return view.fork_brief(brief, about["task"], about["agent"], context_id=new)
    if turns:
        return view.fork_filtered(turns, context_id=new, agent=about["agent"])
    return view.fork(new, agent=about["agent"])


def _report_fork(child: Context[Any], parent: str, version: int, how: str, held: Totals) -> None:
    _, parent_id = split_stream_id(parent)
    shape = forked_shape(parent, version, how, held)
    said = f"forked from {one_line(parent_id)}@{version}: {counted(held.items, 'item')}, about {held.tokens:,} tokens"
    report(child, said, shape)


def _report_merge(target: ChatContext, view: ReadOnlyChatContext, before: int, how: str) -> None:
    merged: list[Merged] = after(target, before, Merged)
    conflicts: list[ConflictResolved] = after(target, before, ConflictResolved)
    shape = merged_shape(view, how, merged, conflicts)
    said = f"{counted(shape['items'], 'item')} taken from {one_line(view.id)}@{view.version}"
    said += f", about {shape['tokens']:,} tokens"
    report(target, said, shape)
    _explain_chat(target, merged, conflicts)


def _explain_chat(target: ChatContext, merged: list[Merged], conflicts: list[ConflictResolved]) -> None:
    if not merged:
        _note_nothing_new(target.stream_id)
    for one in conflicts:
        _note_conflict(WHAT[one.kind], one.kept, "the others")
    for merge in merged:
        if merge.evicted:
            stays = f"{counted(count_of(merge.evicted), 'item')} evicted there ({places_of(merge.evicted)})"
            note(f"still here: {stays}; `refold evict` lets go of them here, too")


def _note_conflict(what: str, kept: str, left: str) -> None:
    other = "theirs" if kept == "ours" else "ours"
    note(f"both sides changed {what}: {kept} kept (--on-conflict {other} would keep {left})")


def _note_nothing_new(stream: str) -> None:
    note(f"{stream} has nothing to take from there that it did not have before: nothing was changed")


def merge_containers(target: Container[Any], source: Container[Any], *, rule: str) -> None:
    """Merge the new items of a queue or a pool into another one of the same kind, and print the result."""
    theirs = side_of(source.stream_id, source.version, source.completed_events(source.version))
    merging = Merging(theirs, source.log, rule, source)
    events = changed(target, lambda state: merging.prepare(target, state))
    merged = [event for event in events if isinstance(event, MergedEvent)]
    conflicts = [event for event in events if isinstance(event, PoolConflictResolved)]
    taken = items_in(target, [span for one in merged for span in one.taken])
    dropped = items_in(target, [span for one in merged for span in one.dropped])
    evicted, tokens = evicted_for_room(target, events), total_of(taken).tokens
    shape = {
        "source": {"context": source.id, "version": source.version},
        "how": "full",
        "items": len(taken),
        "tokens": tokens,
        "conflicts": [{"kind": "item", "item": one.id, "rule": one.rule, "kept": one.kept} for one in conflicts],
        "dropped": named_shapes(dropped, target.stream_id),
        "evicted": named_shapes(evicted, target.stream_id),
    }
    said = f"{counted(len(taken), 'item')} taken from {one_line(source.id)}@{source.version}, about {tokens:,} tokens"
    said += f"; {counted(len(dropped), 'item')} dropped" if dropped else ""
    report(target, said + room_note(evicted), shape)
    if not merged:
        _note_nothing_new(target.stream_id)
    for one in conflicts:
        _note_conflict(repr(one.id), one.kept, "the other")


@click.command("merge")
@reference_argument("FROM[@V]")
@args.argument(
    "into",
    help="The context that gets the items.",
    metavar="INTO",
    callback=args.existing,
    shell_complete=named_contexts,
)
@click.option(
    "--how",
    type=click.Choice(["full", "result"]),
    default="full",
    show_default=True,
    help="All new items, in a chat each at the place of its time; or only the last answer of a chat, at the end.",
)
@click.option(
    "--on-conflict",
    "rule",
    type=click.Choice(["ours", "theirs", "newest"]),
    help="The side that wins if both changed instructions or tools, summarised the same items, or changed "
    "one item of a pool; ours is INTO.  [default: ours; in pools newest]",
)
@args.flag("--instructions", help="For a chat: merge instructions and tools, too, which are left out by default.")
@args.text("--agent-id", metavar="A", help="With --how result: the agent of the answer.")
@args.change_options
def merge(
    reference: Reference,
    into: str,
    how: Literal["full", "result"],
    rule: MergeRule | None,
    instructions: bool,
    agent_id: str | None,
) -> None:
    """
    Add to INTO what FROM holds, or held at V, and INTO never held. FROM does not change, and no item is added twice.

    Both are chats, or queues, or pools. Items that were removed from the pool FROM since the fork, or since the last
    merge, leave INTO, too.

    With --json: {context, kind, version, source: {context, version}, how, items, tokens, conflicts: [{kind, rule,
    kept}]}; items counts what was taken; kind is config, summary or item, kept is ours or theirs. Queues and pools have
    dropped and evicted, too, which name what left: [{stream, version, id}]; a conflict of theirs has the item's id.
    """
    if how == "result" and (rule or instructions):
        raise args.usage_error("--on-conflict and --instructions go with --how full")
    if how == "full" and agent_id:
        raise args.usage_error("--agent-id goes with --how result")
    with args.changing() as store:
        source = args.stream_of(store, reference.context, MERGED)
        kind, _ = split_stream_id(source)
        target = args.stream_of(store, into, (kind,))
        if source == target:
            raise InvalidInputError(f"{target} cannot be merged into itself: name two contexts")
        if kind == "chat":
            chat, view = args.chat_in(store, target), args.chat_at(args.chat_in(store, source), reference.moment)
            before = chat.version
            if how == "result":
                asyncio.run(chat.merge_result(view, agent_id=agent_id))
            else:
                asyncio.run(chat.merge(view, instructions=instructions, on_conflict=rule or "ours"))
            _report_merge(chat, view, before, how)
            return
        if how == "result" or instructions or (rule and kind == "queue"):
            raise args.usage_error(
                f"--how result and --instructions go with chats, --on-conflict with chats and pools: this is {source}"
            )
        past = past_container(container_in(store, source), reference.moment)
        merge_containers(container_in(store, target), past, rule=rule or "newest")
