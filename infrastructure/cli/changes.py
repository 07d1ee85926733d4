"""The common part of commands that change a context: arguments for items and for CONTENT, and the report."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from ...domain.context.context import Context
from ..views.changes import changed_shape
from .args import argument, checked_text, flag, usage_error
from .completion import offered_items
from .render import Command, one_line, print_json, prints_json

STDIN = "-"
PLACES = "The items: ids, or the places that `refold show` prints next to them (@3, other@3)."


def texts(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Check the values of an argument or option that may be given several times."""
    return tuple(map(checked_text, values))


def items(*, required: bool, metavar: str = "ITEM", help: str = PLACES) -> Callable[[Command], Command]:
    """Return the decorator for the argument ITEM...: ids, or the places that `refold show` prints beside items."""
    shown = f"{metavar}..." if required else f"[{metavar}...]"
    return argument(
        "items", help, metavar=shown, nargs=-1, required=required, callback=texts, shell_complete=offered_items
    )


def report(context: Context[Any], said: str, shape: dict[str, Any]) -> None:
    """Print the result of a change, as a sentence or as JSON."""
    if prints_json():
        print_json(changed_shape(context, shape))
    else:
        click.echo(f"{context.stream_kind}:{one_line(context.id)} @{context.version}: {said}")


def _text_or_stdin(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value != STDIN:
        return checked_text(value)
    try:
        return checked_text(sys.stdin.buffer.read().decode())
    except UnicodeDecodeError as error:
        raise click.BadParameter("what comes on stdin is not UTF-8 text") from error


def content(name: str) -> Callable[[Command], Command]:
    """Return the decorator for an argument that is a content, or `-` for a content on stdin."""
    return argument(
        "content", help="The content: a text, or `-` to read it from stdin.", metavar=name, callback=_text_or_stdin
    )


def is_json(name: str) -> Callable[[Command], Command]:
    """Return the decorator for the option `--parse`, which says that the content is JSON."""
    return flag("--parse", "is_json", help=f"{name} is JSON; without it, it is a text.")


def parsed(text: str, *, is_json: bool) -> Any:
    """
    Return a content: the text itself, or the value of its JSON.

    Raises:
        UsageError: the text is not JSON.
    """
    if not is_json:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise usage_error(f"--parse: it is no JSON: {error}") from error
