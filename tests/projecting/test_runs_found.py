"""Runs among the other contexts: what the catalogue says of them, and what a search finds in them."""

from __future__ import annotations

import pytest

import refold
from refold.domain.trajectory.commands import WritePortrait
from refold.domain.trajectory.run import Run


def worked(store: refold.Store) -> Run:
    """Return a run with a node of most kinds of fields, and a message."""
    run = store.run("mia", "s1", agent="analyst")
    query = run.register_query("How many orders came from Köln?", ["plan.pdf"])
    action = run.register_node(
        "Action", "Looks it up.", [query], action="sql_query", params={"limit": 10}, output="seven rows", success=True
    )
    run.register_node(
        "Knowledge", "", [action], label="delivery", knowledge_type="rule", knowledge_content="Parcels go by rail."
    )
    run.register_node("State", "", [action], state='Seven, mostly "small"\nones.')
    run.record_messages({"type": "human", "content": [{"type": "text", "text": "and refunds?"}, {"url": "pic"}]})
    return run


def test_a_run_has_a_row(store: refold.Store) -> None:
    """Whose it is, and how many nodes it registered and did not remove; another round's nodes are not its own."""
    run = worked(store)
    run.remove_node("Knowledge(delivery)")
    later = store.run("mia", "s1", 1)
    later.register_query("And now?")
    later.remove_node("State(state00000)")

    first, second = store.contexts()

    assert (first.kind, first.id, first.user, first.session, first.agent) == (
        "run",
        "mia/s1/0/0",
        "mia",
        "s1",
        "analyst",
    )
    assert (first.items, first.version) == (3, run.version)
    assert (second.items, second.version) == (1, later.version)


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("koln orders", [(2, "query00000")]),
        ("plan", [(2, "query00000")]),
        ("sql_query", [(3, "action00000")]),
        ('"seven rows"', [(3, "action00000")]),
        ("limit", [(3, "action00000")]),
        ("looks", [(3, "action00000")]),
        ("rail", [(4, "delivery")]),
        ("delivery", [(4, "delivery")]),
        ('"small ones"', [(5, "state00000")]),
        ("refunds", [(6, "")]),
        ("pic", []),
        ("success", []),
        ("true", []),
    ],
)
def test_words_of_a_run(store: refold.Store, query: str, places: list[tuple[int, str]]) -> None:
    """What was asked, done, concluded, found and said is found, by its node; not the names of fields."""
    worked(store)

    assert [(hit.version, hit.item) for hit in store.search(query)] == places
    assert {hit.context for hit in store.search(query, kind="run")} == {"mia/s1/0/0" for _ in places}


def test_words_that_came_later(store: refold.Store) -> None:
    """What a node was changed to is found where it was changed, and what a model wrote of it."""
    run = worked(store)
    run.modify_node("State(state00000)", {"state": "Eight after all."})
    run._record(
        WritePortrait(run._graph.resolve("Knowledge(delivery)"), "How parcels travel."), None, None, catch_up=True
    )

    assert [hit.snippet for hit in store.search("eight")] == ["Eight after all."]
    assert [(hit.version, hit.snippet) for hit in store.search("travel")] == [(run.version, "How parcels travel.")]
    assert [hit.version for hit in store.search("seven", context="mia/s1/0/0")] != []
