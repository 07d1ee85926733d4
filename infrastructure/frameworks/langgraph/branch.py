"""
The checkpoints in one chat, found by reading its events from the end, as far back as they are asked for.

A chat has one line of checkpoints. A checkpoint that follows an older one begins a fork of the chat, which is another
branch of the thread. These are the keys under which a branch saves data:

    thread                     the thread begins here, or (deleted) was deleted: nothing before it counts
    branch/CHAT                the thread goes on in this fork
    checkpoint/ID              a checkpoint; deleted: it was deleted
    kept                       the thread was pruned: of the checkpoints before, only this one is shown
    value/CHANNEL              the value of a channel
    writes/CHECKPOINT/TASK     writes of a task on a checkpoint
    run/ID                     a run that saved checkpoints here
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ....domain.canonical import parse_json
from ....domain.chat.context import ChatContext, ReadOnlyChatContext
from ....domain.chat.events import StateSaved
from ....domain.log.envelope import RecordedEvent
from .messages import Copies
from .values import Values

FRAMEWORK = "langgraph"
THREAD, KEPT = "thread", "kept"
BRANCH, CHECKPOINT, VALUE, WRITES, RUN = "branch/", "checkpoint/", "value/", "writes/", "run/"
# Events that are read at once, on the way back; each time twice as many.
READ_EVENTS = 32
READ_EVENTS_MAX = 4_096
VALUES_KEPT_MAX = 256

Saved = dict[str, Any]


class Continuation(NamedTuple):
    """A place where the thread went on: with a checkpoint of this branch, or (`chat`) in another branch."""

    version: int
    checkpoint: str = ""
    chat: str = ""


class ShownMessages(NamedTuple):
    """The messages of a channel, as a chat shows them; since the version `since`, messages were only added."""

    channel: str
    copies: Copies
    since: int


class SavedCheckpoint(NamedTuple):
    """A checkpoint of a branch, and the version that saved it."""

    branch: Branch
    id: str
    version: int

    @property
    def record(self) -> Saved:
        """The saved data."""
        return self.branch.value(self.version)


def holds(chat: ChatContext, message_id: str) -> bool:
    """Return whether a chat, as it is known, has had a message."""
    return chat._state.items.ordinal(message_id) is not None


class Branch:
    """One chat of a thread; its events above `low` are known."""

    def __init__(self, chat: ChatContext) -> None:
        self.chat = chat
        self._past: ReadOnlyChatContext | None = None
        self._forget()

    def _forget(self) -> None:
        self.low = self.high = self.chat.version
        self.held: ShownMessages | None = None
        # Newest last. A checkpoint is hidden if it was deleted or pruned: its writes may still be needed.
        self.marks: deque[Continuation] = deque()
        self.versions: dict[str, int] = {}
        self.hidden: set[str] = set()
        self.writes: dict[str, deque[tuple[int, str]]] = {}
        # The other branches, and the runs, that are named in the known events.
        self.chats: set[str] = set()
        self.runs: set[str] = set()
        # The last known version that changed the view of the chat.
        self.touched = 0
        self.is_alive: bool | None = None
        self._deleted: set[str] = set()
        self._kept: set[str] | None = None
        self._step = READ_EVENTS
        self._values: dict[int, Saved] = {}
        # The JSON that was read on the way back.
        self._unparsed: dict[int, bytes] = {}

    @property
    def is_read(self) -> bool:
        """Whether all events that count are known."""
        return self.low == 0 or self.is_alive is not None

    def refresh(self) -> None:
        """Read the events that others recorded."""
        if self.chat.version != self.high:
            # The chat went to the head of the log without this branch, as it may in a child process.
            self._forget()
        try:
            self._note_newer(self.chat.refresh())
        except BaseException:
            # After an interrupt the chat may have events that are not noted here: all are read again.
            self._forget()
            raise

    def read_back(self) -> None:
        """Read some earlier events."""
        after = max(0, self.low - self._step)
        for event in reversed(self.chat.recorded_events(after=after, until=self.low)):
            self._note_older(event)
            if self.is_alive is not None:
                return
        self.low, self._step = after, min(2 * self._step, READ_EVENTS_MAX)

    def newest(self) -> Iterator[Continuation]:
        """Yield the marks that count, the newest first, reading back as far as they are asked for."""
        given, below = 0, self.chat.version + 1
        while True:
            while given < len(self.marks):
                mark = self.marks[-1 - given]
                given += 1
                # Newer marks may have come since the last one was given.
                if mark.version < below and mark.checkpoint not in self.hidden:
                    below = mark.version
                    yield mark
            if self.is_read:
                return
            self.read_back()

    def found(self) -> Iterator[SavedCheckpoint]:
        """Yield the checkpoints that are not hidden, the newest first."""
        return (SavedCheckpoint(self, mark.checkpoint, mark.version) for mark in self.newest() if mark.checkpoint)

    def past(self, version: int) -> ReadOnlyChatContext:
        """Return the chat at a version; it is kept, as a fork begins with what was loaded just before."""
        if self._past is None or self._past.version != version:
            self._past = self.chat.at(version)
        return self._past

    def held_at(self, version: int, record: Saved, values: Values) -> ShownMessages | None:
        """Return the messages of a record for a fork that begins with it; None if its chat does not show them."""
        held, about = self.held, record.get("messages")
        if about is None or "view" in about:
            return None
        channel, count = about["channel"], about["count"]
        if held and version >= held.since and held.channel == channel:
            return ShownMessages(channel, held.copies.first(count, values), since=0)
        return ShownMessages(channel, Copies(list(self.past(version).recorded_items()), count), since=0)

    def version_of(self, checkpoint: str, *, with_hidden: bool) -> int | None:
        """Return the version that saved a checkpoint; None if this branch does not have it."""
        while checkpoint not in self.versions and not self.is_read:
            self.read_back()
        is_shown = with_hidden or checkpoint not in self.hidden
        return self.versions.get(checkpoint) if is_shown else None

    def value(self, version: int) -> Saved:
        """Return what a version saved."""
        value = self._values.get(version)
        if value is None:
            value = self._read(version)
            self._keep(version, value)
        return value

    def _read(self, version: int) -> Saved:
        found = self._unparsed.pop(version, None)
        if found is not None:
            return parse_json(found) or {}
        saved = self.chat.saved_states.at(version)
        return (saved.value if saved else None) or {}

    def note_saved(self, values: dict[str, Saved | None], last: int) -> None:
        """Note what this process saved; `last` is the version of the last value."""
        for version, (key, value) in enumerate(values.items(), last - len(values) + 1):
            if value is not None:
                self._keep(version, value)
            self._note_key(version, key, value is not None)
        self.high = self.chat.version

    def _keep(self, version: int, value: Saved) -> None:
        while len(self._values) >= VALUES_KEPT_MAX:
            del self._values[next(iter(self._values))]
        self._values[version] = value

    def _note_newer(self, events: Sequence[RecordedEvent]) -> None:
        for recorded in events:
            event = recorded.event
            if not isinstance(event, StateSaved):
                # Somebody edited the chat: its view may not be that of the newest checkpoint.
                self.held, self.touched = None, recorded.version
            elif event.framework == FRAMEWORK:
                self._note_key(recorded.version, event.key, bool(event.value))
        self.high = self.chat.version

    def _note_key(self, version: int, key: str, is_there: bool) -> None:
        if key == THREAD:
            self._forget()
            self.low, self.is_alive = version, is_there
        elif key == KEPT:
            self.hidden |= self.versions.keys() - self._note_kept(self.value(version))
        elif key.startswith(CHECKPOINT):
            self._note_checkpoint(version, key.removeprefix(CHECKPOINT), is_there)
        else:
            self._note_other(version, key, is_older=False)

    def _note_kept(self, value: Any) -> set[str]:
        """Note a pruning, and return the checkpoints that it kept."""
        kept = parse_kept(value)
        self._kept = kept if self._kept is None else self._kept & kept
        return kept

    def _note_other(self, version: int, key: str, *, is_older: bool) -> None:
        """Note a branch, a run or writes, before or behind all that are known."""
        _, _, name = key.partition("/")
        if key.startswith(BRANCH):
            (self.marks.appendleft if is_older else self.marks.append)(Continuation(version, chat=name))
            self.chats.add(name)
        elif key.startswith(RUN):
            self.runs.add(name)
        elif key.startswith(WRITES):
            checkpoint, _, task = name.partition("/")
            writes = self.writes.setdefault(checkpoint, deque())
            (writes.appendleft if is_older else writes.append)((version, task))

    def _note_checkpoint(self, version: int, checkpoint: str, is_there: bool) -> None:
        if not is_there:
            self._deleted.add(checkpoint)
            self.hidden.add(checkpoint)
            return
        self._deleted.discard(checkpoint)
        self.hidden.discard(checkpoint)
        if checkpoint in self.versions:
            self.marks = deque(mark for mark in self.marks if mark.checkpoint != checkpoint)
        self.versions[checkpoint] = version
        self.marks.append(Continuation(version, checkpoint))

    def _note_older(self, recorded: RecordedEvent) -> None:
        event, version = recorded.event, recorded.version
        if not isinstance(event, StateSaved):
            self.touched = max(self.touched, version)
            return
        if event.framework != FRAMEWORK:
            return
        key = event.key
        if len(self._unparsed) < READ_EVENTS:
            # The newest checkpoint is usually wanted next, with the values that it names.
            self._unparsed[version] = event.value
        if key == THREAD:
            self.low, self.is_alive = version, bool(event.value)
        elif key == KEPT:
            self._note_kept(parse_json(event.value))
        elif key.startswith(CHECKPOINT):
            self._note_older_checkpoint(version, key.removeprefix(CHECKPOINT), bool(event.value))
        else:
            self._note_other(version, key, is_older=True)

    def _note_older_checkpoint(self, version: int, checkpoint: str, is_there: bool) -> None:
        if not is_there:
            self._deleted.add(checkpoint)
            return
        if checkpoint in self.versions:
            return
        self.versions[checkpoint] = version
        self.marks.appendleft(Continuation(version, checkpoint))
        if checkpoint in self._deleted or (self._kept is not None and checkpoint not in self._kept):
            self.hidden.add(checkpoint)


def parse_kept(value: Any) -> set[str]:
    """Return the checkpoints that a pruning kept."""
    return set(value.get("checkpoints", ())) if isinstance(value, dict) else set()
