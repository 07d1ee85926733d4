"""A store of conversations of Pydantic AI: each conversation is a chat, each entry a message of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from ....domain.chat.context import ChatContext
from ....domain.chat.events import ChatItemEvent
from ....domain.chat.rules.commands import EvictItems, RestoreItems
from ....domain.chat.view import ChatView
from ....domain.concurrency.threads import in_thread
from ....domain.errors import ConcurrencyError, InvalidInputError, NotFoundError
from ....domain.ids import decoded_id, encoded_id, split_stream_id
from ..open_chats import Entry, OpenChat, OpenChats, acting_as, entries_of, require_store, take_all_out
from .form import CONVERSATION, NAME, as_json, from_json, without_id

if TYPE_CHECKING:
    from ...store import Store

RECORD = "record"
LEFT = "another branch"
ENTRIES_KNOWN_MAX = 65_536
RECORDS: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class _Path(NamedTuple):
    """The history up to an entry: the view that has it, its messages and items, and whether they are all of it."""

    view: ChatView[Any]
    messages: list[Entry]
    items: list[ChatItemEvent]
    is_whole: bool


class RefoldConversations(ConversationStore):
    """
    A store of conversations whose messages are the items of chats.

    The conversation `id` is the chat `id`, which can be shown, compared, forked, audited and searched like any other.
    Its view is the history up to the head: a branch evicts what it leaves, and restores what it returns to; a fork is
    a fork of the chat. Items that others add to it are part of the conversation when it is loaded next, and a
    conversation that was loaded before that cannot be saved (ConversationConflict).

    Nothing is erased: `delete` takes the messages out of the view, and they stay in the past, as do all entries.
    """

    def __init__(self, store: Store, *, actor: str = NAME) -> None:
        """Keep conversations in `store`; `actor` is recorded where nobody else is named as the actor."""
        # It is a class of its own, since the base class has private names, too.
        self._sync = _Chats(require_store(store), actor)

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
        self._chats = OpenChats(store, CONVERSATION, encode=without_id)
        # The chat in which an entry was seen last; a missing one is looked for in all chats with a record.
        self._chat_of: dict[str, str] = {}

    def _taken(self, conversation_id: str) -> AbstractContextManager[OpenChat | None]:
        return self._chats.taken(encoded_id(conversation_id, "the conversation's id"))

    def read_record(self, conversation_id: str) -> ConversationRecord | None:
        with self._taken(conversation_id) as found:
            return None if found is None else self._record_of(found)

    def read_records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        records: list[ConversationRecord] = []
        for row in self._store.saved_states(NAME, prefix=RECORD):
            with self._chats.taken(split_stream_id(row.context)[1]) as found:
                record = None if found is None else self._record_of(found)
            if record is not None and (scope is None or record.scope == scope):
                records.append(record)
        return sorted(records, key=lambda record: record.updated_at, reverse=True)[:limit]

    def _record_of(self, found: OpenChat) -> ConversationRecord | None:
        """Return the record that was saved last, with the head that the view has now; None if there is nothing."""
        saved = found.chat.saved_states.last(NAME, RECORD)
        newest = found.last(1)
        head = newest[-1].item_ids[0] if newest else None
        if saved is None or saved.value is None:
            if head is None:
                return None
            record = ConversationRecord(conversation_id=decoded_id(found.chat.id), head_id=None, revision="")
        else:
            record = _record_from(saved.value)
        self._note_chat(found.chat.id, *filter(None, [head, record.head_id, *record.branches]))
        if head == record.head_id:
            return record
        # Others wrote to the chat: a caller who loaded the conversation before must load it again.
        return dataclasses.replace(record, head_id=head, revision=f"{record.revision}+{head}")

    def _note_chat(self, chat_id: str, *entry_ids: str) -> None:
        if len(self._chat_of) > ENTRIES_KNOWN_MAX:
            self._chat_of = {}
        self._chat_of.update(dict.fromkeys(entry_ids, chat_id))

    def write_record(
        self, record: ConversationRecord, new_entries: list[ConversationEntry], expected_revision: str | None
    ) -> None:
        messages = as_json(entry.message for entry in new_entries)
        written = [{"id": entry.id, **message} for entry, message in zip(new_entries, messages, strict=True)]
        saved = _as_json(record)
        base = _require_chain(record, new_entries)
        with self._changed(record.conversation_id, expected_revision) as found:
            path = None if base is None else self._path(base, found, record.conversation_id, record.forked_from)
            if base is not None and path is None:
                raise ConversationConflict(record.conversation_id)
            chat = self._begun(record.conversation_id, path) if found is None else found.chat
            if path is None or path.view is not chat or not path.is_whole:
                _show(chat, [] if path is None else path.items)
            CONVERSATION.add(chat, written)
            chat.saved_states.save(NAME, {RECORD: saved})
        self._note_chat(chat.id, *(entry.id for entry in new_entries))

    def _begun(self, conversation_id: str, path: _Path | None) -> ChatContext:
        """Make the chat of a conversation that has none, in a transaction."""
        context_id = encoded_id(conversation_id, "the conversation's id")
        chat = self._store.chat(context_id) if path is None else path.view.fork(context_id)
        if chat.version > 1:
            # Others have made it since it was looked for.
            raise ConversationConflict(conversation_id)
        return chat

    def delete_record(self, conversation_id: str, expected_revision: str) -> None:
        with self._changed(conversation_id, expected_revision) as found:
            if found is None:
                raise ConversationConflict(conversation_id)
            take_all_out(found.chat)
            found.chat.saved_states.save(NAME, {RECORD: None})

    @contextmanager
    def _changed(self, conversation_id: str, revision: str | None) -> Iterator[OpenChat | None]:
        """Yield the chat of a conversation that is at a revision, None if there is none, in a transaction."""
        try:
            # The chat is taken before the transaction begins, and put back after it is committed.
            with self._taken(conversation_id) as found, acting_as(self._actor), self._store.transaction():
                known = None if found is None else self._record_of(found)
                if (None if known is None else known.revision) != revision:
                    raise ConversationConflict(conversation_id)
                yield found
        except ConcurrencyError as error:
            raise ConversationConflict(conversation_id) from error

    def history(self, head_id: str, limit: int | None) -> list[ConversationEntry]:
        path = self._path(head_id, None)
        if path is None:
            raise NotFoundError(f"no conversation has the entry {head_id!r}: load the conversation again")
        # A limit below 0 means none, as in the framework's own stores.
        start = 0 if limit is None else max(0, len(path.messages) - max(0, limit))
        shown = path.messages[start:]
        ids = [entry.item_ids[0] for entry in shown]
        parents = [path.messages[start - 1].item_ids[0] if start else None, *ids]
        messages = from_json([entry.encoded for entry in shown])
        return [
            ConversationEntry(id=entry_id, parent_id=parent, message=message)
            for entry_id, parent, message in zip(ids, parents, messages, strict=False)
        ]

    def _path(self, entry_id: str, taken: OpenChat | None, *likely: str | None) -> _Path | None:
        """Return the history up to an entry; None if no chat has it. The chat `taken` is looked at first."""
        path = None if taken is None else self._path_in(taken, entry_id)
        for name in () if path else self._candidates(entry_id, likely):
            if taken is not None and name == taken.chat.id:
                continue
            with self._chats.taken(name) as found:
                path = None if found is None else self._path_in(found, entry_id)
            if path is not None:
                break
        return path

    def _candidates(self, entry_id: str, likely: Sequence[str | None]) -> Iterator[str]:
        """Yield the ids of the chats that may have an entry, each when it is asked for."""
        names = [self._chat_of.get(entry_id), *(encoded_id(one, "the id") for one in likely if one)]
        first = dict.fromkeys(name for name in names if name is not None)
        yield from first
        names_of_all = (split_stream_id(row.context)[1] for row in self._store.saved_states(NAME))
        yield from (name for name in names_of_all if name not in first)

    def _path_in(self, found: OpenChat, entry_id: str) -> _Path | None:
        """Return the history up to an entry of a chat; None if the chat never had it."""
        chat = found.chat
        items = chat.recorded_items()
        ordinal = items.ordinal(entry_id)
        if ordinal is None:
            return None
        self._note_chat(chat.id, entry_id)
        path = _path_of(chat, items, found.entries(), entry_id)
        if path is not None:
            return path
        # It left the view: its history is the view in which it was the newest.
        ref = items.ref(ordinal)
        home = chat if not ref.stream else self._store.chat(split_stream_id(ref.stream)[1], create=False)
        view = home.at(ref.version + CONVERSATION.items_in(items.item_table.items[ordinal]) - 1)
        past = view.recorded_items()
        return _path_of(view, past, entries_of(CONVERSATION.kept(past), without_id), entry_id)


def _path_of(
    view: ChatView[Any], items: Sequence[ChatItemEvent], entries: Sequence[Entry], entry_id: str
) -> _Path | None:
    """Return the history up to an entry of a view; None if it is not in the view."""
    # From the end, as it is mostly the newest entry.
    place = next((place for place in reversed(range(len(entries))) if entries[place].item_ids[0] == entry_id), None)
    if place is None:
        return None
    end = entries[place].end
    return _Path(view, list(entries[: place + 1]), list(items[:end]), end == len(items))


def _show(chat: ChatContext, path: Sequence[ChatItemEvent]) -> None:
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
        chat._record(EvictItems(chat.stream_id, leaving, LEFT, partners=False), expected_version=chat.version)
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
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"the record of {record.conversation_id!r} has no JSON: {error}") from error
    return saved


def _record_from(saved: dict[str, Any]) -> ConversationRecord:
    try:
        return RECORDS.validate_json(msgspec.json.encode(saved))
    except ValidationError as error:
        raise InvalidInputError(f"the installed Pydantic AI cannot read a saved record: {error}") from error
