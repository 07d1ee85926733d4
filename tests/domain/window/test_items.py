"""The item of a window, as its seed has it (SPEC A1)."""

import copy
import dataclasses
import pickle
from typing import Any

import pytest

import refold
from refold.domain.arguments import NotAnItemError
from refold.domain.window.items import ContextItem
from refold.domain.window.window import ContextWindow

ITEM = ContextItem("k", "v", "s")


def test_fields_in_their_order() -> None:
    """A1.1, A1.2: three are required, by name or by place."""
    assert [field.name for field in dataclasses.fields(ContextItem)] == ["key", "value", "source", "priority"]
    assert ContextItem("k", "v", "s", 1) == ContextItem(key="k", value="v", source="s", priority=1)
    assert repr(ITEM) == "ContextItem(key='k', value='v', source='s', priority=0)"
    with pytest.raises(TypeError):
        ContextItem("k", "v")  # type: ignore[call-arg]


def test_an_item_cannot_be_changed() -> None:
    """A1.3, A1.4: neither a field nor another attribute."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        ITEM.key = "x"  # type: ignore[misc]
    assert not hasattr(ITEM, "__dict__")


def test_an_item_is_a_value() -> None:
    """A1.4: equal, hashable, copied, pickled and replaced."""
    assert {ITEM, ContextItem("k", "v", "s")} == {ITEM}
    assert copy.deepcopy(ITEM) == pickle.loads(pickle.dumps(ITEM)) == ITEM
    assert dataclasses.replace(ITEM, priority=3) == ContextItem("k", "v", "s", 3)


def test_nothing_is_checked() -> None:
    """A1.5: an item takes what it is given; a window looks at it."""
    assert ContextItem("", "", "", -5).priority == -5
    assert ContextItem("k", 7, "s").value == 7  # type: ignore[arg-type,comparison-overlap]


@pytest.mark.parametrize("field", ["key", "value", "source"])
def test_what_is_no_text_is_refused(field: str) -> None:
    """The field is named, and the window is as it was."""
    window = ContextWindow(9)
    fields: dict[str, Any] = {"key": "k", "value": "v", "source": "s", field: 7}
    wrong = ContextItem(**fields)

    with pytest.raises(NotAnItemError, match=f"the {field} of item .* is int: take a text"):
        window.add(wrong)
    assert not window.items


def test_an_item_of_a_pool_is_refused() -> None:
    """Its class has the same name, so the error says which one is taken."""
    wrong: Any = refold.PoolItem("v", "d", "k")

    with pytest.raises(NotAnItemError, match=r"not 'ContextItem': take refold\.BudgetItem, another class"):
        ContextWindow(9).add(wrong)
