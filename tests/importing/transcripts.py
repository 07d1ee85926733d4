"""Transcript files for tests."""

import json
from pathlib import Path
from typing import Any

from refold import Store
from tests.importing.shapes import Message, answered, asked, call, said

Run = dict[str, Any]

HELLO = said("user", "hello")
TALK = [HELLO, asked(call("a", "look_up"), content="One moment."), answered("a", "found"), said("assistant", "Here.")]


def run(task_id: Any, *messages: Message, trial: Any = 0, **fields: Any) -> Run:
    """Return a run in the form of tau-bench."""
    return {"task_id": task_id, "trial": trial, "reward": 1.0, "traj": list(messages), **fields}


def written(path: Path, value: Any) -> Path:
    """Write a value as JSON, or a text as it is, and return the path."""
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def as_lines(*values: Any) -> str:
    """Return values as JSON Lines."""
    return "".join(json.dumps(value) + "\n" for value in values)


def kept(store: Store) -> dict[str, list[Message]]:
    """Return the messages of every context."""
    chats = [store.chat(row.id, create=False) for row in store.contexts() if row.kind == "chat"]
    return {chat.id: chat.to_openai_messages(exact=True) for chat in chats}
