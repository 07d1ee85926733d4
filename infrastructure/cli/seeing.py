"""Contexts of all kinds at one version, as the reading commands look at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...domain.context.history import resolve_version
from ...domain.ids import split_stream_id
from ...domain.log.ports import Log
from ...domain.spans import Ref
from ...domain.trajectory.identity import run_id_of
from ..named_contexts import KINDS
from ..queries.origins import Item
from ..store import Store
from .addresses import Reference, stream_of
from .entries import Entry, Left
from .seen_chat import SeenChat
from .seen_folded import SeenContainer, SeenFolded, SeenMemory, SeenWindow
from .seen_run import SeenRun

FOLDED: dict[str, type[SeenFolded]] = {
    "queue": SeenContainer,
    "pool": SeenContainer,
    "window": SeenWindow,
    "memory": SeenMemory,
}


class View(Protocol):
    """A context of any kind at one version; `head` is the newest one."""

    log: Log
    stream: str
    version: int
    head: int


class Seen(View, Protocol):
    """A context that holds items, at one version."""

    @property
    def tokens(self) -> int:
        """The estimated tokens of the items."""

    @property
    def settings(self) -> dict[str, Any]:
        """What the context was told of how to be."""

    def entries(self, *, tail: int | None = None) -> list[Entry]:
        """Return the items, or the last `tail` of them."""

    def evicted(self) -> list[tuple[Entry, Left]]:
        """Return the items that left and are not back, the first to leave first, each with how it left."""

    def items_at(self, refs: Sequence[Ref]) -> Mapping[Ref, Item]:
        """Return items that the context ever had, by their births."""


def seen(
    store: Store, reference: Reference, moment: str | None = None, kinds: tuple[str, ...] = KINDS
) -> Seen | SeenRun:
    """
    Return the context that was named, at the moment that was named with it or else `moment`.

    Raises:
        NotFoundError: no such context, version or name.
        InvalidInputError: several contexts could be meant, or one of another kind.
    """
    return view_of(store, stream_of(store, reference.context, kinds), next(iter(reference.moments), moment))


def items_seen(store: Store, reference: Reference, moment: str | None, kind: str) -> Seen:
    """
    Return the context of a kind that holds items, as `seen` does.

    Raises:
        NotFoundError, InvalidInputError: as for `seen`.
    """
    view = seen(store, reference, moment, (kind,))
    assert not isinstance(view, SeenRun), f"a {kind} holds items"
    return view


def view_of(store: Store, stream: str, moment: str | None) -> Seen | SeenRun:
    """
    Return the context that lies in a stream, at a moment or as it is.

    Raises:
        NotFoundError: no such version or name.
    """
    kind, context_id = split_stream_id(stream)
    if kind == "chat":
        chat = store.chat(context_id, create=False)
        return SeenChat(store.log, chat, chat.version if moment is None else chat.version_at(moment))
    if kind == "run":
        run = store.run(*run_id_of(context_id), create=False)
        return SeenRun(store.log, run, run.version if moment is None else run.version_at(moment))
    now = FOLDED[kind](store.log, stream, store.log.head(stream))
    if moment is None:
        return now
    version = resolve_version(store.log, stream, moment, head=now.version, names=now.names)
    return now if version == now.version else FOLDED[kind](store.log, stream, version)
