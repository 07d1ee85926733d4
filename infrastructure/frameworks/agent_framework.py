"""The history of a session of Microsoft's Agent Framework, kept as a chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from agent_framework import HistoryProvider
from agent_framework import Message as AgentMessage
from agent_framework._sessions import filter_new_messages

from ...domain.chat.events import ChatItemEvent
from ...domain.concurrency.threads import in_thread
from ...domain.errors import InvalidInputError
from ...domain.formats.parts import Call, Part, Picture, Result, parts_of, picture_at, read_parts, role_of
from ...domain.formats.receive import Fields, Receiver
from ...domain.ids import encoded_id
from .conversation import Conversation, Message, kept_as_json
from .open_chats import Entry, OpenChat, OpenChats, acting_as, require_store

if TYPE_CHECKING:
    from ..store import Store

NAME = "agent_framework"
ROLES = {"system": "system", "developer": "developer", "user": "user", "assistant": "assistant", "tool": "user"}
NOTHING_BESIDE: dict[str, Any] = {"additional_properties": {}}


class AgentForm:
    """The JSON of the framework's own `Message.to_dict`."""

    name = NAME

    def read(self, message: Message, into: Receiver) -> None:
        """Add the texts and images of a message as one item, and an item for each call and each result."""
        fields = Fields("a message", message)
        role, contents = message.get("role"), message.get("contents")
        if role not in ROLES or not isinstance(contents, list):
            raise fields.unexpected_value("role", role, f"one of {', '.join(ROLES)}, and contents as a list")
        read_parts(ROLES[role], (_part(Fields("a content", content)) for content in contents), into, "a message")
        if role == "assistant" and isinstance(author := message.get("author_name"), str) and author:
            into.items[:] = [msgspec.structs.replace(item, agent_id=author) for item in into.items]

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        """Return the message that these items are."""
        contents = [{**_content(part), **NOTHING_BESIDE} for part in parts_of(items)]
        role, agent = role_of(items), items[0].agent_id
        about = {"author_name": agent} if agent and role == "assistant" else {}
        return {"type": "message", "role": role, "contents": contents, **about, **NOTHING_BESIDE}


CONVERSATION = Conversation(AgentForm())


class RefoldHistoryProvider(HistoryProvider):
    """
    A provider that keeps the history of each session as the chat with the session's id, in which an `@` is `%40`.

    Give it to an agent as one of its `context_providers`. The next run also loads items that others add to the chat.
    """

    def __init__(self, store: Store, source_id: str = "refold", *, actor: str = NAME, **settings: Any) -> None:
        """
        Keep histories in `store`; `settings` are those of `HistoryProvider`, such as `store_inputs`.

        `actor` is recorded where nobody else is named as the actor.
        """
        super().__init__(source_id, **settings)
        self._chats, self._actor = OpenChats(require_store(store), CONVERSATION), actor

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[AgentMessage]:
        """Return the messages in the view of a session's chat; none if there is no chat."""
        return await in_thread(self._messages, _chat_id_of(session_id))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[AgentMessage],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Put messages at the end of a session's chat, all or none; those at its end are not put there again.

        Raises:
            InvalidInputError: the session has no id, or a message cannot be kept as JSON.
        """
        await in_thread(self._save, _chat_id_of(session_id), list(messages))

    # Each of the following runs in a thread.

    def _messages(self, session_id: str) -> list[AgentMessage]:
        with self._chats.taken(session_id) as found:
            return [] if found is None else _of_framework(found.entries())

    def _save(self, session_id: str, messages: list[AgentMessage]) -> None:
        def add(found: OpenChat) -> None:
            # An agent may be given its whole history again. One message more says whether the history is longer.
            new = filter_new_messages(_of_framework(found.last(len(messages) + 1)), messages)
            with kept_as_json("a message"):
                plain = [message.to_dict() for message in new]
            CONVERSATION.add_named(found.chat, plain)

        if messages:
            with acting_as(self._actor):
                self._chats.change(session_id, add)


def _of_framework(entries: Sequence[Entry]) -> list[AgentMessage]:
    return [AgentMessage.from_dict(msgspec.json.decode(entry.encoded)) for entry in entries]


def _chat_id_of(session_id: str | None) -> str:
    if not session_id:
        raise InvalidInputError("the session has no id: make it with agent.create_session(session_id=...)")
    return encoded_id(session_id, "the session id")


def _part(content: Fields) -> Part:
    kind, given = content.value.get("type"), content.value
    if kind == "text":
        return content.text("text")
    if kind == "function_call":
        return Call(content.text("name"), given.get("arguments") or "", content.text("call_id"))
    if kind == "function_result":
        return Result("", given.get("result", ""), content.text("call_id"), is_error=bool(given.get("exception")))
    is_image = kind in ("uri", "data") and str(given.get("media_type")).startswith("image/")
    return picture_at(given.get("uri")) if is_image else None


def _content(part: str | Picture | Call | Result) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, Picture):
        return {"type": "uri" if part.data is None else "data", "uri": part.url, "media_type": part.media_type}
    if isinstance(part, Call):
        called = {"call_id": part.call_id, "name": part.name, "arguments": part.arguments}
        return {"type": "function_call", **called}
    result = {"type": "function_result", "call_id": part.call_id, "result": part.output}
    return {**result, "exception": "Error"} if part.is_error else result
