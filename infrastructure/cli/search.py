"""`refold search`: the items that contain some words."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...domain.errors import RefusedError
from ...domain.words import parse_query
from ...projections.search import SearchHit
from ..views.answer_shapes import hit_shape
from .args import answer_options, answered, argument, checked_text, kind_of, number, text
from .render import display_width, fitted, one_line, paged, paint, print_json_list, prints_json

HITS = 20
limit = number("--limit", help="The most hits.", default=HITS, show_default=True)


def query_text(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Check an argument that is a query."""
    query = checked_text(value)
    try:
        parse_query(query)
    except RefusedError as error:
        raise click.BadParameter(str(error)) from error
    return query


@click.command("search")
@argument("query", help="The words to find.", callback=query_text)
@click.option(
    "--kind",
    metavar="K",
    callback=kind_of,
    help="Only in contexts of this kind: chat, queue, pool, window, memory or run.",
)
@text("--context", metavar="CTX", help="Only in this context, with the past that it has from its parent.")
@limit
@answer_options
@paged
def command(query: str, kind: str | None, context: str | None, limit: int) -> None:
    """
    Find the items that contain all words of QUERY, best match first, also items that left the view.

    '"in quotes"' finds words side by side, 'begin*' the beginning of a word; no other sign has a meaning. The index is
    brought up to date first; the first time, this takes a while.

    With --json: an array of {kind, context, version, item, snippet, rank}; a higher rank fits better.
    """
    print_found(query, kind, context, limit)


def print_found(query: str, kind: str | None, context: str | None, limit: int) -> None:
    """Search for `query` and print the hits."""
    hits = answered(lambda store: store.search(query, kind=kind, context=context, limit=limit))
    if prints_json():
        print_json_list(map(hit_shape, hits))
        return
    _print_lines(hits)
    if len(hits) == limit:
        click.echo(f"these are the best {limit}: --limit N shows more", err=True)
    elif not hits:
        click.echo("nothing was found", err=True)


def _print_lines(hits: Sequence[SearchHit]) -> None:
    places = [one_line(f"{hit.kind}:{hit.context}@{hit.version}".removeprefix("chat:")) for hit in hits]
    width = max(map(display_width, places), default=0)
    for place, hit in zip(places, hits, strict=True):
        shown = fitted(one_line(hit.snippet), beside=width + 2)
        click.echo(f"{paint(place, 'cyan')}{' ' * (width - display_width(place))}  {shown}")


def search_command(kind: str, option: str, name: str) -> click.Command:
    """
    Return the command that searches contexts of a kind; `option` limits it to one context, called `name` in the help.
    """
    help_text = f"""
    Find the items in which all words of QUERY stand, the best first; what left is found as well.

    '"in quotes"' finds words side by side, 'begin*' the beginning of a word; `refold search` looks everywhere.

    With --json: what `refold search --kind {kind}` prints.
    """

    @click.command("search", help=help_text, short_help="Find where something was said.")
    @argument("query", help="The words to find.", callback=query_text)
    @text(option, "context", metavar=name, help="Only in this one, with the past that it has from its parent.")
    @limit
    @answer_options
    def command(query: str, context: str | None, limit: int) -> None:
        print_found(query, kind, context, limit)

    return command
