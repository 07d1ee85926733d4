"""The differences between two lists of items: between two versions of a context, or between two contexts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher
from typing import Generic, NamedTuple, TypeVar

# Longer lists are divided before their contents are matched.
MATCHED_MAX = 1_000
Pair = tuple[int, int]
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

    `content` returns the content of an item, `name` the name by which it is the same item although its content differs.
    An item with the same name and content on both sides is the same, even if other items have this content, too.
    """
    # The common beginning is skipped: it is nearly everything, and would cost the matcher most.
    start, shared = 0, {*map(name, before)} & {*map(name, after)}
    for old, new in zip(before, after, strict=False):
        # Equal items have equal contents, and comparing the items takes a tenth of the time.
        if old != new and (content(old) != content(new) or _are_apart(name(old), name(new), shared)):
            break
        start += 1
    before, after = before[start:], after[start:]
    sides = [[(content(item), name(item)) for item in items] for items in (before, after)]
    both = {*sides[0]} & {*sides[1]}
    olds, news = ([pair if pair in both else pair[0] for pair in side] for side in sides)
    kept = list(_matched(olds, news))
    stay, same = ({pair[side] for pair in kept} for side in (0, 1))
    removed = [(one, olds[place]) for place, one in enumerate(before) if place not in stay]
    added = [(one, news[place]) for place, one in enumerate(after) if place not in same]
    return _paired(added, removed, name)


def _are_apart(old: str | None, new: str | None, shared: Set[str | None]) -> bool:
    """Return whether items with these names are not the same, because one of them is elsewhere on the other side."""
    return old != new and (old in shared or new in shared)


def _matched(olds: Sequence[Hashable], news: Sequence[Hashable]) -> Iterator[Pair]:
    """Yield the places of equal contents in both lists, in their order."""
    if max(len(olds), len(news)) <= MATCHED_MAX:
        yield from _best_matched(olds, news)
        return
    # The time for the best match of long lists can grow with the cube of their length. So they are divided at the
    # contents that occur once in each. The pieces are short, unless somebody made up the lists to be slow.
    starts = (0, 0)
    for pair in [*_longest_common_order(_unique_places(olds), _unique_places(news)), (len(olds), len(news))]:
        left, right = olds[starts[0] : pair[0]], news[starts[1] : pair[1]]
        is_short = max(len(left), len(right)) <= MATCHED_MAX
        found = _best_matched(left, right) if is_short else _longest_common_order(_numbered(left), _numbered(right))
        yield from ((starts[0] + old, starts[1] + new) for old, new in found)
        if pair[0] < len(olds):
            yield pair
        starts = (pair[0] + 1, pair[1] + 1)


def _best_matched(olds: Sequence[Hashable], news: Sequence[Hashable]) -> Iterator[Pair]:
    for block in SequenceMatcher(None, olds, news).get_matching_blocks():
        yield from ((block.a + step, block.b + step) for step in range(block.size))


def _unique_places(contents: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the places of the contents that stand once in a list."""
    counts = Counter(contents)
    return {content: place for place, content in enumerate(contents) if counts[content] == 1}


def _numbered(contents: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the places of all contents, each with how often it occurs before there."""
    counts: Counter[Hashable] = Counter()
    places: dict[Hashable, int] = {}
    for place, content in enumerate(contents):
        places[content, counts[content]] = place
        counts[content] += 1
    return places


def _longest_common_order(olds: Mapping[Hashable, int], news: Mapping[Hashable, int]) -> list[Pair]:
    """Return as many places of equal keys as can be in the same order in both lists."""
    pairs = [(place, news[key]) for key, place in olds.items() if key in news]
    # For each length of a chain: the first place at which such a chain ends, and the number of its last pair.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1], last[length : length + 1] = [place], [number]
    chain, number = list[Pair](), last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


def of_each(changes: Changes[T], of_old: Callable[[T], R], of_new: Callable[[T], R]) -> Changes[R]:
    """Return the same changes, with `of_old` applied to items of the first list, and `of_new` to all others."""
    return Changes(
        [of_new(item) for item in changes.added],
        [of_old(item) for item in changes.removed],
        [(of_old(old), of_new(new)) for old, new in changes.changed],
        [of_new(item) for item in changes.moved],
    )


def _paired(
    added: Sequence[tuple[T, Hashable]], removed: Sequence[tuple[T, Hashable]], name: Callable[[T], str | None]
) -> Changes[T]:
    gone: dict[str | None, list[tuple[T, Hashable]]] = {}
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
