"""Merging chats, and saying what was taken and what was in dispute."""

from __future__ import annotations

import asyncio
from typing import Literal

from ...domain.chat.calls.past import ReadOnlyChatContext
from ...domain.chat.context import ChatContext
from ...domain.chat.events import ConflictResolved, Merged
from ...domain.chat.rules.commands import MergeRule
from .addresses import seen_at
from .changes import after, note, report
from .naming import count_of, counted, places_of
from .terminal import one_line

WHAT = {"config": "the instructions or tools", "summary": "a summary of the same items"}


def merge_chats(
    target: ChatContext,
    source: ChatContext,
    moment: str | None,
    *,
    how: Literal["full", "result"],
    rule: MergeRule,
    instructions: bool,
    agent_id: str | None,
    as_json: bool,
) -> None:
    """Take what is new in a chat, or its last answer, into another one, and print what that did."""
    view, before = seen_at(source, moment), target.version
    if how == "result":
        asyncio.run(target.merge_result(view, agent_id=agent_id))
    else:
        asyncio.run(target.merge(view, instructions=instructions, on_conflict=rule))
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
