"""
Channels that hold messages besides the one that the chat of a thread shows: each has a chat of its own. So has a
`DeltaChannel`, whose messages LangGraph saves as a whole only now and then, as a snapshot.

A checkpoint names the version of that chat which shows the messages, so that each message is stored once, however many
checkpoints have it. Where branches of a thread have other messages in the channel, their versions follow each other in
the one chat.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from ....domain.chat.context import ChatContext, ReadOnlyChatContext
from ....domain.errors import NotFoundError
from ....domain.ids import encoded_id, split_stream_id
from ..conversation import IsCounted, Message
from ..open_chats import user_of
from .branch import FRAMEWORK, holds
from .messages import CONVERSATION, Copies, is_messages, messages_of, plain_of, require_shown
from .values import Values

if TYPE_CHECKING:
    from ...store import Store

# The source of these chats, which distinguishes them from the namespaces of a thread.
SOURCE = "langgraph.channel"
# Before the name of the channel in the id of its chat.
MARK = "."
GONE = "the graph took it out of the channel"


def view_at(store: Store, place: str) -> ReadOnlyChatContext:
    """Return a chat at a version, given as `stream@version`."""
    stream, _, version = place.rpartition("@")
    return store.chat(split_stream_id(stream)[1], create=False).at(int(version))


def messages_in(value: Any) -> list[BaseMessage] | None:
    """Return the messages that the value of a channel is, also one of a snapshot; None if it is something else."""
    found = value.value if isinstance(value, _DeltaSnapshot) else value
    return found if is_messages(found) else None


class ChannelChat(NamedTuple):
    """The chat of a channel, and the messages that it shows at a version."""

    chat: ChatContext
    copies: Copies
    version: int


class Change(NamedTuple):
    """The messages that a save adds to the chat of a channel: behind those that are there, or instead of them."""

    known: ChannelChat
    messages: list[BaseMessage]
    plain: list[Message]
    version: int


class ChannelChats:
    """The chats of the channels of a thread."""

    def __init__(self, store: Store, chat: str, session: str) -> None:
        self._store, self._chat, self._session = store, chat, session
        self._known: dict[str, ChannelChat] = {}
        self._changes: dict[str, Change] = {}

    def forget(self) -> None:
        """Open the chats again when they are needed, as after a save that failed."""
        self._known, self._changes = {}, {}

    def show(self, channel: str, value: Any, values: Values, is_counted: IsCounted) -> dict[str, Any]:
        """
        Let the chat of a channel show its messages, in a transaction; return what names them in a record.

        Messages that are counted elsewhere are shown without their usage.

        Raises:
            InvalidInputError: a message holds a value that cannot be saved.
        """
        messages = messages_in(value) or []
        known = self._opened(channel)
        chat, count = known.chat, len(known.copies)
        is_more = known.version == chat.version and known.copies.begin(messages, values)
        new = messages[count:] if is_more else messages
        plain = [plain_of(one, values) for one in new]
        if is_more:
            CONVERSATION.add(chat, plain, is_counted=is_counted)
        else:
            CONVERSATION.show(chat, plain, reason=GONE, is_counted=is_counted)
            known = known._replace(copies=Copies())
        self._changes[channel] = Change(known, new, plain, chat.version)
        named = {"view": f"{chat.stream_id}@{chat.version}", "count": len(messages)}
        return {**named, "is_snapshot": True} if isinstance(value, _DeltaSnapshot) else named

    def settle(self) -> None:
        """Note what was recorded."""
        for channel, (known, messages, plain, version) in self._changes.items():
            known.copies.add(messages, plain)
            self._known[channel] = known._replace(version=version)
        self._changes = {}

    def value(self, named: dict[str, Any], values: Values) -> Any:
        """
        Return the value of a channel that a record names, with new messages.

        Raises:
            DamagedError: the chat does not show so many.
        """
        found = self._messages(named, values)
        return _DeltaSnapshot(found) if named.get("is_snapshot") else found

    def _messages(self, named: dict[str, Any], values: Values) -> list[BaseMessage]:
        for known in self._known.values():
            if f"{known.chat.stream_id}@{known.version}" == named["view"]:
                return known.copies.messages(named["count"], values)
        items = view_at(self._store, named["view"]).recorded_items()
        found, _ = messages_of(items, values)
        require_shown(named["view"], items, len(found), named["count"])
        return found

    def chats(self) -> Iterator[ChatContext]:
        """Yield the chats that are there."""
        for row in self._store.rows("catalogue", under=f"chat:{self._chat}/{MARK}"):
            about: Any = row
            if about.source == SOURCE:
                yield self._store.chat(about.id, create=False, durability="commit")

    def holds(self, message_id: str) -> bool:
        """Return whether one of the chats that are open holds a message."""
        return any(holds(known.chat, message_id) for known in list(self._known.values()))

    def _opened(self, channel: str) -> ChannelChat:
        known = self._known.get(channel)
        if known:
            known.chat.refresh()
            return known
        name = f"{self._chat}/{MARK}{encoded_id(channel, f'the channel {channel!r}')}"
        chat = self._chat_of(name)
        items = list(chat.recorded_items())
        return ChannelChat(chat, Copies(items, len(CONVERSATION.kept(items))), chat.version)

    def _chat_of(self, name: str) -> ChatContext:
        with suppress(NotFoundError):
            return self._store.chat(name, create=False, durability="commit")
        about: dict[str, Any] = {"user": user_of(self._store, self._session), "session": self._session}
        return self._store.chat(name, **about, agent=FRAMEWORK, source=SOURCE, durability="commit")
