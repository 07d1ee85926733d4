"""The patch that makes one JSON value of another."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.formats.source_json import difference, is_same, patched
from tests.domain.strategies import JSON, PROPERTY, TEXT

# What items can be turned into without a patch: texts, null, objects and lists.
PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@PROPERTY
@given(plain=PLAIN, wanted=JSON | PLAIN)
def test_a_patch_makes_the_one_of_the_other(plain: Any, wanted: Any) -> None:
    """Whatever the two are, the patch leads from the first to the second."""
    assert patched(plain, difference(plain, wanted)) == wanted


@PROPERTY
@given(value=PLAIN)
def test_equal_values_need_no_patch(value: Any) -> None:
    """Nothing is said about what is equal."""
    assert difference(value, value) == {}


@pytest.mark.parametrize(
    ("plain", "wanted", "patch"),
    [
        ({"a": "x"}, {"a": "x", "b": 1}, {"set": {"b": 1}}),
        ({"a": "x", "b": "y"}, {"a": "x"}, {"drop": ["b"]}),
        ({"a": "x"}, {"a": None}, {"in": {"a": {"is": None}}}),
        ({"a": {"b": "x", "c": "y"}}, {"a": {"b": "z", "c": "y"}}, {"in": {"a": {"in": {"b": {"is": "z"}}}}}),
        (["x", {"a": "y"}], ["x", {"a": "y", "b": 1}], {"in": {"1": {"set": {"b": 1}}}}),
        (["x"], ["x", "y"], {"is": ["x", "y"]}),
        ("x", 1, {"is": 1}),
    ],
)
def test_a_patch_says_what_differs_and_no_more(plain: Any, wanted: Any, patch: Any) -> None:
    """Texts that both have are not in the patch."""
    assert difference(plain, wanted) == patch


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (1, True, False),
        (1, 1.0, False),
        ([0], [False], False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"b": 1}, False),
        ([1], [1, 2], False),
        ("1", 1, False),
    ],
)
def test_values_are_compared_as_json(one: Any, other: Any, same: bool) -> None:
    """Numbers and truth values that Python takes for equal are not the same JSON."""
    assert is_same(one, other) == same


@pytest.mark.parametrize("plain", [None, "x", [], ["x"], {}, {"c": "x"}])
def test_a_patch_passes_over_what_is_gone(plain: Any) -> None:
    """What an item says may have changed since: the patch then does what it still can."""
    patch = {"in": {"a": {"set": {"b": 1}}, "7": {"is": 2}}, "drop": ["z"]}

    assert patched(plain, patch) == plain
