"""The graph of a run in the middle of a chat of its session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

import refold

from .browser import Served, Watched, apart, ready


def _fill(store: refold.Store) -> None:
    chat = store.chat("c", user="mia", session="s1")
    run = store.run("mia", "s1", 0)
    store.chat("alone").add_message("user", "no session")
    store.run("mia", "s1", 1).register_query("and then?")
    leaves = store.chat("leaves")
    with store.transaction():
        for number in range(520):
            leaves.add_message("user", f"line {number}")
    leaves.evict([item.id for item in leaves.items], reason="old")
    wide = store.window("wide", max_tokens=100_000)
    for number in range(520):
        wide.add(refold.BudgetItem(f"key {number:03}", f"value {number}", "tool", 1))
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


def test_an_address_names_the_run_and_the_node(watched: Watched, served: Served) -> None:
    """What is open and chosen there is in the address; keys open, close and clear it."""
    (name,) = served.store.run("mia", "s1", 1).nodes()
    page = watched.open(f"/c/c@4?run=run:mia%2Fs1%2F1%2F0&node={name}")
    graph = page.locator(".beside-graph")
    expect(graph.get_by_label("Run", exact=True)).to_have_value("run:mia/s1/1/0")
    expect(graph.locator(".drawer h2")).to_have_text(name)
    page.wait_for_url("**&node=Query*")
    page.keyboard.press("Escape")
    expect(graph.locator(".drawer h2")).to_have_count(0)
    page.wait_for_url("**/c/c@4?run=run%3Amia%2Fs1%2F1%2F0")
    graph.get_by_label("Run", exact=True).select_option("run:mia/s1/0/0")
    page.wait_for_url("**/c/c@4?run=run%3Amia%2Fs1%2F0%2F0")
    graph.get_by_role("button", name="Table", exact=True).click()
    graph.locator(".line.node").nth(1).click()
    page.wait_for_url("**&node=Table%28t0%29")
    expect(graph.locator(".drawer")).to_contain_text("/t.csv")
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.wait_for_url("**/n/Table(t0)*")
    page.go_back()
    expect(ready(page).locator(".drawer h2")).to_have_text("Table(t0)")
    page.keyboard.press("m")
    expect(graph).to_have_count(0)
    page.wait_for_url("**/c/c@4")
    page.keyboard.press("m")
    expect(graph).to_be_visible()


def test_a_run_that_comes_late_is_not_drawn_over_the_chosen_one(watched: Watched) -> None:
    """Who chooses another run while the first is on its way sees the other one, whichever comes last."""
    page = watched.page
    late: list[Route] = []

    def hold(route: Route) -> None:
        if "mia%2Fs1%2F1" in route.request.url and not late:
            late.append(route)
        else:
            route.continue_()

    page.route("**/api/graph?*", hold)
    with page.expect_request("**/api/graph?*"):
        watched.open("/c/c@4?run=run:mia%2Fs1%2F1%2F0")
    graph = page.locator(".beside-graph")
    graph.get_by_label("Run", exact=True).select_option("run:mia/s1/0/0")
    graph.get_by_role("button", name="Table", exact=True).click()
    shown = graph.locator(".line.node").count()
    assert shown > 1
    with page.expect_response("**/api/graph?*mia%2Fs1%2F1*"):
        late[0].continue_()
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(graph.locator(".line.node")).to_have_count(shown)
    expect(graph.get_by_label("Run", exact=True)).to_have_value("run:mia/s1/0/0")


def test_a_narrow_page_has_the_graph_in_a_tab(browser: Browser, served: Served) -> None:
    """Below 900 pixels items, details and graph take turns, and none makes the page scroll sideways."""
    profile = Watched(browser, served, viewport={"width": 320, "height": 600}, device_scale_factor=2)
    page = profile.open("/c/c@4")
    page.get_by_role("tab", name="Graph").click()
    expect(page.get_by_role("application")).to_be_visible()
    expect(page.locator(".panes > .view")).to_be_hidden()
    assert page.get_by_role("application").evaluate("one => one.clientHeight") > 150
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".drawer h2")).to_be_visible()
    assert page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth]") == [320, 320]
    assert page.locator("main").evaluate("main => main.scrollWidth") <= 320
    page.get_by_role("tab", name="Details").click()
    expect(page.get_by_role("application")).to_be_hidden()
    page.get_by_role("tab", name="Items").click()
    expect(page.locator(".panes > .view")).to_be_visible()
    profile.close()


def test_what_is_cut_says_so_and_goes_on(watched: Watched) -> None:
    """More than 500 items that left, or that a window holds, come a part at a time, and the page says so."""
    page = watched.open("/c/leaves?tab=left")
    expect(page.locator(".panes .rest")).to_contain_text("The newest 500 of 520 departures.")
    expect(page.locator("tbody tr")).to_have_count(500)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("tbody tr")).to_have_count(520)
    expect(page.locator("tbody tr").last).to_contain_text("line 0")
    expect(page.locator(".panes .rest")).to_have_count(0)
    watched.open("/c/window:wide")
    expect(page.locator(".panes .rest")).to_contain_text("The last 500 items.")
    expect(page.locator("tbody tr").first).to_contain_text("value 20")
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("tbody tr")).to_have_count(520)
    expect(page.locator("tbody tr").first).to_contain_text("value 0")
    expect(page.locator(".panes .rest")).to_have_count(0)


def test_what_was_asked_for_stays_while_others_write(watched: Watched, served: Served) -> None:
    """A new version does not take back the part of a list that somebody asked for."""
    page = watched.open("/c/window:wide")
    rows = page.locator("tbody tr")
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(520)
    apart(served.store.window("wide").add, refold.BudgetItem("key new", "value new", "tool", 1))
    expect(rows).to_have_count(521)
    expect(rows.first).to_contain_text("value 0")
    expect(rows.last).to_contain_text("value new")
