"""The methods of every contestant, so that a case is written once for all of them and for both databases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .workload import Item

BASE_BATCH = 1_000
# Contexts whose names begin like this belong to one session.
SHARED = "shared-"
# To contexts whose names begin like this, several processes append.
COMMON = "common-"
Write = Callable[[Any], object]


class Subject(Protocol):
    """A store of conversations at one place, kept in one of the compared ways."""

    name: str
    location: str

    def open(self) -> None:
        """Open the store; create it where there is none."""

    def close(self) -> None:
        """Close it."""

    def build(self, context: str, items: Sequence[Item]) -> None:
        """Put items into a context quickly, in batches."""

    def warm(self, context: str) -> None:
        """Prepare appends to a context, as an agent does by reading it."""

    def ready(self, item: Item) -> Any:
        """Return an item in the form that `append` takes, which is the form that a caller would have."""

    def append(self, context: str, given: Any) -> object:
        """Append one item, committed."""

    def append_turn(self, context: str, given: Sequence[Any]) -> object:
        """Append a few items in one commit."""

    def ready_batch(self, items: Sequence[Item]) -> Any:
        """Return items in the form that `append_batch` takes."""

    def append_batch(self, context: str, given: Any) -> object:
        """Append many items in one commit."""

    def writer(self, context: str) -> Write:
        """Return a function that appends one ready item to a context; each thread asks for its own."""

    def writers(self, contexts: Sequence[str]) -> list[Write]:
        """Return such functions for contexts to which one thread appends."""

    def load(self, context: str) -> object:
        """Return the items of a context, as Structs or the most similar form."""

    def load_public(self, context: str) -> object:
        """Return the items as users see them, having read role, text and id of each."""

    def load_until(self, context: str, count: int) -> object:
        """Return the items of a context as they were when it had `count`."""

    def tail(self, context: str, count: int) -> object:
        """Return the last items of a context."""

    def rebuild(self) -> int:
        """Read the whole log from its beginning, as the rebuild of a projection does; return the number of events."""

    def bytes_used(self) -> int:
        """Return the bytes that the closed store takes."""


def batches(items: Sequence[Item], size: int = BASE_BATCH) -> list[Sequence[Item]]:
    """Return items in the batches that a base is built with."""
    return [items[start : start + size] for start in range(0, len(items), size)]
