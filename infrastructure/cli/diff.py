"""`refold diff`: the differences between two versions of a context, or between two contexts."""

from __future__ import annotations

from collections import Counter

import click

from ...domain.context.address import Reference
from ...domain.context.differences import Changes
from ...domain.errors import InvalidInputError
from ..store import Store
from ..views.contexts import ItemView, RunView, view_of
from ..views.differences import Side, changes_between, changes_shape
from ..views.shapes import Entry
from . import args
from .completion import named_contexts
from .lines import Row, body_of, print_rows, sort_of
from .render import aligned, one_line, paged, paint, print_json, prints_json
from .runs import print_run_diff

DIFFERENT = 1


@click.command("diff")
@args.argument(
    "references",
    help="The versions or contexts to compare.",
    metavar="CTX@A..B | CTX@A OTHER@B",
    nargs=-1,
    callback=args.references,
    shell_complete=named_contexts,
)
@args.flag("--stat", help="Print numbers only.")
@args.flag("--exit-code", help="Exit with 1 if they differ.")
@args.answer_options
@paged
def command(references: tuple[Reference, ...], stat: bool, exit_code: bool) -> int:
    """
    Compare two versions of a context, or two contexts: items added (+), removed (-), changed (< >) and moved (=); of
    runs nodes, their attributes, edges and pointers.

    If A is left out, it is the beginning; if B is, the head. Items are compared by what they say, not by their ids.

    With --json: {from: {context, kind, version, items, tokens}, to: {...}, tokens, added, removed, changed, moved}; the
    lists hold items as `refold show --json` has them, changed ones as {from, to}; with --stat their numbers. Of runs:
    {from, to, nodes_added, nodes_removed, changed, edges_added, edges_removed, pointers_added, pointers_removed}.
    """
    first, second = _two_sides(references)
    with args.reading() as store:
        before, after = _view(store, *first), _view(store, *second)
        if isinstance(before, RunView) and isinstance(after, RunView):
            differ = print_run_diff(before, after, stat=stat)
        else:
            differ = _print_diff(_side(before), _side(after), stat=stat)
    return DIFFERENT if exit_code and differ else 0


def _print_diff(before: Side, after: Side, *, stat: bool) -> bool:
    changes = changes_between(before.entries, after.entries)
    if prints_json():
        print_json(changes_shape(before, after, changes, as_numbers=stat))
    else:
        _print_head(before, after, changes)
        (_print_numbers if stat else _print_items)(changes)
    return bool(changes)


def _two_sides(references: tuple[Reference, ...]) -> tuple[tuple[str, str | None], tuple[str, str | None]]:
    if len(references) == 1 and references[0].is_range:
        (reference,) = references
        start, end = reference.ends
        return (reference.context, start), (reference.context, end)
    if len(references) == 2 and not any(reference.is_range for reference in references):
        first, second = ((one.context, one.moment) for one in references)
        return first, second
    raise args.usage_error("give CTX@A..B, or CTX@A and OTHER@B")


def _view(store: Store, context: str, moment: str | None) -> ItemView | RunView:
    return view_of(store, args.stream_of(store, context), moment)


def _side(view: ItemView | RunView) -> Side:
    if isinstance(view, RunView):
        raise InvalidInputError(f"{view.stream} can be compared with a run only: the others hold items, and no graph")
    return Side(view, view.entries())


def _print_head(before: Side, after: Side, changes: Changes[Entry]) -> None:
    old, new = before.view.tokens, after.view.tokens
    click.echo(paint(f"{one_line(before.label)} -> {one_line(after.label)}", "bold"))
    counts = f"{len(changes.added)} added, {len(changes.removed)} removed, {len(changes.changed)} changed"
    counts += f", {len(changes.moved)} moved" if changes.moved else ""
    click.echo(paint(f"{counts}; tokens {old:,} -> {new:,} ({new - old:+,})", "dim"))


def _print_numbers(changes: Changes[Entry]) -> None:
    marks = {"+": changes.added, "-": changes.removed, "~": [new for _, new in changes.changed]}
    counts = {mark: Counter(one_line(sort_of(entry.item)) for entry in entries) for mark, entries in marks.items()}
    speakers = {speaker: None for count in counts.values() for speaker in count}
    rows = [[speaker, *(f"{mark}{counts[mark][speaker]}" for mark in marks)] for speaker in speakers]
    for line in aligned(rows, right=(1, 2, 3)):
        click.echo("  " + line)


def _print_items(changes: Changes[Entry]) -> None:
    marked = [("-", entry) for entry in changes.removed] + [("+", entry) for entry in changes.added]
    marked += [pair for old, new in changes.changed for pair in (("<", old), (">", new))]
    marked += [("=", entry) for entry in changes.moved]
    print_rows([Row(entry, body_of(entry.item), mark=mark) for mark, entry in marked])
