"""
Conversations of OpenAI Agents, Pydantic AI and the Claude Agent SDK, kept by Refold or by the framework's own store.

Only the store of OpenAI Agents keeps them in a database. The other two frameworks have a store in memory, which is lost
with the process. The comparison with it shows what it costs to keep a conversation at all.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .loop import Loop
from .workload import Item, items

MESSAGES = 12_000


class Sessions(ABC):
    """
    Conversations of a framework; one is loaded once, and goes on from there, as a run of an agent does.

    Raises:
        ModuleNotFoundError: the framework is not installed.
    """

    needed: tuple[str, ...]

    def __init__(self, location: str, *, is_ours: bool) -> None:
        for name in self.needed:
            import_module(name)
        self.location, self.is_ours = location, is_ours
        self.pool = [self.message(number, item) for number, item in enumerate(items(MESSAGES))]
        self.store: Any = None
        self.loop = Loop()
        self._known: dict[str, Any] = {}
        self._counts: dict[str, int] = {}

    @abstractmethod
    def message(self, number: int, item: Item) -> Any:
        """Return an item as the framework has it."""

    @abstractmethod
    async def begun(self, name: str) -> Any:
        """Return a new conversation, which replaces one of this name."""

    @abstractmethod
    async def loaded(self, name: str) -> tuple[Any, int]:
        """Return a saved conversation, and the number of its messages."""

    @abstractmethod
    async def save(self, conversation: Any, messages: Sequence[Any]) -> None:
        """Add messages to a conversation."""

    async def forked(self, name: str) -> Any:
        """
        Return a new conversation with all messages of another one except the last; not every framework can do this.
        """
        raise NotImplementedError

    def open(self) -> None:
        """Open the database."""
        if self.is_ours:
            self.store = import_module("refold").open(self.location)
        self._known = {}

    def close(self) -> None:
        """Close it."""
        if self.is_ours:
            self.store.close()

    def begin(self, name: str, count: int) -> None:
        """Save a conversation that has so many messages already."""
        self._known[name] = self.loop.run(self.begun(name))
        self._counts[name] = 0
        self._add(name, count)

    def append(self, name: str) -> None:
        """Add the next message."""
        self._add(name, 1)

    def load(self, name: str) -> int:
        """Read a conversation, and return the number of its messages."""
        self._known[name], self._counts[name] = self.loop.run(self.loaded(name))
        return self._counts[name]

    def fork(self, name: str) -> None:
        """Go on from the state before the last one, with another message."""
        fork = self.loop.run(self.forked(name))
        self.loop.run(self.save(fork, self.pool[-1:]))

    def _add(self, name: str, count: int) -> None:
        start = self._counts[name]
        self.loop.run(self.save(self._known[name], self.pool[start : start + count]))
        self._counts[name] = start + count


class OpenAISessions(Sessions):
    """Sessions of OpenAI Agents, beside its SQLiteSession, or on PostgreSQL its SQLAlchemySession."""

    needed = ("agents", "sqlalchemy")

    def message(self, number: int, item: Item) -> Any:
        """Return an entry of the Responses API."""
        match item.kind:
            case "user":
                return {"role": "user", "content": item.text}
            case "call":
                return {"type": "function_call", "call_id": item.call_id, "name": item.name, "arguments": item.text}
            case "output":
                return {"type": "function_call_output", "call_id": item.call_id, "output": item.text}
            case _:
                content = [{"type": "output_text", "text": item.text, "annotations": []}]
                return {"type": "message", "role": "assistant", "content": content, "status": "completed"}

    def open(self) -> None:
        """Open the database."""
        super().open()
        self._engine: Any = None
        if not self.is_ours and "://" in self.location:
            url = "postgresql+psycopg_async" + self.location.partition("postgresql")[2]
            self._engine = import_module("sqlalchemy.ext.asyncio").create_async_engine(url)

    def close(self) -> None:
        """Close it."""
        if self._engine is not None:
            self.loop.run(self._engine.dispose())
        elif not self.is_ours:
            for session in self._known.values():
                session.close()
        super().close()

    async def begun(self, name: str) -> Any:
        """Return a session without entries."""
        session = self._session(name)
        await session.clear_session()
        return session

    async def loaded(self, name: str) -> tuple[Any, int]:
        """Return a session, and the number of its entries."""
        session = self._session(name)
        return session, len(await session.get_items())

    async def save(self, conversation: Any, messages: Sequence[Any]) -> None:
        """Add entries."""
        await conversation.add_items(list(messages))

    def _session(self, name: str) -> Any:
        if self.is_ours:
            return import_module("refold.openai_agents").RefoldSession(self.store, name)
        if self._engine is None:
            return import_module("agents").SQLiteSession(name, self.location)
        module: Any = import_module("agents.extensions.memory.sqlalchemy_session")
        return module.SQLAlchemySession(name, engine=self._engine, create_tables=True)


class PydanticConversations(Sessions):
    """Conversations of Pydantic AI, beside its InMemoryConversationStore."""

    needed = ("pydantic_ai.conversation_store",)

    def open(self) -> None:
        """Open the database."""
        super().open()
        if self.is_ours:
            self._kept: Any = import_module("refold.pydantic_ai").RefoldConversations(self.store)
        elif not hasattr(self, "_kept"):
            self._kept = import_module("pydantic_ai.conversation_store").InMemoryConversationStore()

    def message(self, number: int, item: Item) -> Any:
        """Return a request or a response of one part."""
        forms: Any = import_module("pydantic_ai.messages")
        match item.kind:
            case "user":
                return forms.ModelRequest([forms.UserPromptPart(item.text)])
            case "call":
                return forms.ModelResponse([forms.ToolCallPart(item.name, item.text, item.call_id)])
            case "output":
                return forms.ModelRequest([forms.ToolReturnPart(item.name, item.text, item.call_id)])
            case _:
                return forms.ModelResponse([forms.TextPart(item.text)])

    async def begun(self, name: str) -> Any:
        """Return a conversation without messages."""
        await self._kept.delete(name)
        return import_module("pydantic_ai.conversation").Conversation(conversation_id=name)

    async def loaded(self, name: str) -> tuple[Any, int]:
        """Return a conversation, and the number of its messages."""
        conversation = await self._kept.load(name)
        return conversation, len(conversation.messages)

    async def save(self, conversation: Any, messages: Sequence[Any]) -> None:
        """Add messages."""
        conversation.messages.extend(messages)
        await self._kept.save(conversation)

    async def forked(self, name: str) -> Any:
        """Return a fork without the last message."""
        return await self._kept.fork(name, at=self._counts[name] - 1)


class ClaudeSessions(Sessions):
    """Sessions of the Claude Agent SDK, beside its InMemorySessionStore."""

    needed = ("claude_agent_sdk",)

    def open(self) -> None:
        """Open the database."""
        super().open()
        if self.is_ours:
            self._kept: Any = import_module("refold.claude").RefoldSessions(self.store)
        elif not hasattr(self, "_kept"):
            self._kept = import_module("claude_agent_sdk").InMemorySessionStore()

    def message(self, number: int, item: Item) -> Any:
        """Return a line of a transcript."""
        role, part = "assistant", {"type": "text", "text": item.text}
        if item.kind == "call":
            part = {"type": "tool_use", "id": item.call_id, "name": item.name, "input": json.loads(item.text)}
        elif item.kind == "output":
            role, part = "user", {"type": "tool_result", "tool_use_id": item.call_id, "content": item.text}
        elif item.kind == "user":
            role = "user"
        head = {"parentUuid": f"u{number - 1}" if number else None, "isSidechain": False, "sessionId": "s"}
        message = {"role": role, "content": [part]}
        return {**head, "uuid": f"u{number}", "timestamp": "2026-11-23T10:00:00.000Z", "type": role, "message": message}

    async def begun(self, name: str) -> Any:
        """Return the key of a session without lines."""
        key = {"project_key": "p", "session_id": name}
        await self._kept.delete(key)
        return key

    async def loaded(self, name: str) -> tuple[Any, int]:
        """Return the key of a session, and the number of its lines."""
        key = {"project_key": "p", "session_id": name}
        return key, len(await self._kept.load(key))

    async def save(self, conversation: Any, messages: Sequence[Any]) -> None:
        """Add lines."""
        await self._kept.append(conversation, list(messages))
