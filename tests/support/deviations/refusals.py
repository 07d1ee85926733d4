"""
Items that Refold refuses when a context is made, and with which the seed fails later: V1.15, another item has the same
id; V1.11c, an image is a data URL without a comma.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from .plain_items import Item


def refusal_of(items: Sequence[Item]) -> str | None:
    """Return the number of the deviation by which items are refused; None if they must be accepted."""
    first: dict[str, Item] = {}
    for item in items:
        if not _is_same(first.setdefault(item["id"], item), item):
            return "V1.15"
    if any(url.startswith("data:") and "," not in url for url in _images(items)):
        return "V1.11c"
    return None


def _is_same(one: Item, other: Item) -> bool:
    """An item with the same content and another time is the same item."""
    return {**one, "created_at": None} == {**other, "created_at": None}


def _images(items: Sequence[Item]) -> Iterator[Any]:
    for item in items:
        content = item.get("content")
        yield from (part["image"] for part in content or () if isinstance(part, dict))
