"""`refold queue search` and its like: `refold search` among contexts of one kind."""

from __future__ import annotations

import click

from ..options import as_json, database, optional_text
from ..search import limit, print_found, query_text


def search_command(kind: str, option: str, name: str) -> click.Command:
    """
    Return the command that looks for words in contexts of a kind; `option` takes one of them, which `name` stands for.
    """
    help_text = f"""
    Find the items in which all words of QUERY stand, the best first; what left is found as well.

    '"in quotes"' finds words side by side, 'begin*' the beginning of a word; `refold search` looks everywhere.

    With --json: what `refold search --kind {kind}` prints.
    """

    @click.command("search", help=help_text, short_help="Find where something was said.")
    @click.argument("query", callback=query_text)
    @click.option(option, "context", metavar=name, callback=optional_text, help="In this one only, and its past.")
    @limit
    @database
    @as_json
    def command(query: str, context: str | None, limit: int, location: str, as_json: bool) -> None:
        print_found(location, query, kind, context, limit, as_json=as_json)

    return command
