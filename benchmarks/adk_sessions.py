"""Sessions of Google's Agent Development Kit, kept by Refold's session service or by the kit's own for databases."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from .loop import Loop
from .workload import Item, items

EVENTS = 12_000
APP, USER = "bench", "mia"
AUTHOR = "clerk"


class Sessions:
    """
    Sessions in a database; a session is loaded once, and goes on from there, as a run of an agent does.

    Raises:
        ModuleNotFoundError: the kit, or a package that its own service needs, is not installed.
    """

    def __init__(self, location: str, *, is_ours: bool) -> None:
        self._location, self._is_ours = location, is_ours
        for name in ("google.adk.events.event", "sqlalchemy", "aiosqlite"):
            import_module(name)
        self._module: Any = import_module("refold.adk" if is_ours else "google.adk.sessions")
        self._pool = [_event(number, item) for number, item in enumerate(items(EVENTS))]
        self._sessions: dict[str, Any] = {}
        self._service: Any = None
        self._store: Any = None
        # Both are asked from any thread, and the kit's service belongs to one loop.
        self._run = Loop().run

    def open(self) -> None:
        """Open the database."""
        if self._is_ours:
            self._store = import_module("refold").open(self._location)
            self._service = self._module.RefoldSessionService(self._store)
        else:
            scheme = "postgresql+psycopg_async" if "://" in self._location else "sqlite+aiosqlite:///"
            place = self._location.partition("postgresql")[2] if "://" in self._location else self._location
            self._service = self._module.DatabaseSessionService(f"{scheme}{place}")
        self._sessions = {}

    def close(self) -> None:
        """Close it."""
        if self._is_ours:
            self._store.close()
        else:
            self._run(self._service.close())

    def begin(self, name: str, count: int) -> None:
        """Make a session with so many events, each appended by itself: the kit has no call for several."""
        if self._sessions.pop(name, None):
            self._run(self._service.delete_session(**_key(name)))
        self._sessions[name] = self._run(self._service.create_session(**_key(name)))
        self._run(self._appended(name, self._pool[:count]))

    def append(self, name: str) -> None:
        """Add the next event."""
        self._run(self._appended(name, [self._pool[len(self._sessions[name].events)]]))

    def load(self, name: str) -> int:
        """Read a session, and return the number of its events."""
        self._sessions[name] = self._run(self._service.get_session(**_key(name)))
        return len(self._sessions[name].events)

    def fork(self, name: str) -> None:
        """Go back to before the last invocation, as the kit does it, and on from there with another event."""
        actions = {"rewind_before_invocation_id": self._sessions[name].events[-1].invocation_id}
        rewind = {"author": "user", "actions": actions}
        self._run(self._appended(name, [rewind, self._pool[-1]]))

    async def _appended(self, name: str, events: list[dict[str, Any]]) -> None:
        session = self._sessions[name]
        event_type: Any = import_module("google.adk.events.event").Event
        for event in events:
            await self._service.append_event(session, event_type(**event))


def _key(name: str) -> dict[str, str]:
    return {"app_name": APP, "user_id": USER, "session_id": name}


def _event(number: int, item: Item) -> dict[str, Any]:
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
