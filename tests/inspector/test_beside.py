"""The graph of a run in the middle of a chat of its session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

import refold

from .browser import Served, Watched, apart, ready


def _fill(store: refold.Store) -> None:
    chat = store.chat("c", user="mia", session="s1")
    run = store.run("mia", "s1", 0)
    store.chat("alone").add_message("user", "no session")
    last = run.register_query("which one?")
    for number in range(3):
        chat.add_message("user", f"look for {number}")
        last = run.register_node("Table", "", [last], "reads", f"t{number}", path="/t.csv")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store with a chat and a run of one session, and a chat of none."""
    with refold.open(str(tmp_path_factory.mktemp("beside") / "s.db")) as store:
        apart(_fill, store)
        server = Served(store)
        yield server
        server.stop()


def _later(page: Page) -> int:
    """Return how many nodes of the table are dimmed, as they came after the version that is shown."""
    nodes = page.locator(".beside-graph .line.node")
    return int(nodes.evaluate_all("all => all.filter((one) => one.style.opacity !== '1').length"))


def test_the_graph_goes_along_with_the_chat(watched: Watched, served: Served) -> None:
    """It is as it was when the version of the chat was written, is asked for once, and stays for the next chat."""
    page = watched.open("/c/c@4")
    page.get_by_role("button", name="Graph", exact=True).click()
    graph = page.locator(".beside-graph")
    expect(graph.get_by_role("application")).to_be_visible()
    graph.get_by_role("button", name="Table", exact=True).click()
    expect(graph.locator(".line.node")).to_have_count(4)
    watched.asked.clear()
    counts = []
    for key in ("End", "ArrowLeft", "ArrowLeft", "Home"):
        page.keyboard.press(key)
        counts.append(_later(page))
    assert counts == sorted(counts)
    assert counts[0] <= 1 < counts[-1]
    assert set(watched.asked) <= {"/api/items", "/api/view"}
    graph.locator(".line.node").last.click()
    expect(graph.locator(".drawer h2")).to_have_text("Table(t2)")
    run = served.store.run("mia", "s1", 0)
    apart(lambda: run.register_node("Table", "", ["Table(t2)"], "reads", "t3", path="/t.csv"))
    expect(graph.locator(".line.node")).to_have_count(5)
    page.reload()
    expect(ready(page).locator(".beside-graph")).to_be_visible()
    graph.get_by_role("link", name="Open", exact=True).click()
    page.wait_for_url("**/c/run:mia*")
    watched.open("/c/alone")
    expect(page.get_by_role("button", name="Graph", exact=True)).to_be_hidden()
