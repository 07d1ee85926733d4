"""From a tree of lines to branches: which lines are one context, and where the others part from it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count

import msgspec

from .claude_lines import Line
from .claude_sessions import PlacedLine

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
