"""Runs of every form as OpenAI messages in a row: for what is not made of contexts, and has no branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ...domain.chat.events import ChatItemEvent
from ...domain.formats.openai.send import openai_messages
from .claude_branches import fork_names, named_forks, new_branches
from .runs import Run


def as_transcripts(runs: Iterable[Run]) -> list[Run]:
    """
    Return runs whose messages are OpenAI's: each branch of a session is one, from the beginning of the session on.
    """
    return [transcript for run in runs for transcript in _transcripts(run)]


def _transcripts(run: Run) -> Iterator[Run]:
    if run.form == "openai":
        yield run
    elif run.form == "anthropic":
        tools = run.attributes.get("tools")
        attributes = {**run.attributes, "tools": list(map(_tool, tools))} if isinstance(tools, list) else run.attributes
        yield _transcript(run, run.context_id, run.groups, attributes)
    else:
        yield from _branches(run)


def _branches(run: Run) -> Iterator[Run]:
    groups = {placed.line.uuid: group for placed, group in zip(run.lines, run.groups, strict=True)}
    parents = {placed.line.uuid: placed.parent for placed in run.lines}
    branches = new_branches(run.lines, ())
    named = named_forks(branches[1:], fork_names(run.context_id))
    for branch in branches:
        path: list[list[ChatItemEvent]] = []
        at: str | None = branch.lines[-1].uuid
        while at is not None:
            path.append(groups[at])
            at = parents[at]
        name = named.get(branch.lines[0].uuid, run.context_id)
        yield _transcript(run, name, path[::-1], run.attributes)


def _transcript(run: Run, context_id: str, groups: Sequence[list[ChatItemEvent]], attributes: Mapping[str, Any]) -> Run:
    messages = openai_messages((item for group in groups for item in group), exact=True)
    return msgspec.structs.replace(
        run, context_id=context_id, messages=messages, groups=list(groups), attributes=dict(attributes),
        form="openai", has_system=False, lines=(),
    )  # fmt: skip


def _tool(definition: Any) -> Any:
    """A definition of Anthropic's has its parameters under another name."""
    if not isinstance(definition, dict) or "input_schema" not in definition:
        return definition
    others = {name: value for name, value in definition.items() if name != "input_schema"}
    return {"type": "function", "function": {**others, "parameters": definition["input_schema"]}}
