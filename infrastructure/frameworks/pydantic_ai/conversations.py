"""A store of conversations of Pydantic AI: each conversation is a chat, each entry a message of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_core import PydanticSerializationError

from ....domain.chat.context import ChatContext
from ....domain.chat.events import ChatItemEvent
from ....domain.chat.rules.commands import EvictItems, RestoreItems
from ....domain.chat.view import ChatView
from ....domain.concurrency.threads import in_thread
from ....domain.errors import ConcurrencyError, InvalidInputError, NotFoundError
from ....domain.ids import decoded_id, encoded_id, split_stream_id
from ....domain.log.envelope import acting, current_meta
from ..conversation import Kept
from .form import CONVERSATION, NAME, as_json, from_json

if TYPE_CHECKING:
    from ...store import Store

RECORD = "record"
LEFT = "another branch"
DELETED = "deleted"
RECORDS: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class _Path(NamedTuple):
    """The history up to an entry: the view that has it, its items, and its messages."""

    view: ChatView[Any]
    items: list[ChatItemEvent]
    messages: list[Kept]


class RefoldConversations(ConversationStore):
    """
    A store of conversations whose messages are the items of chats.

    The conversation `id` is the chat `id`, which can be shown, compared, forked, audited and searched like any other.
    Its view is the history up to the head: a branch evicts what it leaves, and restores what it returns to; a fork is
    a fork of the chat. What others add to the chat is part of the conversation when it is loaded next, and a
    conversation that was loaded before that cannot be saved (ConversationConflict).

    Nothing is erased: `delete` takes the messages out of the view, and they stay in the past, as do all entries.
    """

    def __init__(self, store: Store, *, actor: str = NAME) -> None:
        """Keep conversations in `store`; `actor` is recorded where nobody else is named as the actor."""
        # It is a class of its own, since the base class has private names, too.
        self._sync = _Chats(store, actor)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; a chat that others made has one, too."""
        return await in_thread(self._sync.read_record, conversation_id)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records that Pydantic AI saved, the newest first. Chats that only others wrote to have none."""
        return await in_thread(self._sync.read_records, scope, limit)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """
        Save a record and its new entries in one transaction.

        Raises:
            ConversationConflict: as the protocol says, and if the chat changed while it was saved.
            InvalidInputError: a message has no JSON, or an entry is not part of the record's history.
        """
        await in_thread(self._sync.write_record, record, list(new_entries), expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Take the messages out of the view and forget the record. All entries are kept, in the past of the chat."""
        await in_thread(self._sync.delete_record, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """
        Return an entry.

        Raises:
            NotFoundError: no chat has it; it is a LookupError.
        """
        return (await in_thread(self._sync.history, entry_id, 1))[-1]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """
        Return the entries up to `head_id`, or the last `limit` of them, from one read of the chat.

        Raises:
            NotFoundError: no chat has the entry; it is a LookupError.
        """
        return [] if head_id is None else await in_thread(self._sync.history, head_id, limit)


class _Chats:
    """The chats behind the conversations; each call runs in a thread."""

    def __init__(self, store: Store, actor: str) -> None:
        self._store, self._actor = store, actor
        # The chat in which an entry was seen last; a missing one is looked for in all chats with a record.
        self._chat_of: dict[str, str] = {}

    def _as_actor(self) -> AbstractContextManager[None]:
        return acting(actor=current_meta(default_actor=self._actor, idempotency_key=None).actor)

    def _chat(self, conversation_id: str) -> ChatContext | None:
        with suppress(NotFoundError):
            return self._store.chat(encoded_id(conversation_id, "the conversation's id"), create=False)
        return None

    def read_record(self, conversation_id: str) -> ConversationRecord | None:
        chat = self._chat(conversation_id)
        return None if chat is None else self._record_of(chat)

    def read_records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        rows = self._store.saved_states(NAME, prefix=RECORD)
        chats = (self._store.chat(split_stream_id(row.context)[1], create=False) for row in rows)
        found = (record for record in map(self._record_of, chats) if record is not None)
        wanted = [record for record in found if scope is None or record.scope == scope]
        return sorted(wanted, key=lambda record: record.updated_at, reverse=True)[:limit]

    def _record_of(self, chat: ChatContext) -> ConversationRecord | None:
        """Return the record that was saved last, with the head that the view has now; None if there is nothing."""
        saved = chat.saved_states.last(NAME, RECORD)
        kept = CONVERSATION.kept(chat.recorded_items())
        head = kept[-1].item_ids[0] if kept else None
        if saved is None or saved.value is None:
            if head is None:
                return None
            record = ConversationRecord(conversation_id=decoded_id(chat.id), head_id=None, revision="")
        else:
            record = _record_from(saved.value)
        for entry_id in filter(None, [head, record.head_id, *record.branches]):
            self._chat_of[entry_id] = chat.id
        if head == record.head_id:
            return record
        # Others wrote to the chat: who loaded the conversation before that must load it again.
        return dataclasses.replace(record, head_id=head, revision=f"{record.revision}+{head}")

    def write_record(
        self, record: ConversationRecord, new_entries: list[ConversationEntry], expected_revision: str | None
    ) -> None:
        messages = as_json(entry.message for entry in new_entries)
        written = [{"id": entry.id, **message} for entry, message in zip(new_entries, messages, strict=True)]
        saved = _as_json(record)
        base = _require_chain(record, new_entries)
        try:
            with self._as_actor(), self._store.transaction():
                chat = self._expected(record.conversation_id, expected_revision)
                path = None if base is None else self._path(base, record.conversation_id, record.forked_from)
                if base is not None and path is None:
                    raise ConversationConflict(record.conversation_id)
                if chat is None:
                    context_id = encoded_id(record.conversation_id, "the conversation's id")
                    chat = self._store.chat(context_id) if path is None else path.view.fork(context_id)
                _show(chat, [] if path is None else path.items)
                CONVERSATION.add(chat, written)
                chat.saved_states.save(NAME, {RECORD: saved})
        except ConcurrencyError as error:
            raise ConversationConflict(record.conversation_id) from error
        self._chat_of.update((entry.id, chat.id) for entry in new_entries)

    def delete_record(self, conversation_id: str, expected_revision: str) -> None:
        try:
            with self._as_actor(), self._store.transaction():
                chat = self._expected(conversation_id, expected_revision)
                if chat is None:
                    raise ConversationConflict(conversation_id)
                _show(chat, [], DELETED)
                chat.saved_states.save(NAME, {RECORD: None})
        except ConcurrencyError as error:
            raise ConversationConflict(conversation_id) from error

    def _expected(self, conversation_id: str, revision: str | None) -> ChatContext | None:
        """Return the chat of a conversation that is at a revision; None if there is no chat."""
        chat = self._chat(conversation_id)
        found = None if chat is None else self._record_of(chat)
        if (None if found is None else found.revision) != revision:
            raise ConversationConflict(conversation_id)
        return chat

    def history(self, head_id: str, limit: int | None) -> list[ConversationEntry]:
        path = self._path(head_id)
        if path is None:
            raise NotFoundError(f"no conversation has the entry {head_id!r}: load the conversation again")
        start = 0 if limit is None else max(0, len(path.messages) - limit)
        shown = path.messages[start:]
        ids = [kept.item_ids[0] for kept in shown]
        parents = [path.messages[start - 1].item_ids[0] if start else None, *ids]
        messages = from_json([kept.message for kept in shown])
        return [
            ConversationEntry(id=entry_id, parent_id=parent, message=message)
            for entry_id, parent, message in zip(ids, parents, messages, strict=False)
        ]

    def _path(self, entry_id: str, *likely: str | None) -> _Path | None:
        """Return the history up to an entry; None if no chat has it."""
        for chat in self._candidates(entry_id, likely):
            if chat.recorded_items().ordinal(entry_id) is not None:
                self._chat_of[entry_id] = chat.id
                return _path_in(chat, entry_id) or self._path_at_home(chat, entry_id)
        return None

    def _candidates(self, entry_id: str, likely: Sequence[str | None]) -> Iterator[ChatContext]:
        """Yield the chats that may have an entry, each opened when it is asked for."""
        seen: set[str] = set()
        names = [self._chat_of.get(entry_id), *(encoded_id(one, "the id") for one in likely if one)]
        for name in names:
            if name is not None and name not in seen:
                seen.add(name)
                with suppress(NotFoundError):
                    yield self._store.chat(name, create=False)
        for row in self._store.saved_states(NAME):
            name = split_stream_id(row.context)[1]
            if name not in seen:
                seen.add(name)
                yield self._store.chat(name, create=False)

    def _path_at_home(self, chat: ChatContext, entry_id: str) -> _Path | None:
        """Return the history up to an entry that left the view: it is the view in which the entry was the newest."""
        items = chat.recorded_items()
        ordinal = items.ordinal(entry_id)
        assert ordinal is not None, "the chat has the entry"
        ref = items.ref(ordinal)
        home = chat if not ref.stream else self._store.chat(split_stream_id(ref.stream)[1], create=False)
        count = CONVERSATION.items_in(items.arena.items[ordinal])
        return _path_in(home.at(ref.version + count - 1), entry_id)


def _path_in(view: ChatView[Any], entry_id: str) -> _Path | None:
    """Return the history up to an entry of a view; None if it is not in the view."""
    items = list(view.recorded_items())
    messages = CONVERSATION.kept(items)
    place = next((place for place, kept in enumerate(messages) if kept.item_ids[0] == entry_id), None)
    if place is None:
        return None
    last = messages[place].item_ids[-1]
    end = next(index for index, item in enumerate(items) if item.id == last) + 1
    return _Path(view, items[:end], messages[: place + 1])


def _show(chat: ChatContext, path: Sequence[ChatItemEvent], reason: str = LEFT) -> None:
    """Edit a chat so that its view has exactly these items."""
    wanted = {item.id for item in path}
    held = chat.recorded_items()
    known = [(item.id, held.ordinal(item.id)) for item in path]
    gone = tuple(item_id for item_id, ordinal in known if ordinal is not None and not held.shows(ordinal))
    if gone:
        chat._record(RestoreItems(chat.stream_id, gone), expected_version=chat.version)
    # A call comes back with its output, which the history may not have.
    leaving = tuple(item.id for item in chat.recorded_items() if item.id not in wanted)
    if leaving:
        chat._record(EvictItems(chat.stream_id, leaving, reason, partners=False), expected_version=chat.version)
    foreign = [item for item, (_, ordinal) in zip(path, known, strict=True) if ordinal is None]
    if foreign:
        chat.record_items(foreign, expected_version=chat.version)


def _require_chain(record: ConversationRecord, new_entries: Sequence[ConversationEntry]) -> str | None:
    """Return the stored entry that the new ones follow, or the head if there is no new one."""
    parent: str | None = record.head_id
    for entry in reversed(new_entries):
        if entry.id != parent:
            raise InvalidInputError(f"the entry {entry.id!r} is not in the history that ends with {record.head_id!r}")
        parent = entry.parent_id
    return parent


def _as_json(record: ConversationRecord) -> dict[str, Any]:
    try:
        saved: dict[str, Any] = RECORDS.dump_python(record, mode="json")
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise InvalidInputError(f"the record of {record.conversation_id!r} has no JSON: {error}") from error
    return saved


def _record_from(saved: dict[str, Any]) -> ConversationRecord:
    try:
        return RECORDS.validate_json(msgspec.json.encode(saved))
    except ValidationError as error:
        raise InvalidInputError(f"the installed Pydantic AI cannot read a saved record: {error}") from error
