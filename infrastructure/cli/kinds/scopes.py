"""Scopes of the memory as they are typed: by the ids of their contexts."""

from __future__ import annotations

import click

from ....domain.errors import NotFoundError
from ....domain.ids import decoded_id, split_stream_id
from ....domain.memory import MemoryScope
from ...store import Store
from ..addresses import existing, stream_of


def scope(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the name of a scope that is to be changed: it has no moment."""
    if "@" in value:
        fault = "the past stays as it was, so leave out @V; an @ in the name of a scope is written %40"
        raise click.BadParameter(f"{value!r}: {fault}")
    return existing(ctx, param, value)


def scope_named(store: Store, name: str) -> MemoryScope:
    """
    Return the scope that was named, with its kind or without.

    Raises:
        NotFoundError: nothing was ever remembered there.
        InvalidInputError: the context is of another kind.
    """
    context_id = split_stream_id(stream_of(store, name, ("memory",)))[1]
    return store.memory().scope(decoded_id(context_id))


def scope_to_be(store: Store, name: str) -> MemoryScope:
    """
    Return the scope that was named, which need not hold anything yet.

    Raises:
        InvalidInputError: there can be no scope of this name.
    """
    try:
        return scope_named(store, name)
    except NotFoundError:
        return store.memory().scope(decoded_id(name.removeprefix("memory:")))
