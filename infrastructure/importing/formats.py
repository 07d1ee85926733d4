"""
Which conversations a file holds: the forms are told apart by what lies in the file, not by its name.

    openai, anthropic  a list of messages; an object with "messages"; JSON Lines (or a list) of these, or a message a
                       line; an object of Anthropic's has "system" beside them
    tau                runs with "traj" beside "task_id", "trial" and more: a list, one object, or JSON Lines
    claude-code        the lines of a session: JSON Lines of objects with "parentUuid" (see `claude_lines`)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ...domain.errors import InvalidInputError
from ...domain.formats.openai.receive import kind_of
from .reading import Document

Dialect = Literal["openai", "anthropic"]
OPENAI_ROLES = ("developer", "tool", "function")
OPENAI_FIELDS = {"tool_calls", "tool_call_id", "function_call"}
OPENAI_PARTS = ("image_url", "input_audio", "refusal", "file")
ANTHROPIC_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use")
# Blocks of these types are Anthropic's where they say where they come from.
SOURCED_BLOCKS = ("image", "document")


def dialects_of(conversations: Iterable[tuple[Sequence[Any], Mapping[str, Any]]]) -> list[Dialect]:
    """
    Return the dialect of each conversation of a file: its messages, and what lies beside them.

    One that could be either is like the others of its file; where all could be, they are OpenAI's.
    """
    told = [_dialect_of(messages, beside) for messages, beside in conversations]
    is_anthropic = "anthropic" in told and "openai" not in told
    return [one or ("anthropic" if is_anthropic else "openai") for one in told]


def _dialect_of(messages: Sequence[Any], beside: Mapping[str, Any]) -> Dialect | None:
    marks = [mark for message in messages if isinstance(message, dict) for mark in _marks(message)]
    if "openai" in marks:
        return "openai"
    # OpenAI has no field of this name; some who keep its messages have.
    return "anthropic" if marks or isinstance(beside.get("system"), str | list) else None


def _marks(message: Mapping[str, Any]) -> Iterator[Dialect]:
    if message.get("role") in OPENAI_ROLES or OPENAI_FIELDS & message.keys():
        yield "openai"
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in OPENAI_PARTS:
            yield "openai"
        if kind in ANTHROPIC_BLOCKS or (kind in SOURCED_BLOCKS and isinstance(part.get("source"), dict)):
            yield "anthropic"


Format = Literal["auto", "openai", "anthropic", "tau", "claude-code"]
FORMATS: tuple[Format, ...] = ("auto", "openai", "anthropic", "tau", "claude-code")
MESSAGES_FIELD = {"conversations": "messages", "tau": "traj"}
# What each kind of entries can be taken for.
FORMATS_OF = {
    "messages": ("auto", "openai", "anthropic"),
    "conversations": ("auto", "openai", "anthropic"),
    "tau": ("auto", "tau"),
}
# What the lines of a session have, and what they have not.
SESSION_FIELDS = {"parentUuid", "leafUuid", "sessionId"}
OTHER_FIELDS = {"role", "messages", "traj"}
MESSAGE_FIELDS = {"role", "content", "tool_calls", "tool_call_id", "function_call"}
EXPECTED = {
    "auto": "OpenAI messages (objects with a role) or Anthropic ones, objects with messages, runs with traj, or the "
    "lines of a Claude Code session",
    "openai": "OpenAI messages (objects with a role), or objects with messages",
    "anthropic": "Anthropic messages (objects with a role), or objects with messages",
    "tau": "runs: objects with traj",
}
KEYS_SHOWN_MAX = 5
UNSAFE = re.compile(r"[^\w.:+-]+")


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """
    One run: `number` counts from 1 in its file, `key` names it there, `attributes` is all but its messages and their
    system text.
    """

    number: int
    key: str
    messages: list[Any]
    attributes: dict[str, Any]
    dialect: Dialect = "openai"
    system: Any = None


def conversations_in(document: Document, wanted: Format) -> list[Conversation]:
    """
    Return the conversations of a file, each with a key of its own.

    Raises:
        InvalidInputError: the file holds something else; the error says what stands where instead.
    """
    entries = entries_of(document)
    kind = _kind_of_entries(entries)
    if kind is None or wanted not in FORMATS_OF[kind]:
        raise InvalidInputError(f"expected {EXPECTED[wanted]}, found {_described(entries, document)}")
    if kind == "messages":
        runs: list[tuple[list[Any], dict[str, Any]]] = [(entries, {})]
    else:
        runs = [_split(number, entry, MESSAGES_FIELD[kind]) for number, entry in enumerate(entries, 1)]
    keys = _keys([attributes for _, attributes in runs], kind)
    is_open = wanted == "auto" and kind != "tau"
    dialects = dialects_of(runs) if is_open else [_dialect(wanted)] * len(runs)
    return [
        _conversation(number, key, messages, attributes, dialect)
        for number, (key, (messages, attributes), dialect) in enumerate(zip(keys, runs, dialects, strict=True), 1)
    ]


def is_session(document: Document) -> bool:
    """Return whether a file holds the lines of a Claude Code session: no other has lines that name their parents."""
    objects = [entry.keys() for entry in entries_of(document) if isinstance(entry, dict) and "type" in entry]
    return any(SESSION_FIELDS & fields and not OTHER_FIELDS & fields for fields in objects)


def safe_id(text: str) -> str:
    """Return `text` as a part of a context id that needs no quotes in a shell: other characters become one dash."""
    return re.sub(r"\.{2,}", ".", UNSAFE.sub("-", text)).strip("-") or "context"


def entries_of(document: Document) -> list[Any]:
    """Return the entries of a file: its lines, the values of its list, or its one value."""
    if document.lines is None and isinstance(document.values[0], list):
        whole: list[Any] = document.values[0]
        return whole
    return document.values


def _kind_of_entries(entries: Sequence[Any]) -> str | None:
    objects = [entry for entry in entries if isinstance(entry, dict)]
    if any("traj" in entry for entry in objects):
        return "tau"
    # A message has a role; what else has "messages" holds them.
    if any("messages" in entry and "role" not in entry for entry in objects):
        return "conversations"
    if any(MESSAGE_FIELDS & entry.keys() for entry in objects):
        return "messages"
    return "conversations" if entries and all(isinstance(entry, list) for entry in entries) else None


def _described(entries: Sequence[Any], document: Document) -> str:
    if not entries:
        return "an empty list"
    first = entries[0]
    kind = kind_of(first)
    if isinstance(first, dict):
        keys = ", ".join(repr(key) for key in list(first)[:KEYS_SHOWN_MAX]) or "none"
        kind = f"an object with the keys {keys}"
    is_one = document.lines is None and not isinstance(document.values[0], list)
    return kind if is_one else f"{kind} as the first of {len(entries)} entries"


def _split(number: int, entry: Any, field: str) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(entry, list):
        return entry, {}
    if not isinstance(entry, dict):
        raise InvalidInputError(f"run {number}: found {kind_of(entry)}, expected an object with {field}")
    if field not in entry:
        raise InvalidInputError(f"run {number}, field {field}: missing, expected a list of messages")
    if not isinstance(entry[field], list):
        raise InvalidInputError(
            f"run {number}, field {field}: found {kind_of(entry[field])}, expected a list of messages"
        )
    return entry[field], {name: value for name, value in entry.items() if name != field}


def _keys(runs: Sequence[dict[str, Any]], kind: str) -> list[str]:
    """Return a key for each run: its own where it has one that is unique in the file, else its number."""
    own = [_own_key(run.get("task_id" if kind == "tau" else "id")) for run in runs]
    if kind == "tau":
        count = Counter(own)
        trials = [_own_key(run.get("trial")) for run in runs]
        own = [
            key if key is None or count[key] == 1 else trial and f"{key}.{trial}"
            for key, trial in zip(own, trials, strict=True)
        ]
    numbers = [str(number) for number, _ in enumerate(runs, 1)]
    is_complete = None not in own and len(set(own)) == len(own)
    return [key for key in own if key is not None] if is_complete else numbers


def _dialect(wanted: Format) -> Dialect:
    return "anthropic" if wanted == "anthropic" else "openai"


def _conversation(
    number: int, key: str, messages: list[Any], attributes: dict[str, Any], dialect: Dialect
) -> Conversation:
    system = attributes.get("system") if dialect == "anthropic" else None
    if system is not None:
        attributes = {name: value for name, value in attributes.items() if name != "system"}
    return Conversation(
        number=number, key=key, messages=messages, attributes=attributes, dialect=dialect, system=system
    )


def _own_key(value: Any) -> str | None:
    is_key = isinstance(value, str | int) and not isinstance(value, bool) and value != ""
    return safe_id(str(value)) if is_key else None
