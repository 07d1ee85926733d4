"""
Witnesses: places outside a store that keep its checkpoints. A person who changes the store cannot change them.

A witness keeps entries, one line of JSON each, for ever: that a writer opened the store, a checkpoint of its events,
that the writer closed it. One witness is for one store.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from ...domain.canonical import require_unicode
from ...domain.clock import DAY_SECONDS
from ...domain.concurrency.known_types import known
from ...domain.errors import InvalidInputError, RefoldError, StorageUnavailableError
from ...domain.positions import ONE_SEQUENCE
from .merkle import EMPTY_ROOT, root_of

HTTP = ("http://", "https://")
HTTP_SECONDS_MAX, HTTP_ANSWER_SECONDS_MAX = 3.0, 30.0
HTTP_BYTES_MAX = 64 << 20
TAIL_BYTES = 1 << 20
SLICE_BYTES = 2
COUNT_BYTES = 8
# A writer of another machine that has said nothing for so long has ended.
SILENT_DAYS_MAX = 7


@runtime_checkable
class Witness(Protocol):
    """
    A place outside the store, of your own: two methods, called by one thread of a process at a time.

    An exception of either means that it cannot be reached: Refold warns, goes on, and tries again later.
    """

    def add(self, entry: str) -> None:
        """Keep one more entry, a line without its end, for ever; return when it is kept."""

    def entries(self) -> Iterable[str]:
        """Return the entries, oldest first; those before the last one with `"full":true` may be left out."""


class SliceSeen(NamedTuple):
    """A slice at a checkpoint: its events, the Merkle root over their digests, and a hash over its segments."""

    events: int
    root: bytes
    sealed: bytes


class WriterOpened(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="opened"):
    """A process opened the store for writing; until it closes it, there may be events behind the last checkpoint."""

    lineage: str
    time: str
    writer: str
    host: str
    pid: int


class WriterClosed(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="closed"):
    """A process closed the store, after a checkpoint with all of its events."""

    lineage: str
    time: str
    writer: str


class Accepted(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="accepted"):
    """Somebody accepted the store as it is now: entries before this one count no more."""

    lineage: str
    time: str
    actor: str
    reason: str


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="checkpoint"):
    """
    The events of a store at one moment: how many, and the Merkle root over them.

    `slices` has the slices that changed, or all if it is `full`: count, root and hash of segments, in hexadecimal. With
    `is_behind` the store has more events, which were there before it had a witness and are not read yet.
    """

    lineage: str
    time: str
    events: int
    root: str
    slices: Mapping[str, tuple[int, str, str]]
    writer: str = ""
    full: bool = False
    is_behind: bool = False
    writers: Sequence[WriterOpened] = ()
    note: str = ""


def slices_of(one: Checkpoint) -> dict[int, SliceSeen]:
    """Return the slices of a checkpoint, by their numbers."""
    return {
        int(lane): SliceSeen(events, bytes.fromhex(root), bytes.fromhex(sealed))
        for lane, (events, root, sealed) in one.slices.items()
    }


Entry = WriterOpened | WriterClosed | Accepted | Checkpoint
_decoder = msgspec.json.Decoder(known(Entry))
_encode = msgspec.json.Encoder().encode


def text_of(entry: Entry) -> str:
    """Return an entry as the line that a witness keeps."""
    return _encode(entry).decode()


class WitnessHistory:
    """All that a witness saw of a store, entry by entry."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self.lineage = ""
        self.slices: dict[int, SliceSeen] = {}
        self.writers: dict[str, WriterOpened] = {}
        self.last: Checkpoint | None = None
        self.checkpoints: list[Checkpoint] = []
        self.others: set[str] = set()
        # Lines that are no entries: the witness itself was damaged, or somebody else writes to it.
        self.unreadable = 0
        # How many entries come after the last one that is full.
        self.since_full = 0
        for line in entries:
            if line.strip():
                self.add_line(line)

    def add_line(self, line: str) -> None:
        """Add the next entry, given as its line."""
        try:
            self.add(_decoder.decode(line))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self.unreadable += 1

    def add(self, entry: Entry) -> None:
        """Add the next entry."""
        # First, so that no part counts of an entry that cannot be read as a whole.
        slices = slices_of(entry) if isinstance(entry, Checkpoint) else {}
        if isinstance(entry, Accepted):
            self.__init__()  # type: ignore[misc]  # all entries before it count no more
        if self.lineage and entry.lineage != self.lineage:
            self.others.add(entry.lineage)
            return
        self.lineage = entry.lineage
        self.since_full += 1
        match entry:
            case WriterOpened():
                self.writers[entry.writer] = entry
            case WriterClosed():
                self.writers.pop(entry.writer, None)
            case Checkpoint():
                self._add_checkpoint(entry, slices)

    def _add_checkpoint(self, entry: Checkpoint, slices: Mapping[int, SliceSeen]) -> None:
        self.last = entry
        self.since_full = 0 if entry.full else self.since_full
        self.checkpoints.append(entry)
        for opened in entry.writers:
            if opened.writer not in self.writers or self.writers[opened.writer].time < opened.time:
                self.writers[opened.writer] = opened
        if entry.writer in self.writers:
            # `is_over` counts the silence of a writer from its last checkpoint.
            self.writers[entry.writer] = msgspec.structs.replace(self.writers[entry.writer], time=entry.time)
        for lane, one in slices.items():
            known = self.slices.get(lane)
            # Checkpoints of two processes may come in another order than they were made.
            if known is None or one.events > known.events:
                self.slices[lane] = one

    @property
    def events(self) -> int:
        """The number of events that it saw."""
        return sum(one.events for one in self.slices.values())


def root_over(slices: Mapping[int, SliceSeen]) -> bytes:
    """
    Return the root of a store: that of its one sequence, or of a tree over its slices, in the order of their numbers.

    The leaf of a slice is its number, 2 bytes, the count of its events, 8 bytes, both big-endian, and its root.
    """
    return slices[ONE_SEQUENCE].root if ONE_SEQUENCE in slices else root_of(slice_leaves(slices))


def slice_leaves(slices: Mapping[int, SliceSeen]) -> list[bytes]:
    """Return the leaves of the tree over slices; empty slices have none."""
    return [
        number.to_bytes(SLICE_BYTES) + one.events.to_bytes(COUNT_BYTES) + one.root
        for number, one in sorted(slices.items())
        if one.events
    ]


NOTHING_SEEN = SliceSeen(0, EMPTY_ROOT, bytes(32))


class FileWitness:
    """
    A file, best on another disk or machine, or one that may only grow. An entry is on the disk when `add` returns.
    """

    def __init__(self, path: str | Path) -> None:
        # A program may change its working folder.
        self._path = os.path.abspath(path)

    def __repr__(self) -> str:
        return self._path

    def add(self, entry: str) -> None:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # A process that was killed may have left half a line.
            size = os.fstat(handle).st_size
            is_torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            data = (b"\n" if is_torn else b"") + entry.encode() + b"\n"
            # A disk that is nearly full takes a part, and refuses the rest.
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        finally:
            os.close(handle)

    def entries(self) -> list[str]:
        if not os.path.exists(self._path):
            return []
        with open(self._path, "rb") as file:
            size, wanted = os.fstat(file.fileno()).st_size, TAIL_BYTES
            while True:
                start = max(0, size - wanted)
                file.seek(start)
                lines = file.read(size - start).decode("utf-8", "replace").split("\n")
                # The first line may be cut, and the last one may be half written.
                lines = lines[bool(start) : -1]
                if not start or any('"full":true' in line for line in lines):
                    return lines
                wanted *= 4

    def all_entries(self) -> Iterator[str]:
        """Yield all entries, oldest first."""
        with open(self._path, encoding="utf-8", errors="replace") as file:
            yield from file


class HttpWitness:
    """An endpoint: an entry is sent to it by POST, and GET answers with the entries, one a line."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __repr__(self) -> str:
        return self._url.partition("?")[0]

    def add(self, entry: str) -> None:
        self._ask(entry.encode())

    def entries(self) -> list[str]:
        # Not `splitlines`: JSON keeps some characters in texts that end a line for it, such as U+2028.
        return [line for line in self._ask(None).decode("utf-8", "replace").split("\n") if line]

    def _ask(self, data: bytes | None) -> bytes:
        from urllib.request import Request, urlopen

        request = Request(self._url, data, {"Content-Type": "application/json"} if data else {})
        with urlopen(request, timeout=HTTP_SECONDS_MAX) as answer:
            if data and answer.geturl() != self._url:
                # A redirect is followed with a GET, so that nothing is kept.
                raise OSError(f"it sends entries on to {answer.geturl().partition('?')[0]}: name that address")
            found = _read_in_time(answer)
        if len(found) > HTTP_BYTES_MAX:
            # The newest entries come last: without them less would be compared, and nobody would know.
            raise OSError(f"it has more than {HTTP_BYTES_MAX:,} bytes: let it answer from an entry with full=true on")
        return found


def _read_in_time(answer: Any) -> bytes:
    """Return an answer, at most a byte more than is allowed; a server that sends too slowly is not waited for."""
    deadline, found = monotonic() + HTTP_ANSWER_SECONDS_MAX, bytearray()
    while len(found) <= HTTP_BYTES_MAX and (part := answer.read1(HTTP_BYTES_MAX + 1 - len(found))):
        found += part
        if monotonic() > deadline:
            raise OSError(f"its answer took more than {HTTP_ANSWER_SECONDS_MAX:g} seconds")
    if answer.length and len(found) <= HTTP_BYTES_MAX:
        # The newest entries come last.
        raise OSError(f"its answer broke off: {answer.length:,} bytes are missing")
    return bytes(found)


def witness_at(given: object) -> Witness:
    """
    Return the witness that is meant by a path, a URL, or an object with the methods `add` and `entries`.

    Raises:
        InvalidInputError: it is none of these.
    """
    if isinstance(given, str) and given.startswith(HTTP):
        return HttpWitness(given)
    if isinstance(given, str | Path):
        path = Path(require_unicode(str(given), "the witness"))
        if not str(given).strip() or (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
            raise InvalidInputError(f"the witness {str(given)!r} is no file in a folder that exists: name one")
        return FileWitness(path)
    if isinstance(given, Witness):
        return given
    raise InvalidInputError(f"the witness is {given!r}: give a path, http(s)://..., or an object with add and entries")


@contextmanager
def reaching(witness: Witness) -> Iterator[None]:
    """
    Turn errors of a witness in this block into an error of Refold's.

    Raises:
        StorageUnavailableError: the witness cannot be reached, or answers with something else.
    """
    try:
        yield
    except RefoldError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise StorageUnavailableError(
            f"the witness {witness!r} cannot be reached ({reason}): try again when it can"
        ) from error


def is_over(writer: WriterOpened, now: float) -> bool:
    """Return whether the process of a writer has certainly ended, as far as this machine can say."""
    from datetime import datetime

    if writer.host == socket.gethostname():
        return not _is_running(writer.pid)
    try:
        opened = datetime.fromisoformat(writer.time).timestamp()
    except ValueError:
        return True
    return now - opened > SILENT_DAYS_MAX * DAY_SECONDS


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
