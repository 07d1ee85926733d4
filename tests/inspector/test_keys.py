"""The keys of the page beside its help: each does something somewhere, and none is a secret."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .browser import Watched
from .test_screens import SCREENS

RUN = "/c/run:mia%2Fs1%2F1%2F0"
# Whether the page took a key for itself.
TAKEN = """(selector) => new Promise((done) => {
  const element = document.querySelector(selector);
  element.focus();
  addEventListener("keydown", (event) => setTimeout(() => done(event.defaultPrevented)), { capture: true, once: true });
})"""


def _table(page: Page) -> Any:
    """Return the names of the keys in the help, and of those that do something now."""
    source = str(page.locator("script[src]").get_attribute("src")).replace("page.js", "keys.js")
    return page.evaluate(
        "async (address) => { const { KEYS, bound } = await import(address);"
        " return { told: KEYS.map(([name]) => name), bound: bound() }; }",
        source,
    )


def test_the_help_has_every_key_and_no_other(watched: Watched) -> None:
    """What a screen binds is in the table that makes the help, and each entry of it is bound by some screen."""
    found: set[str] = set()
    told: list[str] = []
    for path in SCREENS.values():
        table = _table(watched.open(path))
        told = table["told"]
        assert set(table["bound"]) <= set(told), path
        found |= set(table["bound"])

    assert sorted(told) == sorted(set(told))
    assert found == set(told)


def test_a_screen_that_is_left_forgets_its_keys(watched: Watched) -> None:
    """The list of contexts has the keys of the frame alone."""
    frame = _table(watched.open("/"))["bound"]
    page = watched.open("/c/a")
    assert set(_table(page)["bound"]) > set(frame)
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.locator("html[data-ready=home]")).to_be_attached()
    assert set(_table(page)["bound"]) == set(frame)


@pytest.mark.parametrize(
    ("path", "element", "keys"),
    [
        (RUN, "canvas.graph", ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "+", "-", "0"]),
        ("/log", "[role=grid]", ["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End"]),
    ],
)
def test_a_list_has_the_keys_of_its_own(watched: Watched, path: str, element: str, keys: list[str]) -> None:
    """As the help says, while it has the focus."""
    page = watched.open(path)
    page.locator(element).focus()
    for key in keys:
        taken = page.evaluate_handle("(selector) => { window.taken = (" + TAKEN + ")(selector); }", element)
        taken.dispose()
        page.keyboard.press(key)
        assert page.evaluate("window.taken"), key


def test_two_capital_letters_are_a_key_as_the_help_writes_it(watched: Watched) -> None:
    """Also where Shift is let go between them."""
    page = watched.open("/c/a@12")
    page.keyboard.press("Shift+G")
    page.keyboard.press("Shift+L")
    expect(page.locator("html[data-ready=log]")).to_be_attached()


def test_escape_closes_the_event_of_a_line(watched: Watched) -> None:
    """From the lines, and from within the event; the lines have the focus then."""
    page = watched.open("/log")
    drawer = page.get_by_label("The event", exact=True)
    page.get_by_role("grid").focus()
    page.keyboard.press("Enter")
    drawer.get_by_role("link").first.focus()
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(page.get_by_role("grid")).to_be_focused()


def test_j_opens_the_page_as_json(watched: Watched) -> None:
    """At its address, with what follows the question mark; the button does the same."""
    page = watched.open("/c/a@12?tab=left")
    with page.expect_popup() as opened:
        page.keyboard.press("j")
    assert opened.value.url.endswith("/c/a@12.json?tab=left")
    with page.expect_popup() as opened:
        page.get_by_label("This page as JSON").click()
    assert opened.value.url.endswith("/c/a@12.json?tab=left")


def test_the_next_event_of_the_newest_is_not_there_yet(watched: Watched) -> None:
    """The page says so, and stays."""
    page = watched.open("/e/chat:side@1")
    head = int(watched.served.store.chat("side", create=False).version)
    for version in range(2, head + 1):
        page.keyboard.press("ArrowRight")
        page.wait_for_url(f"**side%40{version}")
        expect(page.locator("h1")).to_have_text(f"side@{version}")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#said")).to_have_text("there is no later event yet")
    expect(page.locator("h1")).to_have_text(f"side@{head}")


def test_the_help_is_seen_whole(watched: Watched) -> None:
    """On a wide page nothing of it has to be scrolled to, not even the button that closes it."""
    page = watched.open("/")
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog")
    expect(help_).to_be_visible()
    assert help_.evaluate("one => one.scrollHeight - one.clientHeight") <= 0
    page.keyboard.press("Escape")
