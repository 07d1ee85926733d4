"""Claude Code sessions for tests: lines, each a second behind the one before."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refold import Store
from tests.importing.transcripts import as_lines, written

Line = dict[str, Any]

SESSION = "5e550001-0000-4000-8000-000000000001"
START = 1_800_000_000


class Writing:
    """A session file that is being written: each call adds a line, and returns it."""

    def __init__(self, session: str = SESSION, **fields: Any) -> None:
        self.lines: list[Line] = []
        self._fields = {"sessionId": session, "cwd": "/work-of-mia", "version": "2.0.1", "isSidechain": False, **fields}
        self._numbers = itertools.count(1)

    def line(self, kind: str, parent: Line | str | None, **fields: Any) -> Line:
        """Add a line of a type, behind another one; its uuid is `l` and its number."""
        number = next(self._numbers)
        uuid = parent["uuid"] if isinstance(parent, dict) else parent
        made = {
            "type": kind, "uuid": f"l{number}", "parentUuid": uuid, "timestamp": stamp(number), **self._fields, **fields
        }  # fmt: skip
        self.lines.append(made)
        return made

    def user(self, parent: Line | str | None, content: Any, **fields: Any) -> Line:
        """Add what the user said, or results."""
        return self.line("user", parent, message={"role": "user", "content": content}, **fields)

    def assistant(self, parent: Line | str | None, *blocks: Any, message_id: str | None = None, **fields: Any) -> Line:
        """Add what the assistant said, or a piece of it."""
        number = len(self.lines)
        message = {
            "id": message_id or f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-x",
            "content": [text(block) if isinstance(block, str) else block for block in blocks],
            "usage": {"output_tokens": number},
        }  # fmt: skip
        return self.line("assistant", parent, message=message, **fields)

    def talk(self, parent: Line | None, *words: str) -> Line | None:
        """Add questions and answers in turn, and return the last line."""
        for place, word in enumerate(words):
            parent = self.assistant(parent, word) if place % 2 else self.user(parent, word)
        return parent

    def save(self, path: Path) -> Path:
        """Write the file, and return its path."""
        return written(path, as_lines(*self.lines))


def stamp(number: int) -> str:
    """Return the time of a line."""
    minutes, seconds = divmod(number, 60)
    return f"2027-01-15T08:{minutes:02}:{seconds:02}.000Z"


def text(words: str) -> Line:
    """Return a text block."""
    return {"type": "text", "text": words}


def use(call_id: str, name: str = "Read") -> Line:
    """Return a call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"path": "a.py"}}


def result(call_id: str, content: Any = "found") -> Line:
    """Return the result of a call."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def words(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return messages in short: texts, calls and results, a bar between messages."""
    return " | ".join(_words(message["content"]) for message in messages)


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    kinds = {"text": "text", "tool_use": "id", "tool_result": "tool_use_id", "thinking": "thinking"}
    marks = {"tool_use": "+", "tool_result": "="}
    return " ".join(marks.get(block["type"], "") + str(block[kinds[block["type"]]]) for block in content)


def kept_words(store: Store) -> dict[str, str]:
    """Return what every context says, in short."""
    chats = [store.chat(row.id, create=False) for row in store.contexts()]
    return {chat.id: words(chat.to_anthropic_messages(exact=True)[0]) for chat in chats}


def forked_at(store: Store) -> dict[str, str]:
    """Return for every fork the context and version that it parts from."""
    return {row.id: row.parent.removeprefix("chat:") for row in store.contexts() if row.parent}
