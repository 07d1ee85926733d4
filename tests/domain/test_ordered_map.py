"""The mapping that is a value: every version stays what it was, whichever is looked at."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.domain.ordered_map import STEPS_MAX, OrderedMap, draft_of, settled
from tests.support.effort import CountedLock, calls_of

KEYS = st.integers(0, 7)
CHANGES = st.lists(st.tuples(st.integers(0, 200), KEYS, st.one_of(st.none(), st.integers())), max_size=120)
LOOKS = st.lists(st.integers(0, 200), max_size=30)


@settings(max_examples=settings().max_examples * 10)
@given(changes=CHANGES, looks=LOOKS)
def test_every_version_stays_what_it_was(changes: list[tuple[int, int, int | None]], looks: list[int]) -> None:
    """Versions branch off any older one; each equals a plain dict that went the same way."""
    versions: list[tuple[OrderedMap[int, int], dict[int, int]]] = [(OrderedMap(), {})]
    for base, key, value in changes:
        mapping, plain = versions[base % len(versions)]
        if value is not None:
            versions.append((mapping.plus(key, value), {**plain, key: value}))
        elif key in plain:
            versions.append((mapping.minus(key), {one: kept for one, kept in plain.items() if one != key}))
    for look in [*looks, *range(len(versions))]:
        mapping, plain = versions[look % len(versions)]
        assert mapping.items() == list(plain.items())
        assert (len(mapping), list(mapping), mapping.values()) == (len(plain), list(plain), list(plain.values()))
        assert all((key in mapping) == (key in plain) and mapping.get(key) == plain.get(key) for key in range(8))


def test_a_version_far_back() -> None:
    """It gets a dict of its own, and the newest is none the worse for it."""
    versions = [OrderedMap[int, int]()]
    for number in range(3 * STEPS_MAX):
        versions.append(versions[-1].plus(number % 10, number))

    assert versions[5].values() == [0, 1, 2, 3, 4]
    assert versions[-1].values() == sorted(versions[-1].values(), key=lambda value: value % 10)
    assert versions[5].plus(99, 99).values() == [0, 1, 2, 3, 4, 99]
    assert len(versions[-1]) == 10


def test_a_long_life_costs_the_same_at_its_end() -> None:
    """The oldest leaves, a new one comes: as often as it may, no more work than at first, whatever is kept."""
    mapping = OrderedMap[int, int]()
    for number in range(1_000):
        mapping = mapping.plus(number, number)

    def live(first: int, last: int) -> None:
        nonlocal mapping
        for number in range(first, last):
            ((oldest, _),) = mapping.first(1)
            mapping = mapping.minus(oldest).plus(number, number)

    young = calls_of(lambda: live(1_000, 1_100))
    live(1_100, 8_900)
    assert calls_of(lambda: live(8_900, 9_000)) == young
    assert mapping.values() == list(range(8_000, 9_000))


def test_equality_is_by_value() -> None:
    """Order counts, history does not."""
    numbers = list(range(20))
    random.Random(1).shuffle(numbers)
    one, other = OrderedMap[int, str](), OrderedMap[int, str]()
    for number in numbers:
        one = one.plus(number, "x")
    for number in [*numbers, 77]:
        other = other.plus(number, "y")
    for number in numbers:
        other = other.plus(number, "x")

    assert one == other.minus(77)
    assert one != other
    assert one != OrderedMap[int, str]()


@given(st.dictionaries(KEYS, st.integers()), st.lists(st.tuples(KEYS, st.none() | st.integers()), max_size=20))
def test_a_mapping_of_a_dict(plain: dict[int, int], changes: list[tuple[int, int | None]]) -> None:
    """It has its values in its order, and is changed like any other, and stays itself."""
    first, now = OrderedMap.of(dict(plain)), dict(plain)
    mapping = first
    for key, value in changes:
        if value is not None:
            mapping, now[key] = mapping.plus(key, value), value
        elif key in now:
            mapping = mapping.minus(key)
            del now[key]

    for one, expected in ((mapping, now), (first, plain)):
        assert one.items() == list(expected.items())
        assert (len(one), list(one), one.values()) == (len(expected), list(expected), list(expected.values()))
        assert all((key in one, one.get(key)) == (key in expected, expected.get(key)) for key in range(8))
    assert mapping == OrderedMap.of(now)


@given(
    st.dictionaries(KEYS, st.integers(), max_size=3),
    st.lists(st.tuples(KEYS, st.none() | st.integers()), max_size=30),
)
def test_a_draft(plain: dict[int, int], changes: list[tuple[int, int | None]]) -> None:
    """It is what a dict is, begun from nothing or from something; what it began from stays."""
    base = OrderedMap.of(dict(plain))
    draft, now = draft_of(base), dict(plain)
    for key, value in changes:
        if value is None:
            draft.pop(key, None)
            now.pop(key, None)
        else:
            draft[key] = value
            now[key] = value
        assert draft.get(key) == now.get(key)

    assert settled(draft, base).items() == list(now.items())
    assert base.items() == list(plain.items())


def test_a_draft_of_nothing_costs_no_versions() -> None:
    """To fill it is less work than to make a version for each value."""

    def fill() -> None:
        base = OrderedMap[int, int]()
        draft = draft_of(base)
        for number in range(200):
            draft[number] = number
        settled(draft, base)

    def grow() -> None:
        mapping = OrderedMap[int, int]()
        for number in range(200):
            mapping = mapping.plus(number, number)

    assert calls_of(fill) * 2 < calls_of(grow)


@pytest.mark.parametrize(
    "look",
    [
        lambda mapping: mapping.get(1),
        lambda mapping: 1 in mapping,
        lambda mapping: mapping.first(1),
        lambda mapping: mapping.items(),
        lambda mapping: mapping.values(),
        lambda mapping: list(mapping),
        lambda mapping: mapping.plus(2, "b"),
        lambda mapping: mapping.minus(1),
    ],
)
def test_looks_and_changes_take_the_family_s_lock(look: Callable[[OrderedMap[int, str]], object]) -> None:
    """Each may move the one dict to another version; what was made at once and never changed needs no lock."""
    mapping = OrderedMap[int, str]().plus(1, "a")
    mapping._lock = lock = CountedLock()  # type: ignore[assignment]

    look(mapping)
    assert lock.taken == 1


def test_the_repr_of_a_mapping() -> None:
    """Its keys and values, in order."""
    assert repr(OrderedMap[int, str]().plus(2, "b").plus(1, "a")) == "OrderedMap([(2, 'b'), (1, 'a')])"
