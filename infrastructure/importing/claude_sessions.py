"""The sessions of a Claude Code file: each tree of lines is one, a session's own or a sub-agent's."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from .claude_lines import Line, Order, SessionFile, ordered, read_lines

# What the first line says of the whole session.
ATTRIBUTES = ("sessionId", "agentId", "cwd", "gitBranch", "version")


class PlacedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line and the line that it follows; with `continues` the two are one message."""

    line: Line
    parent: str | None
    continues: bool


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """
    One tree of lines, in the order of the file; `key` names it: the session's id, what of it this is, and which part.
    """

    key: str
    session: str
    agent: str | None
    lines: list[PlacedLine]
    attributes: dict[str, Any]


def sessions_in(entries: Sequence[tuple[int, Any]], *, name: str) -> tuple[list[Session], list[str]]:
    """
    Return the sessions of a file, and what there is to be noted about it; `name` is the file's, without its ending.

    Raises:
        InvalidInputError: a line cannot be taken; the error says which and why.
    """
    file = read_lines(entries)
    order = ordered(file)
    trees: dict[str, list[Line]] = defaultdict(list)
    roots = _roots(order.parents)
    for line in file.lines.values():
        trees[roots[line.uuid]].append(line)
    sessions: list[Session] = []
    parts: Counter[str] = Counter()
    for lines in trees.values():
        session = _session_of(lines, name)
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


def _session_of(lines: Sequence[Line], name: str) -> str:
    """
    Return the id of the session that lines belong to.

    A session that was continued elsewhere begins with what it continues, under the id of that: its own comes last,
    and is the file's name.
    """
    ids = [line.session for line in lines if line.session is not None]
    return name if name in ids or not ids else ids[-1]


def _session(key: str, part: int, session: str, lines: Sequence[Line], file: SessionFile, order: Order) -> Session:
    first, agent = lines[0], lines[0].agent
    attributes = {field: first.beside[field] for field in ATTRIBUTES if field in first.beside}
    if file.titles and agent is None:
        attributes["titles"] = file.titles
    # Agents without a name are counted, and so is what begins anew.
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
    if file.passed_over:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(file.passed_over.items()))
        notes.append(f"lines without a message were passed over: {kinds}")
    if file.repeated:
        notes.append(f"lines that were written again were passed over: {file.repeated:,}")
    if order.lost:
        notes.append(f"lines that follow one that is not in the file were put behind the one before: {order.lost:,}")
    return notes


Rank = tuple[float, int]


class Branch(msgspec.Struct, frozen=True):
    """Lines that follow each other, and the line behind which they begin: None at the beginning of the session."""

    after: str | None
    lines: list[Line]


def new_branches(lines: Sequence[PlacedLine], known: Container[str]) -> list[Branch]:
    """
    Return the branches of the lines that are not known yet.

    At each parting the branch whose end is the newest goes on, and the others begin. A branch comes behind the one
    that it begins from, and of those that begin behind one line the newest comes first.
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
    """Return what the forks of a session are called, one after the other."""
    return (f"{context_id}-fork-{number}" for number in count(1))


def named_forks(forks: Iterable[Branch], names: Iterable[str]) -> dict[str, str]:
    """Return the name of each fork, by its first line: the names are given in the order of the file."""
    in_order = sorted((fork.lines[0] for fork in forks), key=lambda line: line.number)
    return {line.uuid: name for line, name in zip(in_order, names, strict=False)}


def _ranks(lines: Sequence[PlacedLine], children: dict[str | None, list[Line]]) -> dict[str, Rank]:
    """Return for each line how new the newest end behind it is."""
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
