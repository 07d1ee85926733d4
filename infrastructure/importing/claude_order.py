"""
What each line of a Claude Code session file follows: the tree of its conversations.

Lines name their parents, but not every two lines of one parent are two branches. The blocks of one message are lines
of their own, and the result of each call names the line of its call, so that calls that were made at once look like
branches. Such a message and the results of its calls are one exchange, whose lines follow each other as they stand in
the file. Lines without messages are seen through, and a line whose parent cannot be found follows the one before it.
"""

from __future__ import annotations

import msgspec

from .claude_lines import LOST, Line, SessionFile


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
