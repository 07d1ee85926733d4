"""
The sessions of a Claude Code file: each line is checked by itself, and each tree of lines is a session.

A line of type "user" or "assistant" has a message in Anthropic's form, or a piece of one: an assistant's message of
several blocks is written block by block, with the same `message.id`. Lines of other types have no message, but other
lines may follow them; they are skipped and counted. A tree of lines is the main session, or that of a sub-agent.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from ...domain.clock import REAL_SYSTEM
from ...domain.formats.parts import seconds_in
from ...domain.formats.receive import Fields

MESSAGE_TYPES = ("user", "assistant")
# Types of lines with a short description of the session, and the field that has it.
TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
# Fields of the first line that describe the whole session.
ATTRIBUTES = ("sessionId", "agentId", "cwd", "gitBranch", "version")
# The fields of a compaction with the first and the last line that it left as they are.
SEGMENT = ("headUuid", "tailUuid")
# No line has this uuid: it stands for a line that cannot be found.
LOST = ""
Rank = tuple[float, int]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """
    A line with a message, and the line that it follows (`parent`). `agent` is the sub-agent that it belongs to, empty
    if that has no name, or None for the main session. `beside` is the line without its message. If the conversation was
    compacted before the line, `keeps` are the lines before it that the model still saw, and else None. `clears` are the
    ids of calls whose outputs were cleared before the line.
    """

    number: int
    uuid: str
    parent: str | None
    agent: str | None
    session: str | None
    created_at: float
    message: dict[str, Any]
    beside: dict[str, Any]
    keeps: frozenset[str] | None = None
    clears: frozenset[str] = frozenset()

    @property
    def message_id(self) -> str | None:
        """The id of the assistant's message to which the line belongs; None for other lines."""
        found = self.message.get("id")
        return found if self.message.get("role") == "assistant" and isinstance(found, str) else None

    def ids_of(self, kind: str, field: str) -> list[str]:
        """Return the ids that blocks of a kind have in a field."""
        content = self.message.get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        return [block[field] for block in blocks if block.get("type") == kind and isinstance(block.get(field), str)]


class SessionFile(msgspec.Struct, kw_only=True):
    """The content of a file: its lines with messages by uuid, in order, and the parents of the lines between them."""

    lines: dict[str, Line] = msgspec.field(default_factory=dict)
    links: dict[str, str | None] = msgspec.field(default_factory=dict)
    # The places where the conversation was compacted, and the lines that the model still saw behind them.
    boundaries: dict[str, frozenset[str]] = msgspec.field(default_factory=dict)
    # The ids of calls whose outputs were cleared, by the line that says so, and by later lines without a message.
    cleared: dict[str, frozenset[str]] = msgspec.field(default_factory=dict)
    titles: list[str] = msgspec.field(default_factory=list)
    passed_over: Counter[str] = msgspec.field(default_factory=Counter)
    repeated: int = 0


def read_lines(entries: Iterable[tuple[int, Any]]) -> SessionFile:
    """
    Return the lines of a file, given its values with the numbers of their lines.

    Raises:
        InvalidInputError: a line is not an object, or a line with a message lacks a field; the error names it.
    """
    file = SessionFile()
    time = REAL_SYSTEM.now()
    for number, entry in entries:
        fields = Fields(f"line {number}", entry)
        if entry.get("type") in MESSAGE_TYPES:
            line = _line(number, fields, time)
            if entry.get("isCompactSummary") is True or line.parent in file.boundaries:
                line = msgspec.structs.replace(line, keeps=file.boundaries.get(line.parent or LOST, frozenset()))
            if line.parent in file.cleared:
                line = msgspec.structs.replace(line, clears=file.cleared[line.parent])
            time = line.created_at
            # A line that was written twice is the same line.
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
        parent=_parent(fields),
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
        is_boundary = value.get("subtype") == "compact_boundary"
        # A compacted conversation continues the earlier one, even if the line does not name its parent.
        beginning = LOST if is_boundary else None
        if is_boundary:
            file.boundaries[uuid] = _kept_lines(file, value.get("compactMetadata"))
        parent = next((one for one in parents if isinstance(one, str) and one), beginning)
        file.links.setdefault(uuid, parent)
        if cleared := _cleared_calls(value) | file.cleared.get(parent or LOST, frozenset()):
            file.cleared[uuid] = cleared


def _cleared_calls(value: dict[str, Any]) -> frozenset[str]:
    """Return the ids of the calls whose outputs a line says were cleared to save room."""
    metadata = value.get("microcompactMetadata") if value.get("subtype") == "microcompact_boundary" else None
    ids = metadata.get("compactedToolIds") if isinstance(metadata, dict) else None
    return frozenset(one for one in ids if isinstance(one, str)) if isinstance(ids, list) else frozenset()


def _kept_lines(file: SessionFile, metadata: Any) -> frozenset[str]:
    """Return the lines that a compaction left as they are: those named, or those from a first to a last one."""
    metadata = metadata if isinstance(metadata, dict) else {}
    named, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    if isinstance(named, dict):
        uuids = named.get("allUuids") or named.get("uuids")
        return frozenset(uuid for uuid in uuids if isinstance(uuid, str)) if isinstance(uuids, list) else frozenset()
    places = {uuid: place for place, uuid in enumerate(file.lines)}
    ends = segment if isinstance(segment, dict) else {}
    head, tail = (places.get(str(ends.get(name))) for name in SEGMENT)
    if head is None or tail is None:
        return frozenset()
    return frozenset(uuid for uuid, place in places.items() if head <= place <= tail)


def _uuid(fields: Fields) -> str:
    found = fields.text("uuid")
    if not found:
        raise fields.unexpected_value("uuid", found, "text that names the line")
    return found


def _parent(fields: Fields) -> str | None:
    return None if fields.value.get("parentUuid") is None else fields.text("parentUuid")


def _message(fields: Fields) -> dict[str, Any]:
    message = fields.value.get("message")
    if not isinstance(message, dict):
        raise fields.unexpected("message", message, "an object")
    return message


def _time(fields: Fields, before: float) -> float:
    """Return the time of a line; a line without a time gets the time of the line before."""
    if fields.value.get("timestamp") is None:
        return before
    text = fields.text("timestamp")
    found = seconds_in(text)
    if found is None:
        raise fields.unexpected_value("timestamp", text, "a time with its zone, such as 2026-11-21T10:00:00Z")
    return found


class _Exchange:
    """A message of the assistant, and the results of its calls; `after` is the parent of its first line."""

    def __init__(self, line: Line, after: str | None) -> None:
        self.after, self.last = after, line.uuid
        self.open_calls = set(line.ids_of("tool_use", "id"))

    def takes(self, line: Line, parent: str | None, of_parent: _Exchange | None) -> bool:
        """Return whether a line belongs to the exchange: as a piece of the message, or with results of its calls."""
        if line.message_id is not None:
            return of_parent is self or parent == self.after
        answers = line.ids_of("tool_result", "tool_use_id")
        return of_parent is self and bool(answers) and self.open_calls.issuperset(answers)

    def take(self, line: Line) -> None:
        self.open_calls.update(line.ids_of("tool_use", "id"))
        self.open_calls.difference_update(line.ids_of("tool_result", "tool_use_id"))
        self.last = line.uuid


class Order:
    """The parent of each line of a file, None for a first line; `lost` counts the lines whose parent is not found."""

    def __init__(self, file: SessionFile) -> None:
        self._file = file
        self.parents: dict[str, str | None] = {}
        self.lost = 0
        self._previous: dict[str | None, str] = {}
        self._exchange_of: dict[str, _Exchange] = {}
        self._by_message: dict[tuple[str | None, str], _Exchange] = {}

        for line in file.lines.values():
            self._add(line)
        self.lost += _cut_rings(self.parents)

    def _add(self, line: Line) -> None:
        """Find the parent of the next line."""
        parent = self._parent(line)
        of_parent = self._exchange_of.get(parent) if parent is not None else None
        is_assistant = line.message.get("role") == "assistant"
        known = self._by_message.get((line.agent, line.message_id)) if line.message_id is not None else of_parent
        if known is not None and known.takes(line, parent, of_parent):
            parent = known.last
            known.take(line)
            self._exchange_of[line.uuid] = known
        else:
            # A line after an exchange follows its last line, because the model saw all results before it went on. The
            # same holds for a line whose parent has no message, such as a line that reports results.
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
        """Return the nearest line before a line that has a message and belongs to the same agent."""
        links, seen = self._file.links, set()
        at = line.parent
        while at is not None and at in links and at not in seen:
            seen.add(at)
            at = links[at]
        found = self._file.lines.get(at) if at is not None else None
        if at is None or (found is not None and found.agent == line.agent):
            return at
        if found is not None and line.agent is not None:
            # The first line of a sub-agent has no parent in its own tree.
            return None
        previous = self._previous.get(line.agent)
        self.lost += previous is not None and at is not LOST
        return previous


def _cut_rings(parents: dict[str, str | None]) -> int:
    """Break each ring of lines that follow each other at one of its lines, and return the number of rings."""
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


class PlacedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line and its parent; with `continues` the two are pieces of one message."""

    line: Line
    parent: str | None
    continues: bool


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One tree of lines, in the order of the file. `key` names it by the session's id, the sub-agent, and the part."""

    key: str
    session: str
    agent: str | None
    lines: list[PlacedLine]
    attributes: dict[str, Any]


def sessions_in(entries: Sequence[tuple[int, Any]], *, name: str) -> tuple[list[Session], list[str]]:
    """
    Return the sessions of a file, and notes about the file; `name` is its name without the ending.

    Raises:
        InvalidInputError: a line cannot be imported; the error says which and why.
    """
    file = read_lines(entries)
    order = Order(file)
    trees: dict[str, list[Line]] = defaultdict(list)
    roots = _roots(order.parents)
    for line in file.lines.values():
        trees[roots[line.uuid]].append(line)
    sessions: list[Session] = []
    parts: Counter[str] = Counter()
    for lines in trees.values():
        # A session that continues another one begins with the lines of the other, which have the other's id. Its own
        # id comes last, and is the name of the file.
        ids = [line.session for line in lines if line.session is not None]
        session = name if name in ids or not ids else ids[-1]
        key = session if lines[0].agent is None else f"{session}-agent" + f"-{lines[0].agent}".rstrip("-")
        parts[key] += 1
        sessions.append(_session(key, parts[key], session, lines, file, order))
    return sessions, _notes(file, order)


def _roots(parents: dict[str, str | None]) -> dict[str, str]:
    roots: dict[str, str] = {}
    for uuid in parents:
        path, at = [uuid], parents[uuid]
        while at is not None and at not in roots:
            path.append(at)
            at = parents[at]
        root = path[-1] if at is None else roots[at]
        roots.update(dict.fromkeys(path, root))
    return roots


def _session(key: str, part: int, session: str, lines: Sequence[Line], file: SessionFile, order: Order) -> Session:
    first, agent = lines[0], lines[0].agent
    attributes = {field: first.beside[field] for field in ATTRIBUTES if field in first.beside}
    if file.titles and agent is None:
        attributes["titles"] = file.titles
    # Agents without a name are numbered, and so are further trees of the same agent.
    ending = f"-{part}" if agent == "" else f"-part-{part}" if part > 1 else ""
    return Session(
        key=key + ending,
        session=session,
        agent=agent or None,
        lines=[_placed(line, order.parents[line.uuid], file) for line in lines],
        attributes=attributes,
    )


def _placed(line: Line, parent: str | None, file: SessionFile) -> PlacedLine:
    before = None if parent is None else file.lines[parent].message_id
    return PlacedLine(line=line, parent=parent, continues=before is not None and before == line.message_id)


def _notes(file: SessionFile, order: Order) -> list[str]:
    notes = []
    if not file.lines:
        notes.append("it has no line with a message")
    compacted = sum(line.keeps is not None for line in file.lines.values())
    if compacted:
        times = "once" if compacted == 1 else f"{compacted:,} times"
        notes.append(f"the conversation was compacted {times}: what the model no longer saw has left the view")
    cleared = set().union(*(line.clears for line in file.lines.values()))
    if cleared:
        notes.append(f"outputs were cleared to save room, and have left the view with their calls: {len(cleared):,}")
    if file.passed_over:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(file.passed_over.items()))
        notes.append(f"lines without a message were passed over: {kinds}")
    if file.repeated:
        notes.append(f"lines that were written again were passed over: {file.repeated:,}")
    if order.lost:
        notes.append(f"lines that follow one that is not in the file were put behind the one before: {order.lost:,}")
    return notes


class Branch(msgspec.Struct, frozen=True):
    """Lines that follow each other, and the line after which they begin: None at the beginning of the session."""

    after: str | None
    lines: list[Line]


def new_branches(lines: Sequence[PlacedLine], known: Container[str]) -> list[Branch]:
    """
    Return the branches of the lines that are not known yet.

    If several lines follow one line, the branch with the newest end continues, and the others are new branches. A
    branch comes after the one from which it begins. If several branches begin after one line, the newest comes first.
    """
    children: dict[str | None, list[Line]] = defaultdict(list)
    for placed in lines:
        if placed.line.uuid not in known:
            children[placed.parent].append(placed.line)
    ranks = _ranks(lines, children)
    for siblings in children.values():
        siblings.sort(key=lambda line: ranks[line.uuid], reverse=True)
    heads = deque(
        (parent, line)
        for parent, siblings in children.items()
        if parent is None or parent in known
        for line in siblings
    )
    branches = []
    while heads:
        after, line = heads.popleft()
        path = [line]
        while behind := children.get(path[-1].uuid):
            heads.extend((path[-1].uuid, other) for other in behind[1:])
            path.append(behind[0])
        branches.append(Branch(after, path))
    return branches


def fork_names(context_id: str) -> Iterator[str]:
    """Return the names of the forks of a session, without an end."""
    return (f"{context_id}-fork-{number}" for number in count(1))


def named_forks(forks: Iterable[Branch], names: Iterable[str]) -> dict[str, str]:
    """Return the name of each fork by its first line; names are assigned in the order of the file."""
    in_order = sorted((fork.lines[0] for fork in forks), key=lambda line: line.number)
    return {line.uuid: name for line, name in zip(in_order, names, strict=False)}


def _ranks(lines: Sequence[PlacedLine], children: dict[str | None, list[Line]]) -> dict[str, Rank]:
    """Return for each line the rank of the newest end that follows it; a later end has a higher rank."""
    ranks: dict[str, Rank] = {}
    stack = [placed.line for placed in lines]
    while stack:
        line = stack.pop()
        behind = children.get(line.uuid, ())
        waiting = [child for child in behind if child.uuid not in ranks]
        if waiting:
            stack += [line, *waiting]
        elif line.uuid not in ranks:
            ends = [ranks[child.uuid] for child in behind]
            ranks[line.uuid] = max(ends, default=(line.created_at, line.number))
    return ranks
