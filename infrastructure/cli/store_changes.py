"""`refold changes`: which contexts are different at two moments of the whole store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from ...projections.catalogue import CatalogueRow
from ..queries.differences import ContextDifference
from .addresses import address
from .changes import note
from .options import as_json, database, summed_up
from .shapes import context_shape, print_json_list
from .terminal import aligned, one_line, paint

HEADINGS = ("ID", "KIND", "VERSION", "ITEMS", "TOKENS")


@click.command("changes")
@click.argument("before", metavar="A", callback=address)
@click.argument("after", metavar="[B]", required=False, callback=address)
@database
@as_json
def command(before: str, after: str | None, location: str, as_json: bool) -> None:
    """
    List the contexts that are different at two moments of the whole store, or at A and now.

    A moment is a time, a position (pos:17) or a name that `refold moments` lists. `refold diff CTX@A..B` shows what
    became of a context.

    With --json: an array of {id, kind, before, after}; each side as `refold contexts --json` has it, null where the
    context was not there.
    """
    found = summed_up(location, lambda store: store.diff(before, after))
    if as_json:
        print_json_list(map(_shape, found))
    elif found:
        _print_table(found)
    else:
        note("no context is different")


def _shape(difference: ContextDifference) -> dict[str, Any]:
    sides = {"before": difference.before, "after": difference.after}
    return {
        "id": difference.id,
        "kind": difference.kind,
        **{name: None if row is None else context_shape(row) for name, row in sides.items()},
    }


def _print_table(found: Sequence[ContextDifference]) -> None:
    heading, *lines = aligned([HEADINGS, *map(_cells, found)])
    click.echo(paint(heading, "dim"))
    for line in lines:
        click.echo(line)


def _cells(difference: ContextDifference) -> tuple[str, ...]:
    def both(told: Callable[[CatalogueRow], str]) -> str:
        sides = (difference.before, difference.after)
        return " -> ".join("none" if row is None else told(row) for row in sides)

    return (
        one_line(difference.id),
        difference.kind,
        both(lambda row: f"@{row.version}"),
        both(lambda row: f"{row.items:,}"),
        both(lambda row: f"{row.tokens:,}"),
    )
