"""
The lines of a Claude Code session file, each checked by itself.

A line of type "user" or "assistant" has a message in Anthropic's form, or a piece of one: an assistant's message of
several blocks is written block by block, under one `message.id`. Lines of other types have none, but others may follow
them: they are passed over, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from ...domain.clock import REAL_SYSTEM
from ...domain.formats.openai.receive import Fields

MESSAGE_TYPES = ("user", "assistant")
# Short descriptions of the session, from its beginning or by and by.
TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
# No line has this uuid: it stands for one that cannot be found.
LOST = ""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """
    A line with a message: what it follows (`parent`), and of whom it tells: a sub-agent (`agent`, which may have no
    name), or the session itself (None). `beside` is the line without its message.
    """

    number: int
    uuid: str
    parent: str | None
    agent: str | None
    session: str | None
    created_at: float
    message: dict[str, Any]
    beside: dict[str, Any]

    @property
    def message_id(self) -> str | None:
        """The id of the assistant's message that the line is a piece of."""
        found = self.message.get("id")
        return found if self.message.get("role") == "assistant" and isinstance(found, str) else None

    def ids_of(self, kind: str, field: str) -> list[str]:
        """Return the ids that blocks of a kind have in a field."""
        content = self.message.get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        return [block[field] for block in blocks if block.get("type") == kind and isinstance(block.get(field), str)]


class SessionFile(msgspec.Struct, kw_only=True):
    """The content of a file: its lines with messages by uuid, in order, and what the lines between them follow."""

    lines: dict[str, Line] = msgspec.field(default_factory=dict)
    links: dict[str, str | None] = msgspec.field(default_factory=dict)
    titles: list[str] = msgspec.field(default_factory=list)
    passed_over: Counter[str] = msgspec.field(default_factory=Counter)
    repeated: int = 0


def read_lines(entries: Iterable[tuple[int, Any]]) -> SessionFile:
    """
    Return the lines of a file, given each with its number.

    Raises:
        InvalidInputError: a line is no object, or one with a message lacks what it takes; the error names it.
    """
    file = SessionFile()
    time = REAL_SYSTEM.now()
    for number, entry in entries:
        fields = Fields(f"line {number}", entry)
        if entry.get("type") in MESSAGE_TYPES:
            line = _line(number, fields, time)
            time = line.created_at
            # A line that was written twice says nothing new.
            file.repeated += line.uuid in file.lines
            file.lines.setdefault(line.uuid, line)
        else:
            _pass_over(file, fields)
    return file


def _line(number: int, fields: Fields, before: float) -> Line:
    value = fields.value
    agent = value.get("agentId")
    session = value.get("sessionId")
    return Line(
        number=number,
        uuid=_uuid(fields),
        parent=_maybe_uuid(fields, "parentUuid"),
        agent=(agent if isinstance(agent, str) else "") if value.get("isSidechain") is True else None,
        session=session if isinstance(session, str) and session else None,
        created_at=_time(fields, before),
        message=_message(fields),
        beside={name: inner for name, inner in value.items() if name != "message"},
    )


def _pass_over(file: SessionFile, fields: Fields) -> None:
    value = fields.value
    kind = value.get("type")
    title = value.get(TITLES[kind]) if isinstance(kind, str) and kind in TITLES else None
    if isinstance(title, str):
        file.titles.append(title)
    else:
        file.passed_over[kind if isinstance(kind, str) else "none"] += 1
    uuid = value.get("uuid")
    if isinstance(uuid, str):
        parents = [value.get(name) for name in ("parentUuid", "logicalParentUuid")]
        # Where a conversation was made compact it goes on, whether or not the line says with what it does.
        beginning = LOST if value.get("subtype") == "compact_boundary" else None
        file.links.setdefault(uuid, next((one for one in parents if isinstance(one, str) and one), beginning))


def _uuid(fields: Fields) -> str:
    found = fields.text("uuid")
    if not found:
        raise fields.unexpected_value("uuid", found, "text that names the line")
    return found


def _maybe_uuid(fields: Fields, name: str) -> str | None:
    return None if fields.value.get(name) is None else fields.text(name)


def _message(fields: Fields) -> dict[str, Any]:
    message = fields.value.get("message")
    if not isinstance(message, dict):
        raise fields.unexpected("message", message, "an object")
    return message


def _time(fields: Fields, before: float) -> float:
    """Return when a line was written; one that does not say it came with the line before."""
    if fields.value.get("timestamp") is None:
        return before
    text = fields.text("timestamp")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise fields.unexpected_value("timestamp", text, "a time with its zone, such as 2026-11-21T10:00:00Z")
    return moment.timestamp()


class Order(msgspec.Struct, frozen=True):
    """The line that each line follows, or None where it begins; and how many name one that cannot be found."""

    parents: dict[str, str | None]
    lost: int


def ordered(file: SessionFile) -> Order:
    """Return what the lines of a file follow."""
    weaver = _Weaver(file)
    for line in file.lines.values():
        weaver.add(line)
    return Order(weaver.parents, weaver.lost + _cut_rings(weaver.parents))


class _Exchange:
    """A message of the assistant, and the results of its calls; `after` is what its first line follows."""

    def __init__(self, line: Line, after: str | None) -> None:
        self.after, self.last = after, line.uuid
        self.open_calls = set(line.ids_of("tool_use", "id"))

    def takes(self, line: Line, parent: str | None, of_parent: _Exchange | None) -> bool:
        """Return whether a line is one more of the exchange: a piece of the message, or results that it waits for."""
        if line.message_id is not None:
            return of_parent is self or parent == self.after
        answers = line.ids_of("tool_result", "tool_use_id")
        return of_parent is self and bool(answers) and self.open_calls.issuperset(answers)

    def take(self, line: Line) -> None:
        """Go on with a line."""
        self.open_calls.update(line.ids_of("tool_use", "id"))
        self.open_calls.difference_update(line.ids_of("tool_result", "tool_use_id"))
        self.last = line.uuid


class _Weaver:
    """Goes through the lines in the order of the file."""

    def __init__(self, file: SessionFile) -> None:
        self._file = file
        self.parents: dict[str, str | None] = {}
        self.lost = 0
        self._previous: dict[str | None, str] = {}
        self._exchange_of: dict[str, _Exchange] = {}
        self._by_message: dict[tuple[str | None, str], _Exchange] = {}

    def add(self, line: Line) -> None:
        """Find the place of the next line."""
        parent = self._parent(line)
        of_parent = self._exchange_of.get(parent) if parent is not None else None
        is_assistant = line.message.get("role") == "assistant"
        known = self._by_message.get((line.agent, line.message_id)) if line.message_id is not None else of_parent
        if known is not None and known.takes(line, parent, of_parent):
            parent = known.last
            known.take(line)
            self._exchange_of[line.uuid] = known
        else:
            # The model has seen all results before it goes on, and so has who follows a line that tells of them.
            if of_parent is not None and (is_assistant or line.parent not in self._file.lines):
                parent = of_parent.last
            if is_assistant:
                self._begin(line, parent)
        self.parents[line.uuid] = parent
        self._previous[line.agent] = line.uuid

    def _begin(self, line: Line, parent: str | None) -> None:
        exchange = _Exchange(line, parent)
        self._exchange_of[line.uuid] = exchange
        if line.message_id is not None:
            self._by_message[line.agent, line.message_id] = exchange

    def _parent(self, line: Line) -> str | None:
        """Return the line with a message, of the same agent, that a line follows."""
        links, seen = self._file.links, set()
        at = line.parent
        while at is not None and at in links and at not in seen:
            seen.add(at)
            at = links[at]
        found = self._file.lines.get(at) if at is not None else None
        if at is None or (found is not None and found.agent == line.agent):
            return at
        if found is not None and line.agent is not None:
            # A sub-agent begins where it was called.
            return None
        previous = self._previous.get(line.agent)
        self.lost += previous is not None and at is not LOST
        return previous


def _cut_rings(parents: dict[str, str | None]) -> int:
    """Let lines that follow each other in a ring begin with one of them, and return how many did."""
    sound: set[str] = set()
    rings = 0
    for start in parents:
        path: dict[str, None] = {}
        at: str | None = start
        while at is not None and at not in sound and at not in path:
            path[at] = None
            at = parents[at]
        if at in path:
            parents[at] = None
            rings += 1
        sound.update(path)
    return rings
