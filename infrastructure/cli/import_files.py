"""`refold import`: transcripts become contexts."""

from __future__ import annotations

from pathlib import Path

import click

from ..importing import FORMATS, Format, ImportReport, import_runs, read_runs
from .naming import counted
from .options import database, optional_text, shown, writing
from .progress import progress_bar
from .terminal import one_line

__all__ = ["command"]


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="auto", show_default=True, help="What the files hold."
)
@click.option(
    "--prefix", metavar="ID", callback=optional_text, help="Contexts are named ID-KEY  [default: the file's name]."
)
@click.option("--user", metavar="U", callback=optional_text, help="The user that the contexts belong to.")
@click.option("--replace-surrogates", is_flag=True, help="Put U+FFFD for halves of characters, and go on.")
@database
def command(
    files: tuple[Path, ...], form: Format, prefix: str | None, user: str | None, replace_surrogates: bool, location: str
) -> None:
    """
    Bring transcripts in: each conversation becomes a context, named after the file and the conversation's own key
    (task_id of a tau run, id of an OpenAI one), or its number.

    openai is a list of chat messages, an object with "messages", or JSON Lines of either; tau is a list of runs with
    "traj". Everything is checked before anything is written. Importing a file again adds nothing, or what has been
    appended to it since.
    """
    # Before the database is opened, which may make it.
    runs = read_runs(files, format=form, prefix=prefix, mend_surrogates=replace_surrogates)
    with writing(location) as store, progress_bar("importing") as progress:
        report = import_runs(store, runs, user=user, progress=progress)
    for note in report.notes:
        click.echo(f"note: {one_line(note)}", err=True)
    click.echo(_summary(report, location))


def _summary(report: ImportReport, location: str) -> str:
    parts = {"added": report.added, "extended": report.extended, "unchanged": report.unchanged}
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in parts.items() if count)
    written = f"; {counted(report.messages, 'message')} as {counted(report.items, 'item')}" if report.items else ""
    return f"{shown(location)}: {counted(len(report.contexts), 'context')}: {counts}{written}"
