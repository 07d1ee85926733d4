"""Where a context is kept: its log, clock and durability, which its forks and branches share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

from ..clock import REAL_SYSTEM, System
from ..ids import derived_id, split_stream_id
from ..log.envelope import NO_TRACE, Trace
from ..log.memory_log import MemoryLog
from ..log.ports import Log, NewEvents
from ..spans import Segment
from .adopt import adopted_events
from .context import Context
from .decider import Decider
from .journal import Journal, Outcome
from .transaction import current_transaction
from .view import Durability, Place


class Home:
    """A log, the system of its contexts, and how their changes get to the disk; detached without a store."""

    def __init__(
        self,
        log: Log,
        *,
        system: System,
        durability: Durability,
        unflushed: set[Journal[Any]] | None,
        is_detached: bool,
    ) -> None:
        self.log, self.system = log, system
        self.durability, self.unflushed = durability, unflushed
        self.is_detached = is_detached

    def child_id(self, parent: str, ancestry: Sequence[Segment], key: str | None) -> str:
        """
        Return an id for a child of the stream `parent`, made of the root's, since every descendant names all its
        ancestors; the same one when a call is repeated under its idempotency key, or that of the transaction.
        """
        open_transaction = current_transaction(self.log) if key is None else None
        if open_transaction is not None:
            key = open_transaction.key_of_next_child()
        name = split_stream_id(parent)[1]
        root = split_stream_id(ancestry[0].stream)[1] if ancestry else name
        if key is None:
            return derived_id(root, self.system.new_id("-"))
        return derived_id(root, "-" + hashlib.blake2b(f"{name}\0{key}".encode(), digest_size=6).hexdigest())

    def is_shared_with(self, other: Home) -> bool:
        """Return whether another context lies in the same log, so that each can name the other's items."""
        return self.log is other.log


S = TypeVar("S")


class HomedContext(Context):
    """A context that knows where it lives, can be taken into a store, and says whose trace its events belong to."""

    _home: Home
    _trace: Trace = NO_TRACE

    @property
    def version(self) -> int:
        """The stream version that is shown."""
        return self._journal.version

    @property
    def stream(self) -> str:
        """The stream that holds the context's events."""
        return self._journal.place.stream

    @property
    def root(self) -> str:
        """The id that decides the slice of the context and of its children: its session's, or its own."""
        return self._journal.place.root

    @property
    def is_detached(self) -> bool:
        """Whether the context stands on a log of its own in memory."""
        return self._home.is_detached

    def attach(self, log: Log, place: Place, durability: Durability, unflushed: set[Journal[Any]]) -> None:
        """Go on in a store's log, which holds the same events; `store.adopt` does this."""
        self._journal.move_to(log, place, durability, unflushed)
        self._home = Home(log, system=self._home.system, durability=durability, unflushed=unflushed, is_detached=False)
        self._forget_shown()

    def adopted_events(self, stream: str, *, root: str) -> list[NewEvents]:
        """Return what a store must append so that this detached context is there as `stream`."""
        return adopted_events(self._journal.log, self._journal.place.stream, stream, root=root)

    def name_version(self, name: str, version: int | None = None, **options: Any) -> int:
        """Give a version (the present one by default) a name, and return the version; see `Context.name_version`."""
        with self._trace.recording():
            return super().name_version(name, version, **options)

    def _change(
        self,
        command: object,
        expected_version: int | None,
        idempotency_key: str | None,
        *,
        catch_up: bool,
        call: object = None,
    ) -> Outcome:
        """Decide on the folded state, which is read first where it is not there, and record."""
        _ = self._journal.state
        with self._trace.recording():
            return self._journal.execute(
                command,
                call=call,
                expected_version=expected_version,
                idempotency_key=idempotency_key,
                catch_up=catch_up,
            )

    def _past_state(self, version: int) -> Any:
        """Return the folded state at a version."""
        journal = self._journal
        if version == journal.version and journal.is_loaded:
            return journal.state
        return journal.decided_past(version) or journal.past(version)


def detached_home() -> Home:
    """Return a home on a log of its own in memory."""
    return Home(MemoryLog(REAL_SYSTEM), system=REAL_SYSTEM, durability="commit", unflushed=None, is_detached=True)


def detached_journal(home: Home, kind: str, decider: Decider[S]) -> Journal[S]:
    """Return the journal of the one context of a kind in a home of its own."""
    return Journal(home.log, Place(f"{kind}:detached", "detached"), decider, version=0)
