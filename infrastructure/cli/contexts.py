"""`refold contexts`: which contexts there are."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...domain.clock import REAL_SYSTEM
from ...projections.catalogue import CATALOGUE, CatalogueRow
from .addresses import address
from .options import as_json, database, summed_up
from .readable import rows_of
from .render import aligned, one_line, paint, told
from .shapes import context_shape, print_json_list

HEADINGS = ("ID", "KIND", "VERSION", "ITEMS", "TOKENS", "LAST CHANGE", "FORKED FROM")
NUMBERS = (2, 3, 4)


@click.command("contexts")
@click.option("--at", "moment", metavar="X", callback=address, help="As they were at this moment of the store.")
@database
@as_json
def command(moment: str | None, location: str, as_json: bool) -> None:
    """
    List the contexts, ordered by kind and id.

    ITEMS and TOKENS count what can be seen; TOKENS is an estimate, about four characters each. FORKED FROM is there
    where a context is a fork. A moment of the store is a time, a position (pos:17), or a name that `refold moments`
    lists.

    With --json: an array of {id, kind, version, items, turns, tokens, user, session, agent, source, parent,
    opened_at, changed_at, changed_by}; parent is the stream and version that it was forked from.
    """
    if moment is not None:
        _print(summed_up(location, lambda store: store.at(moment).contexts()), as_json, "there were no contexts yet")
        return
    [rows], readable = rows_of(location, [CATALOGUE])
    _print(rows, as_json, "no contexts yet: `refold import FILE` brings some in")
    if readable is not None:
        readable.require_whole()


def _print(rows: Sequence[CatalogueRow], as_json: bool, nothing: str) -> None:
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
