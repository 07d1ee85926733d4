"""The numbers that a question may have: from which to which, and how much comes where none is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.inspector.parameters import Parameters

from .asking import Asked

ENDLESS = 1 << 53
CHAT, RUN = {"context": "chat:a"}, {"name": "Table(orders)"}
# The question or the change, what it needs besides, the parameter, its least and its largest value.
BOUNDS: list[tuple[str, dict[str, str], str, int, int]] = [
    ("contexts", {}, "limit", 1, 500),
    ("context", CHAT, "version", 0, ENDLESS),
    ("intervals", CHAT, "version", 1, 3),
    ("view", CHAT, "tail", 1, 500),
    ("view", CHAT, "skip", 0, ENDLESS),
    ("left", CHAT, "limit", 1, 500),
    ("left", CHAT, "skip", 0, ENDLESS),
    ("replay", {**CHAT, "policy": "all"}, "seen", 0, ENDLESS),
    ("lineage", {}, "limit", 1, 500),
    ("node", RUN, "round", 0, ENDLESS),
    ("node", RUN, "sub", 0, ENDLESS),
    ("nodes", {}, "limit", 1, 500),
    ("log", {}, "limit", 1, 500),
    ("log", {}, "row", 0, ENDLESS),
    ("log", CHAT, "row", 0, ENDLESS),
    ("log", CHAT, "after", 0, ENDLESS),
    ("histogram", {}, "buckets", 1, 2_000),
    ("projection", {"name": "catalogue"}, "limit", 1, 500),
    ("search", {"q": "hello"}, "limit", 1, 500),
    ("fork", {**CHAT, "name": "b"}, "version", 1, ENDLESS),
    ("merge", {"source": "chat:a", "target": "chat:a"}, "version", 0, ENDLESS),
]


def filled(store: refold.Store, labels: list[str]) -> None:
    """Add a run with a query, and with a node for each label."""
    run = store.run("u", "s", 0)
    query = run.register_query("which?")
    for label in labels:
        run.register_node("Table", "", [query], "reads", label, path="/t.csv")


@pytest.fixture(scope="module")
def page() -> Iterator[Asked]:
    """A store in memory with a chat of three versions, one of which took an item out, and a run with a node."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        chat.evict(chat.add_message("user", "hello").id)
        filled(store, ["orders"])
        yield Asked(store, write=True)


@pytest.mark.parametrize(("question", "beside", "name", "least", "most"), BOUNDS)
def test_a_number_has_bounds(
    page: Asked, question: str, beside: dict[str, str], name: str, least: int, most: int
) -> None:
    """Both are allowed; what is beyond them is refused, and the answer says from where to where it goes."""
    is_change = question in ("fork", "merge")
    for value in (least - 1, least, most, most + 1):
        given: dict[str, Any] = {**beside, name: value}
        answer = page.change(question, **given) if is_change else page.client.get(f"/api/{question}", params=given)

        fault = {
            "error": "InvalidInputError",
            "message": f"{name} is {value}: it is a number from {least:,} to {most:,}",
        }
        assert (answer.json() == fault) == (not least <= value <= most), answer.text


def test_how_much_comes_unasked() -> None:
    """So much of each, and one more only says that there is more."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        with store.transaction():
            filled(store, [str(number) for number in range(200)])
            for _ in range(100):
                chat.add_message("user", "hello")
        page = Asked(store)
        counts = {
            "log": len(page("log")["events"]),
            "nodes": len(page("nodes")["nodes"]),
            "search": len(page("search", q="hello")),
            "projection": len(page("projection", name="search")["rows"]),
        }
        for number in range(198):
            store.chat(f"b{number}")
        whole = page("contexts")
        store.chat("c")
        cut = page("contexts")

    assert counts == {"log": 100, "nodes": 200, "search": 50, "projection": 50}
    assert (len(whole["contexts"]), whole["cursor"]) == (200, None)
    assert (len(cut["contexts"]), cut["cursor"]) == (200, "chat:c")


MISSING = object()
PARAMETERS: list[tuple[str, tuple[Any, ...], Any, Any]] = [
    ("text", (), MISSING, None),
    ("text", (), "", None),
    ("text", (), "a", "a"),
    ("text", (), 7, "p is 7: give a text"),
    ("required", (), "a", "a"),
    ("required", (), "", "the parameter p is missing"),
    ("whole", (3,), MISSING, 3),
    ("whole", (3,), "", 3),
    ("whole", (3,), None, 3),
    ("whole", (3,), "7", 7),
    ("whole", (3,), 7, 7),
    ("whole", (3,), "x", "p is 'x': give a whole number"),
    ("whole", (3,), 1.5, "p is 1.5: give a whole number"),
    ("whole", (3,), True, "p is True: give a whole number"),
    ("whole", (3,), [], "p is []: give a whole number"),
    ("flag", (), MISSING, False),
    ("flag", (), True, True),
    ("flag", (), "true", "p is 'true': give true or false"),
    ("many", (2,), MISSING, "the parameter p is missing"),
    ("many", (2,), [1, None], [1, None]),
    ("many", (2,), [], "p is '[]': give a list with one value at least"),
    ("many", (2,), [1, 2, 3], "p has 3 values: give 2 at most"),
]


@pytest.mark.parametrize(("kind", "bounds", "value", "expected"), PARAMETERS)
def test_a_parameter_is_of_its_kind(kind: str, bounds: tuple[Any, ...], value: Any, expected: Any) -> None:
    """What is of another kind is refused, with its name and what to give; what is missing has its default."""
    given = Parameters({} if value is MISSING else {"p": value}, ())
    try:
        found = getattr(given, kind)("p", *bounds)
    except InvalidInputError as error:
        found = str(error)

    assert (found, type(found)) == (expected, type(expected))
