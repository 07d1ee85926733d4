"""What a model used: read from whatever its provider calls the fields, and stored beside an item."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from refold.domain.canonical import canonical_json
from refold.domain.chat import usage as named
from refold.domain.chat.events import Origin
from refold.domain.chat.usage import COUNT_MAX, NO_USAGE, Usage, is_usage, metrics_of, put_usage, usage_in, usage_of
from refold.domain.errors import InvalidInputError

from .chat_events import called, handed, said

MORE = COUNT_MAX + 1
FOUND: list[tuple[dict[str, Any], Usage]] = [
    ({}, NO_USAGE),
    *(({name: 7}, Usage(input_tokens=7)) for name in named.READ),
    *(({name: 7}, Usage(output_tokens=7)) for name in (*named.WRITTEN, *named.BESIDE_OUTPUT)),
    *(({name: 7}, Usage(cached_tokens=7)) for name in named.CACHED),
    *(({name: "m"}, Usage(model="m")) for name in named.MODEL),
    *(({name: 0.5}, Usage(cost=Decimal("0.5"))) for name in named.COST),
    *(({place: {"input_tokens": 7}}, Usage(input_tokens=7)) for place in named.COUNTS),
    *(({place: {"cached_tokens": 7}}, Usage(cached_tokens=7)) for place in named.DETAILS),
    *(({"usage": {place: {"cached_tokens": 7}}}, Usage(cached_tokens=7)) for place in named.DETAILS),
    ({"input_tokens": 1, "cache_read_input_tokens": 2}, Usage(input_tokens=3, cached_tokens=2)),
    ({"input_tokens": 1, "cache_creation_input_tokens": 4}, Usage(input_tokens=5)),
    ({"prompt_tokens": 1, "cache_creation_input_tokens": 4}, Usage(input_tokens=1)),
    ({"candidates_token_count": 1, "thoughts_token_count": 2}, Usage(output_tokens=3)),
    # What stands in the usage comes before what stands beside it, and the model of the answer before that of the usage.
    ({"usage": {"input_tokens": 1, "model": "a"}, "input_tokens": 2, "model": "b"}, Usage(input_tokens=1, model="b")),
    ({"prompt_tokens": 1, "input_tokens": 2}, Usage(input_tokens=2)),
    *(({"input_tokens": wrong}, NO_USAGE) for wrong in (0, -1, True, 1.0, "1", None, MORE)),
    ({"input_tokens": COUNT_MAX}, Usage(input_tokens=COUNT_MAX)),
    *(({"model": wrong}, NO_USAGE) for wrong in ("", 3, None)),
    ({"model": 3, "model_name": "m"}, Usage(model="m")),
    *(({"cost": wrong}, NO_USAGE) for wrong in (True, "x", "NaN", "Infinity", "1e999999", -0.1, None, COUNT_MAX)),
    *(({"cost": right}, Usage(cost=Decimal(str(right)))) for right in (0, 1, 0.25, "0.5", Decimal("0.1"))),
    ({"cost": "x", "total_cost": 2}, Usage(cost=Decimal(2))),
    ({"usage": 3, "token_usage": []}, NO_USAGE),
]


@pytest.mark.parametrize(("about", "usage"), FOUND)
def test_what_is_found(about: dict[str, Any], usage: Usage) -> None:
    """Under each name, in each place; what is no number of tokens is left out."""
    assert usage_in(about) == usage


def test_a_cost_in_any_number() -> None:
    """It is the Decimal that reads like it; what is no cost stays, and is refused where it is to be stored."""
    assert [Usage(cost=given).cost for given in (0.1, 2, Decimal("0.1"), None)] == [
        Decimal("0.1"),
        Decimal(2),
        Decimal("0.1"),
        None,
    ]
    assert Usage(cost=-0.5).cost == -0.5


def test_what_is_a_usage() -> None:
    """A mapping with a field of any provider."""
    kinds = (named.MODEL, named.READ, named.WRITTEN, named.CACHED, named.COST, named.DETAILS)
    names = [name for kind in (*kinds, named.BESIDE_INPUT, named.BESIDE_OUTPUT) for name in kind]

    assert [name for name in names if not is_usage({name: None, "x": 1})] == []
    assert (is_usage({}), is_usage({"usage": {}}), is_usage({"x": 1})) == (False, False, False)


class Dumped:
    """The usage object of a client that is a model of pydantic's."""

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return its fields."""
        assert options == {"mode": "json", "exclude_none": True}
        return {"input_tokens": 1}


@dataclass
class Plain:
    """One that is an object with attributes."""

    prompt_tokens: int = 1
    other: None = None


STORED: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({}, None),
    ({"given": {}}, None),
    ({"given": {"a": 1}}, {"a": 1}),
    ({"usage": NO_USAGE}, None),
    ({"usage": {}}, None),
    ({"usage": Usage(input_tokens=1, cost=Decimal("0.5"), model="m")},
     {"model": "m", "cost": 0.5, "usage": {"input_tokens": 1}}),
    ({"usage": {"prompt_tokens": 1, "x": None, "y": 2, "model": "m"}},
     {"model": "m", "usage": {"prompt_tokens": 1, "y": 2}}),
    ({"usage": Dumped()}, {"usage": {"input_tokens": 1}}),
    ({"usage": Plain()}, {"usage": {"prompt_tokens": 1}}),
    ({"usage": SimpleNamespace(output_tokens=2)}, {"usage": {"output_tokens": 2}}),
    ({"given": {"a": 1, "model": "a"}, "usage": {"model": "b", "cost": "1"}, "model": "c", "cost": 2,
      "input_tokens": 0},
     {"a": 1, "model": "c", "cost": 2.0, "usage": {"input_tokens": 0}}),
    ({"usage": {"input_tokens": 1, "output_tokens": 3}, "input_tokens": 2, "output_tokens": None,
      "cached_tokens": COUNT_MAX},
     {"usage": {"input_tokens": 2, "output_tokens": 3, "cached_tokens": COUNT_MAX}}),
    ({"cost": 0}, {"cost": 0.0}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "stored"), STORED)
def test_what_is_stored(given: dict[str, Any], stored: dict[str, Any] | None) -> None:
    """The counts together, model and cost beside them; arguments come first, then the usage, then what was there."""
    assert metrics_of(**given) == stored


def test_arguments_that_are_none() -> None:
    """They are not given."""
    named = {"model": "m", "cost": 2, "input_tokens": None, "output_tokens": 3, "cached_tokens": 4}
    assert metrics_of(None, {"input_tokens": 1}, **named) == {
        "model": "m", "cost": 2.0, "usage": {"input_tokens": 1, "output_tokens": 3, "cached_tokens": 4},
    }  # fmt: skip


LIMIT = "1,099,511,627,776"
FIELDS = "give a Usage, a dict, or the usage object of a client, with fields such as `input_tokens` or `prompt_tokens`"
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"output_tokens": wrong}, f"output_tokens is {wrong!r}: it is a number of tokens, from 0 to {LIMIT}")
      for wrong in (-1, True, 1.0, "1", MORE)),
    ({"usage": {"cached_tokens": "1"}}, f"cached_tokens is '1': it is a number of tokens, from 0 to {LIMIT}"),
    ({"model": 3}, "model is 3: it is the name of a model"),
    *(({"cost": wrong}, f"cost is {wrong!r}: it is in US dollars, from 0 to 1,099")
      for wrong in (-1, "x", True, 2_000)),
    *(({"usage": wrong}, f"usage is {wrong!r}: {FIELDS}") for wrong in (3, "x", {"x": 1}, object)),
]  # fmt: skip


@pytest.mark.parametrize(("given", "saying"), REFUSED)
def test_what_is_refused(given: dict[str, Any], saying: str) -> None:
    """The error says what was given, and what can be."""
    with pytest.raises(InvalidInputError) as caught:
        metrics_of(**given)
    assert str(caught.value) == saying


def rest(value: Mapping[str, Any]) -> Origin:
    """Return the origin of an imported item."""
    return Origin(rest=canonical_json(value, what="a rest"))


USED = {"input_tokens": 1}
WHOLE = {"model": "m", "usage": USED}
OF_ITEMS: list[tuple[Any, Usage]] = [
    (said(), NO_USAGE),
    (handed(), NO_USAGE),
    (said(metrics=b'{"usage":{"input_tokens":1}}'), Usage(input_tokens=1)),
    (replace(called(), metadata=b'{"usage":{"input_tokens":1}}'), Usage(input_tokens=1)),
    (said(metrics=b"[]"), NO_USAGE),
    *((said(origin=rest(one)), Usage(input_tokens=1, model="m")) for one in (
        {"whole": WHOLE}, {"message": {"set": WHOLE}}, {"anthropic": {"whole": WHOLE}},
        {"anthropic": {"message": WHOLE}},
        {"usage": USED, "whole": {"model": "m", "usage": {"input_tokens": 9}}},
    )),
    (said(origin=rest({"anthropic": {"whole": WHOLE, "continues": True}})), Usage(model="m")),
    (said(metrics=b'{"usage":{"input_tokens":2}}', origin=rest({"whole": WHOLE})), Usage(input_tokens=2)),
    (said(metrics=b'{"a":1}', origin=rest({"whole": WHOLE})), Usage(input_tokens=1, model="m")),
    *((said(origin=rest(one)), NO_USAGE) for one in ({"whole": 3, "usage": 3}, {"message": 3, "x": {"usage": 1}})),
]  # fmt: skip


@pytest.mark.parametrize(("item", "usage"), OF_ITEMS)
def test_what_an_item_used(item: Any, usage: Usage) -> None:
    """As its caller said, else as the message from which it was imported; a piece that goes on has the model alone."""
    assert usage_of(item) == usage


def test_the_usage_of_an_answer_of_several_items() -> None:
    """It is stored once, with the first one that the model wrote; the others have the model, and what they had."""
    items: list[Any] = [said(), said(role="assistant"), replace(called(), metadata=b'{"a":1}')]

    put_usage(items, {"model": "m", "usage": {"input_tokens": 7}}, what="an answer")

    assert [usage_of(item) for item in items] == [NO_USAGE, Usage(input_tokens=7, model="m"), Usage(model="m")]
    assert items[2].metadata == b'{"a":1,"model":"m"}'
