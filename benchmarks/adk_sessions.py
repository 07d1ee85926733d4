"""Sessions of Google's Agent Development Kit, kept by Refold's session service or by the kit's own for databases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .agent_sessions import Sessions
from .workload import Item

APP, USER = "bench", "mia"
AUTHOR = "clerk"


class AdkSessions(Sessions):
    """Sessions of the kit, beside its DatabaseSessionService."""

    needed = ("google.adk.events.event", "sqlalchemy", "aiosqlite")

    def open(self) -> None:
        """Open the database."""
        super().open()
        if self.is_ours:
            self._service: Any = import_module("refold.adk").RefoldSessionService(self.store)
        else:
            scheme = "postgresql+psycopg_async" if "://" in self.location else "sqlite+aiosqlite:///"
            place = self.location.partition("postgresql")[2] if "://" in self.location else self.location
            self._service = import_module("google.adk.sessions").DatabaseSessionService(f"{scheme}{place}")

    def close(self) -> None:
        """Close it."""
        if not self.is_ours:
            self.loop.run(self._service.close())
        super().close()

    def message(self, number: int, item: Item) -> Any:
        """Return the fields of an event."""
        role = "model"
        part: dict[str, Any] = {"text": item.text}
        if item.kind == "call":
            part = {"function_call": {"id": item.call_id, "name": item.name, "args": json.loads(item.text)}}
        elif item.kind == "output":
            role, part = (
                "user",
                {"function_response": {"id": item.call_id, "name": item.name, "response": {"result": item.text}}},
            )
        elif item.kind == "user":
            role = "user"
        author = "user" if item.kind == "user" else AUTHOR
        return {"author": author, "invocation_id": f"i{number // 4}", "content": {"role": role, "parts": [part]}}

    async def begun(self, name: str) -> Any:
        """Return a session without events."""
        if name in self._known:
            await self._service.delete_session(**_key(name))
        return await self._service.create_session(**_key(name))

    async def loaded(self, name: str) -> tuple[Any, int]:
        """Return a session, and the number of its events."""
        session = await self._service.get_session(**_key(name))
        return session, len(session.events)

    async def save(self, conversation: Any, messages: Sequence[Any]) -> None:
        """Append events one by one: the kit has no call for several."""
        event_type: Any = import_module("google.adk.events.event").Event
        for event in messages:
            await self._service.append_event(conversation, event_type(**event))

    async def forked(self, name: str) -> Any:
        """Go back to before the last invocation, as the kit does it, and return the session."""
        session = self._known[name]
        actions = {"rewind_before_invocation_id": session.events[-1].invocation_id}
        await self.save(session, [{"author": "user", "actions": actions}])
        return session


def _key(name: str) -> dict[str, str]:
    return {"app_name": APP, "user_id": USER, "session_id": name}
