"""`refold contexts` lists the contexts; `refold stats` counts contexts, events and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ...domain.clock import REAL_SYSTEM
from ...projections.catalogue import CATALOGUE, CatalogueRow
from ...projections.rollup import ROLLUP, RollupRow, counts_by_type
from ..times import exact
from .args import address, as_json, database, shown, summed_up
from .readable import rows_of
from .render import aligned, context_shape, one_line, paint, print_json, print_json_list, told

HEADINGS = ("ID", "KIND", "VERSION", "ITEMS", "TOKENS", "LAST CHANGE", "FORKED FROM")
NUMBERS = (2, 3, 4)
SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


@click.command("contexts")
@click.option("--at", "moment", metavar="X", callback=address, help="As they were at this moment of the store.")
@database
@as_json
def contexts(moment: str | None, location: str, as_json: bool) -> None:
    """
    List the contexts, ordered by kind and id.

    ITEMS and TOKENS count what can be seen; TOKENS is an estimate, about four characters each. FORKED FROM is there
    where a context is a fork. A moment of the store is a time, a position (pos:17), or a name that `refold moments`
    lists.

    With --json: an array of {id, kind, version, items, turns, tokens, user, session, agent, source, parent,
    opened_at, changed_at, changed_by}; parent is the stream and version that it was forked from.
    """
    if moment is not None:
        _print_contexts(
            summed_up(location, lambda store: store.at(moment).contexts()), as_json, "there were no contexts yet"
        )
        return
    [rows], readable = rows_of(location, [CATALOGUE])
    _print_contexts(rows, as_json, "no contexts yet: `refold import FILE` brings some in")
    if readable is not None:
        readable.require_whole()


def _print_contexts(rows: Sequence[CatalogueRow], as_json: bool, nothing: str) -> None:
    if as_json:
        print_json_list(context_shape(row) for row in rows)
    elif rows:
        _print_table(rows)
    else:
        click.echo(nothing, err=True)


def _print_table(rows: Sequence[CatalogueRow]) -> None:
    now = REAL_SYSTEM.now()
    cells = [_cells(row, now) for row in rows]
    columns = len(HEADINGS) if any(row.parent for row in rows) else len(HEADINGS) - 1
    heading, *lines = aligned([one[:columns] for one in (HEADINGS, *cells)], right=NUMBERS)
    click.echo(paint(heading, "dim"))
    for line in lines:
        click.echo(line)


def _cells(row: CatalogueRow, now: float) -> tuple[str, ...]:
    return (
        one_line(row.id),
        row.kind,
        f"@{row.version}",
        f"{row.items:,}",
        f"{row.tokens:,}",
        told(row.changed_at, now),
        one_line(row.parent.removeprefix("chat:")),
    )


@click.command("stats")
@database
@as_json
def stats(location: str, as_json: bool) -> None:
    """
    Count contexts, events and bytes.

    TEXT is what messages, arguments, outputs and instructions have in UTF-8; ON DISK is the database with all that
    lies beside it.

    With --json: {database, contexts, items, tokens, events, events_by_type, first_at, last_at, text_bytes, disk_bytes,
    files}; for a server the last two are null.
    """
    [rows, contexts], readable = rows_of(location, [ROLLUP, CATALOGUE])
    stats = {"database": shown(location), **_counted(rows, contexts)}
    # Measured last, because counting may have brought rows up to date, which changes the size.
    files = _files(location)
    stats |= {"disk_bytes": sum(files.values()) if files else None, "files": files or None}
    if as_json:
        print_json({**stats, **{name: stats[name] and exact(stats[name]) for name in ("first_at", "last_at")}})
    else:
        _print_stats(stats)
    if readable is not None:
        readable.require_whole()


def _files(location: str) -> dict[str, int]:
    paths = [Path(location + ending) for ending in ("", "-wal", "-shm")]
    return {path.name: path.stat().st_size for path in paths if path.is_file()}


def _counted(rows: Sequence[RollupRow], contexts: Sequence[CatalogueRow]) -> dict[str, Any]:
    by_type: Counter[str] = Counter()
    for row in rows:
        by_type.update(counts_by_type(row))
    return {
        "contexts": len(contexts),
        "items": sum(context.items for context in contexts),
        "tokens": sum(context.tokens for context in contexts),
        "events": sum(row.events for row in rows),
        "events_by_type": dict(sorted(by_type.items())),
        "first_at": min((row.first_at for row in rows), default=None),
        "last_at": max((row.last_at for row in rows), default=None),
        "text_bytes": sum(row.text_bytes for row in rows),
    }


def _print_stats(stats: dict[str, Any]) -> None:
    now = REAL_SYSTEM.now()
    rows = [("database", stats["database"]), ("contexts", f"{stats['contexts']:,}")]
    rows += [("items", f"{stats['items']:,}, about {stats['tokens']:,} tokens"), ("events", f"{stats['events']:,}")]
    if stats["events"]:
        rows += [("first", told(stats["first_at"], now)), ("last", told(stats["last_at"], now))]
    rows += [("text", _size(stats["text_bytes"]))]
    if stats["files"]:
        files = ", ".join(f"{one_line(name)} {_size(size)}" for name, size in stats["files"].items())
        rows += [("on disk", f"{_size(stats['disk_bytes'])} ({files})")]
    for line in aligned(rows):
        click.echo(line)
    if stats["events"]:
        click.echo()
    by_type = sorted(stats["events_by_type"].items(), key=lambda pair: -pair[1])
    for line in aligned([(f"{count:,}", one_line(name)) for name, count in by_type], right=(0,)):
        click.echo(line)


def _size(count: int) -> str:
    for unit, length in SIZES:
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} bytes"
