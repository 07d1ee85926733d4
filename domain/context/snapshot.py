"""
Snapshots: the folded state of a long stream, from which a later fold may begin.

A snapshot is never truth: without it, or with one that does not fit, the stream is folded from its beginning and gives
the same answers. So it may be lost, damaged, outdated, or made by other code. It holds names of events and numbers,
and no text of theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec

from ..concurrency.known_types import known
from ..errors import MISSHAPEN, RefoldError
from ..log.envelope import RecordedEvent
from ..log.ports import Log, StreamEnd
from ..named_events import EventSource

State = TypeVar("State")
DIGEST_BYTES = 16
# The code by which every snapshot is made and read.
COMMON = (
    "refold.domain.context.snapshot",
    "refold.domain.named_events",
    "refold.domain.spans",
)


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """A packed state, the end of the stream up to which it was made, and the digest of the code that made it."""

    version: int
    digest: bytes
    code: bytes
    body: bytes

    @property
    def end(self) -> StreamEnd:
        """The end of the stream up to which it was made."""
        return StreamEnd(self.version, self.digest)

    def packed(self, stream: str) -> bytes:
        """Return the snapshot as a log keeps it, behind a checksum that covers the stream's name, too."""
        data = msgspec.msgpack.encode(self)
        return _checksum(stream, data) + data

    @classmethod
    def unpacked(cls, stream: str, packed: bytes | None) -> Snapshot | None:
        """Return the snapshot of a stream; None if there is none or it is damaged."""
        # The snapshot of 200,000 items has 4 MB, and copying it takes a millisecond.
        whole = memoryview(packed or b"")
        checksum, data = whole[:DIGEST_BYTES], whole[DIGEST_BYTES:]
        if not data or checksum != _checksum(stream, data):
            return None
        try:
            return msgspec.msgpack.decode(data, type=known(cls))
        except msgspec.MsgspecError:
            return None


def _checksum(stream: str, data: bytes | memoryview) -> bytes:
    return blake2b(data, key=blake2b(stream.encode()).digest(), digest_size=DIGEST_BYTES).digest()


def _code_digest(modules: Sequence[str]) -> bytes:
    """Return the digest of the sources of modules; nothing where there are none, as in some bundles of programs."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for name in modules:
        spec: Any = sys.modules[name].__spec__
        try:
            digest.update(spec.loader.get_data(spec.origin))
        except (OSError, AttributeError):
            return b""
    return digest.digest()


class Packing(Generic[State]):
    """
    How the states of a kind of context are packed.

    `pack(state)` may return None: such a state has no snapshot. `unpack(log, stream, body)` reads the events that the
    body names, now or when the state is used. `modules` have the code on which a state depends, besides that of this
    module: a snapshot made by other code is not used. `unread(log, stream, state)` returns the state in the middle of a
    long fold without the parts that can be read from the log again. With `while_writing` a snapshot is also kept now
    and then while events are appended, which suits states that are packed quickly. With `later`, the thread that stores
    snapshots packs them; this is safe because the data that states share only grow.
    """

    def __init__(
        self,
        pack: Callable[[State], bytes | None],
        unpack: Callable[[EventSource, str, bytes], State],
        *modules: str,
        unread: Callable[[EventSource, str, State], State] = lambda _log, _stream, state: state,
        while_writing: bool = True,
        later: bool = False,
    ) -> None:
        self._pack, self._unpack, self.unread, self.while_writing = pack, unpack, unread, while_writing
        self._later = later
        # Now and not at the first use: the files may be those of a newer version by then.
        self._code, self.modules = _code_digest((*COMMON, *modules)), modules

    def keep(self, log: Log, stream: str, state: State, end: StreamEnd) -> None:
        """Let a log keep a snapshot of the state at the end of a stream, if there can be one of it."""
        if not self._code or not end.digest:
            return
        if self._later:
            log.keep_snapshot(stream, partial(self._packed, stream, state, end))
        elif (packed := self._packed(stream, state, end)) is not None:
            log.keep_snapshot(stream, lambda: packed)

    def _packed(self, stream: str, state: State, end: StreamEnd) -> bytes | None:
        body = self._pack(state)
        return None if body is None else Snapshot(end.version, end.digest, self._code, body).packed(stream)

    def fitting(self, log: Log, stream: str) -> Snapshot | None:
        """Return the snapshot of a stream if this code made it, of events that the log has; else None."""
        found = Snapshot.unpacked(stream, log.snapshot(stream))
        if found is None or found.code != self._code:
            return None
        there = log.read(stream, after=found.version - 1, until=found.version)
        return found if [one.digest for one in there] == [found.digest] else None

    def is_of(self, snapshot: Snapshot, state: State) -> bool:
        return snapshot.body == self._pack(state)

    def read(self, log: Log, stream: str, end: StreamEnd) -> tuple[State, Sequence[RecordedEvent]] | None:
        """
        Return the state of the stream's snapshot, and the events behind it up to `end`; None if none fits.

        The log has to have the last event that the snapshot includes, with its digest, which covers all events before,
        and that at `end`, too: a log that was restored from an older copy is not hidden by a snapshot.
        """
        try:
            found = Snapshot.unpacked(stream, log.snapshot(stream))
            if found is None or found.version > end.version or found.code != self._code:
                return None
            recorded = log.read(stream, after=found.version - 1, until=end.version)
            if not recorded or recorded[0].digest != found.digest or recorded[-1].version != end.version:
                return None
            if end.digest not in (b"", recorded[-1].digest):
                return None
            return self._unpack(log, stream, found.body), recorded[1:]
        except (RefoldError, msgspec.MsgspecError, *MISSHAPEN):
            # The fold from the beginning says what is wrong with the log, if anything is.
            return None
