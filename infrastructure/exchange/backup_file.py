"""
The file of a backup: chunks of events, and behind those of each run a record of the state that they lead to.

The file begins with MAGIC and the length up to which it is whole. Then come frames. A frame is one byte for its kind,
the length of its body, a hash of all that, and the body. A chunk is up to CHUNK_EVENTS events, column by column and
compressed: their places, times, envelopes, bytes and digests, none of which is made anew when they are restored.

Frames are only appended. A run that breaks off leaves chunks behind the last record; the next run keeps those that are
whole. A file that is shorter than the length at its beginning was cut, and a frame before that length whose hash
differs was changed: both are damage. So to open a backup is to check it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, NamedTuple, TypeVar

import msgspec

from ...domain.concurrency.known_types import known
from ...domain.errors import DamagedFileError, InvalidInputError, StorageBusyError
from ...domain.log.envelope import NO_META, Meta, RecordedEvent
from ...domain.positions import Moment, Position
from ..files import no_folder, reading_file, require_regular, sync_folder, unwritable
from ..log.compression import Compression, no_dictionary
from ..trust.tables import STORE

MAGIC = b"refold backup 1\n"
LENGTH_BYTES, HASH_BYTES = 8, 32
CHUNK, RECORD = b"C", b"R"
CHUNK_EVENTS = 1_024
CHUNK_BYTES_MAX = 4 << 20
# Streams whose slice was stored with their first event.
UNKNOWN_SLICE = -1
# The remedy for a damaged backup.
REMEDY = "take another copy of the backup, which `refold backup FILE --check` finds whole; nothing was changed"
_HEAD = len(MAGIC) + LENGTH_BYTES + HASH_BYTES
T = TypeVar("T")
_FRAME = 1 + LENGTH_BYTES + HASH_BYTES
# No backup has a longer column. Without a limit, a small file of equal numbers could take a thousand times its size.
_COLUMN = msgspec.Meta(max_length=CHUNK_EVENTS)


class Stream(NamedTuple):
    """A stream of a chunk; its slice is known where the chunk has its first event."""

    name: str
    slice: int


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """
    Events in the order of the log, column by column.

    `places` has the index of each event's stream in `streams`; `digests` has 32 bytes for each event.
    """

    streams: Annotated[list[Stream], _COLUMN]
    places: Annotated[list[int], _COLUMN]
    versions: Annotated[list[int], _COLUMN]
    slices: Annotated[list[int], _COLUMN]
    numbers: Annotated[list[int], _COLUMN]
    times: Annotated[list[int], _COLUMN]
    metas: Annotated[list[Meta], _COLUMN]
    payloads: Annotated[list[bytes], _COLUMN]
    digests: bytes

    def __len__(self) -> int:
        return len(self.places)

    def events(self) -> Iterator[tuple[Stream, RecordedEvent]]:
        """Yield each event, whose `event` is its payload, with its stream."""
        for at, place in enumerate(self.places):
            stream, position = self.streams[place], Position(self.slices[at], self.numbers[at])
            digest = self.digests[at * HASH_BYTES : (at + 1) * HASH_BYTES]
            fields = (self.versions[at], position, self.times[at], self.payloads[at], self.metas[at], digest)
            yield stream, RecordedEvent(stream.name, *fields)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """
    The state that a backup leads to: all events of a store up to `moment`.

    `ends` has, of each slice, its last position and the digest of the event there. `root` is a hash of the hashes of
    all chunks. `notes` are the places of subscriptions. `keys` are the wrapped data keys of a store that has keys.
    """

    lineage: str
    source: str
    has_slices: bool
    moment: str
    events: int
    chunks: int
    made_at: int
    ends: list[tuple[int, int, bytes]]
    root: bytes
    notes: dict[str, str] = {}
    keys: list[tuple[str, str, int, str, bytes]] = []

    @property
    def is_encrypted(self) -> bool:
        """Whether the events are encrypted; the keys may be for their digests alone."""
        return any(row[:2] == (STORE, STORE) for row in self.keys)


class Frame(NamedTuple):
    """The place of a chunk in the file, with its hash."""

    offset: int
    size: int
    hash: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode_chunk = msgspec.msgpack.Decoder(known(Chunk)).decode
_decode_record = msgspec.msgpack.Decoder(known(Record)).decode


class BackupFile:
    """
    A backup that was opened and checked: its chunks, and the records of its runs, the last of which counts.

    `records` is empty in a new file, and in one whose first run broke off. `left` are whole chunks behind the last
    record.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self._file = path, file
        self.chunks: list[Frame] = []
        self.left: list[Frame] = []
        self.records: list[Record] = []
        self._root = hashlib.blake2b(digest_size=HASH_BYTES)
        self._end = _HEAD
        self._scan()

    @property
    def record(self) -> Record:
        """
        The record that counts.

        Raises:
            InvalidInputError: the first backup into this file was not finished.
        """
        if not self.records:
            raise InvalidInputError(f"{self.path} has no finished backup: run `refold backup` once more")
        return self.records[-1]

    @property
    def moment(self) -> Moment:
        """The moment of the last record."""
        return Moment.parse(self.records[-1].moment) if self.records else Moment()

    @property
    def size(self) -> int:
        """The length of the file up to its last whole frame, in bytes."""
        return self._end

    # Reading

    def _scan(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        if size == 0:
            self._write_head(_HEAD)
            return
        length = self._read_head()
        if size < length:
            raise damaged_backup(self.path, f"it was cut off: {length - size:,} of its bytes are missing")
        while True:
            frame = self._next_frame(size, is_needed=self._end < length)
            if frame is None:
                break
            self._take(*frame)
        # A crash may have left the beginning of a frame. The next one takes its place.

    def _read_head(self) -> int:
        self._file.seek(0)
        head = self._file.read(_HEAD)
        if not head.startswith(MAGIC):
            raise InvalidInputError(f"{self.path} is no backup of Refold's: name another file")
        length, checksum = head[len(MAGIC) : -HASH_BYTES], head[-HASH_BYTES:]
        if checksum != _hash(MAGIC, length):
            raise damaged_backup(self.path, "its first bytes do not match their hash")
        return int.from_bytes(length, "big")

    def _next_frame(self, size: int, *, is_needed: bool) -> tuple[bytes, Frame, bytes] | None:
        """Return the next frame with its kind and body; None if there is no whole one, unless it is needed."""
        self._file.seek(self._end)
        head = self._file.read(_FRAME)
        length = int.from_bytes(head[1 : 1 + LENGTH_BYTES], "big")
        body = self._file.read(length) if len(head) == _FRAME and self._end + _FRAME + length <= size else b""
        kind, expected = head[:1], head[1 + LENGTH_BYTES :]
        if body and expected == _hash(kind, length.to_bytes(LENGTH_BYTES, "big"), body):
            return kind, Frame(self._end, _FRAME + length, expected), body
        if is_needed:
            raise damaged_backup(self.path, "the bytes there do not match their hash", at=self._end)
        return None

    def _take(self, kind: bytes, frame: Frame, body: bytes) -> None:
        self._end = frame.offset + frame.size
        if kind == CHUNK:
            self._root.update(frame.hash)
            self.left.append(frame)
            return
        record = self._opened(_record_in, body, frame)
        if record.root != self._root.digest() or record.chunks != len(self.chunks) + len(self.left):
            raise damaged_backup(self.path, "its record is of other events", at=frame.offset)
        self.chunks += self.left
        self.left = []
        self.records.append(record)

    def _opened(self, decode: Callable[[bytes], T], body: bytes, frame: Frame) -> T:
        try:
            return decode(body)
        except (msgspec.DecodeError, ValueError) as error:
            raise damaged_backup(self.path, f"it cannot be read ({error})", at=frame.offset) from error

    def open(self, frame: Frame) -> Chunk:
        """
        Return a chunk.

        Raises:
            DamagedFileError: it was changed.
        """
        self._file.seek(frame.offset + _FRAME)
        body = self._file.read(frame.size - _FRAME)
        if _hash(CHUNK, len(body).to_bytes(LENGTH_BYTES, "big"), body) != frame.hash:
            raise damaged_backup(self.path, "the bytes there do not match their hash", at=frame.offset)
        expanded = _COMPRESSION.expand(body, f"{self.path}, byte {frame.offset:,}")
        return self._opened(_chunk_in, expanded, frame)

    def events_of(self, name: str) -> Iterator[tuple[Stream, RecordedEvent]]:
        for frame in self.chunks:
            chunk = self.open(frame)
            if any(stream.name == name for stream in chunk.streams):
                yield from (pair for pair in chunk.events() if pair[0].name == name)

    # Writing

    def add(self, chunk: Chunk) -> None:
        """Append a chunk, which does not count before the next record."""
        frame = self._append(CHUNK, _COMPRESSION.shrink_block(_encode(chunk)))
        self._root.update(frame.hash)
        self.left.append(frame)

    def finish(self, record: Callable[[bytes, int], Record]) -> Record:
        """Append the record that `record` makes, given the root and the number of chunks; from now on it counts."""
        # The written frames are read back from the file before they count.
        for frame in self.left:
            self.open(frame)
        made = record(self._root.digest(), len(self.chunks) + len(self.left))
        self._append(RECORD, _encode(made))
        self._sync()
        self._write_head(self._end)
        self.chunks += self.left
        self.left = []
        self.records.append(made)
        return made

    def _append(self, kind: bytes, body: bytes) -> Frame:
        length = len(body).to_bytes(LENGTH_BYTES, "big")
        frame = Frame(self._end, _FRAME + len(body), _hash(kind, length, body))
        self._file.seek(self._end)
        # A crash may have left more bytes than this frame has.
        self._file.truncate()
        self._file.write(b"".join((kind, length, frame.hash, body)))
        self._end += frame.size
        return frame

    def _write_head(self, length: int) -> None:
        written = length.to_bytes(LENGTH_BYTES, "big")
        self._file.seek(0)
        self._file.write(MAGIC + written + _hash(MAGIC, written))
        self._sync()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


def chunk_of(events: Sequence[tuple[Stream, RecordedEvent]]) -> Chunk:
    """Return events, whose `event` is their payload, as a chunk."""
    streams: dict[str, int] = {}
    listed: list[Stream] = []
    for stream, _ in events:
        if stream.name not in streams:
            streams[stream.name] = len(listed)
            listed.append(stream)
    recorded = [one for _, one in events]
    return Chunk(
        listed,
        [streams[one.stream] for one in recorded],
        [one.version for one in recorded],
        [one.position.slice for one in recorded],
        [one.position.number for one in recorded],
        [one.recorded_at for one in recorded],
        [one.meta for one in recorded],
        [one.event for one in recorded],
        b"".join(one.digest for one in recorded),
    )


def _chunk_in(body: bytes) -> Chunk:
    chunk = _decode_chunk(body)
    columns = (chunk.versions, chunk.slices, chunk.numbers, chunk.times, chunk.metas, chunk.payloads)
    if any(len(column) != len(chunk) for column in columns) or len(chunk.digests) != HASH_BYTES * len(chunk):
        raise ValueError("its columns are not of one length")
    if any(not 0 <= place < len(chunk.streams) for place in chunk.places):
        raise ValueError("an event is of no stream in it")
    return chunk


def _record_in(body: bytes) -> Record:
    record = _decode_record(body)
    Moment.parse(record.moment)
    return record


def size_of(recorded: RecordedEvent) -> int:
    """Return about how many bytes an event takes in a chunk, before it is compressed."""
    meta = 0 if recorded.meta == NO_META else len(_encode(recorded.meta))
    return len(recorded.event) + meta + len(recorded.stream) + 2 * HASH_BYTES


_COMPRESSION = Compression(no_dictionary("there are none in a backup", DamagedFileError, remedy=REMEDY))


def _hash(*parts: bytes) -> bytes:
    hashed = hashlib.blake2b(digest_size=HASH_BYTES)
    for part in parts:
        hashed.update(part)
    return hashed.digest()


def is_backup(path: Path) -> bool:
    """Return whether a file begins as a backup does."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def damaged_backup(path: Path, reason: str, *, at: int | None = None) -> DamagedFileError:
    """Return the error for a backup that is not as it was written, there or at the byte `at`."""
    what = str(path) if at is None else f"{path}, byte {at:,}"
    return DamagedFileError(what, reason, remedy=REMEDY)


@contextmanager
def reading_backup(path: Path) -> Iterator[BackupFile]:
    """
    Yield the backup in a file.

    Raises:
        InvalidInputError: there is no such file, or it is no backup.
        DamagedFileError: it was changed, or cut off.
        StorageBusyError: another process is writing it.
    """
    with reading_file(path) as file:
        _lock(path, file, fcntl.LOCK_SH)
        if not os.fstat(file.fileno()).st_size:
            raise InvalidInputError(f"{path} is empty: name a backup")
        yield BackupFile(path, file)


@contextmanager
def writing_backup(path: Path) -> Iterator[BackupFile]:
    """
    Yield the backup in a file, to be gone on with; a new file can be read by its owner alone.

    Raises:
        InvalidInputError: it cannot be written, or is no backup.
        DamagedFileError: it was changed, or cut off.
        StorageBusyError: another process is writing it.
    """
    if not path.parent.is_dir():
        raise no_folder(path)
    try:
        require_regular(path)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            _lock(path, file, fcntl.LOCK_EX)
            sync_folder(path.parent)
            yield BackupFile(path, file)
    except OSError as error:
        raise unwritable(path, error) from error


def _lock(path: Path, file: IO[bytes], how: int) -> None:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StorageBusyError(f"another process is writing {path}: wait for it") from error
