"""What an item may hold: it comes back equal, or it is refused on the way in."""

import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from refold.domain import content as content_module
from refold.domain.content import (
    Content,
    plain_content,
    register_content,
    restored_content,
    stored_content,
    typed_content,
)
from refold.domain.errors import InvalidInputError, LimitExceededError

from ..strategies import ALPHABET, PROPERTY
from .containers import contents, item, pool_of, queue_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(ALPHABET),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(ALPHABET, max_size=4), inner, max_size=4),
    max_leaves=12,
)


class Point(msgspec.Struct, frozen=True):
    """A Struct."""

    x: int
    tags: tuple[str, ...] = ()


@dataclass
class Trip:
    """A dataclass that holds a Struct, a set and a time."""

    start: Point
    seen: set[int] = field(default_factory=set)
    at: datetime | None = None


@dataclass
class Loose:
    """A dataclass that does not say what it holds."""

    value: Any


class Report(BaseModel):
    """A pydantic model with a dataclass in it, and an alias."""

    loose: Loose | None = None
    page_count: int = Field(default=0, alias="pageCount")
    data: bytes = b""


class Bound(BaseModel):
    """A pydantic model in another one."""

    report: Report
    by_name: dict[str, Report] = {}


@dataclass(eq=False)
class Handle:
    """Equal to itself alone."""

    name: str


class Colour(str, Enum):  # noqa: UP042  # a StrEnum has the str() that this one lacks
    """Texts whose `str()` is another text."""

    RED = "red"


@PROPERTY
@given(JSON)
def test_json_comes_back(value: Any) -> None:
    """Equal to what was given, whatever it is made of; its plain form too."""
    content = stored_content(value)

    assert restored_content(content) == plain_content(content) == value
    assert content.type == ""


@pytest.mark.parametrize(
    "value",
    [
        Point(1, ("a", "b")),
        Trip(Point(2), {3, 1}, datetime(2026, 11, 21, 10, tzinfo=UTC)),
        Loose([1, {"a": None}]),
        Report(loose=Loose(None), pageCount=3, data=b"abc"),
        Bound(report=Report(), by_name={"a": Report(pageCount=1)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_instances_come_back(value: Any) -> None:
    """Structs, dataclasses and pydantic models, one in another; each time anew, so that changing one harms nobody."""
    content = stored_content(value)
    first, second = restored_content(content), restored_content(content)

    assert first == second == value
    assert (type(first), first is second) == (type(value), False)
    assert content.type == f"{__name__}:{type(value).__name__}"


def test_what_is_only_equal_to_itself() -> None:
    """Its fields are what has to come back."""
    back = restored_content(stored_content(Handle("a")))

    assert (type(back), back.name) == (Handle, "a")


def test_a_text_that_is_more_than_a_text() -> None:
    """It is stored as the text that it equals."""
    assert restored_content(stored_content(Colour.RED)) == Colour.RED
    assert restored_content(stored_content([Colour.RED])) == [Colour.RED]


class Size(Enum):
    """Members that are no texts."""

    SMALL = 1


class Money:
    """Neither a dataclass nor equal to its copy; a codec says how it is stored."""

    def __init__(self, amount: Decimal) -> None:
        self.amount = amount


RICH: list[Any] = [
    (1, (2, [3])),
    {3, 1, "a", (1, 2)},
    frozenset({b"\xff", None}),
    b"bytes \xff",
    datetime(2026, 11, 21, 10, tzinfo=timezone(timedelta(hours=2))),
    datetime(2026, 11, 21, 10),
    [date(2026, 11, 21), time(10, 30), timedelta(days=-1, microseconds=3)],
    {"price": Decimal("1.10"), "id": UUID(int=7), "file": Path("a/b"), "size": Size.SMALL, "text": "plain"},
    {1: "a", 2.5: "b", (1, 2): "c", None: "d"},
    {"$": "datetime", "of": b"no mark"},
    {"a": [Point(1), Trip(Point(2), {3}), Report(pageCount=3)]},
]


@pytest.mark.parametrize("value", RICH, ids=range(len(RICH)))
async def test_other_types_come_back(value: Any) -> None:
    """Equal, and of the same types at every depth; also from a saved queue."""
    content = stored_content(value)
    queue = await queue_of(5, value)
    saved = json.loads(json.dumps(queue.to_dict()))

    back = restored_content(content)
    assert (back, type(back)) == (value, type(value))
    assert queue.items[0].content == type(queue).from_dict(saved).items[0].content == value
    assert stored_content(restored_content(content)) == content


def test_marks_are_for_ever() -> None:
    """The stored form of each kind; equal sets and dicts have equal bytes."""
    value = {"s": {"b", "a"}, "t": (1,), "k": {2: b"x", 1: Size.SMALL}}

    content = stored_content(value)

    assert content == stored_content({"k": {1: Size.SMALL, 2: b"x"}, "t": (1,), "s": {"a", "b"}})
    assert (content.type, plain_content(content)) == (
        "marks",
        {
            "s": {"$": "set", "of": ["a", "b"]},
            "t": {"$": "tuple", "of": [1]},
            "k": {
                "$": "dict",
                "of": [
                    [1, {"$": "enum", "of": [f"{__name__}:Size", "SMALL"]}],
                    [2, {"$": "bytes", "of": "eA=="}],
                ],
            },
        },
    )


def test_a_codec_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may return other content; a program without it reads the value as data."""
    monkeypatch.setattr(content_module, "_CODECS", {**content_module._CODECS})
    monkeypatch.setattr(content_module, "_CODEC_OF", {**content_module._CODEC_OF})
    with pytest.raises(InvalidInputError, match="register_content"):
        stored_content(Money(Decimal(1)))

    register_content(Money, "coins", lambda money: (money.amount, "EUR"), lambda parts: Money(parts[0]))
    content = stored_content({"paid": [Money(Decimal("1.10"))]})

    assert restored_content(content)["paid"][0].amount == Decimal("1.10")
    for name in ("coins", "datetime", "dict", ""):
        with pytest.raises(InvalidInputError, match="another name"):
            register_content(Size, name, lambda size: size.value, Size)
    again = type("Money", (Money,), {"__qualname__": Money.__qualname__, "__module__": Money.__module__})
    register_content(again, "coins", lambda money: money.amount, again)
    content_module._CODECS.pop("coins")
    mark = {"$": "coins", "of": {"$": "tuple", "of": [{"$": "decimal", "of": "1.10"}, "EUR"]}}
    assert restored_content(content) == plain_content(content) == {"paid": [mark]}


@pytest.mark.parametrize(
    "data",
    [b'{"$":"datetime","of":"soon"}', b'{"$":"dict"}', b'{"$":"tuple","of":3}',
     b'{"$":"timedelta","of":[1000000000000,0,0]}'],
)  # fmt: skip
def test_marks_that_cannot_be_read(data: bytes) -> None:
    """Another program wrote them: the error is one of the tree, and the data can be seen."""
    content = Content(json=data, type="marks")

    with pytest.raises(InvalidInputError, match="stored content cannot be read"):
        restored_content(content)
    assert plain_content(content) == json.loads(data)


def test_an_enum_that_is_not_loaded() -> None:
    """It is read as data, like every mark that a program does not know."""
    mark = {"$": "enum", "of": ["refold_plugin.sizes:Size", "SMALL"]}

    assert restored_content(Content(json=json.dumps([mark]).encode(), type="marks")) == [mark]


REFUSED: list[Any] = [
    object(),
    [object()],
    float("nan"),
    [float("inf")],
    "\ud800",
    ["\ud800"],
    {"a": {"\udfff": 1}},
    {b"\xff": float("nan")},
    Point,
    [Loose((1, 2))],
    Loose((1, 2)),
    Loose(Point(1)),
    Loose(Report()),
    Loose(float("nan")),
    Loose("\ud800"),
    Loose(object()),
    Report(data=b"\xff"),
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: repr(value).partition(" at 0x")[0])
async def test_what_cannot_be_kept_is_refused(value: Any) -> None:
    """The error names the item, and nothing was put in."""
    pool = await pool_of("a")

    with pytest.raises(InvalidInputError, match="the content of item 'b'") as caught:
        await pool.add(item("b", value))
    assert (pool.version, contents(pool)) == (2, ["a"])
    assert str(caught.value).count("cannot be stored as JSON") <= 1


def test_what_goes_round_in_circles() -> None:
    """Lists and dataclasses that hold themselves end in an error of ours."""
    loose, circle = Loose(None), [None]
    loose.value, circle[0] = loose, circle  # type: ignore[call-overload]  # that is what is refused

    for value in (loose, circle):
        with pytest.raises(InvalidInputError):
            stored_content(value)


@pytest.mark.parametrize("is_typed", [False, True])
def test_depth_has_a_limit(is_typed: bool) -> None:
    """What could not be read everywhere is not taken anywhere; many brackets side by side are not deep."""

    def nested(depth: int) -> Any:
        value: Any = {}
        for number in range(depth - 1 - is_typed):
            value = [value] if number % 2 else {"a": value}
        return Loose(value) if is_typed else value

    assert restored_content(stored_content(nested(100))) == nested(100)
    assert stored_content([[]] * 200).json.count(b"[") == 201
    with pytest.raises(LimitExceededError, match="the depth of the content"):
        stored_content(nested(101), "the content")
    with pytest.raises(LimitExceededError, match="the depth of "):
        stored_content((nested(101),), "the content")


def test_a_class_that_is_not_loaded() -> None:
    """The error says what to import, and nothing is imported because an event names it."""
    content = Content(json=b'{"x":1}', type="refold_plugin.shapes:Point")

    with pytest.raises(InvalidInputError, match=r"not loaded: import refold_plugin\.shapes first"):
        restored_content(content)
    assert plain_content(content) == {"x": 1}
    assert "refold_plugin" not in sys.modules


def test_a_class_that_was_loaded_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked up in its module; what stands there under its name must be such a class."""
    module = ModuleType("refold_plugin")
    module.Point, module.other = Point, object()  # type: ignore[attr-defined]  # a module of one's own
    monkeypatch.setitem(sys.modules, "refold_plugin", module)

    assert typed_content("refold_plugin:Point", {"x": 1}) == Point(1)
    for name in ("refold_plugin:other", "refold_plugin:none", "refold_plugin:", "sys:path", "builtins:dict"):
        with pytest.raises(InvalidInputError, match="not loaded"):
            typed_content(name, {})


@pytest.mark.parametrize(("type_name", "value"), [("Point", {"x": "a"}), ("Report", {"pageCount": []}), ("Trip", {})])
def test_a_class_that_has_changed(type_name: str, value: Any) -> None:
    """What was stored no longer fits it: the error says so, and what is wrong."""
    with pytest.raises(InvalidInputError, match=f"no longer fits its class '{__name__}:{type_name}'"):
        typed_content(f"{__name__}:{type_name}", value)


async def test_an_instance_is_kept_as_it_was_added() -> None:
    """What its owner does to it afterwards, or to what came back, is nothing to the queue."""
    trip = Trip(Point(1))
    queue = await queue_of(2, trip)
    trip.seen.add(1)
    queue.items[0].content.seen.add(2)

    assert contents(queue) == [Trip(Point(1))]


async def test_classes_that_no_module_gives() -> None:
    """One made within a function is found as long as it lives."""

    @dataclass
    class Local:
        a: int

    queue = await queue_of(2, Local(1))
    queue.cleanup()

    assert contents(queue) == [Local(1)]


@pytest.mark.parametrize(
    ("decode", "why"),
    [(lambda amount: Money(amount + 1), "is read as"), (lambda amount: Money(amount["EUR"]), "cannot be read")],
)
def test_a_codec_that_loses_something(monkeypatch: pytest.MonkeyPatch, decode: Any, why: str) -> None:
    """What it would read is compared with what was given before anything is stored."""
    monkeypatch.setattr(content_module, "_CODECS", {**content_module._CODECS})
    monkeypatch.setattr(content_module, "_CODEC_OF", {**content_module._CODEC_OF})
    register_content(Money, "coins", lambda money: money.amount, decode)

    with pytest.raises(InvalidInputError, match=rf"the price would not come back as it is: .*{why}"):
        stored_content({"paid": Money(Decimal(1))}, "the price")


def test_an_instance_with_a_field_of_another_type() -> None:
    """Its class would not read it again, so it is refused."""
    wrong: Any = "many"

    with pytest.raises(InvalidInputError, match=r"the point would not come back as it is: .*no longer fits its class"):
        stored_content(Point(wrong), "the point")
