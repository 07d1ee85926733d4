"""The common part of commands that change a context: finding named items, and reporting the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from shlex import quote
from typing import Any, Protocol, TypeVar

import click

from ...domain.chat.context import ChatContext
from ...domain.chat.state.sequence import Items
from ...domain.errors import NotFoundError
from ...domain.spans import Ref
from .args import argument, checked_text
from .completion import offered_items
from .render import one_line, print_json

F = TypeVar("F", bound=Callable[..., Any])
# `@3`, or `other@3`: where an item was added. No context has versions of more digits.
PLACE = re.compile(r"(.*)@([0-9]{1,18})", re.DOTALL)

PLACES = "The items: ids, or the places that `refold show` prints next to them (@3, other@3)."


class Changed(Protocol):
    """A context of any kind that was changed."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def stream_kind(self) -> str:
        """Its kind."""

    @property
    def version(self) -> int:
        """Its present version."""


def texts(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Check the values of an argument or option that may be given several times."""
    return tuple(map(checked_text, values))


def items(*, required: bool, metavar: str = "ITEM", help: str = PLACES) -> Callable[[F], F]:
    """Return the decorator for the argument ITEM...: ids, or the places that `refold show` prints beside items."""
    shown = f"{metavar}..." if required else f"[{metavar}...]"
    return argument(
        "items", help, metavar=shown, nargs=-1, required=required, callback=texts, shell_complete=offered_items
    )


def named_items(chat: ChatContext, names: Iterable[str]) -> list[str]:
    """
    Return the ids of items that are named by their ids, or by where they were added: `@3`, `other@3`.

    Raises:
        NotFoundError: the context never held one of them.
    """
    held = chat.recorded_items()
    found = {name: _ordinal(chat, held, name) for name in names}
    for name, ordinal in found.items():
        if ordinal is None:
            raise NotFoundError(
                f"{chat.stream_id} has no item {name!r}: `refold show {quote(chat.stream_id)} --ids` lists them, with "
                "--evicted those that left the view"
            )
    return [held.arena.items[ordinal].id for ordinal in found.values() if ordinal is not None]


def _ordinal(chat: ChatContext, held: Items, name: str) -> int | None:
    place = PLACE.fullmatch(name)
    by_id = held.named(name)
    if by_id is not None or place is None:
        return by_id
    context, version = place.groups()
    # An id may look as if it began with a kind, so both readings are tried.
    for stream in (f"chat:{context}", context):
        is_own = not context or stream == f"chat:{chat.id}"
        found = held.of_ref(Ref(int(version), "" if is_own else stream))
        if found is not None:
            return found
    return None


def context_label(context: Changed) -> str:
    """Return the context and its version, as the report of a change begins with them."""
    return f"{context.stream_kind}:{one_line(context.id)} @{context.version}"


def after(chat: ChatContext, version: int, kind: type[Any]) -> list[Any]:
    """Return the events of a type that were added to a context after `version`."""
    return [one.event for one in chat.history(after=version) if isinstance(one.event, kind)]


def report(context: Changed, said: str, shape: dict[str, Any], *, as_json: bool) -> None:
    """Print the result of a change, as a sentence or as JSON."""
    if as_json:
        print_json({"context": context.id, "kind": context.stream_kind, "version": context.version, **shape})
    else:
        click.echo(f"{context_label(context)}: {said}")


def note(text: str) -> None:
    """Print a note on stderr about a result that the user may not expect."""
    click.echo(f"note: {one_line(text)}", err=True)
