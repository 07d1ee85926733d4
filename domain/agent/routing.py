"""Where what a tool gives goes: items into the queue or the pool, turns to the agent, all else to whoever runs it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import RefusedError
from ..pool import ContextItem, ContextPool, ContextQueue
from .errors import UnroutableItemError
from .turn import Turn


class Routing(NamedTuple):
    """What a value is routed as: each list in the order in which the tool gave it."""

    queued: list[ContextItem[Any]]
    pooled: list[ContextItem[Any]]
    turns: list[Turn[Any]]

    def require_items(self, agent: str, tool: str, queue: ContextQueue[Any], pool: ContextPool[Any]) -> None:
        """
        Refuse items that the queue or the pool would refuse, before any of them is routed (SPEC P7.6).

        Raises:
            UnroutableItemError: one has an id and no description, or holds what cannot be stored.
        """
        for item in self.pooled:
            if item.description is None:
                why = (
                    f"has the id {item.id!r} and no description: give it a description, by which it is chosen from "
                    "the pool, or no id, so that it goes into the queue"
                )
                raise UnroutableItemError(agent, tool, item, why)
        for container, items in ((queue, self.queued), (pool, self.pooled)):
            for item in items:
                try:
                    container.added_event(item)
                except RefusedError as error:
                    raise UnroutableItemError(agent, tool, item, f"cannot be kept: {error}") from error


def routing_of(value: object) -> Routing | None:
    """
    Return what a value is routed as, or None where it is a plain value (SPEC P7.2, P7.5).

    A list or tuple is routed when it holds nothing but items and turns.
    """
    parts = value if isinstance(value, list | tuple) else (value,)
    if not parts or not all(isinstance(part, ContextItem | Turn) for part in parts):
        return None
    items = [part for part in parts if isinstance(part, ContextItem)]
    return Routing(
        queued=[item for item in items if item.id is None],
        pooled=[item for item in items if item.id is not None],
        turns=[part for part in parts if isinstance(part, Turn)],
    )
