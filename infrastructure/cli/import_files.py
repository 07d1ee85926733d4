"""`refold import`: transcripts become contexts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from ...domain.errors import InvalidInputError
from ..exchange import TakenIn, take_in_events
from ..importing import FORMATS, Format, ImportReport, Run, as_transcripts, import_as_runs, import_runs, read_runs
from ..store import Store
from .options import database, optional_text, shown, writing
from .progress import progress_bar
from .render import counted, one_line

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
    click.echo(f"{shown}: {_events_summary(done)}, from {one_line(str(path))}")


def _events_summary(done: TakenIn) -> str:
    parts = {"added": done.added, "extended": done.extended, "unchanged": done.unchanged}
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in parts.items() if count)
    written = f"; {counted(done.events, 'event')}" if done.events else ""
    return f"{counted(sum(parts.values()), 'context')}: {counts}{written}"


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMATS, OWN_FORMAT]),
    default="auto",
    show_default=True,
    help="What the files hold.",
)
@click.option(
    "--prefix", metavar="ID", callback=optional_text, help="Contexts are named ID-KEY  [default: the file's name]."
)
@click.option("--user", metavar="U", callback=optional_text, help="The user that the contexts belong to.")
@click.option("--as-runs", is_flag=True, help="Make runs of each, one for every question.")
@click.option("--replace-surrogates", is_flag=True, help="Put U+FFFD for halves of characters, and go on.")
@database
def command(
    files: tuple[Path, ...],
    form: Format,
    prefix: str | None,
    user: str | None,
    as_runs: bool,
    replace_surrogates: bool,
    location: str,
) -> None:
    """
    Bring transcripts in: each conversation becomes a context, named after the file and the conversation's own key
    (task_id of a tau run, id of another one, sessionId of a session), or its number.

    openai and anthropic are a list of messages, an object with "messages", or JSON Lines of either; tau is a list of
    runs with "traj"; claude-code is the file of a session, whose branches become forks. Everything is checked before
    anything is written. Importing a file again adds nothing, or what has been appended to it since.

    With --as-runs a conversation becomes a session: each message of its user begins a run, a graph of the calls,
    results and answers that follow.

    refold is what `refold export` writes: contexts of all kinds with their past, which keep their names.
    """
    # Before the database is opened, which may make it.
    exports = exports_among(files, form)
    if exports and (prefix or user or as_runs or replace_surrogates):
        fault = f"{exports[0]} is an export, whose contexts keep their names: only --format and --db go with it"
        raise click.UsageError(fault, click.get_current_context())
    transcripts = [path for path in files if path not in exports]
    runs = read_runs(transcripts, format=form, prefix=prefix, mend_surrogates=replace_surrogates)
    with writing(location) as store:
        if transcripts:
            _import(store, runs, user, as_runs, location)
        for path in exports:
            take_in(store, path, shown(location))


def _import(store: Store, runs: Sequence[Run], user: str | None, as_runs: bool, location: str) -> None:
    with progress_bar("importing") as progress:
        if as_runs:
            report = import_as_runs(store, as_transcripts(runs), user=user, progress=progress)
        else:
            report = import_runs(store, runs, user=user, progress=progress)
    for note in report.notes or [note for run in runs for note in run.notes]:
        click.echo(f"note: {one_line(note)}", err=True)
    click.echo(_summary(report, location, ("run", "node") if as_runs else ("context", "item")))


def _summary(report: ImportReport, location: str, words: tuple[str, str]) -> str:
    whole, part = words
    parts = {"added": report.added, "extended": report.extended, "unchanged": report.unchanged}
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in parts.items() if count)
    written = f"; {counted(report.messages, 'message')} as {counted(report.items, part)}" if report.items else ""
    told = f": {counts}{written}" if counts else ""
    return f"{shown(location)}: {counted(len(report.contexts), whole)}{told}"
