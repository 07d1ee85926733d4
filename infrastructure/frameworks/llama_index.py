"""A chat store of LlamaIndex: each key is a chat, whose view has the active messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from ...domain.chat.context import ChatContext
from ...domain.chat.events import ChatItemEvent, FunctionReturned
from ...domain.chat.rules.commands import EvictItems, RestoreItems
from ...domain.concurrency.threads import in_thread
from ...domain.formats.parts import Call, Part, Picture, Result, parts_of, picture_at, picture_of, read_parts, role_of
from ...domain.formats.receive import Fields, Receiver
from ...domain.formats.send import arguments_of
from ...domain.ids import decoded_id, encoded_id
from .conversation import Conversation, Message, ViewMessage, kept_as_json
from .open_chats import DELETED, OpenChats, acting_as, require_store

if TYPE_CHECKING:
    from ..store import Store

NAME = "llama_index"
ROLES = {
    "system": "system",
    "developer": "developer",
    "assistant": "assistant",
    "chatbot": "assistant",
    "model": "assistant",
}
OUTPUTS = ("tool", "function")
# The reasons with which messages leave the view.
ARCHIVED = "archived"
ACTIVE = MessageStatus.ACTIVE


class LlamaForm:
    """The JSON of a `ChatMessage`."""

    name = NAME

    def read(self, message: Message, into: Receiver) -> None:
        """Add the texts and images of a message as one item, and one for each call; or an output."""
        role, beside = str(message.get("role")), message.get("additional_kwargs") or {}
        parts = [_part(Fields("a block", block)) for block in message.get("blocks") or ()]
        if role in OUTPUTS:
            output = "\n".join(part for part in parts if isinstance(part, str))
            parts = [Result(str(beside.get("name") or ""), output, beside.get("tool_call_id"))]
        elif ROLES.get(role) == "assistant" and not any(isinstance(part, Call) for part in parts):
            parts += _calls_beside(beside.get("tool_calls"))
        read_parts(ROLES.get(role, "user"), parts, into, "a message")

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        """Return the message that these items are."""
        first = items[0]
        beside = {"tool_call_id": first.call_id} if isinstance(first, FunctionReturned) else {}
        blocks = [_block(part) for part in parts_of(items)]
        return {"role": role_of(items), "additional_kwargs": beside, "blocks": blocks}


CONVERSATION = Conversation(LlamaForm())


class RefoldChatStore(AsyncDBChatStore):
    """
    A chat store whose keys are the chats of a store.

    Active messages are those in the view. An archived or deleted one left the view, and stays in the past; restoring
    it makes it active again. Items that others add to a chat are active; those that others evict are neither active nor
    archived.
    """

    _store: Any = PrivateAttr()
    _chats: Any = PrivateAttr()
    _actor: str = PrivateAttr()

    def __init__(self, store: Store, *, actor: str = NAME) -> None:
        """Keep messages in `store`; `actor` is recorded where nobody else is named as the actor."""
        super().__init__()
        self._store, self._chats, self._actor = require_store(store), OpenChats(store, CONVERSATION), actor

    async def get_messages(
        self, key: str, status: MessageStatus | None = ACTIVE, limit: int | None = None, offset: int | None = None
    ) -> list[ChatMessage]:
        """Return the messages of a status, or those that are not deleted, in order; `limit` of them after `offset`."""
        found = [_message(kept) for kept in await in_thread(self._messages_of, key, status)][offset or 0 :]
        return found if limit is None else found[:limit]

    async def count_messages(self, key: str, status: MessageStatus | None = ACTIVE) -> int:
        """Return the number of messages of a status."""
        return len(await in_thread(self._messages_of, key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = ACTIVE) -> None:
        """Put a message at the end."""
        await self.add_messages(key, [message], status)

    async def add_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = ACTIVE) -> None:
        """
        Put messages at the end, all or none.

        Raises:
            InvalidInputError: a message cannot be kept as JSON.
        """
        plain = _plain(messages)
        if plain:
            await in_thread(self._change, key, lambda chat: _add(chat, plain, status))

    async def set_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = ACTIVE) -> None:
        """Replace the messages of every status, all or none."""
        plain = _plain(messages)

        def replace(chat: ChatContext) -> None:
            _leave(chat, _messages_of(chat, None), DELETED)
            _add(chat, plain, status)

        # No chat is made for no messages.
        await in_thread(self._change, key, replace, create=bool(plain))

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Take out the active message at an index, counted from 0, and return it; None if there is none."""
        return next(iter(await self._take(key, ACTIVE, DELETED, slice(idx, idx + 1))), None) if idx >= 0 else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Take out all messages of a status, or of every status."""
        await self._take(key, status, DELETED, slice(None))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Take out the first `n` active messages, and return them."""
        return await self._take(key, ACTIVE, DELETED, slice(max(n, 0)))

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the first `n` active messages, without the pinned ones among them, and return them."""
        return await self._take(key, ACTIVE, ARCHIVED, slice(max(n, 0)))

    async def get_keys(self) -> list[str]:
        """Return the keys of all chats of the store that hold a message, whoever wrote it."""
        return await in_thread(
            lambda: [
                decoded_id(row.id)
                for row in self._store.contexts()
                if row.kind == "chat" and (row.items or self._messages_of(decoded_id(row.id), None))
            ]
        )

    async def _take(self, key: str, status: MessageStatus | None, reason: str, part: slice) -> list[ChatMessage]:
        def take(chat: ChatContext) -> list[ViewMessage]:
            stay = set(chat.pinned_ids()) if reason == ARCHIVED else set()
            taken = [kept for kept in _messages_of(chat, status)[part] if stay.isdisjoint(kept.item_ids)]
            _leave(chat, taken, reason)
            return taken

        return [_message(kept) for kept in await in_thread(self._change, key, take, create=False) or ()]

    # Each of the following runs in a thread.

    def _messages_of(self, key: str, status: MessageStatus | None) -> list[ViewMessage]:
        with self._chats.taken(encoded_id(key, "the key")) as found:
            return [] if found is None else _messages_of(found.chat, status)

    def _change(self, key: str, change: Callable[[ChatContext], Any], *, create: bool = True) -> Any:
        with acting_as(self._actor):
            return self._chats.change(encoded_id(key, "the key"), lambda found: change(found.chat), create=create)


def _messages_of(chat: ChatContext, status: MessageStatus | None) -> list[ViewMessage]:
    """Return the messages of a status; without a status all of them, in the order in which they came."""
    items = chat._state.items
    archived = sorted(ordinal for ordinal, gone in items.departed() if gone.reason == ARCHIVED)
    if status is None:
        ordinals = sorted([*items.order(), *archived])
    else:
        ordinals = list(items.order()) if status == ACTIVE else archived
    return CONVERSATION.kept([items.item_table.items[ordinal] for ordinal in ordinals])


def _plain(messages: Sequence[ChatMessage]) -> list[Message]:
    with kept_as_json("a message"):
        return [message.model_dump(mode="json") for message in messages]


def _add(chat: ChatContext, plain: Sequence[Message], status: MessageStatus) -> None:
    items = CONVERSATION.add_named(chat, plain)
    if items and status != ACTIVE:
        chat._record(EvictItems(chat.stream_id, tuple(item.id for item in items), ARCHIVED, partners=False))


def _leave(chat: ChatContext, leaving: Sequence[ViewMessage], reason: str) -> None:
    ids = tuple(item_id for kept in leaving for item_id in kept.item_ids)
    shown = {item.id for item in chat.recorded_items()}
    if archived := tuple(item_id for item_id in ids if item_id not in shown):
        items = chat._state.items
        reasons = {items.item_table.items[ordinal].id: gone.reason for ordinal, gone in items.departed()}
        # They come back only to be taken out again for another reason.
        chat._record(RestoreItems(chat.stream_id, archived))
        # A call comes back with its output, and an output with its call; a partner that had left alone leaves again.
        for one in [item.id for item in chat.recorded_items() if item.id not in shown.union(ids)]:
            chat._record(EvictItems(chat.stream_id, (one,), reasons[one], partners=False))
    if ids:
        chat._record(EvictItems(chat.stream_id, ids, reason, partners=False))


def _message(kept: ViewMessage) -> ChatMessage:
    return ChatMessage.model_validate(kept.message)


def _part(block: Fields) -> Part:
    kind, given = block.value.get("block_type"), block.value
    if kind == "text":
        return block.text("text")
    if kind == "tool_call":
        return Call(block.text("tool_name"), given.get("tool_kwargs") or {}, given.get("tool_call_id"))
    if kind == "image":
        return picture_of(given.get("image"), given.get("image_mimetype")) or picture_at(given.get("url"))
    return None


def _calls_beside(given: Any) -> Iterator[Call]:
    """Yield the calls that a client of a model keeps beside the blocks, as OpenAI writes them."""
    for call in given if isinstance(given, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(name := function.get("name"), str):
            arguments, call_id = function.get("arguments"), call.get("id")
            yield Call(name, "" if arguments is None else arguments, call_id if isinstance(call_id, str) else None)


def _block(part: str | Picture | Call | Result) -> dict[str, Any]:
    if isinstance(part, Picture):
        place = {"url": part.url} if part.data is None else {"image": part.data}
        return {"block_type": "image", **place, "image_mimetype": part.media_type}
    if isinstance(part, Call):
        call = {"tool_call_id": part.call_id, "tool_name": part.name, "tool_kwargs": arguments_of(part.arguments)}
        return {"block_type": "tool_call", **call}
    return {"block_type": "text", "text": part if isinstance(part, str) else part.output}
