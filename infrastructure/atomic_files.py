"""
Files that are replaced as a whole, so that no reader sees half of one and no crash leaves one.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["replace_files", "replacing"]


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """
    Put files in place, in this order, whose folders are made if need be; where one cannot be, all are as they were.

    All are on the disk before the first is put in place. A process that is killed in between leaves the first new.
    """
    # Names of their own: two writers that share one would put each other's halves in place.
    waiting = {path: path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp") for path in contents}
    try:
        for path, new in waiting.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(new, contents[path])
        _put_in_place(waiting)
    finally:
        for new in waiting.values():
            new.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """
    Yield a file to be written piece by piece, which takes the place of `path` at the end, or not at all.
    """
    new = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with new.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


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


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
