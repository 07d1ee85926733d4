"""The context queue: a bounded list of items, in which the oldest items leave to make room for the newest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import Any

from ..arguments import require_instance, require_limits, require_several
from ..hooks.hook import ContextQueueHook, Hook
from ..hooks.registry import HookDecorator
from ..positions import Moment
from .changes import Adding
from .container import Container, require_limit
from .events import QUEUE
from .items import ContextItem, T
from .merge import branch_of, merge_into, of_branch
from .rules import QUEUES, Refill


class ContextQueue(Container[T]):
    """
    A queue of context items.

    `ContextQueue(limit)` is detached, with a log in memory; `store.queue(id, limit=...)` gives one that is stored.
    Calls that change the queue take `idempotency_key=` (a repeated call gives the first result), and most also take
    `expected_version=`.
    """

    kind, decider, hook_types = QUEUE, QUEUES, ContextQueueHook

    before_append = HookDecorator(ContextQueueHook.BEFORE_APPEND, "Before items come in: (queue, incoming, current).")
    after_append = HookDecorator(ContextQueueHook.AFTER_APPEND, "After items came in: (appended, current).")
    before_clear = HookDecorator(ContextQueueHook.BEFORE_CLEAR, "Before all items leave: (queue, items).")
    after_clear = HookDecorator(ContextQueueHook.AFTER_CLEAR, "After all items left: (queue).")
    on_evict = HookDecorator(ContextQueueHook.ON_EVICT, "Before an item makes room: (queue, item).")

    def __init__(self, limit: int, tags: Iterable[str] | None = None) -> None:
        self._begin(require_limit(limit, QUEUE), tags)

    @property
    def limit(self) -> int:
        """The maximum number of items in the queue."""
        return self._state.limit or 1

    @property
    def items(self) -> list[ContextItem[T]]:
        """The items, the oldest first, as a new list. Setting `items` clears the queue and appends the new ones."""
        return self._present_items()

    @items.setter
    def items(self, items: Sequence[ContextItem[T]]) -> None:
        # No hook is called; but an event records that the present items leave, as always.
        added = tuple(self.added_event(item) for item in items)
        self.put_in(Refill(added[-self.limit :]))

    def history(self, last: int | None = None) -> str:
        """
        Return the contents as lines of text; with `last`, only those of the newest items.

        Raises:
            InvalidInputError: `last` is negative or no whole number.
        """
        require_limits(last=last)
        items = self._present_items()
        return "\n".join(str(item.content) for item in (items if last is None else items[max(0, len(items) - last) :]))

    async def append(
        self, *items: ContextItem[T], expected_version: int | None = None, idempotency_key: str | None = None
    ) -> None:
        """
        Append items; where there is no room, the oldest leave. All items are appended, or none.

        Raises:
            TypeError: one of them is not a ContextItem.
            InvalidInputError: the content of an item cannot be stored.
            Any error that a hook raises: then nothing was changed.
        """
        change = Adding(items, [self.added_event(item) for item in items])
        await self.change(change, expected_version, idempotency_key)

    async def merge(
        self,
        other: ContextQueue[T],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Append the items that were added to another queue since both were the same; where there is no room, the oldest
        leave.

        An item is never taken twice. A queue of another log, or a detached one, is imported with its history in the
        same transaction.

        Raises:
            InvalidInputError: it is this queue itself.
            Any error that a hook raises: then nothing was changed.
        """
        await merge_into(self, other, "ours", expected_version, idempotency_key)

    def branch(
        self,
        id_or_limit: str | int | None = None,
        hooks: list[Hook] | EllipsisType | None = ...,
        *,
        limit: int | None = None,
        context_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> ContextQueue[T]:
        """
        Return a queue that begins as a copy of this one and then changes on its own.

        The first argument is its id, or its limit, as in the seed; both have a keyword, too. With a smaller limit it
        begins with the newest items. It has the same hooks, unless `hooks` are given.

        Raises:
            InvalidInputError: the limit is less than 1, or the id is taken or malformed.
        """
        given = None if isinstance(hooks, EllipsisType) else require_several(hooks or (), "the hooks")
        context_id, limit = of_branch(id_or_limit, context_id, limit, None)
        new_limit = ... if limit is None else require_limit(limit, QUEUE)
        branch: ContextQueue[T] = ContextQueue.standing_on(*branch_of(self, new_limit, context_id, idempotency_key))
        branch.hooks = list(self.hooks if given is None else given)
        return branch

    def at(self, moment: int | str | datetime | Moment) -> ReadOnlyQueue[T]:
        """
        Return the queue as it was: at a version, a time, a position of the log, or a named version.

        Raises:
            NotFoundError, InvalidInputError: as for `version_at`.
        """
        return self._view(ReadOnlyQueue, self.version_at(moment))

    @property
    def readonly(self) -> ReadOnlyQueue[T]:
        """A live view of this queue that cannot be changed."""
        return self._view(ReadOnlyQueue)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ContextQueue[Any]:
        """
        Return a detached queue from `to_dict()`; where there are more items than the limit, the newest stay.

        Raises:
            KeyError: the limit is missing, or the content of an item.
            UnregisteredHookError: the name of a hook is not registered.
        """
        require_instance(data, Mapping, "the data", "give a dict, as `to_dict` returns it")  # type: ignore[type-abstract]
        queue: ContextQueue[Any] = ContextQueue(data["limit"], data.get("tags"))
        queue._fill_from_dict(data)
        return queue


class ReadOnlyQueue(ContextQueue[T]):
    """A read-only queue: as it was at a version, or a live view."""
