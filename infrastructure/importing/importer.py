"""
The importer: compares checked runs with what is there, and only then writes.

Each run is one append, so a run is there whole or not at all. Importing a file again adds nothing; what the file
has gained since is appended; what it has changed is refused, for a log does not forget what it has seen. Compared is
what was recorded, not what can be seen: a context may have been edited since, and its transcript is still the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...domain.canonical import parse_json
from ...domain.chat.events import ITEM_EVENTS, ChatItemEvent, Forked, Opened
from ...domain.errors import InvalidInputError
from ...domain.formats.anthropic.source_shape import source_messages
from ...domain.formats.openai.send import openai_messages
from ...domain.formats.source_json import is_same
from ...domain.ids import stream_id
from ...domain.log.envelope import acting
from ..store import Store
from .claude_importer import planned_session, write_session
from .claude_sessions import fork_names, named_forks, new_branches
from .formats import Format
from .reports import ImportedContext, ImportReport, Outcome, Progress
from .runs import Run, read_runs


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A planned write: the messages from `start` on, into a context that is at `version`."""

    run: Run
    version: int = 0
    start: int = 0
    notes: tuple[str, ...] = ()


def import_file(
    store: Store,
    path: str | Path,
    *,
    format: Format = "auto",
    prefix: str | None = None,
    user: str | None = None,
    replace_surrogates: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import the conversations of a file, each as the context `PREFIX-KEY`; see `read_runs` and `import_runs`."""
    runs = read_runs([path], format=format, prefix=prefix, mend_surrogates=replace_surrogates)
    return import_runs(store, runs, user=user, progress=progress)


def import_runs(
    store: Store, runs: Sequence[Run], *, user: str | None = None, progress: Progress | None = None
) -> ImportReport:
    """
    Write runs as contexts of `user`; `progress` is called with the runs written so far and their number.

    Raises:
        InvalidInputError: a run differs from what was imported before; nothing was written.
        ConcurrencyError, StorageError: the runs before the one it happened at are written; do it again.
    """
    plans = [(planned_session if run.form == "claude-code" else _planned)(store, run, user) for run in runs]
    done: list[ImportedContext] = []
    for number, plan in enumerate(plans, 1):
        done += [_written(store, plan, user)] if isinstance(plan, _Plan) else write_session(store, plan, user)
        if progress is not None:
            progress(number, len(plans))
    return ImportReport(contexts=tuple(done), notes=tuple(note for plan in plans for note in plan.notes))


# Comparing with what is there


def _planned(store: Store, run: Run, user: str | None) -> _Plan:
    if not store.log.head(stream_id("chat", run.context_id)):
        return _Plan(run=run)
    chat = store.chat(run.context_id, user=user, create=False)
    recorded = [one.event for one in chat.history()]
    _require_no_fork(run, recorded[0])
    # What was evicted since counts, what was inserted, merged or summarised does not: that is no item event.
    appended = [event for event in recorded if isinstance(event, ITEM_EVENTS)]
    present = source_messages(appended) if run.form == "anthropic" else openai_messages(appended, exact=True)
    for index, (kept, message) in enumerate(zip(present, run.messages, strict=False)):
        if not is_same(kept, message):
            raise _changed(run, index, "differs from that of")
    # What was said here since the import is no fault of the file.
    imported = sum(item.origin is not None and item.origin.starts for item in appended)
    if len(run.messages) < imported:
        raise _changed(run, len(run.messages), "is missing, unlike in")
    start = min(len(present), len(run.messages))
    return _Plan(run=run, version=chat.version, start=start, notes=_notes(recorded[0], run))


def _require_no_fork(run: Run, first: object) -> None:
    if isinstance(first, Forked):
        raise InvalidInputError(
            f"{run.where} would go on in the context {run.context_id!r}, which is a fork of {first.parent}: "
            "import the file with another --prefix"
        )


def _changed(run: Run, index: int, how: str) -> InvalidInputError:
    number = index - run.has_system
    place = "system" if number < 0 else f"message {number} (from 0)"
    return InvalidInputError(
        f"{run.where}, {place} {how} the context {run.context_id!r} that was imported before: "
        "import the changed file with another --prefix"
    )


def _notes(first: object, run: Run) -> tuple[str, ...]:
    kept = parse_json(first.attributes) or {} if isinstance(first, Opened) else {}
    if is_same(kept, run.attributes):
        return ()
    return (
        f"{run.where}: what lies beside the messages has changed; the context {run.context_id!r} keeps what it had",
    )


# Writing


def _written(store: Store, plan: _Plan, user: str | None) -> ImportedContext:
    run = plan.run
    items = [item for group in run.groups[plan.start :] for item in group]
    outcome: Outcome = "added" if not plan.version else "extended" if items else "unchanged"
    if outcome != "unchanged":
        # One transaction for both, so that a context never stands there opened and empty.
        with acting(actor="import"), store.transaction():
            chat = store.chat(
                run.context_id,
                user=user,
                source=run.source,
                attributes=run.attributes or None,
                create=not plan.version,
            )
            chat.record_items(items, expected_version=plan.version or chat.version)
    return ImportedContext(
        id=run.context_id, outcome=outcome, messages=len(run.messages) - plan.start, items=len(items)
    )


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
