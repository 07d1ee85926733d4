"""The differences between two lists of items: between two versions of a context, or between two contexts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Changes(NamedTuple, Generic[T]):
    """Items that only the second list has, items that only the first has, pairs that differ, and moved items."""

    added: list[T]
    removed: list[T]
    changed: list[tuple[T, T]]
    moved: list[T]

    def __bool__(self) -> bool:
        return any(self)


def changes_between(
    before: Sequence[T], after: Sequence[T], *, content: Callable[[T], bytes], name: Callable[[T], str | None]
) -> Changes[T]:
    """
    Return the changes that turn the items `before` into the items `after`.

    `content` returns the content of an item, `name` that by which it is the same although its content differs.
    """
    olds, news = list(map(content, before)), list(map(content, after))
    # The common beginning is skipped: it is nearly everything, and would cost the matcher most.
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(olds, news, strict=False)))
    removed: list[tuple[T, bytes]] = []
    added: list[tuple[T, bytes]] = []
    for tag, i, j, k, m in SequenceMatcher(None, olds[start:], news[start:]).get_opcodes():
        if tag != "equal":
            removed += zip(before[start + i : start + j], olds[start + i : start + j], strict=True)
            added += zip(after[start + k : start + m], news[start + k : start + m], strict=True)
    return _paired(added, removed, name)


def of_each(changes: Changes[T], make: Callable[[T], R]) -> Changes[R]:
    """Return the same changes with what `make` returns of each item."""
    return Changes(
        [make(item) for item in changes.added],
        [make(item) for item in changes.removed],
        [(make(old), make(new)) for old, new in changes.changed],
        [make(item) for item in changes.moved],
    )


def _paired(
    added: Sequence[tuple[T, bytes]], removed: Sequence[tuple[T, bytes]], name: Callable[[T], str | None]
) -> Changes[T]:
    gone: dict[str | None, list[tuple[T, bytes]]] = {}
    for old in removed:
        gone.setdefault(name(old[0]), []).append(old)
    changes: Changes[T] = Changes([], [], [], [])
    for item, content in added:
        candidates = gone.get(name(item))
        if not candidates:
            changes.added.append(item)
            continue
        old_item, old_content = candidates.pop(0)
        if old_content == content:
            changes.moved.append(item)
        else:
            changes.changed.append((old_item, item))
    left = {id(old) for some in gone.values() for old in some}
    changes.removed.extend(old[0] for old in removed if id(old) in left)
    return changes
