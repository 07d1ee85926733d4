"""
The importer of Claude Code sessions: a session is a context, and each branch that parts from it a fork.

What is in the store is found by the lines that the items came from, not by which branch was the newest at the time: a
context goes on with the lines behind its last one, and what parts from it, or came behind a line after which something
else was said here, becomes a new fork. A session is written in one append.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...domain.canonical import parse_json
from ...domain.chat.context import ChatContext
from ...domain.chat.events import ITEM_EVENTS, ChatItemEvent, Forked
from ...domain.errors import InvalidInputError
from ...domain.formats.anthropic.source_shape import message_of
from ...domain.formats.source_json import is_same
from ...domain.ids import stream_id
from ...domain.log.envelope import acting
from ..store import Store
from .claude_sessions import Branch, fork_names, named_forks, new_branches
from .reports import ImportedContext
from .runs import Run


class _Kept(msgspec.Struct):
    """
    A context of the session that is in the store: the items of each of its lines, the version behind each, and whether
    something else was said behind the last.
    """

    chat: ChatContext
    items: dict[str, list[ChatItemEvent]] = msgspec.field(default_factory=dict)
    versions: dict[str, int] = msgspec.field(default_factory=dict)
    went_on: bool = False


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The contexts that are there, and for each branch that is new the context to write it to."""

    run: Run
    kept: dict[str, _Kept]
    branches: list[tuple[str, Branch]]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what the user may not expect."""
        return self.run.notes


def planned_session(store: Store, run: Run, user: str | None) -> _Plan:
    """
    Return what is to be written of a session.

    Raises:
        InvalidInputError: a line was changed since it was imported, or is gone; or its contexts are no imports.
    """
    kept = _kept_contexts(store, run, user)
    _require_unchanged(run, kept)
    owners = {uuid: context_id for context_id, one in kept.items() for uuid in one.items}
    tips = {next(reversed(one.items)): context_id for context_id, one in kept.items() if one.items and not one.went_on}
    going_on: dict[str, str] = {}
    forks: list[Branch] = []
    branches = new_branches(run.lines, owners)
    if owners and branches and branches[0].after is None:
        raise _changed(run, f"{branches[0].lines[0].number} comes before the first one of", run.context_id)
    for branch in branches:
        # Of the branches behind one line the newest comes first, and goes on in the context that ends there.
        context_id = run.context_id if branch.after is None else tips.pop(branch.after, None)
        if context_id is None:
            forks.append(branch)
        else:
            going_on[branch.lines[0].uuid] = context_id
    free = (name for name in fork_names(run.context_id) if not store.log.head(stream_id("chat", name)))
    named = going_on | named_forks(forks, free)
    return _Plan(run=run, kept=kept, branches=[(named[branch.lines[0].uuid], branch) for branch in branches])


# What is in the store


def _kept_contexts(store: Store, run: Run, user: str | None) -> dict[str, _Kept]:
    if not run.lines or not store.log.head(stream_id("chat", run.context_id)):
        return {}
    kept = {run.context_id: _kept_context(store, run.context_id, user)}
    for name in fork_names(run.context_id):
        if not store.log.head(stream_id("chat", name)):
            break
        fork = _kept_context(store, name, user)
        if fork.items:
            # One without a line of the session was forked by somebody, under a name like this.
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
    """Return which line an item came from; one that does not say it came from that of the item before."""
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
        raise InvalidInputError(
            f"{run.where} would go on in the context {run.context_id!r}, which holds something else: "
            "import the file with another --prefix"
        )
    lines = {placed.line.uuid: placed.line for placed in run.lines}
    for context_id, one in kept.items():
        for uuid, items in one.items.items():
            line = lines.get(uuid)
            if line is None or not is_same(message_of(items), line.message):
                fault = f"{uuid} is missing, unlike in" if line is None else f"{line.number} differs from that of"
                raise _changed(run, fault, context_id)


def _changed(run: Run, fault: str, context_id: str) -> InvalidInputError:
    return InvalidInputError(
        f"{run.where}, line {fault} the context {context_id!r} that was imported before: "
        "import the changed file with another --prefix"
    )


# Writing


def write_session(store: Store, plan: _Plan, user: str | None) -> list[ImportedContext]:
    """Write what is new of a session, and return what became of each of its contexts."""
    writer = _Writer(store, plan, user)
    with acting(actor="import"):
        if plan.branches:
            # One transaction for all, so that no context stands there without what was forked from it.
            with store.transaction():
                for context_id, branch in plan.branches:
                    writer.write(context_id, branch)
    return writer.told()


class _Writer:
    """Writes branches, each behind the line where it begins, through one handle of each context."""

    def __init__(self, store: Store, plan: _Plan, user: str | None) -> None:
        self._store, self._run, self._user = store, plan.run, user
        self._chats = {context_id: kept.chat for context_id, kept in plan.kept.items()}
        self._places = {
            uuid: (context_id, version)
            for context_id, kept in plan.kept.items()
            for uuid, version in kept.versions.items()
        }
        uuids = [placed.line.uuid for placed in plan.run.lines]
        self._items = dict(zip(uuids, plan.run.groups, strict=True))
        self._told = {context_id: _unchanged(context_id) for context_id in plan.kept}

    def write(self, context_id: str, branch: Branch) -> None:
        """Write a branch, to a context that is there, or a new one."""
        is_new = context_id not in self._chats
        chat = self._chats[context_id] = self._begun(context_id, branch) if is_new else self._chats[context_id]
        version = chat.version
        groups = [self._items[line.uuid] for line in branch.lines]
        chat.record_items([item for group in groups for item in group], expected_version=version)
        for line, group in zip(branch.lines, groups, strict=True):
            version += len(group)
            self._places[line.uuid] = (context_id, version)
        self._told[context_id] = ImportedContext(
            id=context_id,
            outcome="added" if is_new else "extended",
            messages=sum(bool(group[0].origin and group[0].origin.starts) for group in groups),
            items=sum(map(len, groups)),
        )

    def told(self) -> list[ImportedContext]:
        """Return what became of each context."""
        return list(self._told.values())

    def _begun(self, context_id: str, branch: Branch) -> ChatContext:
        run = self._run
        if branch.after is None:
            return self._store.chat(
                context_id,
                user=self._user,
                session=run.session,
                agent=run.agent,
                source=run.source,
                attributes=run.attributes or None,
            )
        parent, version = self._places[branch.after]
        return self._chats[parent].at(version).fork(context_id)


def _unchanged(context_id: str) -> ImportedContext:
    return ImportedContext(id=context_id, outcome="unchanged", messages=0, items=0)
