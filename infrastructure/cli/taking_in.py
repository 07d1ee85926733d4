"""Files of Refold's own form among those that are imported: which they are, and taking them in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from ...domain.errors import InvalidInputError
from ..exchange import TakenIn, take_in_events
from ..store import Store
from .naming import counted
from .progress import progress_bar
from .terminal import one_line

OWN_FORMAT = "refold"
HEADER = b'{"refold":'


def exports_among(files: Sequence[Path], form: str) -> list[Path]:
    """
    Return the files that `refold export` wrote, as their first lines say: all where that is the format.

    Raises:
        InvalidInputError: one is to be an export, and is none.
    """
    exports = [path for path in files if _is_export(path)] if form in ("auto", OWN_FORMAT) else []
    if form == OWN_FORMAT:
        for path in files:
            if path not in exports:
                raise InvalidInputError(f"{path} was not written by `refold export`: leave out --format refold")
    return exports


def _is_export(path: Path) -> bool:
    # What cannot be read is told of by who reads it.
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER
    return False


def take_in(store: Store, path: Path, shown: str) -> None:
    """
    Take the contexts of an export in, each under its own name, and say what came of it.

    Raises:
        InvalidInputError: the file is damaged, or a context is here already with another past; nothing was written.
    """
    with progress_bar("importing") as progress:
        done = take_in_events(store.log, path, progress=progress)
    click.echo(f"{shown}: {_summary(done)}, from {one_line(str(path))}")


def _summary(done: TakenIn) -> str:
    parts = {"added": done.added, "extended": done.extended, "unchanged": done.unchanged}
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in parts.items() if count)
    written = f"; {counted(done.events, 'event')}" if done.events else ""
    return f"{counted(sum(parts.values()), 'context')}: {counts}{written}"
