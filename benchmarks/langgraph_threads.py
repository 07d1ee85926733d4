"""Threads of LangGraph whose state is a list of messages, kept by Refold's saver or by LangGraph's own."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from importlib import import_module
from typing import Any, NamedTuple

from .peers import langchain_messages
from .workload import items

# More messages than the longest thread has, after all appends.
MESSAGES = 12_000


class _State(NamedTuple):
    config: dict[str, Any]
    messages: list[Any]
    version: Any


class Threads:
    """
    Threads in a database; a thread is loaded once, and goes on from there, as a run of a graph does.

    Raises:
        ModuleNotFoundError: LangGraph or its saver for this database is not installed.
    """

    def __init__(self, location: str, *, is_ours: bool, **options: Any) -> None:
        """Keep threads at `location`; `options` are passed to Refold's saver."""
        self._location, self._options = location, options
        self._kind = "refold" if is_ours else "postgres" if "://" in location else "sqlite"
        name = "refold.langgraph" if is_ours else f"langgraph.checkpoint.{self._kind}"
        self._module: Any = import_module(name)
        self._empty: Any = import_module("langgraph.checkpoint.base").empty_checkpoint
        self._pool: list[Any] = langchain_messages(items(MESSAGES)) or []
        self._states: dict[str, _State] = {}
        self._saver: Any = None
        self._opened = ExitStack()

    def open(self) -> None:
        """Open the database."""
        if self._kind == "refold":
            store = self._opened.enter_context(import_module("refold").open(self._location))
            self._saver = self._module.RefoldSaver(store, **self._options)
        elif self._kind == "postgres":
            self._saver = self._opened.enter_context(self._module.PostgresSaver.from_conn_string(self._location))
            self._saver.setup()
        else:
            connection = self._opened.enter_context(closing(sqlite3.connect(self._location, check_same_thread=False)))
            self._saver = self._module.SqliteSaver(connection)
        self._states = {}

    def close(self) -> None:
        """Close it."""
        self._opened.close()

    def begin(self, name: str, count: int) -> None:
        """Save a thread that has so many messages already; a thread of this name begins anew."""
        if self._states.pop(name, None):
            self._saver.delete_thread(name)
        config = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        self._put(name, _State(config, [], None), self._pool[:count])

    def append(self, name: str) -> None:
        """Add the next message."""
        state = self._states[name]
        self._put(name, state, [*state.messages, self._pool[len(state.messages)]])

    def load(self, name: str) -> int:
        """Read a thread, and return the number of its messages."""
        return len(self.messages(name))

    def messages(self, name: str) -> list[Any]:
        """Read a thread, and return its messages, those of LangChain."""
        self._states[name] = state = self._loaded({"configurable": {"thread_id": name, "checkpoint_ns": ""}})
        return state.messages

    def fork(self, name: str) -> None:
        """Go on from the state before the last one, with another message."""
        newest = self._saver.get_tuple(self._states[name].config)
        state = self._loaded(newest.parent_config or newest.config)
        self._put(name, state, [*state.messages, self._pool[-1]])

    def _loaded(self, config: dict[str, Any]) -> _State:
        found = self._saver.get_tuple(config)
        versions = found.checkpoint["channel_versions"]
        return _State(found.config, found.checkpoint["channel_values"]["messages"], versions["messages"])

    def _put(self, name: str, state: _State, messages: list[Any]) -> None:
        version = self._saver.get_next_version(state.version, None)
        versions = {"messages": version}
        checkpoint = self._empty() | {"channel_values": {"messages": messages}, "channel_versions": versions}
        config = {"configurable": {"checkpoint_ns": "", **state.config["configurable"]}}
        saved = self._saver.put(config, checkpoint, {"source": "loop", "step": len(messages)}, versions)
        self._states[name] = _State(saved, messages, version)
