"""Lists and dicts that refuse to change but are equal to plain ones."""

import copy
import json
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from refold.domain.errors import DecisionRefusedError, RefusedError
from refold.domain.frozen import FrozenDict, FrozenList, freeze

from .strategies import JSON, PROPERTY

PLAIN_LIST = [3, 1, 2]
PLAIN_DICT = {"a": 1, "b": 2}
LIST_CHANGES: dict[str, Callable[[Any], object]] = {
    "append": lambda x: x.append(4),
    "extend": lambda x: x.extend([4]),
    "insert": lambda x: x.insert(0, 4),
    "remove": lambda x: x.remove(3),
    "pop": lambda x: x.pop(),
    "clear": lambda x: x.clear(),
    "sort": lambda x: x.sort(),
    "reverse": lambda x: x.reverse(),
    "set": lambda x: operator.setitem(x, 0, 9),
    "set slice": lambda x: operator.setitem(x, slice(None), []),
    "delete": lambda x: operator.delitem(x, 0),
    "add in place": lambda x: x.__iadd__([4]),
    "repeat in place": lambda x: x.__imul__(2),
}
DICT_CHANGES: dict[str, Callable[[Any], object]] = {
    "update": lambda x: x.update(a=9),
    "pop": lambda x: x.pop("a"),
    "popitem": lambda x: x.popitem(),
    "clear": lambda x: x.clear(),
    "setdefault": lambda x: x.setdefault("c", 3),
    "set": lambda x: operator.setitem(x, "a", 9),
    "delete": lambda x: operator.delitem(x, "a"),
    "merge in place": lambda x: x.__ior__({"c": 3}),
}


@pytest.mark.parametrize("change", LIST_CHANGES.values(), ids=LIST_CHANGES)
def test_a_list_refuses(change: Callable[[Any], object]) -> None:
    """Every way to change a list in place is refused, and it stays as it was."""
    frozen = FrozenList(PLAIN_LIST)

    with pytest.raises(DecisionRefusedError, match="this list is a view"):
        change(frozen)
    assert frozen == PLAIN_LIST


@pytest.mark.parametrize("change", DICT_CHANGES.values(), ids=DICT_CHANGES)
def test_a_dict_refuses(change: Callable[[Any], object]) -> None:
    """Every way to change a dict in place is refused, and it stays as it was."""
    frozen = FrozenDict(PLAIN_DICT)

    with pytest.raises(RefusedError, match="this dict is a view"):
        change(frozen)
    assert frozen == PLAIN_DICT


@pytest.mark.parametrize("kind", [list, dict])
def test_no_way_to_change_is_forgotten(kind: type) -> None:
    """Whatever changes a plain one is among the refused, in this Python too."""
    frozen: type = FrozenList if kind is list else FrozenDict
    reading = {"copy", "count", "index", "fromkeys", "get", "items", "keys", "values"}
    changing = {name for name in vars(kind) if not name.startswith("_")} - reading
    changing |= {
        name for name in ("__setitem__", "__delitem__", "__iadd__", "__imul__", "__ior__") if name in vars(kind)
    }

    assert changing <= set(vars(frozen))


@PROPERTY
@given(JSON)
def test_a_frozen_value_equals_the_plain_one(value: Any) -> None:
    """Both ways round, and its JSON is the same."""
    frozen = freeze(value)

    assert frozen == value
    assert value == frozen
    assert json.dumps(frozen) == json.dumps(value)


@PROPERTY
@given(JSON)
def test_a_frozen_value_can_be_copied_and_pickled(value: Any) -> None:
    """Copies are equal, and frozen again."""
    frozen = freeze(value)

    for made in (copy.copy(frozen), copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        assert made == value
        assert type(made) is type(frozen)


def test_freezing_goes_all_the_way_down() -> None:
    """Tuples too become frozen lists."""
    frozen = freeze({"a": [({"b": [1]},)]})

    assert type(frozen["a"]) is FrozenList
    assert type(frozen["a"][0]) is FrozenList
    assert type(frozen["a"][0][0]["b"]) is FrozenList


@pytest.mark.parametrize(("frozen", "plain"), [(FrozenList(PLAIN_LIST), list), (FrozenDict(PLAIN_DICT), dict)])
def test_a_way_out(frozen: Any, plain: type) -> None:
    """`list()`, `dict()` and `copy()` give plain ones, which may be changed."""
    assert type(plain(frozen)) is plain
    assert type(frozen.copy()) is plain
