"""
The conversations of a file: one JSON document, or JSON Lines. The format is found from the content, not from the name.

    openai, anthropic  a list of messages; an object with "messages"; JSON Lines (or a list) of these, or a message a
                       line; an object of Anthropic's has "system" beside them
    tau                runs with "traj" beside "task_id", "trial" and more: a list, one object, or JSON Lines
    claude-code        the lines of a session: JSON Lines of objects with "parentUuid" (see `claude_sessions`)
    atif, otel, sharegpt, responses, gemini
                       documents of other programs, or (but for atif) messages of one: see `exchange.transcripts`
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec

from ...domain.errors import InvalidInputError
from ...domain.formats.messages import dialect_of
from ...domain.formats.receive import kind_of
from ...domain.log.admission import JSON_DEPTH_MAX
from ..exchange.transcripts import TRANSCRIPT_FORMS, TranscriptForm, document_form, form_of
from ..files import parse_foreign, read_bounded

SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
Dialect = Literal["openai", "anthropic"] | TranscriptForm
# The forms of the messages of a run, and the formats of files.
Form = Dialect | Literal["claude-code"]
Format = Literal["auto", "tau"] | Form
FORMATS: tuple[Format, ...] = ("auto", "openai", "anthropic", "tau", "claude-code", *TRANSCRIPT_FORMS)
MESSAGES_FIELD = {"conversations": "messages", "tau": "traj"}
# The formats that each kind of entries can have.
FORMATS_OF = {
    **dict.fromkeys(("messages", "conversations"), ("auto", "openai", "anthropic")),
    "tau": ("auto", "tau"),
}
# Fields that lines of a session have, and fields that they never have.
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
# The fields that may name a document; the first one with a value counts.
KEYS = ("id", "trajectory_id", "session_id", "gen_ai.conversation.id")
REPLACEMENT = "\ufffd"
UNSAFE = re.compile(r"[^\w.:+-]+")


class Document:
    """
    The values of a file: one, or one per line (`lines` then has their numbers, from 1).

    `may_hold_surrogates` is False if no text can hold a lone surrogate: UTF-8 has none, so JSON needs an escape for it.
    `unfinished` is the fault of a last line without an end, as in a file that is being written; its value is missing.
    """

    def __init__(
        self, values: list[Any], text: str, lines: list[int] | None = None, unfinished: InvalidInputError | None = None
    ) -> None:
        self.values, self.lines, self.unfinished = values, lines, unfinished
        self.may_hold_surrogates = SURROGATE_ESCAPE.search(text) is not None


def read_document(path: Path) -> Document:
    """
    Return the JSON values in a file.

    Raises:
        InvalidInputError: the file is missing, unreadable, too large, empty, not UTF-8 or not JSON, or nested deeper
            than JSON_DEPTH_MAX.
    """
    text = _read_text(path)
    if not text.strip():
        raise InvalidInputError(f"{path} is empty: expected JSON or JSON Lines")
    try:
        return Document([_parse(text)], text)
    except json.JSONDecodeError as error:
        lines = _json_lines(path, text)
        if lines is None:
            raise InvalidInputError(
                f"{path} is not JSON: {_fault(error)} at line {error.lineno}, column {error.colno}"
            ) from error
        return lines
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}: {_fault(error)}") from error


def _read_text(path: Path) -> str:
    try:
        return _decoded(read_bounded(path))
    except FileNotFoundError as error:
        raise InvalidInputError(f"there is no file {path}: check the name") from error
    except IsADirectoryError as error:
        raise InvalidInputError(f"{path} is a folder: name a file in it") from error
    except PermissionError as error:
        raise InvalidInputError(f"{path} may not be read: check its rights") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x}): convert it first"
        ) from error
    except InvalidInputError:
        raise
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _decoded(data: bytes) -> str:
    try:
        # The byte order mark that some editors write is not part of the text.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data" or b"\n" not in data:
            raise
        # The last line is still being written: it becomes a line that is no JSON.
        return data[: error.start].decode("utf-8-sig") + REPLACEMENT


def _json_lines(path: Path, text: str) -> Document | None:
    """Return the values of JSON Lines; None if the first line is no JSON value, so that the document is broken."""
    values: list[Any] = []
    numbers: list[int] = []
    # Not splitlines(): it also splits at characters that JSON allows in texts.
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            values.append(_parse(line))
        except json.JSONDecodeError as error:
            if not values:
                return None
            fault = InvalidInputError(
                f"{path} is not JSON Lines: {_fault(error)} at line {number}, column {error.colno}"
            )
            if number == len(lines):
                return Document(values, text, numbers, fault)
            raise fault from error
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"{path}, line {number}: {_fault(error)}") from error
        numbers.append(number)
    return Document(values, text, numbers)


def _parse(text: str) -> Any:
    return parse_foreign(text, parse_constant=_refuse_constant, object_pairs_hook=_object)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value: write null, or a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        # Otherwise the last value would silently replace the others.
        raise ValueError(f"an object has the key {twice!r} twice: rename one")
    return made


def _fault(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg[:1].lower() + error.msg[1:]
    if isinstance(error, RecursionError):
        return f"its values are nested too deeply: JSON_DEPTH_MAX is {JSON_DEPTH_MAX}"
    return str(error)


def _dialect_of(messages: Sequence[Any], beside: Mapping[str, Any]) -> Dialect | None:
    found = {dialect_of(message) for message in messages if isinstance(message, dict)}
    if "openai" in found:
        return "openai"
    # OpenAI has no field "system", but some tools that store OpenAI's messages add one. So OpenAI's marks count first.
    return "anthropic" if "anthropic" in found or isinstance(beside.get("system"), str | list) else None


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """
    One run: `number` counts from 1 in its file, `key` names it there. `attributes` has all fields of the run but its
    messages and their system text.
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
        InvalidInputError: the file holds something else; the error names the place and what was found there.
    """
    entries = entries_of(document)
    form = form_of(entries)
    if form is not None and wanted in ("auto", form):
        return _documents(entries, form)
    kind = _kind_of_entries(entries)
    if kind is None or wanted not in FORMATS_OF[kind]:
        expected = EXPECTED.get(wanted, f"a document of {wanted}")
        raise InvalidInputError(f"expected {expected}, found {_described(entries, document)}")
    if kind == "messages":
        runs: list[tuple[list[Any], dict[str, Any]]] = [(entries, {})]
    else:
        runs = [_split(number, entry, MESSAGES_FIELD[kind]) for number, entry in enumerate(entries, 1)]
    keys = _keys([attributes for _, attributes in runs], kind)
    is_open = wanted == "auto" and kind != "tau"
    found = [_dialect_of(*run) if is_open else None for run in runs]
    # A run that fits both dialects gets the dialect of the others in its file; if all fit both, it is OpenAI's.
    is_anthropic = wanted == "anthropic" or ("anthropic" in found and "openai" not in found)
    dialects: list[Dialect] = [one or ("anthropic" if is_anthropic else "openai") for one in found]
    return [
        _conversation(number, key, messages, attributes, dialect)
        for number, (key, (messages, attributes), dialect) in enumerate(zip(keys, runs, dialects, strict=True), 1)
    ]


def is_session(document: Document) -> bool:
    """Return whether a file holds the lines of a Claude Code session: only these lines name their parents."""
    objects = [entry.keys() for entry in entries_of(document) if isinstance(entry, dict) and "type" in entry]
    return any(SESSION_FIELDS & fields and not OTHER_FIELDS & fields for fields in objects)


def safe_id(text: str) -> str:
    """Return `text` as a part of a context id that needs no quotes in a shell: other characters become dashes."""
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
    # A message has a role, so an object with "messages" and without a role is a conversation.
    if any("messages" in entry and "role" not in entry for entry in objects):
        return "conversations"
    if any(MESSAGE_FIELDS & entry.keys() for entry in objects):
        return "messages"
    return "conversations" if entries and all(isinstance(entry, list) for entry in entries) else None


def _documents(entries: Sequence[Any], name: TranscriptForm) -> list[Conversation]:
    """Return the conversations of documents; messages without a document are one conversation."""
    form = document_form(name)
    documents = entries if any(isinstance(entry, dict) and form.is_document(entry) for entry in entries) else None
    made = []
    for number, document in enumerate(documents or [{form.fields[0]: list(entries)}], 1):
        if not isinstance(document, dict) or (documents and not form.is_document(document)):
            raise InvalidInputError(f"run {number}: found {kind_of(document)}, expected a document of {name}")
        made.append((form.messages_in(document), form.beside(document)))
    own = [_own_key(next((beside[field] for field in KEYS if beside.get(field)), None)) for _, beside in made]
    return [
        Conversation(number=number, key=key, messages=one, attributes=beside, dialect=name)
        for number, (key, (one, beside)) in enumerate(zip(_own_or_numbers(own), made, strict=True), 1)
    ]


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
    """Return a key for each run: its own key if that is unique in the file, else its number."""
    own = [_own_key(run.get("task_id" if kind == "tau" else "id")) for run in runs]
    if kind == "tau":
        count = Counter(own)
        trials = [_own_key(run.get("trial")) for run in runs]
        own = [
            key if key is None or count[key] == 1 else trial and f"{key}.{trial}"
            for key, trial in zip(own, trials, strict=True)
        ]
    return _own_or_numbers(own)


def _own_or_numbers(own: Sequence[str | None]) -> list[str]:
    """Return the own keys of conversations if each has another one, else their numbers."""
    keys = [key for key in own if key is not None]
    return keys if len(set(keys)) == len(own) else [str(number) for number, _ in enumerate(own, 1)]


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
