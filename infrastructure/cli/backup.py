"""`refold backup`, and `refold restore` of the file of a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from ...domain.clock import REAL_SYSTEM, exact
from ...domain.context.description import counted
from ..databases import location_of
from ..exchange.backup import BackupReport, back_up_from, check_backup
from ..exchange.restore import restore as restore_from
from .args import address, answer_options, argument, flag, given_database, given_keys, note_slices, optional_path, shown
from .progress import progress_bar
from .render import Command, date_and_age, one_line, print_json, prints_json, size_of


@click.command("backup")
@argument(
    "path",
    help="The file; a new one gets the whole store.",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
)
@flag("--check", help="Only read FILE, and check every event in it.")
@answer_options
def backup(path: Path, check: bool) -> None:
    """
    Back up the store into FILE: a new file gets the whole store, an older backup what was added since.

    Programs may write meanwhile, and do not wait. The whole file is checked first, and what was written is read back.
    If a backup is interrupted, the file still holds the one before, and the next run continues. `refold restore FILE`
    makes a store from it. It has no rows of projections: those are computed again.

    With --json: {file, source, lineage, moment, events, added, made_at, size}.
    """
    if check:
        report = check_backup(path, keys=given_keys())
    else:
        with progress_bar("backing up") as progress:
            report = back_up_from(location_of(given_database()), path, keys=given_keys(), progress=progress)
    if prints_json():
        print_json(_shape(report))
    else:
        click.echo(_sentence(report, is_check=check))


def _shape(report: Any) -> dict[str, Any]:
    shape: dict[str, Any] = msgspec.to_builtins(report)
    return {**shape, "made_at": exact(report.made_at)}


def _sentence(report: BackupReport, *, is_check: bool) -> str:
    file = f"{one_line(report.file)}: {counted(report.events, 'event')}"
    size = size_of(report.size)
    if is_check:
        made = date_and_age(report.made_at, REAL_SYSTEM.now())
        return f"{file} of {one_line(report.source)}, backed up {made}, {size}; it is whole"
    return f"{file}, {report.added:,} of them new, {size}; it is whole"


def restore_options(command: Command) -> Command:
    """Give a command the options that say where a backup is restored to, and as of when."""
    options = (
        click.option(
            "--at",
            "moment",
            metavar="X",
            callback=address,
            help="Of a backup: the moment to restore, a position (pos:17), a time or a name; its end by default.",
        ),
        click.option(
            "--into",
            metavar="FILE|URL",
            callback=optional_path,
            help="Of a backup: the place of the restored store; that of --db by default.",
        ),
        flag("--overwrite", help="Of a backup: replace a store that has events."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def restore_store(path: Path, *, at: str | None, into: str, overwrite: bool) -> None:
    """Make a store of a backup, and print the result."""
    with progress_bar("restoring") as progress:
        report = restore_from(path, into, at=at, overwrite=overwrite, keys=given_keys(), progress=progress)
    note_slices(at)
    if prints_json():
        print_json(_shape(report))
        return
    moment = f", up to {report.moment}" if at is not None else ""
    made = date_and_age(report.made_at, REAL_SYSTEM.now())
    click.echo(
        f"{shown(into)}: {counted(report.events, 'event')}{moment}, of {one_line(report.source)}, backed up {made}"
    )
