"""The window as its seed has it (SPEC A2), and what it can do besides: get, put, remove, evict and restore."""

import copy
import dataclasses
import enum
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.chat.tokens import SCRIPTS
from refold.domain.errors import DecisionRefusedError, InvalidInputError, LimitExceededError, NotFoundError
from refold.domain.window.items import ContextItem
from refold.domain.window.window import AgentContext, ContextWindow

from .windows import item, keys, kinds, left, refused


def test_an_empty_window() -> None:
    """A2.1, A2.7, A2.8."""
    window = ContextWindow()

    assert (window.max_tokens, window.items, window.estimated_tokens(), window.build()) == (100_000, [], 0, "")
    assert ContextWindow(10, [ITEM]) == ContextWindow(max_tokens=10, items=[ITEM])


ITEM = ContextItem("k", "v", "s")


def test_the_text() -> None:
    """A2.9, A2.10: a higher priority first, else in the order in which they came; the items stay in theirs."""
    window = ContextWindow()
    for key, priority in (("a", 0), ("b", 5), ("c", 5), ("d", 0)):
        window.add(ContextItem(key, key.upper(), "s", priority))

    sections = ["[b (source: s)]\nB", "[c (source: s)]\nC", "[a (source: s)]\nA", "[d (source: s)]\nD"]
    assert window.build() == "\n\n".join(sections)
    assert keys(window) == "abcd"


def test_the_estimate() -> None:
    """A2.4, A2.5: one rounding, of the sum; characters are counted, whatever their script."""
    window = ContextWindow(items=[ITEM, ITEM, ContextItem("ключ", "日本", "s")])

    assert ContextWindow._estimate_item_tokens(ITEM) == 5
    assert window.estimated_tokens() == (23 + 23 + 27) // 4 == 18


def test_what_fits_comes_in() -> None:
    """A2.2, A2.3, A2.6: up to the budget, of the total that there then is; the rest is dropped, and told."""
    window = ContextWindow(11)

    assert [window.add(one) for one in (ITEM, ITEM, ITEM)] == [True, True, False]
    assert window.estimated_tokens() == 11
    assert not ContextWindow(10, [ITEM]).add(ITEM)
    (dropped,) = window.dropped()
    assert (dropped.item, dropped.tokens, dropped.max_tokens, dropped.version) == (ITEM, 17, 11, 4)
    assert dropped.reason == "with it the window would hold 17 tokens, and max_tokens is 11"


def test_no_budget() -> None:
    """A2.14: a budget of nothing lets nothing in; one of less is refused."""
    window = ContextWindow(0)

    assert not window.add(ContextItem("", "", ""))
    with pytest.raises(InvalidInputError, match="max_tokens is -1: take 0 or more"):
        window.max_tokens = -1


def test_items_at_the_beginning() -> None:
    """A2.12, A2.13: they are copied and recorded, and not tested; then nothing more comes in."""
    given = [item("a"), item("b")]
    window = ContextWindow(1, given)
    given.clear()

    assert (keys(window), window.add(item("c")), kinds(window)) == ("ab", False, ["added", "added", "dropped"])


def test_items_are_set() -> None:
    """It is a change: what was there leaves."""
    window = ContextWindow(items=[item("a")])
    window.items = (item("b"), item("c"))

    assert (keys(window), kinds(window)) == ("bc", ["added", "cleared", "added", "added"])
    window.items = []
    assert (keys(window), window.estimated_tokens(), len(window.evicted())) == ("", 0, 3)


def test_items_are_read_only() -> None:
    """What is handed out says what was then; it cannot be changed, and does not change."""
    window = ContextWindow(items=[item("a")])
    before = window.items
    with pytest.raises(DecisionRefusedError):
        before.append(item("b"))
    window.clear()

    assert ([one.key for one in before], window.items) == (["a"], [])
    assert window.items is window.items


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (ContextItem("k", 7, "s"), TypeError),  # type: ignore[arg-type]
        (ContextItem(None, "v", "s"), TypeError),  # type: ignore[arg-type]
        (ContextItem("k", "v", b"s"), TypeError),  # type: ignore[arg-type]
        ("k", TypeError),
        (ContextItem("k", "\ud800", "s"), InvalidInputError),
        (ContextItem("k", "v", "s", "1"), InvalidInputError),  # type: ignore[arg-type]
        (ContextItem("k", "v", "s", float("nan")), InvalidInputError),  # type: ignore[arg-type]
        (ContextItem("k", "v", "s", 10**30), InvalidInputError),
    ],
)
def test_what_cannot_be_recorded(wrong: Any, error: type[Exception]) -> None:
    """A2.15: it is refused at the call, and changes nothing."""
    window = ContextWindow()
    calls: list[Callable[[Any], object]] = [window.add, window.put, lambda one: ContextWindow(items=[item("a"), one])]
    for call in calls:
        with pytest.raises(error):
            call(wrong)

    assert window.version == 1


class Source(enum.StrEnum):
    """Where items come from."""

    TOOL = "tool"


def test_priorities_and_texts_of_other_classes() -> None:
    """A priority may be a float or a bool, as in the seed; of a text's class nothing is kept."""
    window = ContextWindow()
    for priority in (0.5, True, -1):
        window.add(ContextItem("k", "v", Source.TOOL, priority))  # type: ignore[arg-type]

    assert [one.priority for one in window.items] == [0.5, 1, -1]
    assert {type(one.source) for one in window.items} == {str}
    assert window.build() == window.at(window.version).build()


@pytest.mark.parametrize("wrong", [1.5, "10", None, 10**30])
def test_a_budget_that_cannot_be(wrong: Any) -> None:
    """When it is made, and when it is set."""
    window = ContextWindow(10)

    with pytest.raises(InvalidInputError):
        ContextWindow(wrong)
    with pytest.raises(InvalidInputError):
        window.max_tokens = wrong
    with pytest.raises(InvalidInputError):
        window.policy = "random"  # type: ignore[assignment]
    assert window.version == 1


def test_settings_are_set() -> None:
    """Each is an event, where it says something new; nothing leaves because of it."""
    window = ContextWindow(100, [item("a")])
    window.max_tokens = 1
    window.max_tokens = 1
    window.policy = "evict_lower_priority"

    assert (window.max_tokens, window.policy, keys(window)) == (1, "evict_lower_priority", "a")
    assert kinds(window) == ["added", "settings_changed", "settings_changed"]
    assert (window.at(2).max_tokens, window.at(2).policy) == (100, "first_come")


def test_a_counter_of_ones_own() -> None:
    """A2.18: it counts an item's section, the blank line behind it too; a whole number, please."""
    seen: list[str] = []

    def counter(text: str) -> int:
        seen.append(text)
        return SCRIPTS(text)

    window = ContextWindow(20, counter=counter)

    assert window.add(ContextItem("k", "日本語", "s"))
    assert seen == ["[k (source: s)]\n日本語\n\n"]
    assert window.estimated_tokens() == 3 + 18 // 4
    with pytest.raises(InvalidInputError, match="whole number"):
        ContextWindow(counter=lambda _: 1.5).add(ITEM)  # type: ignore[arg-type,return-value]


def test_get() -> None:
    """The last item with a key, or None."""
    window = ContextWindow(items=[ContextItem("k", "1", "s"), ContextItem("k", "2", "s")])

    assert window.get("k") == ContextItem("k", "2", "s")
    assert window.get("x") is None


def test_put() -> None:
    """A1.6: the item takes the place of all with its key, or is the last one; the same again is nothing new."""
    window = ContextWindow(items=[item("a"), item("k"), item("b"), item("k")])

    assert window.put(ContextItem("k", "new", "s", 3))
    assert window.put(ContextItem("k", "new", "s", 3))
    assert window.put(item("c"))
    assert keys(window) == "akbc"
    assert window.items[1].value == "new"
    assert kinds(window)[4:] == ["replaced", "added"]
    assert left(window) == [("k", "replace", None), ("k", "replace", None)]
    assert window.estimated_tokens() == (24 + 25 + 24 + 24) // 4


def test_put_what_does_not_fit() -> None:
    """What was there stays; what it frees counts."""
    window = ContextWindow(10, [item("k", size=40)])

    assert window.put(item("k", size=43))
    assert not window.put(item("k", size=44))
    assert [len(one.value) for one in window.items] == [21]
    assert window.dropped()[0].tokens == 11


def test_remove() -> None:
    """All items with the key leave; where there is none it is an error."""
    window = ContextWindow(items=[item("k"), item("a"), item("k")])
    window.remove("k", reason="stale")

    assert (keys(window), window.get("k"), window.estimated_tokens()) == ("a", None, 6)
    assert left(window) == [("k", "remove", "stale")] * 2
    with pytest.raises(NotFoundError, match="no item 'k'"):
        window.remove("k")


def test_evict_and_restore() -> None:
    """By the names of births; what comes back is the last one; what was dropped can be let in."""
    window = ContextWindow(18, [item("a"), item("b"), item("c")])
    window.add(item("d"))
    window.evict(window.births[0], "3", reason="why not")
    assert (keys(window), window.births) == ("c", ["window:detached@4"])
    assert left(window) == [("a", "evict", "why not"), ("b", "evict", "why not")]

    window.restore(window.evicted()[0].born, window.dropped()[0].born)

    assert (keys(window), left(window), refused(window)) == ("cad", [("b", "evict", "why not")], "")
    window.clear()
    assert left(window) == [("b", "evict", "why not"), ("c", "clear", None), ("a", "clear", None), ("d", "clear", None)]


def test_what_cannot_be_restored() -> None:
    """What there is no room for, what is there, and what never was."""
    window = ContextWindow(12, [item("a"), item("b")])
    window.add(item("c"))

    with pytest.raises(LimitExceededError, match="max_tokens of the window is 12, and this would take 18"):
        window.restore(window.dropped()[0].born)
    for names in (window.births[:1], ["9"], ["window:other@2"]):
        with pytest.raises(NotFoundError):
            window.restore(*names)
        with pytest.raises(NotFoundError):
            window.evict("9", *names)
    with pytest.raises(NotFoundError, match="window:other@2 is not an item of window:detached"):
        window.evict("window:other@2")
    with pytest.raises(InvalidInputError):
        window.evict("a")
    assert (keys(window), window.version) == ("ab", 4)


def test_a_repeated_call() -> None:
    """Under its key each is done once, also where it could not be done a second time."""
    window = ContextWindow(12)
    born: list[str] = []
    calls: list[Callable[[], object]] = [
        lambda: window.add(item("a"), idempotency_key="add"),
        lambda: window.put(item("b"), idempotency_key="put"),
        lambda: window.add(item("c"), idempotency_key="drop"),
        lambda: window.evict(born[0], idempotency_key="evict"),
        lambda: window.restore(born[0], idempotency_key="restore"),
        lambda: window.remove("b", idempotency_key="remove"),
        lambda: window.clear(idempotency_key="clear"),
    ]
    answers = []
    for call in calls:
        born = born or window.births[:1]
        answers.append([call(), call()])

    assert answers == [[True, True], [True, True], [False, False], *[[None, None]] * 4]
    assert kinds(window) == ["added", "added", "dropped", "evicted", "restored", "evicted", "cleared"]


def test_a_window_is_a_dataclass_to_its_users() -> None:
    """A2.1: for `is_dataclass`, `fields`, `asdict`, `replace` and patterns; also within an AgentContext."""
    window = ContextWindow(100, [ContextItem("k", "v", "s", 2)])
    plain = {"max_tokens": 100, "items": [{"key": "k", "value": "v", "source": "s", "priority": 2}]}
    match window:
        case ContextWindow(max_tokens, items):
            found = (max_tokens, items)

    assert dataclasses.is_dataclass(window)
    assert [one.name for one in dataclasses.fields(window)] == ["max_tokens", "items"]
    assert (
        dataclasses.asdict(window)
        == dataclasses.asdict(AgentContext("t", "e", context_window=window))["context_window"]
        == plain
    )
    assert found == (100, window.items)
    assert dataclasses.replace(window, max_tokens=9) == ContextWindow(9, window.items)
    assert window.max_tokens == 100


def test_a_window_is_a_value() -> None:
    """A2.19: equal by budget and items, unhashable, shown as it is made, copied as one of its own."""
    window = ContextWindow(50, [ITEM], policy="evict_lower_priority")

    assert window == ContextWindow(50, [ITEM])
    assert window != ContextWindow(51, [ITEM])
    assert window != "window"
    assert repr(window) == f"ContextWindow(max_tokens=50, items=[{ITEM!r}])"
    with pytest.raises(TypeError):
        hash(window)
    for copied in (copy.copy(window), copy.deepcopy(window), pickle.loads(pickle.dumps(window))):
        copied.clear()
        assert (copied.policy, copied.max_tokens) == ("evict_lower_priority", 50)
    assert window.items == [ITEM]


@pytest.mark.parametrize("name", ["x", "add", "version"])
def test_no_other_attributes(name: str) -> None:
    """A2.19: what is not there cannot be set, nor what is not to be."""
    with pytest.raises(AttributeError):
        setattr(ContextWindow(), name, 1)
