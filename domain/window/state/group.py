"""Items with their total, as a value: all of a window's, or those that have something in common."""

from __future__ import annotations

from collections.abc import Hashable
from operator import attrgetter
from typing import NamedTuple, TypeVar

from ...ordered_map import OrderedMap
from ..items import Held

K = TypeVar("K", bound=Hashable)


class Group(NamedTuple):
    """Items by the version that brought each, and their size together."""

    items: OrderedMap[int, Held]
    quarters: int

    def plus(self, held: Held) -> Group:
        """Return the group with one item more."""
        return Group(self.items.plus(held.version, held), self.quarters + held.quarters)

    def minus(self, held: Held) -> Group:
        """Return the group without an item that is in it."""
        return Group(self.items.minus(held.version), self.quarters - held.quarters)

    def in_order(self) -> list[Held]:
        """Return the items in the order in which a window shows them."""
        # They are nearly in order as they are: only one that took another's place may not be.
        return sorted(self.items.values(), key=attrgetter("place"))


Groups = OrderedMap[K, Group]
NO_ITEMS = Group(OrderedMap(), 0)


def with_item(groups: Groups[K], key: K, held: Held) -> Groups[K]:
    """Return the groups with an item more under `key`."""
    group = groups.get(key)
    return groups.plus(key, (NO_ITEMS if group is None else group).plus(held))


def without_item(groups: Groups[K], key: K, held: Held) -> Groups[K]:
    """Return the groups without an item that is under `key`; where it was the last one there, without the key."""
    group = groups.get(key)
    assert group is not None, "what is in a window is in its groups"
    return groups.plus(key, group.minus(held)) if len(group.items) > 1 else groups.minus(key)
