"""
The importer: compares checked runs with the store, and only then writes.

Each run is one append, so it is imported as a whole or not at all. Importing a file again adds nothing. Messages that
the file has gained since are appended. Changed messages are refused, because a log does not forget. The recorded events
are compared, not the visible items: a context may have been edited since, and its transcript is still the same.

A Claude Code session is a context, and each branch of it is a fork. Lines that were imported before are found by the
lines that the items came from, not by which branch was the newest at the time: a context continues with the lines that
follow its last line. Other lines become a new fork: those that branch off earlier, and those that follow a line after
which other items were added in the store. A session is written in one append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...domain.arguments import require_functions
from ...domain.canonical import parse_json
from ...domain.chat.context import ChatContext
from ...domain.chat.events import ITEM_EVENTS, ChatItemEvent, Forked, Opened
from ...domain.chat.items import ChatItem, FunctionCall, FunctionCallOutput
from ...domain.errors import ConcurrencyError, InvalidInputError
from ...domain.formats.anthropic.source_shape import message_of, source_messages
from ...domain.formats.openai.send import openai_messages
from ...domain.formats.source_json import is_same
from ...domain.ids import stream_id
from ...domain.log.envelope import acting
from ..exchange.event_files import Progress
from ..exchange.transcripts import TRANSCRIPT_FORMS, messages_of
from ..store import Store
from .claude_sessions import Branch, fork_names, named_forks, new_branches
from .formats import Format
from .runs import ImportedContext, ImportReport, Outcome, Run, read_runs

# The reason with which items leave the view where a session was compacted.
COMPACTED = "compacted"
# The reason if only the outputs of old calls were cleared.
CLEARED = "output cleared"


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A planned write: the messages from `start` on, to a context that is at `version`."""

    run: Run
    version: int = 0
    start: int = 0
    notes: tuple[str, ...] = ()


class _Kept(msgspec.Struct):
    """
    A context of the session that is in the store: the items of each line, the version after each line, and whether
    other items were added after the last line.
    """

    chat: ChatContext
    items: dict[str, list[ChatItemEvent]] = msgspec.field(default_factory=dict)
    versions: dict[str, int] = msgspec.field(default_factory=dict)
    went_on: bool = False


class _SessionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The existing contexts of a session, and for each new branch the context to which it is written."""

    run: Run
    kept: dict[str, _Kept]
    branches: list[tuple[str, Branch]]


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
        ConcurrencyError, StorageError: the runs before the one with the error are written; import them again.
    """
    require_functions(progress=progress)
    plans = [(_planned_session if run.form == "claude-code" else _planned)(store, run, user) for run in runs]
    notes = [note for plan in plans for note in (plan.notes if isinstance(plan, _Plan) else plan.run.notes)]
    done: list[ImportedContext] = []
    for number, plan in enumerate(plans, 1):
        done += [_written(store, plan, user)] if isinstance(plan, _Plan) else _write_session(store, plan, user)
        if progress is not None:
            progress(number, len(plans))
    return ImportReport(contexts=tuple(done), notes=tuple(notes))


# Comparing with what is there


def _planned(store: Store, run: Run, user: str | None) -> _Plan:
    if not _is_there(store, run.context_id):
        return _Plan(run=run)
    chat = store.chat(run.context_id, user=user, create=False)
    recorded = [one.event for one in chat.history()]
    if isinstance(recorded[0], Forked):
        raise _occupied(run, f"is a fork of {recorded[0].parent}")
    # Items that were evicted since count. Inserted, merged or summarised items do not: they have other events.
    appended = [event for event in recorded if isinstance(event, ITEM_EVENTS)]
    present = _present(run, appended)
    for index, (kept, message) in enumerate(zip(present, run.messages, strict=False)):
        if not is_same(kept, message):
            raise _changed(run, f"{_place(run, index)} differs from that of")
    # Items that were added in the store after the import have no origin, and the file need not have them.
    imported = sum(item.origin is not None and item.origin.starts for item in appended)
    if len(run.messages) < imported:
        raise _changed(run, f"{_place(run, len(run.messages))} is missing, unlike in")
    start = min(len(present), len(run.messages))
    return _Plan(run=run, version=chat.version, start=start, notes=_notes(recorded[0], run))


def _present(run: Run, appended: Sequence[ChatItemEvent]) -> list[Any]:
    """Return the messages that were imported, as they came."""
    if run.form in TRANSCRIPT_FORMS:
        return [kept.message for kept in messages_of(run.form, appended)]
    return source_messages(appended) if run.form == "anthropic" else openai_messages(appended, exact=True)


def _is_there(store: Store, context_id: str) -> bool:
    return store.log.head(stream_id("chat", context_id)) > 0


def _place(run: Run, index: int) -> str:
    number = index - run.has_system
    return "system" if number < 0 else f"messages[{number}]"


def _changed(run: Run, fault: str, context_id: str | None = None) -> InvalidInputError:
    return InvalidInputError(
        f"{run.where}, {fault} the context {(context_id or run.context_id)!r} that was imported before: "
        "import the changed file with another --prefix"
    )


def _occupied(run: Run, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{run.where} would go on in the context {run.context_id!r}, which {what}: "
        "import the file with another --prefix"
    )


def _notes(first: object, run: Run) -> tuple[str, ...]:
    kept = parse_json(first.attributes) or {} if isinstance(first, Opened) else {}
    if is_same(kept, run.attributes):
        return ()
    return (
        f"{run.where}: what lies beside the messages has changed; the context {run.context_id!r} keeps what it had",
    )


def _planned_session(store: Store, run: Run, user: str | None) -> _SessionPlan:
    """
    Return the branches of a session that must be written, and their contexts.

    Raises:
        InvalidInputError: a line was changed since it was imported, or is missing; or its contexts are no imports.
    """
    kept = _kept_contexts(store, run, user)
    _require_unchanged(run, kept)
    owners = {uuid: context_id for context_id, one in kept.items() for uuid in one.items}
    tips = {next(reversed(one.items)): context_id for context_id, one in kept.items() if one.items and not one.went_on}
    going_on: dict[str, str] = {}
    forks: list[Branch] = []
    branches = new_branches(run.lines, owners)
    if owners and branches and branches[0].after is None:
        raise _changed(run, f"line {branches[0].lines[0].number} comes before the first one of")
    for branch in branches:
        # If several branches follow one line, the newest comes first and continues the context that ends there.
        context_id = run.context_id if branch.after is None else tips.pop(branch.after, None)
        if context_id is None:
            forks.append(branch)
        else:
            going_on[branch.lines[0].uuid] = context_id
    free = (name for name in fork_names(run.context_id) if not _is_there(store, name))
    named = going_on | named_forks(forks, free)
    return _SessionPlan(run=run, kept=kept, branches=[(named[branch.lines[0].uuid], branch) for branch in branches])


def _kept_contexts(store: Store, run: Run, user: str | None) -> dict[str, _Kept]:
    if not run.lines or not _is_there(store, run.context_id):
        return {}
    kept = {run.context_id: _kept_context(store, run.context_id, user)}
    for name in fork_names(run.context_id):
        if not _is_there(store, name):
            break
        fork = _kept_context(store, name, user)
        if fork.items:
            # A fork without a line of the session was made by a user, under a similar name.
            kept[name] = fork
    return kept


def _kept_context(store: Store, context_id: str, user: str | None) -> _Kept:
    kept = _Kept(store.chat(context_id, user=user, create=False))
    uuid = None
    for recorded in kept.chat.history():
        item = recorded.event
        if not isinstance(item, ITEM_EVENTS):
            continue
        uuid = _uuid_of(item, uuid)
        kept.went_on = uuid is None
        if uuid is not None:
            kept.items.setdefault(uuid, []).append(item)
            kept.versions[uuid] = recorded.version
    return kept


def _uuid_of(item: ChatItemEvent, before: str | None) -> str | None:
    """Return the line that an item came from; an item without a line has the line of the item before."""
    if item.origin is None:
        return None
    if b'"claude_code"' not in item.origin.rest:
        return None if item.origin.starts else before
    line = parse_json(item.origin.rest).get("claude_code")
    return str(line["uuid"]) if line else before


def _require_unchanged(run: Run, kept: Mapping[str, _Kept]) -> None:
    first = kept.get(run.context_id)
    if first is None:
        return
    opening = first.chat.history(until=1)[0].event
    if isinstance(opening, Forked) or (first.went_on and not first.items):
        raise _occupied(run, "holds something else")
    lines = {placed.line.uuid: placed.line for placed in run.lines}
    for context_id, one in kept.items():
        for uuid, items in one.items.items():
            line = lines.get(uuid)
            if line is None or not is_same(message_of(items), line.message):
                fault = f"{uuid} is missing, unlike in" if line is None else f"{line.number} differs from that of"
                raise _changed(run, f"line {fault}", context_id)


# Writing


def _written(store: Store, plan: _Plan, user: str | None) -> ImportedContext:
    run = plan.run
    items = [item for group in run.groups[plan.start :] for item in group]
    outcome: Outcome = "added" if not plan.version else "extended" if items else "unchanged"
    if outcome != "unchanged":
        # One transaction opens the context and adds its messages, so that no empty context can remain.
        with acting(actor="import"), store.transaction():
            chat = store.chat(
                run.context_id,
                user=user,
                source=run.source,
                attributes=run.attributes or None,
                create=not plan.version,
            )
            if not plan.version:
                _require_begun_here(chat)
            chat.record_items(items, expected_version=plan.version or chat.version)
    return ImportedContext(
        id=run.context_id, outcome=outcome, messages=len(run.messages) - plan.start, items=len(items)
    )


def _write_session(store: Store, plan: _SessionPlan, user: str | None) -> list[ImportedContext]:
    """Write the new branches of a session, and return the outcome for each of its contexts."""
    writer = _Writer(store, plan, user)
    with acting(actor="import"):
        if plan.branches:
            # One transaction for all contexts, so that a session is never written without its forks.
            with store.transaction():
                for context_id, branch in plan.branches:
                    writer.write(context_id, branch)
    return list(writer.outcomes.values())


class _Writer:
    """
    Writes branches, each after the line where it begins, with one context object for each context; `outcomes` has what
    became of each context.
    """

    def __init__(self, store: Store, plan: _SessionPlan, user: str | None) -> None:
        self._store, self._run, self._user = store, plan.run, user
        self._chats = {context_id: kept.chat for context_id, kept in plan.kept.items()}
        self._places = {
            uuid: (context_id, version)
            for context_id, kept in plan.kept.items()
            for uuid, version in kept.versions.items()
        }
        uuids = [placed.line.uuid for placed in plan.run.lines]
        self._items = dict(zip(uuids, plan.run.groups, strict=True))
        self.outcomes = {name: ImportedContext(id=name, outcome="unchanged", messages=0, items=0) for name in plan.kept}

    def write(self, context_id: str, branch: Branch) -> None:
        """Write a branch to an existing or a new context."""
        is_new = context_id not in self._chats
        chat = self._chats[context_id] = self._begun(context_id, branch) if is_new else self._chats[context_id]
        groups = [self._items[line.uuid] for line in branch.lines]
        waiting: list[ChatItemEvent] = []
        for line, group in zip(branch.lines, groups, strict=True):
            if line.keeps is not None:
                chat.record_items(waiting, expected_version=chat.version)
                waiting = []
                kept = {item.id for uuid in line.keeps for item in self._items.get(uuid, ())}
                _take_out(chat, {item.id for item in chat.items} - kept, COMPACTED)
            if line.clears:
                chat.record_items(waiting, expected_version=chat.version)
                waiting = []
                _take_out(chat, {item.id for item in chat.items if _call_id(item) in line.clears}, CLEARED)
            waiting += group
            self._places[line.uuid] = (context_id, chat.version + len(waiting))
        chat.record_items(waiting, expected_version=chat.version)
        self.outcomes[context_id] = ImportedContext(
            id=context_id,
            outcome="added" if is_new else "extended",
            messages=sum(bool(group[0].origin and group[0].origin.starts) for group in groups),
            items=sum(map(len, groups)),
        )

    def _begun(self, context_id: str, branch: Branch) -> ChatContext:
        run = self._run
        if branch.after is None:
            chat = self._store.chat(
                context_id,
                user=self._user,
                session=run.session,
                agent=run.agent,
                source=run.source,
                attributes=run.attributes or None,
            )
            _require_begun_here(chat)
            return chat
        parent, version = self._places[branch.after]
        return self._chats[parent].at(version).fork(context_id)


def _require_begun_here(chat: ChatContext) -> None:
    """Raise ConcurrencyError if somebody else began a context since it was found missing, and wrote in it."""
    if chat.version > 1:
        raise ConcurrencyError(chat.stream_id, expected=0, actual=chat.version)


def _take_out(chat: ChatContext, ids: set[str], reason: str) -> None:
    """Evict the items that the model no longer saw, except pinned ones."""
    leaving = ids.difference(chat.pinned_ids())
    # A call and its output leave together, or stay.
    calls = {call_id for item in chat.items if item.id not in leaving and (call_id := _call_id(item))}
    chat.evict([item.id for item in chat.items if item.id in leaving and _call_id(item) not in calls], reason=reason)


def _call_id(item: ChatItem) -> str | None:
    return item.call_id if isinstance(item, FunctionCall | FunctionCallOutput) else None
