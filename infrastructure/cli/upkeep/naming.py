"""Projections as they are named on the command line."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ....domain.errors import NotFoundError
from ...store import Store
from ..options import checked_text


def _names(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(checked_text, values)))


names = click.argument("names", metavar="[NAME...]", nargs=-1, callback=_names)


def known_names(store: Store, names: Sequence[str]) -> list[str]:
    """
    Return the names of projections, all where none is given, before any of them is touched.

    Raises:
        NotFoundError: there is no such projection.
    """
    known = [status.name for status in store.projections()]
    for name in names:
        if name not in known:
            raise NotFoundError(f"there is no projection {name!r}: there are {', '.join(known)}")
    return list(names) or known
