"""Each address of the page with `.json` at its end is what the page shows, as data."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import refold
from refold.infrastructure.inspector.app import FOR_EVER
from refold.infrastructure.request_guard import NEVER
from tests.support.every_kind import fill

from .asking import Asked
from .test_screens import SCREENS

# For each screen the question that its twin answers, with the parameters.
RUN = {"context": "run:mia/s1/1/0"}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "home": ("contexts", {}),
    "chat": ("view", {"context": "a"}),
    "past": ("view", {"context": "a", "version": 12}),
    "tokens": ("context", {"context": "a"}),
    "left": ("left", {"context": "a"}),
    "left a window": ("left", {"context": "window:w"}),
    "replay": ("replay", {"context": "a", "policy": "items:3", "seen": "24"}),
    "found": ("view", {"context": "a"}),
    "beside": ("view", {"context": "a"}),
    "run diff": ("diff", {"before": "run:mia/s1/1/0@4", "after": "run:mia/s1/1/0"}),
    "events": ("log", {"context": "a"}),
    "queue": ("view", {"context": "queue:q"}),
    "pool": ("view", {"context": "pool:p"}),
    "window": ("view", {"context": "window:w"}),
    "memory": ("view", {"context": "memory:user:mia%40example.org"}),
    "run": ("graph", RUN),
    "node": ("node", {"name": "Table(orders)", "user": "mia", "session": "s1"}),
    "diff": ("diff", {"before": "a@5", "after": "a@29"}),
    "graph": ("lineage", {}),
    "raw": ("view", {"context": "a", "version": 12}),
    "pools": ("contexts", {"kind": "pool,queue"}),
    "nodes": ("nodes", {}),
    "projection": ("projection", {"name": "catalogue", "under": "run:"}),
    "log": ("log", {}),
    "event": ("event", {"event": "chat:a@3"}),
    "search": ("search", {"q": "question"}),
    "usage": ("usage", {}),
    "approvals": ("approvals", {}),
    "projections": ("projections", {}),
}


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    """A store with some of everything, and contexts whose ids end as twins do."""
    with refold.open(":memory:") as store:
        asyncio.run(fill(store))
        store.chat("notes").add_message("user", "said in notes")
        store.chat("notes.json").add_message("user", "said in notes.json")
        yield Asked(store, redact=lambda text: text.replace("said", "****"))


def _twin(asked: Asked, path: str) -> Any:
    # The client decodes an address, and then once more, which servers do not.
    address, mark, query = path.replace("%25", "%2525").partition("?")
    return asked.client.get(f"{address}.json{mark}{query}")


@pytest.mark.parametrize("name", SCREENS)
def test_each_screen_has_a_twin(asked: Asked, name: str) -> None:
    """It is the answer to the screen's question."""
    question, given = QUESTIONS[name]
    answer = _twin(asked, SCREENS[name])

    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == asked(question, **given)


def test_a_twin_of_a_version_is_kept(asked: Asked) -> None:
    """One that names no version may change; and a browser may be at another store under this address tomorrow."""
    start = f"start={asked.meta['cache']}"
    paths = (f"/c/a@3..5?{start}", f"/c/a?tab=left&{start}", f"/c/a@-1?tab=left&{start}", "/c/a@3..5")

    assert [_twin(asked, path).headers["cache-control"] for path in paths] == [FOR_EVER, NEVER, NEVER, NEVER]


def test_a_twin_takes_every_address_of_a_context(asked: Asked) -> None:
    """A time, a name or an open range, as the page does; a run has the graph that it had then."""
    head = asked.store.chat("a", create=False).version
    assert _twin(asked, "/c/a@2099-01-01").json()["version"] == head
    assert _twin(asked, "/c/side@here").json() == asked("view", context="side", version="here")
    assert _twin(asked, "/c/a@..3").json() == asked("diff", before="a@0", after="a@3")
    names = [node["name"] for node in _twin(asked, "/c/run:mia%2Fs1%2F1%2F0@4").json()["nodes"]]
    assert names == list(asked.store.run("mia", "s1", 1, create=False).at(4).graph().nodes)
    node = _twin(asked, "/n/Table(orders)@5?user=mia&session=s1&context=run:mia/s1/1/0")
    assert node.json() == asked("node", name="Table(orders)", user="mia", session="s1")
    assert _twin(asked, "/diff/a@3...side@2").json() == asked("diff", before="a@3", after="side@2")


def test_a_context_whose_id_ends_so_has_its_page(asked: Asked) -> None:
    """And its twin, with the ending twice; texts are hidden there as everywhere."""
    page = asked.client.get("/c/notes.json")
    assert page.headers["content-type"].startswith("text/html")
    (item,) = asked.client.get("/c/notes.json.json").json()["items"]
    assert item["item"]["content"] == ["**** in notes.json"]
    assert asked.client.get("/c/notes.json@2.json").json()["context"] == "chat:notes.json"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/c/none", 404), ("/c/a@999", 404), ("/c/a@1@2", 400), ("/nowhere", 404), ("/c", 404), ("/n/orders", 404),
     ("/diff/a", 404), ("/e/chat:a@999", 404), ("/search", 400), ("/log/more", 404), ("/projections/none", 404),
     ("/pools/more", 404)],
)  # fmt: skip
def test_a_twin_of_nothing_says_so(asked: Asked, path: str, status: int) -> None:
    """As JSON, with the reason."""
    answer = _twin(asked, path)

    assert answer.status_code == status
    assert answer.json()["message"]
