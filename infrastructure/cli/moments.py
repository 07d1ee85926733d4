"""`refold moments` and `refold changes`: named moments of the store, and contexts that differ between two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ...domain.clock import REAL_SYSTEM, exact
from ...domain.log.envelope import RecordedEvent
from ...domain.moments import STREAM, MomentNamed
from ...projections.catalogue import CatalogueRow
from ..queries.at import ContextDifference
from ..store import Store
from ..views.shapes import context_shape
from . import args
from .render import date_and_age, note, one_line, paged, print_json, print_json_list, print_table, prints_json

HEADINGS = ("NAME", "POSITION", "NAMED", "BY")
CHANGE_HEADINGS = ("ID", "KIND", "VERSION", "ITEMS", "TOKENS")


@click.command("moments")
@args.argument(
    "name",
    help="The name: it begins with a letter, and has no @, :, .. or blank.",
    metavar="[NAME]",
    required=False,
    callback=args.optional_text,
)
@args.argument(
    "position",
    help="The position, as `refold log` prints it, or an existing name.",
    metavar="[POSITION]",
    required=False,
    callback=args.position,
)
@args.change_options
def moments(name: str | None, position: str | None) -> None:
    """
    List the moments of the whole store that have a name; or give a name to POSITION, or to now. A name that is given
    again moves.

    `refold contexts --at NAME` and `refold changes NAME` take it; a version of one context is named by the program that
    writes it.

    With --json: an array of {name, position, named_at, named_by}, with NAME its own.
    """
    if name is None:
        with args.reading() as store:
            _print(_events_by_name(store))
        return
    with args.changing() as store:
        store.name_moment(name, position)
        found = _events_by_name(store)[name]
    if prints_json():
        print_json(_shape(found))
    else:
        click.echo(f"{one_line(name)} is pos:{found.event.moment}")
    args.note_slices(position)


def _events_by_name(store: Store) -> dict[str, RecordedEvent]:
    """Return the event that gave each name; the last one if it was given several times."""
    named = (recorded for recorded in store.log.read(STREAM) if isinstance(recorded.event, MomentNamed))
    return {recorded.event.name: recorded for recorded in named}


def _print(found: dict[str, RecordedEvent]) -> None:
    if prints_json():
        print_json_list(map(_shape, found.values()))
        return
    if not found:
        note("no moment has a name yet: `refold moments NAME` names the present one")
        return
    now = REAL_SYSTEM.now()
    rows = [_cells(recorded, now) for recorded in found.values()]
    print_table([HEADINGS, *rows])


def _cells(recorded: RecordedEvent, now: float) -> tuple[str, ...]:
    actor = one_line(recorded.meta.actor or "-")
    return one_line(recorded.event.name), recorded.event.moment, date_and_age(recorded.recorded_at, now), actor


def _shape(recorded: RecordedEvent) -> dict[str, Any]:
    return {
        "name": recorded.event.name,
        "position": recorded.event.moment,
        "named_at": exact(recorded.recorded_at),
        "named_by": recorded.meta.actor,
    }


@click.command("changes")
@args.argument("before", help="The first moment.", metavar="A", callback=args.address)
@args.argument("after", help="The second moment; now by default.", metavar="[B]", required=False, callback=args.address)
@args.answer_options
@paged
def changes(before: str, after: str | None) -> None:
    """
    List the contexts that are different at two moments of the whole store, or at A and now.

    A moment is a time, a position (pos:17) or a name that `refold moments` lists. `refold diff CTX@A..B` shows what
    became of a context.

    With --json: an array of {id, kind, before, after}; each side as `refold contexts --json` has it, null where the
    context was not there.
    """
    found = args.answered(lambda store: store.diff(before, after))
    if prints_json():
        print_json_list(map(_change_shape, found))
    elif found:
        print_table([CHANGE_HEADINGS, *map(_change_cells, found)])
    else:
        note("no context is different")
    args.note_slices(before, after)


def _change_shape(difference: ContextDifference) -> dict[str, Any]:
    sides = {"before": difference.before, "after": difference.after}
    return {
        "id": difference.id,
        "kind": difference.kind,
        **{name: None if row is None else context_shape(row) for name, row in sides.items()},
    }


def _change_cells(difference: ContextDifference) -> tuple[str, ...]:
    def both(text_of: Callable[[CatalogueRow], str]) -> str:
        sides = (difference.before, difference.after)
        return " -> ".join("none" if row is None else text_of(row) for row in sides)

    return (
        one_line(difference.id),
        difference.kind,
        both(lambda row: f"@{row.version}"),
        both(lambda row: f"{row.items:,}"),
        both(lambda row: f"{row.tokens:,}"),
    )
