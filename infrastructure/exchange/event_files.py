"""
Writing and reading files of events. They are JSON Lines: a header, one event a line, stream by stream, and the end.

    {"refold": 1, "streams": 2}
    {"stream": "chat:a", "version": 1, "root": "a", "recorded_at": 1795..., "meta": [...], "event": {"t": ...}}
    {"end": 5}

Bytes in events are base64. If an event has a number that JSON does not have, such as infinity, its whole payload is
written in base64. A stream comes after the streams that its first event names, so that a fork finds its parent. The
last line has the number of events; if it is missing, the file was cut off.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from ...domain.concurrency.known_types import known
from ...domain.context.description import counted
from ...domain.errors import DamagedError, InvalidInputError
from ...domain.log.envelope import PAYLOAD_BYTES_MAX, Event, Meta, RecordedEvent, encode_payload
from ...domain.log.ports import LiveLog
from ...domain.positions import BEGINNING, Moment
from ..files import making, no_folder, reading_file, replacing, require_regular, unwritable
from ..log.codec import CODEC

FORM_VERSION = 1
# The bits of a file that let anybody write to it.
WRITABLE = 0o222
# Called with the amount that is done so far, and the whole amount.
Progress = Callable[[int, int], None]
# An event is at most PAYLOAD_BYTES_MAX, and its line is not longer than its base64 with its envelope.
LINE_BYTES_MAX = 512 * 1024 * 1024
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(known(CODEC.events)).decode
_decode_plain = msgspec.json.Decoder().decode


class Header(msgspec.Struct, frozen=True):
    """The first line: the version of the file format, and the number of streams."""

    refold: int
    streams: int


class EventLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    An event with its envelope. `recorded_at` is in microseconds since 1970, UTC; `event` is its payload with its tag,
    as an object or, in base64, as the bytes that are stored.
    """

    stream: str
    version: int
    root: str
    recorded_at: int
    meta: Meta
    event: msgspec.Raw


class End(msgspec.Struct, frozen=True):
    """The last line: the number of events in the file."""

    end: int


def line_of(event: Any) -> msgspec.Raw:
    """Return the JSON of an event in a line: an object, or its payload in base64."""
    said = _encode(event)
    # JSON has no infinity, and it becomes null. So a null is compared with the event; few events have one, because
    # fields with their default are left out.
    # JSON writes some characters as six, so the payload in base64 may be shorter than the JSON.
    if len(said) > PAYLOAD_BYTES_MAX or (b"null" in said and not _says(said, event)):
        return payload_line(encode_payload(event))
    return msgspec.Raw(said)


def payload_line(payload: bytes) -> msgspec.Raw:
    """Return the payload of an event, in base64, as a line has it."""
    return msgspec.Raw(_encode(payload))


def _says(said: bytes, event: Any) -> bool:
    try:
        found: bool = _decode(said) == event
    except msgspec.ValidationError:
        return False
    return found


def event_in(said: msgspec.Raw) -> Any:
    """
    Return the event of a line, in its newest shape.

    Raises:
        InvalidInputError: the line has no valid event, or one with a field that this version does not know.
    """
    try:
        event, plain = _decode(said), None
    except msgspec.ValidationError:
        event, plain = _event_in_plain(said)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"the event is no JSON: {error}") from error
    # An export of this version has the same bytes: nearly always nothing more has to be looked at.
    if plain is not None or _encode(event) != bytes(said):
        _require_known_fields(event, _decode_plain(said) if plain is None else plain)
    return event


def _require_known_fields(value: Any, plain: Any) -> None:
    """
    Require that the plain form of an event, or of a value in it, has no more fields than the value that it became.

    Raises:
        InvalidInputError: it has another one, which would be lost.
    """
    if isinstance(value, msgspec.Struct):
        fields = dict(zip(value.__struct_encode_fields__, msgspec.structs.astuple(value), strict=True))
        # A Struct is an object, or an array of its fields; those behind the last one have numbers here.
        held = plain if isinstance(plain, dict) else dict(zip(chain(fields, count(len(fields))), plain, strict=False))
        for name, inner in held.items():
            if name in fields:
                _require_known_fields(fields[name], inner)
            elif name != value.__struct_config__.tag_field:
                raise InvalidInputError(f"the event has the unknown field {name!r} (written by a newer Refold?)")
    elif isinstance(value, tuple):
        for one, inner in zip(value, plain, strict=True):
            _require_known_fields(one, inner)


def _event_in_plain(line: msgspec.Raw) -> tuple[Any, Any]:
    """Return the event of a line that has it in base64, or in an older shape, and its plain form in the newest one."""
    try:
        said = _decode_plain(line)
        if isinstance(said, str):
            payload = base64.b64decode(said, validate=True)
            return CODEC.decode(payload, "its event"), CODEC.upcast(msgspec.msgpack.decode(payload))
        plain = _newest(said) if isinstance(said, dict) else said
        # Encoded and decoded again: `msgspec.convert` tries all types of events each time, which takes far longer.
        return _decode(_encode(plain)), plain
    except (msgspec.DecodeError, DamagedError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidInputError(f"{error} (written by a newer Refold?)") from error


def _newest(said: dict[str, Any]) -> dict[str, Any]:
    try:
        return CODEC.upcast(said)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"the event is no {said.get('t')}: {error!r}") from error


class ReadLine(NamedTuple):
    """A line of a file with its event, its number, and the offset where it begins."""

    number: int
    offset: int
    line: EventLine
    event: Event


def event_lines(path: Path) -> Iterator[ReadLine]:
    """
    Yield the events of a file, each with its envelope and its place.

    Raises:
        InvalidInputError: the file is not such a file, has a newer format, or was cut off.
    """
    for number, offset, line in lines_in(path):
        try:
            event = event_in(line.event)
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}, line {number}: {error}") from error
        yield ReadLine(number, offset, line, event)


def lines_in(path: Path) -> Iterator[tuple[int, int, EventLine]]:
    """
    Yield the number, the offset and the content of each line that has an event; the event is not decoded.

    Raises:
        InvalidInputError: the file is not such a file, has a newer format, or was cut off.
    """
    events = 0
    end: End | None = None
    for number, offset, data in _lines(path):
        if number == 1:
            _require_header(path, data)
            continue
        if end is not None:
            raise InvalidInputError(f"{path}, line {number}: nothing comes behind the end")
        if data.startswith(b'{"end"'):
            end = _decoded(path, number, data, End)
            continue
        line: EventLine = _decoded(path, number, data, EventLine)
        events += 1
        yield number, offset, line
    if end is None or end.end != events:
        raise InvalidInputError(f"{path} is cut off: it ends after {counted(events, 'event')} without saying so")


def event_at(file: IO[bytes], offset: int) -> tuple[Event, Meta]:
    """Return the event whose line begins at an offset, and its metadata; the line was checked before."""
    file.seek(offset)
    line = msgspec.json.decode(file.readline(LINE_BYTES_MAX), type=known(EventLine))
    return event_in(line.event), line.meta


def _lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    with reading_file(path) as opened:
        offset = 0
        # The limit protects the memory from a line without an end.
        for number in count(1):
            data = opened.readline(LINE_BYTES_MAX + 1)
            if not data:
                return
            if len(data) > LINE_BYTES_MAX:
                raise InvalidInputError(
                    f"{path}, line {number}: it is over LINE_BYTES_MAX, {LINE_BYTES_MAX:,}, so this is no export"
                )
            yield number, offset, data.rstrip(b"\n")
            offset += len(data)


def _require_header(path: Path, data: bytes) -> None:
    header: Header = _decoded(path, 1, data, Header)
    if header.refold > FORM_VERSION:
        raise InvalidInputError(f"{path} was written by a newer Refold (form {header.refold}): update this one")


def _decoded(path: Path, number: int, data: bytes, wanted: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=known(wanted))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}, line {number}: this is not an export of Refold's: {error}") from error


def pages_up_to(
    log: LiveLog, *, limit: int, after: Moment = BEGINNING, until: Moment | None = None
) -> Iterator[list[RecordedEvent]]:
    """
    Yield the events after a moment, up to another or the present end, in the order of the log, `limit` at a time.

    Raises:
        DamagedError: an event is missing, or does not match its digest.
    """
    ends = dict((log.now() if until is None else until).heads)
    left = sum(max(0, end - after.head(lane)) for lane, end in ends.items())
    while left > 0:
        page = log.read_all(after=after, limit=limit)
        if not page.events:
            # Without this the loop would never end.
            raise DamagedError("the log", f"it ends {counted(left, 'event')} too soon")
        events = [one for one in page.events if one.position.number <= ends.get(one.position.slice, 0)]
        left -= len(events)
        after = page.moment
        yield events


@contextmanager
def writing_file(path: Path, log: LiveLog, *, is_new: bool = False) -> Iterator[IO[bytes]]:
    """
    Yield a file that replaces `path` at the end, or with `is_new` is made there; after an error `path` is as it was. A
    link is followed.

    Raises:
        InvalidInputError: it cannot be written, is no regular file, or is a file of the log that is exported; or with
            `is_new`, a file with other bytes is there.
    """
    for held in log.files():
        if is_same_file(path, held):
            raise InvalidInputError(f"{path} is where the database lies, or belongs to it: export into another file")
    target = _replaceable(path)
    try:
        with (making if is_new else replacing)(target) as file:
            yield file
    except FileExistsError as error:
        raise InvalidInputError(f"{path} is there already: name a new file") from error
    except OSError as error:
        raise unwritable(path, error) from error


def _replaceable(path: Path) -> Path:
    """Return the file that `path` names, without links; it may be missing."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise no_folder(path)
    if not target.exists():
        return target
    require_regular(path)
    # The file is replaced by renaming another one, which does not ask for a right to write to it.
    if not (target.stat().st_mode & WRITABLE and os.access(target, os.W_OK)):
        raise InvalidInputError(f"{path} is write-protected: name another file, or make it writable")
    return target


def is_same_file(path: str | Path, other: str | Path) -> bool:
    """Return whether two paths name one file, or would if it existed."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    # One file may have several names, because of hard links or a file system that ignores case.
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)
