"""The log on the page with its calls grouped: a call, what a person decided about it, and its output are one line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import refold

from .asking import Asked
from .browser import Served, Watched, apart, ready

CALLS = 130


def _fill(store: refold.Store) -> None:
    chat = store.chat("calls")
    chat.add_message("user", "Look at both.")
    chat.add_function_call("lookup", '{"order": 7}', call_id="c1")
    chat.add_function_call("refund", '{"order": 8}', call_id="c2")
    chat.approvals.request("c2", because="much money")
    chat.add_function_output("lookup", "in transit", call_id="c1")
    chat.approvals.approve("c2", by="mia")
    chat.add_function_output("refund", "no such order", call_id="c2", is_error=True)
    chat.add_function_call("lookup", '{"order": 9}', call_id="c3")
    many = store.chat("many")
    for number in range(CALLS):
        many.add_function_call("count", f'{{"number": {number}}}', call_id=f"m{number}")
        many.add_function_output("count", str(number), call_id=f"m{number}")


@pytest.fixture(scope="module")
def served(browser_store: refold.Store) -> Iterator[Served]:
    """The store with calls."""
    server = Served(browser_store)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser_store() -> Iterator[refold.Store]:
    """A store with a chat that has calls of every sort, and one with many."""
    with refold.open(":memory:") as store:
        apart(_fill, store)
        yield store


def _words(page: Page) -> Locator:
    return page.locator(".line > :last-child")


def test_lines_say_to_which_call_they_belong(browser_store: refold.Store) -> None:
    """And whether an output is an error; other events have neither."""
    lines = Asked(browser_store)("log", context="calls")["events"]

    assert [(line["version"], line["call_id"], line["call"]) for line in lines[2:]] == [
        (3, "c1", "chat:calls@3"), (4, "c2", "chat:calls@4"), (5, None, "chat:calls@4"), (6, "c1", None),
        (7, None, "chat:calls@4"), (8, "c2", None), (9, "c3", "chat:calls@9"),
    ]  # fmt: skip
    assert not any(line["call_id"] or line["call"] for line in lines[:2])
    assert [line["version"] for line in lines if line["failed"]] == [8]


def test_a_call_and_its_output_are_one_line(watched: Watched) -> None:
    """Parallel calls stay apart; a call that waits says so; the address keeps it, and the line opens to all events."""
    page = watched.open("/c/calls?tab=log")
    expect(page.locator(".line")).to_have_count(9)
    page.get_by_role("button", name="Group calls").click()
    page.wait_for_url("**/c/calls?tab=log&group=1")
    expect(page.locator(".line")).to_have_count(5)
    expect(_words(page)).to_have_text([
        "", "user: Look at both.", 'lookup({"order": 7}) → in transit',
        'refund({"order": 8}) → no such order', 'lookup({"order": 9}) → no output yet',
    ])  # fmt: skip
    expect(page.locator(".line .bad")).to_have_text("no such order")
    page.locator(".line").nth(3).click()
    expect(page.locator(".drawer strong")).to_have_text(
        ["chat:calls@4", "chat:calls@5", "chat:calls@7", "chat:calls@8"]
    )
    page.reload()
    expect(ready(page).locator(".line")).to_have_count(5)
    page.get_by_role("button", name="Group calls").click()
    expect(page.locator(".line")).to_have_count(9)
    page.wait_for_url("**/c/calls?tab=log")


def test_groups_come_in_parts_and_within_the_window(watched: Watched) -> None:
    """Scrolling brings more of them, also where a call and its output come apart; a window leaves out the rest."""
    page = watched.open("/c/many?tab=log&group=1")
    grid = page.get_by_role("grid")
    for _ in range(4):
        grid.evaluate("grid => { grid.scrollTop = grid.scrollHeight; }")
        page.wait_for_timeout(120)
    expect(grid).to_have_attribute("aria-rowcount", str(CALLS + 1))
    expect(page.locator(".line").last).to_contain_text(f"→ {CALLS - 1}")
    page = watched.open("/c/many?tab=log&group=1&win=4-8")
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "3")
    expect(_words(page)).to_have_text([
        'count({"number": 1}) → 1', 'count({"number": 2}) → 2', 'count({"number": 3}) → no output yet',
    ])  # fmt: skip


def test_the_whole_log_is_grouped_by_its_chats(watched: Watched) -> None:
    """Calls of two chats with one id are two; what is written meanwhile joins its call."""
    store = watched.served.store
    page = watched.open("/log?ctx=calls&group=1")
    expect(page.locator(".line").last).to_contain_text("no output yet")
    apart(lambda: store.chat("calls").add_function_output("lookup", "it came back", call_id="c3"))
    expect(page.locator(".line").last).to_contain_text("→ it came back")
    expect(page.locator(".line")).to_have_count(5)


def test_on_a_narrow_page_a_group_fits(browser: Browser, served: Served) -> None:
    """Nothing is wider than the page, and a line shows its version, not the name that all have."""
    profile = Watched(browser, served, viewport={"width": 320, "height": 700})
    page = profile.open("/c/calls?tab=log&group=1")
    expect(page.locator(".line").first.get_by_role("link", name="@1", exact=True)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    profile.close()


def test_an_event_of_the_store_itself_leads_to_no_context(watched: Watched, served: Served) -> None:
    """It is shown in full, and nothing leads from it to a page that is not there."""
    apart(served.store.name_moment, "here")
    page = watched.open("/log?q=here")
    line = page.locator(".line", has_text="moment_named")
    expect(line.locator("a")).to_have_count(1)
    line.click()
    expect(page.locator(".drawer a")).to_have_count(1)
    page = watched.open("/e/store:moments@1")
    expect(page.locator("main")).to_contain_text("moment_named")
    expect(page.get_by_role("link", name="the context at this version")).to_have_count(0)
    expect(page.get_by_role("button", name="Next")).to_be_hidden()


def test_the_address_of_the_log_has_the_line(watched: Watched) -> None:
    """Who gets it sees the same lines; at the beginning there is nothing to say."""
    page = watched.open("/log?ctx=many")
    page.get_by_role("grid").focus()
    page.keyboard.press("PageDown")
    page.wait_for_url("**/log?ctx=many&row=*")
    first = page.locator(".line").first.inner_text()
    page.reload()
    expect(ready(page).locator(".line").first).to_have_text(first.replace("\n", ""))
    page.get_by_role("grid").focus()
    page.keyboard.press("Home")
    page.wait_for_url("**/log?ctx=many")
