"""
The form in which both databases take and give events: bytes with their place, no domain types.

A `Draft` is an event before it has a place; a `Part` is a run of drafts for one stream, with the version they
were decided on; a `Request` is what one caller wants appended, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..domain.log.envelope import Meta
from .texts import LargeText

ANY = -(1 << 62)


class Draft(NamedTuple):
    """
    An event to be appended. `payload` is what the digest covers; `stored` its stored form.

    Where `texts` is not empty, `stored` is made from `plain` once these have been given their keys.
    """

    tag: str
    payload: bytes
    stored: bytes
    meta: Meta
    plain: Any = None
    texts: Sequence[LargeText] = ()


class Part(NamedTuple):
    """
    Drafts for one stream. `first_version` is the version the first must get (ANY: the next one).

    An empty stream may start at one of `starts`; Refold's start at 1, foreign ones at 0 or 1. A new one gets the
    slice of its `root` where it has one, else `slice`. `expected_digest` as in `NewEvents`.
    """

    stream: str
    first_version: int
    drafts: Sequence[Draft]
    slice: int = 0
    starts: tuple[int, ...] = (1,)
    idempotency_key: str | None = None
    root: str = ""
    expected_digest: bytes = b""


class Request(NamedTuple):
    """
    What one caller wants appended.

    `also` runs in the same transaction, behind the events: on SQLite it is given the connection, on PostgreSQL
    the list of statements, to which it adds its own.
    """

    parts: Sequence[Part]
    also: Callable[[Any], None] | None = None


class Head(NamedTuple):
    """The end of a stream: its integer key, its last version (None: it has no event), its last digest."""

    key: int
    version: int | None
    digest: bytes


class Placed(NamedTuple):
    """Where a draft came to lie."""

    version: int
    slice: int
    number: int
    recorded_at: int
    digest: bytes


class Known(NamedTuple):
    """The versions, first and last, that were recorded under an idempotency key before."""

    first_version: int
    last_version: int


# What became of a request, part by part: where its drafts lie; or nothing of it was written, and the parts whose
# idempotency key was known say so.
Appended = list[list[Placed] | Known | None]
