"""
`refold contexts` lists the contexts; `refold usage` sums up tokens and costs; `refold stats` counts contexts, events
and bytes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from ...domain.clock import REAL_SYSTEM, day_named, exact
from ...domain.errors import InvalidInputError
from ...projections.catalogue import CATALOGUE, CatalogueRow
from ...projections.rollup import ROLLUP, RollupRow, counts_by_type
from ...projections.usage import NAMES, USAGE, USER, UsageSum, summed_by
from ..queries.pages import CONTEXTS_MAX
from ..space import space_of
from ..store import Store
from ..views.answer_shapes import usage_shape
from ..views.shapes import context_shape
from . import args
from .damaged_log import answer_of, rows_of
from .render import (
    aligned,
    cut,
    date_and_age,
    is_cut_short,
    is_too_wide,
    one_line,
    paged,
    print_json,
    print_json_list,
    print_table,
    prints_json,
    relative,
    size_of,
    terminal_width,
)

HEADINGS = ("ID", "KIND", "VERSION", "ITEMS", "TOKENS", "LAST CHANGE", "FORKED FROM")
NUMBERS = (2, 3, 4)
USAGE_HEADINGS = ("ABOUT", "IN", "OUT", "CACHED", "COST")
# In US dollars: less would look like nothing.
COST_SHOWN_MIN = Decimal("0.0001")
# Names in the table of usage keep this width beside long numbers, so that they stay readable.
NAME_WIDTH_MIN = 5
DAY_WIDTH = len("2026-11-21")


@click.command("contexts")
@click.option(
    "--kind", metavar="K", callback=args.kind_of, help="Only of this kind: chat, queue, pool, window, memory or run."
)
@args.text("--user", metavar="U", help="Only of this user.")
@args.text("--session", metavar="S", help="Only of this session.")
@args.text("--agent", metavar="A", help="Only of this agent.")
@click.option("--at", "moment", metavar="X", callback=args.address, help="As they were at this moment of the store.")
@args.answer_options
@paged
def contexts(moment: str | None, **wanted: str | None) -> None:
    """
    List the contexts, ordered by kind and id.

    ITEMS and TOKENS count what can be seen; TOKENS is an estimate, about four characters each. FORKED FROM names the
    parent of a fork. A moment of the store is a time, a position (pos:17), or a name that `refold moments` lists.

    With --json: an array of {id, kind, version, items, turns, tokens, user, session, agent, source, parent,
    opened_at, changed_at, changed_by}; parent is the stream and version that it was forked from.
    """
    if moment is not None:
        rows = args.answered(lambda store: store.at(moment).contexts())
        _print_contexts(rows, wanted, "there were no contexts yet")
        args.note_slices(moment)
        return
    with answer_of(lambda store: _like(store, wanted), [CATALOGUE], lambda found: found[0]) as rows:
        _print_contexts(rows, wanted, "no contexts yet: `refold import FILE` brings some in")


def _like(store: Store, wanted: Mapping[str, str | None]) -> list[CatalogueRow]:
    """Return the rows of the contexts that are wanted; if there are only others, some of these."""
    given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    if not given:
        return store.rows(CATALOGUE.name)
    rows, cursor = store.find_contexts(**given, limit=CONTEXTS_MAX)
    while cursor is not None:
        more, cursor = store.find_contexts(**given, limit=CONTEXTS_MAX, cursor=cursor)
        rows += more
    return rows or store.find_contexts(limit=1).contexts


def _print_contexts(rows: Sequence[CatalogueRow], wanted: Mapping[str, str | None], nothing: str) -> None:
    found = [row for row in rows if all(value in (None, getattr(row, name)) for name, value in wanted.items())]
    if prints_json():
        print_json_list(context_shape(row) for row in found)
    elif found:
        _print_table(found)
    else:
        click.echo("no context is like that" if rows else nothing, err=True)


def _print_table(rows: Sequence[CatalogueRow]) -> None:
    table = _table(rows, date_and_age)
    # If the dates leave too little room, the table has only how long ago the changes were.
    if is_too_wide(aligned(table)):
        table = _table(rows, relative)
    print_table(table, right=NUMBERS)


def _table(rows: Sequence[CatalogueRow], when: Callable[[int, float], str]) -> list[tuple[str, ...]]:
    now = REAL_SYSTEM.now()
    columns = len(HEADINGS) if any(row.parent for row in rows) else len(HEADINGS) - 1
    return [one[:columns] for one in (HEADINGS, *(_cells(row, when(row.changed_at, now)) for row in rows))]


def _cells(row: CatalogueRow, changed: str) -> tuple[str, ...]:
    return (
        one_line(row.id),
        row.kind,
        f"@{row.version}",
        f"{row.items:,}",
        f"{row.tokens:,}",
        changed,
        one_line(row.parent.removeprefix("chat:")),
    )


def _names(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """Return the names in a list like `day,model`."""
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    unknown = next((name for name in names if name not in NAMES), None)
    if unknown is not None:
        raise click.BadParameter(f"{unknown!r}: take some of {', '.join(NAMES)}, with commas between them")
    return names


def _day(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return a day in the form of the rows."""
    try:
        return None if value is None else day_named(value)
    except InvalidInputError as error:
        raise click.BadParameter(str(error)) from error


@click.command("usage")
@click.option(
    "--by",
    metavar="NAMES",
    callback=_names,
    default="day,agent,model",
    show_default=True,
    help="A line for each of these, with commas between them: day, agent, model, context, user.",
)
@click.option("--since", metavar="DAY", callback=_day, help="From this day on (UTC), such as 2026-11-21.")
@click.option("--until", metavar="DAY", callback=_day, help="Up to this day, included.")
@args.text("--context", metavar="CTX", help="Only in this context.")
@args.answer_options
def usage(by: tuple[str, ...], since: str | None, until: str | None, context: str | None) -> None:
    """
    Sum up tokens and costs.

    IN, OUT and CACHED are tokens that providers counted; CACHED is a part of IN. COST is in US dollars, and `-`
    where none was stated. ABOUT is the estimate of the tokens of all items, each counted once, which needs no provider.
    An item counts for the day on which it happened, and for the user of its context.

    With --json: an array of {day, agent, model, context, user, messages, calls, tokens_in, tokens_out, counted_in,
    counted_out, counted_cached, cost}; a name that is not in --by is null, tokens_in and tokens_out are estimates of
    the items that models read and wrote.
    """  # fmt: skip

    def asked(store: Store) -> tuple[list[UsageSum], bool]:
        only = None if context is None else args.stream_of(store, context)
        sums = store.usage(by=by, since=since, until=until, context=only)
        # The second question reads all rows, and only a person is told its answer.
        return sums, bool(sums) or (not prints_json() and bool(store.usage(by=())))

    def of_rows(found: list[list[Any]]) -> tuple[list[UsageSum], bool]:
        with args.reading() as store:
            only = None if context is None else args.stream_of(store, context)
        return summed_by(found[0], by, *found[1:], since=since, until=until, context=only), bool(found[0])

    with answer_of(asked, [USAGE, CATALOGUE] if USER in by else [USAGE], of_rows) as (sums, is_any):
        if prints_json():
            print_json_list(map(usage_shape, sums))
        elif sums:
            _print_usage(sums, by)
        else:
            click.echo("no usage is like that" if is_any else "no usage yet: nothing was said", err=True)


def _print_usage(rows: Sequence[UsageSum], by: Sequence[str]) -> None:
    totals = summed_by(rows, ()) if len(rows) > 1 else []
    counts = [USAGE_HEADINGS, *map(_counts, (*rows, *totals))]
    # Names share the width that the numbers and the day leave.
    texts = len(by) - ("day" in by)
    free = terminal_width() - max(map(len, aligned(counts))) - (DAY_WIDTH + 2) * ("day" in by)
    width = max(free // max(texts, 1) - 2, NAME_WIDTH_MIN) if is_cut_short() else sys.maxsize
    names = [
        [cut(_shown_name(getattr(row, name)), max(width, DAY_WIDTH * (name == "day"))) for name in by] for row in rows
    ]
    names = [[name.upper() for name in by], *names, *(["ALL", *[""] * (len(by) - 1)] for _ in totals)]
    right = range(len(by), len(by) + len(USAGE_HEADINGS))
    # Numbers are not cut, even if they do not fit beside short names.
    print_table([(*some, *them) for some, them in zip(names, counts, strict=True)], right=right, is_cut=False)


def _counts(row: UsageSum) -> tuple[str, ...]:
    counts = (row.tokens_in + row.tokens_out, row.counted_in, row.counted_out, row.counted_cached)
    cost = f"{row.cost:,.4f}" if row.cost >= COST_SHOWN_MIN else f"<{COST_SHOWN_MIN}" if row.cost else "-"
    return (*(f"{count:,}" for count in counts), cost)


def _shown_name(name: str) -> str:
    return one_line(name.removeprefix("chat:")) or "-"


@click.command("stats")
@args.answer_options
def stats() -> None:
    """
    Count contexts, events and bytes.

    TEXT is what messages, arguments, outputs and instructions have in UTF-8; ON DISK is the database with all that
    lies beside it.

    With --json: {database, contexts, items, tokens, events, events_by_type, first_at, last_at, text_bytes, disk_bytes,
    free_bytes, files}; for a server disk_bytes and files are null, and free_bytes is the server's estimate.
    """
    with rows_of([ROLLUP, CATALOGUE]) as [rows, contexts]:
        stats = {"database": args.shown(args.given_database()), **_counted(rows, contexts)}
        # Measured last, because counting may have brought rows up to date, which changes the size.
        files = _files()
        with args.reading() as store:
            free = space_of(store.log).free
        stats |= {"disk_bytes": sum(files.values()) if files else None, "free_bytes": free, "files": files or None}
        if prints_json():
            print_json({**stats, **{name: stats[name] and exact(stats[name]) for name in ("first_at", "last_at")}})
        else:
            _print_stats(stats)


def _files() -> dict[str, int]:
    paths = [Path(args.given_database() + ending) for ending in ("", "-wal", "-shm")]
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
        rows += [("first", date_and_age(stats["first_at"], now)), ("last", date_and_age(stats["last_at"], now))]
    rows += [("text", size_of(stats["text_bytes"]))]
    if stats["files"]:
        files = ", ".join(f"{one_line(name)} {size_of(size)}" for name, size in stats["files"].items())
        rows += [("on disk", f"{size_of(stats['disk_bytes'])} ({files})")]
    if stats["free_bytes"]:
        rows += [("free", f"{size_of(stats['free_bytes'])}, which `refold vacuum` gives back")]
    for line in aligned(rows):
        click.echo(line)
    if stats["events"]:
        click.echo()
    by_type = sorted(stats["events_by_type"].items(), key=lambda pair: -pair[1])
    for line in aligned([(f"{count:,}", one_line(name)) for name, count in by_type], right=(0,)):
        click.echo(line)
