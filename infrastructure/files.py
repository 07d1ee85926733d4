"""Files of others, read within bounds, and files that are replaced as a whole."""

from __future__ import annotations

import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..domain.errors import InvalidInputError
from ..domain.log.admission import JSON_DEPTH_MAX, is_deeper

FILE_BYTES_MAX = 512 * 1024 * 1024


def read_bounded(path: Path) -> bytes:
    """
    Return what is in a file.

    Raises:
        InvalidInputError: it is larger than FILE_BYTES_MAX; some files have no end, such as devices.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInputError(f"{path} is over FILE_BYTES_MAX, {FILE_BYTES_MAX:,}: divide it")
    return data


def parse_foreign(text: str | bytes, **options: Any) -> Any:
    """
    Return the value of a JSON text; `options` are those of `json.loads`.

    Raises:
        JSONDecodeError, UnicodeDecodeError: it is not JSON.
        RecursionError: it is nested deeper than JSON_DEPTH_MAX.
    """
    value = json.loads(text, **options)
    # Whoever goes through a value takes several of the calls that Python lets nest for each level of it.
    if is_deeper(value, JSON_DEPTH_MAX):
        raise RecursionError(f"its values are nested too deeply: JSON_DEPTH_MAX is {JSON_DEPTH_MAX}")
    return value


ENDING = ".refold.tmp"
ABANDONED = re.compile(rf"\.[0-9a-f]{{32}}{re.escape(ENDING)}$")


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """
    Put files in place, in this order, whose folders are made if need be; where one cannot be, all are as they were.

    All are on the disk before the first is put in place. A process that is killed in between leaves the first new.
    """
    with ExitStack() as stack:
        waiting = {path: stack.enter_context(_waiting(path)) for path in contents}
        for path, file in waiting.items():
            file.write(contents[path])
            _sync(file)
        _put_in_place({path: Path(file.name) for path, file in waiting.items()})


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to be written piece by piece, which takes the place of `path` at the end, or not at all."""
    with _waiting(path) as file:
        yield file
        _sync(file)
        Path(file.name).replace(path)


@contextmanager
def _waiting(path: Path) -> Iterator[IO[bytes]]:
    """
    Yield a file that is to take the place of `path`; what killed processes left in its folder is removed.

    It has a name of its own: two writers that share one would put each other's halves in place. And it is locked while
    it is open, so that a file with such a name which nobody has locked was abandoned.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path.parent)
    file = _locked_beside(path)
    try:
        with file:
            yield file
    finally:
        Path(file.name).unlink(missing_ok=True)


def _locked_beside(path: Path) -> IO[bytes]:
    while True:
        new = path.with_name(f"{path.name}.{uuid.uuid4().hex}{ENDING}")
        file = new.open("xb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if new.exists():
            return file
        # Before it was locked another process took it for abandoned.
        file.close()


def _remove_abandoned(folder: Path) -> None:
    for path in folder.iterdir():
        if not ABANDONED.search(path.name):
            continue
        # Somebody is writing it, or has removed it first, or it is not ours to remove.
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _put_in_place(waiting: Mapping[Path, Path]) -> None:
    *earlier, last = waiting
    before: dict[Path, bytes | None] = {}
    try:
        for path in earlier:
            before[path] = path.read_bytes() if path.exists() else None
            waiting[path].replace(path)
        waiting[last].replace(last)
    except BaseException:
        for path, held in before.items():
            if held is None:
                path.unlink(missing_ok=True)
            else:
                replace_files({path: held})
        raise


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
