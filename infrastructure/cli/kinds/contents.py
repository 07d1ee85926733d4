"""CONTENT on the command line: a text, JSON, or what comes on stdin."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..options import checked_text

F = TypeVar("F", bound=Callable[..., Any])
STDIN = "-"


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
