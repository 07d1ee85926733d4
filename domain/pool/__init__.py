"""The context queue and the context pool: their events, rules, folded state and public classes."""

from __future__ import annotations

from .items import ContextItem, EvictedItem
from .pool import ContextPool, ReadOnlyPool
from .queue import ContextQueue, ReadOnlyQueue

__all__ = ["ContextItem", "ContextPool", "ContextQueue", "EvictedItem", "ReadOnlyPool", "ReadOnlyQueue"]
