"""The parts of a run's state: vertices, edges, changes and descriptions, and rows of them."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ...spans import Ref
from ..events import AttributeChange, NodeEvent, NodeRegistered

T = TypeVar("T")
QUERY = "Query"
# A row of things that are linked, the newest in front: to add one costs the same however many there are. Plain tuples:
# Python frees a long chain of those without running out of stack, and the collector soon leaves them alone.
Row = tuple[T, "Row[T] | None"]


def row_of(row: Row[T] | None) -> list[T]:
    """Return the things of a row in the order in which they came; none where there is no row."""
    things: list[T] = []
    while row is not None:
        newest, row = row
        things.append(newest)
    return things[::-1]


class Edge(msgspec.Struct, frozen=True, gc=False):
    """An edge as one of its ends knows it: the other end, its type, and the version that recorded it."""

    end: Ref
    type: str
    version: int


class Change(msgspec.Struct, frozen=True, gc=False):
    """The changes of a node by one version."""

    version: int
    changes: tuple[AttributeChange, ...]


class Vertex(msgspec.Struct, frozen=True, gc=False):
    """
    A vertex: the event that registered it, at `version`, and its plain name, which others of the run may bear too.

    `number` is its own among those, from 1, and `before` the version of the one before it, 0 where it is the first.
    """

    version: int
    event: NodeEvent
    name: str
    number: int
    before: int


class Portrait(msgspec.Struct, frozen=True, gc=False):
    """How far the portrait of a node is: `requested`, `written`, `failed` or `discarded`, and how often it failed."""

    status: str
    failures: int = 0
    error: str = ""


def type_of(event: NodeEvent) -> str:
    """Return the type of the node that an event registered."""
    return event.type if isinstance(event, NodeRegistered) else QUERY
