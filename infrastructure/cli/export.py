"""`refold export`: contexts with their past, or the whole store, as a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from ...domain.log.ports import LiveLog
from ..exchange import export_events
from ..exchange.parquet import export_parquet
from .addresses import Reference, references, stream_of
from .changes import note
from .options import database, reading
from .progress import progress_bar
from .render import counted, joined, one_line

NAMED_MAX = 5
Progress = Callable[[int, int], None]


@click.command("export")
@click.argument("contexts", metavar="[CTX...]", nargs=-1, callback=references)
@click.option(
    "--output",
    "-o",
    "path",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to; a file that is there is replaced.",
)
@click.option("--parquet", is_flag=True, help="The log as a Parquet table, for DuckDB, Polars, Spark and others.")
@database
def command(contexts: tuple[Reference, ...], path: Path, parquet: bool, location: str) -> None:
    """
    Write contexts with their whole past, or all there are, into a file that `refold import` takes in.

    What they were forked from, and what was merged into them, comes along. The file is JSON Lines, and is replaced as
    a whole: where the export fails, it stays as it was.
    """
    if any(reference.moments for reference in contexts):
        raise click.UsageError("the whole past is written: leave out @V", click.get_current_context())
    with reading(location) as store:
        streams = [stream_of(store, reference.context) for reference in contexts] or None
        with progress_bar("exporting") as progress:
            export = _export_parquet if parquet else _export_events
            written = export(store.log, path, streams, progress)
    click.echo(f"{one_line(str(path))}: {written}")


def _export_parquet(log: LiveLog, path: Path, streams: list[str] | None, progress: Progress | None) -> str:
    return counted(export_parquet(log, path, streams, progress=progress), "event")


def _export_events(log: LiveLog, path: Path, streams: list[str] | None, progress: Progress | None) -> str:
    report = export_events(log, path, streams, progress=progress)
    if report.along:
        note(f"{_listed(report.along)} came along: the others name them")
    return f"{counted(report.streams, 'context')}, {counted(report.events, 'event')}"


def _listed(streams: tuple[str, ...]) -> str:
    more = len(streams) - NAMED_MAX
    return joined([*map(one_line, streams[:NAMED_MAX]), *([f"and {more:,} more"] if more > 0 else [])])
