"""Erasing nodes of runs: what later rounds have of them leaves with them, and what is alike by its name stays."""

from __future__ import annotations

from typing import Any

import pytest

import refold
from refold.domain.positions import BEGINNING
from refold.trajectory import Run
from tests.trust.stores import WORD


def events_of(store: refold.Store) -> str:
    """Return all events, as they are printed."""
    return repr(store.log.read_all(after=BEGINNING, limit=100).events)


def table_of(run: Run, description: str = "", **new: Any) -> str:
    """Register the table `t` in a new round; without new attributes it is met again."""
    asked = run.register_query("which?")
    read = run.register_node("Action", "", [asked], action="read", params={}, output="", success=True)
    return run.register_node("Table", description, [read], label="t", **new)


@pytest.mark.parametrize("item", [None, "Table(t)"])
def test_what_a_later_round_says_of_a_node(item: str | None) -> None:
    """It has what the node was before, so it leaves with the node, or with the round that has the node."""
    with refold.open(":memory:") as store:
        run = store.run("mia", "s", 0)
        asked = run.register_query("which?")
        read = run.register_node("Action", "", [asked], action="read", params={}, output="", success=True)
        table = run.register_node("Table", WORD, [read], label="t", path="/t")
        later = store.run("mia", "s", 1)
        later.register_query("and then?")
        later.modify_node(table, {"description": "another one"})
        assert WORD in repr(store.log.read_events(later.stream_id))

        told = store.erase(context=run.stream_id, item=item, why="x", dry_run=False)

        assert [one.context for one in told.contexts] == [run.stream_id, later.stream_id]
        assert told.contexts[1].events == 1
        assert WORD not in repr(store.log.read_all(after=BEGINNING, limit=100).events)
        assert store.verify().problems == ()


@pytest.mark.parametrize("item", [None, "Table(t)", "@4"])
def test_a_node_that_is_met_again(item: str | None) -> None:
    """It has the attributes that it had, in the same round and in later ones; another node of the later round stays."""
    with refold.open(":memory:") as store:
        first = store.run("mia", "s", 0)
        for number in range(3):
            run = store.run("mia", "s", number)
            asked = run.register_query("which?")
            read = run.register_node("Action", "", [asked], action="read", params={}, output="", success=True)
            for _ in range(2):
                new: dict[str, Any] = {} if number else {"path": f"/{WORD}"}
                run.register_node("Table", "" if number else WORD, [read], label="t", **new)
            run.register_node("Table", "this stays", [read], label=f"another{number}", path="/t")
        assert repr(store.log.read_all(after=BEGINNING, limit=100).events).count(WORD) > 6

        store.erase(context=first.stream_id, item=item, why="x", dry_run=False)

        events = repr(store.log.read_all(after=BEGINNING, limit=100).events)
        assert WORD not in events
        assert events.count("this stays") == (3 if item else 2)
        assert store.verify().problems == ()


def test_a_node_that_is_met_again_along_rounds() -> None:
    """A round that goes back over the second one alone has it from there."""
    with refold.open(":memory:") as store:
        first = store.run("mia", "s", 0, 1)
        table_of(first, WORD, path="/x")
        second = store.run("mia", "s", 1, 0)
        second.restore_previous_runs(sub_id=1)
        table_of(second)
        third = store.run("mia", "s", 2, 0)
        assert third.restore_previous_runs() == [1]
        table_of(third)

        store.erase(context=first.stream_id, why="x", dry_run=False)

        assert WORD not in events_of(store)


@pytest.mark.parametrize("item", [None, "@3"])
def test_a_change_of_a_node_that_is_met_again(item: str | None) -> None:
    """What is erased is the change by a round; a later one met the node as it was behind it."""
    with refold.open(":memory:") as store:
        table = table_of(store.run("mia", "s", 0), "harmless", path="/x")
        second, third = store.run("mia", "s", 1), store.run("mia", "s", 2)
        second.restore_previous_runs()
        second.modify_node(table, {"description": WORD})
        third.restore_previous_runs()
        table_of(third)
        assert events_of(store).count(WORD) == 2

        store.erase(context=second.stream_id, item=item, why="x", dry_run=False)

        assert WORD not in events_of(store)
        assert "harmless" in events_of(store)


def test_an_action_of_the_same_name_stays() -> None:
    """Only data is met again; each round has actions of its own."""
    with refold.open(":memory:") as store:
        for number in range(2):
            run = store.run("mia", "s", number)
            run.restore_previous_runs()
            asked = run.register_query("which?")
            output = f"output of round {number}"
            run.register_node(
                "Action", "", [asked], label="plan", action="plan", params={}, output=output, success=True
            )

        told = store.erase(context="run:mia/s/0/0", item="Action(plan)", why="x", dry_run=False)

        assert [one.context for one in told.contexts] == ["run:mia/s/0/0"]
        assert "output of round 1" in events_of(store)
