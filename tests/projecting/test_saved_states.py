"""The data that frameworks save, over all chats of a store."""

import pytest

import refold
from refold.domain.errors import NotFoundError


def saved(store: refold.Store, framework: str, *where: str) -> list[tuple[str, str, int]]:
    """Return context, name and version of what is saved."""
    return [(row.context, row.name, row.version) for row in store.saved_states(framework, *where)]


def test_the_last_saves_of_all_chats(store: refold.Store) -> None:
    """A key that was saved again counts once, and a deleted one not at all; a fork begins with none."""
    chats = [store.chat(name) for name in ("a", "a-b", "b")]
    for chat in chats:
        chat.add_message("user", "q")
        chat.saved_states.save("graph", {"step/1": {}, "step/2": {}, "usage": {"n": 1}})
    chats[0].saved_states.save("graph", {"step/1": {"n": 2}})
    chats[0].saved_states.save("other", {"step/1": {}})
    chats[2].saved_states.save("graph", {"usage": None, "step/2": None})
    chats[0].fork("child")

    assert saved(store, "graph", "a") == [("chat:a", "step/2", 4), ("chat:a", "usage", 5), ("chat:a", "step/1", 6)]
    assert saved(store, "graph", "b") == saved(store, "graph", "chat:b") == [("chat:b", "step/1", 3)]
    with pytest.raises(NotFoundError):
        saved(store, "graph", "nobody")
    assert saved(store, "graph", "child") == []
    assert [row.context for row in store.saved_states("graph", prefix="usage")] == ["chat:a", "chat:a-b"]
    assert saved(store, "other") == [("chat:a", "step/1", 7)]
    (row,) = store.saved_states("graph", "a", prefix="step/1")
    assert chats[0].saved_states.at(row.version) == ("step/1", {"n": 2}, 6)
