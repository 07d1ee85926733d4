"""The common part of commands that change a context: the argument that names items, and the report of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ...domain.context.context import Context
from ..views.changes import changed_shape
from .args import argument, checked_text
from .completion import offered_items
from .render import Command, one_line, print_json

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


def report(context: Context[Any], said: str, shape: dict[str, Any], *, as_json: bool) -> None:
    """Print the result of a change, as a sentence or as JSON."""
    if as_json:
        print_json(changed_shape(context, shape))
    else:
        click.echo(f"{context.stream_kind}:{one_line(context.id)} @{context.version}: {said}")
