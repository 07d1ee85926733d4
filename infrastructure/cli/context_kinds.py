"""Groups of commands, `refold KIND VERB`, and CONTENT as it is typed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from .args import checked_text

F = TypeVar("F", bound=Callable[..., Any])
STDIN = "-"


class OrderedGroup(click.Group):
    """A group whose help has the commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order."""
        return list(self.commands)


def group(kind: str, help_text: str, commands: Iterable[click.Command]) -> click.Group:
    """Return the command `refold KIND`, which has other commands."""
    # Without one of them it is used wrongly: an error says so in one line, not in a page of help.
    made = OrderedGroup(kind, help=help_text, no_args_is_help=False)
    for command in commands:
        made.add_command(command)
    return made


def _given(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value != STDIN:
        return checked_text(value)
    try:
        return checked_text(sys.stdin.buffer.read().decode())
    except UnicodeDecodeError as error:
        raise click.BadParameter("what comes on stdin is not UTF-8 text") from error


def content(name: str) -> Callable[[F], F]:
    """Return the argument that is a text to be kept, or `-` for one that comes on stdin."""
    return click.argument("content", metavar=name, callback=_given)


def is_json(name: str) -> Callable[[F], F]:
    """Return the option that says that the text is JSON."""
    return click.option("--parse", "is_json", is_flag=True, help=f"{name} is JSON; without it, it is a text.")


def parsed(text: str, *, is_json: bool) -> Any:
    """
    Return what is to be kept.

    Raises:
        UsageError: it is no JSON.
    """
    if not is_json:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--parse: it is no JSON: {error}", click.get_current_context()) from error
