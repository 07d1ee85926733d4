"""Items of queues and pools: the item that users give and get, and the recorded item behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from ..content import estimated_tokens, restored_content
from ..spans import Ref
from ..totals import Totals
from .events import AddedEvent

if TYPE_CHECKING:
    import typing_extensions

    # For type checkers a bare `ContextPool` is a `ContextPool[Any]`. Python's own has `default` since 3.13.
    T = typing_extensions.TypeVar("T", default=Any)
else:
    T = TypeVar("T")


@dataclass(frozen=True)
class ContextItem(Generic[T]):
    """
    An item of context: its content, its description, and its id in a pool.

    `content` is JSON, an msgspec Struct, a pydantic model or a dataclass, or holds other types; see `register_content`.
    """

    content: T
    description: str | None = None
    id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict; the content stays as it is."""
        return {"id": self.id, "description": self.description, "content": self.content}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ContextItem[Any]:
        """
        Return the item of `to_dict()`.

        Raises:
            KeyError: there is no content.
        """
        return ContextItem(data["content"], data.get("description"), data.get("id"))


class Held:
    """A recorded item: the event that added it, and the Ref by which other events name it."""

    __slots__ = ("_item", "event", "ref")

    def __init__(self, ref: Ref, event: AddedEvent) -> None:
        self.ref, self.event = ref, event
        self._item: ContextItem[Any] | None = None

    @property
    def item(self) -> ContextItem[Any]:
        """The item as its user sees it."""
        if self._item is not None:
            return self._item
        event = self.event
        item: ContextItem[Any] = ContextItem(restored_content(event.content), event.description, event.id)
        if not event.content.type:
            # JSON is read-only, so one item serves all readers. A reader may change an instance of a class, so each
            # gets a new one.
            self._item = item
        return item

    @property
    def totals(self) -> Totals:
        """The count of the item in totals."""
        return totals_of(self.event)

    def named_in(self, stream: str) -> Held:
        """Return the same item with the Ref that a branch of `stream` uses for it."""
        return self if self.ref.stream else Held(Ref(self.ref.version, stream), self.event)

    def __eq__(self, other: object) -> bool:
        return (self.ref, self.event) == (other.ref, other.event) if isinstance(other, Held) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.ref)

    def __repr__(self) -> str:
        return f"Held({self.ref}, {self.event})"


def totals_of(event: AddedEvent) -> Totals:
    """Return the totals of one item."""
    return Totals(1, 0, estimated_tokens(event.content, event.description or ""))


class EvictedItem(msgspec.Struct, frozen=True):
    """
    An item that left: how (`evict`, `remove`, `replace`, `clear` or `merge`), why, and at which version.

    `born` is the name of the item's origin, `stream@version`, which `restore` takes.
    """

    held: Held
    how: str
    reason: str | None
    version: int
    born: str

    @property
    def item(self) -> ContextItem[Any]:
        """
        The item as its user saw it.

        Raises:
            InvalidInputError: it is an instance of a class that is not loaded.
        """
        return self.held.item
