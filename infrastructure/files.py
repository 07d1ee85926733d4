"""Reading files of other programs within bounds, and replacing files as a whole."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from filecmp import cmp
from functools import partial
from pathlib import Path
from typing import IO, Any

from ..domain.errors import InvalidInputError
from ..domain.log.admission import JSON_DEPTH_MAX, is_deeper

FILE_BYTES_MAX = 512 * 1024 * 1024
ENDING = ".refold.tmp"
# If this variable is set, and not 0, new files may be read by their owner alone.
PRIVATE = "REFOLD_PRIVATE"
# The rights of new files, of which the umask takes some away.
OWNER, EVERYBODY = 0o600, 0o666
# The files that SQLite keeps beside a database, by what follows its name.
BESIDE_SQLITE = ("-wal", "-shm", "-journal")
ABANDONED = re.compile(rf"\.[0-9a-f]{{32}}{re.escape(ENDING)}({'|'.join(BESIDE_SQLITE)})?$")


def is_private(asked: bool | None) -> bool:
    """Return whether a new file is for its owner alone; None stands for what REFOLD_PRIVATE says."""
    return os.environ.get(PRIVATE, "0") not in ("", "0") if asked is None else asked


def read_bounded(path: Path) -> bytes:
    """
    Return the bytes of a file.

    Raises:
        InvalidInputError: it is larger than FILE_BYTES_MAX; some files have no end, such as devices.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInputError(f"{path} is over FILE_BYTES_MAX, {FILE_BYTES_MAX:,}: divide it")
    return data


def require_regular(path: Path) -> None:
    """
    Require that a path, if it exists, is that of a regular file: reading a pipe or a device may never end.

    Raises:
        InvalidInputError: there is something else.
    """
    if path.exists() and not path.is_file():
        raise InvalidInputError(f"{path} is no regular file: name a file")


def no_folder(path: Path) -> InvalidInputError:
    """Return the error for a file whose folder does not exist."""
    return InvalidInputError(f"there is no folder {path.parent}: make it first")


def unwritable(path: Path, error: OSError) -> InvalidInputError:
    """Return the error for a file that cannot be written."""
    return InvalidInputError(f"{path} cannot be written: {error.strerror or error}")


@contextmanager
def reading_file(path: Path) -> Iterator[IO[bytes]]:
    """
    Yield a file that is open for reading.

    Raises:
        InvalidInputError: the file is missing, cannot be read, or is none, such as a pipe.
    """
    try:
        require_regular(path)
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise InvalidInputError(f"there is no file {path}: check the name") from error
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}") from error


def parse_foreign(text: str | bytes, **options: Any) -> Any:
    """
    Return the value of a JSON text; `options` are those of `json.loads`.

    Raises:
        JSONDecodeError, UnicodeDecodeError: it is not JSON.
        RecursionError: it is nested deeper than JSON_DEPTH_MAX.
    """
    value = json.loads(text, **options)
    # Code that walks a value makes several nested Python calls for each level, and Python limits nested calls.
    if is_deeper(value, JSON_DEPTH_MAX):
        raise RecursionError(f"its values are nested too deeply: JSON_DEPTH_MAX is {JSON_DEPTH_MAX}")
    return value


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """
    Replace files in this order, and create missing folders; if one fails, all files are as before.

    All new files are on disk before the first one replaces its target. A process that is killed in between leaves only
    the first ones replaced.
    """
    with ExitStack() as stack:
        waiting = {path: stack.enter_context(file_beside(path)) for path in contents}
        for path, file in waiting.items():
            file.write(contents[path])
            _sync(file)
        _put_in_place({path: Path(file.name) for path, file in waiting.items()})


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """
    Yield a file to write piece by piece; at the end it replaces `path`, or nothing changes.

    A machine that fails afterwards does not bring the earlier file back, nor the texts that were erased from it.
    """
    with file_beside(path) as file:
        yield file
        _sync(file)
        Path(file.name).replace(path)
        sync_folder(path.parent)


@contextmanager
def making(path: Path) -> Iterator[IO[bytes]]:
    """
    Yield a file to write piece by piece; at the end it gets the name `path`, unless a file with the same bytes has it.

    The file is locked while it, or a copy of its descriptor, is open: a file that is locked may be removed again.

    Raises:
        FileExistsError: a file with other bytes, or a locked one, has the name.
    """
    with file_beside(path) as file:
        yield file
        _sync(file)
        try:
            os.link(file.name, path)
        except FileExistsError:
            if _is_locked(path) or not cmp(file.name, path, shallow=False):
                raise
        except OSError:
            # There are no links in this file system: between these two steps the file is empty.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER))
            Path(file.name).replace(path)
        sync_folder(path.parent)


def _is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def file_beside(path: Path) -> Iterator[IO[bytes]]:
    """
    Yield a file that is to replace `path`; remove files that killed processes left in its folder.

    The file has its own name: two writers with one file would mix their halves. It is locked while it is open, so a
    file with such a name and without a lock is abandoned.

    Raises:
        InvalidInputError: there is something else than a file, such as a device or a pipe.
    """
    require_regular(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path.parent)
    file = _locked_beside(path)
    try:
        with file:
            if path.exists():
                # A file that only its owner may read stays so.
                os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
            yield file
    finally:
        Path(file.name).unlink(missing_ok=True)


def _locked_beside(path: Path) -> IO[bytes]:
    while True:
        new = path.with_name(f"{path.name}.{os.urandom(16).hex()}{ENDING}")
        rights = OWNER if is_private(None) else EVERYBODY
        file = open(new, "x+b", opener=partial(os.open, mode=rights))  # noqa: SIM115  # it outlives this function
        fcntl.flock(file, fcntl.LOCK_EX)
        if new.exists():
            return file
        # Before it was locked, another process considered it abandoned.
        file.close()


def _remove_abandoned(folder: Path) -> None:
    # A file comes before those that SQLite keeps beside it.
    for path in sorted(folder.iterdir()):
        if not (found := ABANDONED.search(path.name)):
            continue
        with suppress(OSError):
            if found[1] is not None:
                if not path.with_name(path.name.removesuffix(found[1])).exists():
                    path.unlink()
                continue
            # A process is writing it, or has removed it first, or this process may not remove it.
            with path.open("rb") as file:
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


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
