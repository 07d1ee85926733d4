"""What holds for every screen: each is opened once, and all tests look at it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Literal, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect

from .browser import WIDE, Served, Watched

SCREENS = {
    "home": "/",
    "chat": "/c/a",
    "past": "/c/a@12",
    "tokens": "/c/a?tab=tokens",
    "left": "/c/a?tab=left",
    "left a window": "/c/window:w?tab=left",
    "replay": "/c/a?tab=replay&policy=items:3&call=24",
    "found": "/c/a?q=question",
    "beside": "/c/a?run=run:mia%2Fs1%2F1%2F0&node=Table(orders)",
    "run diff": "/c/run:mia%2Fs1%2F1%2F0@4..",
    "events": "/c/a?tab=log",
    "queue": "/c/queue:q",
    "pool": "/c/pool:p",
    "window": "/c/window:w",
    "memory": "/c/memory:user:mia%2540example.org",
    "run": "/c/run:mia%2Fs1%2F1%2F0",
    "node": "/n/Table(orders)?user=mia&session=s1",
    "diff": "/c/a@5..29",
    "graph": "/graph",
    "raw": "/c/a@12?tab=raw",
    "pools": "/pools",
    "nodes": "/n",
    "projection": "/projections/catalogue?under=run:",
    "log": "/log",
    "event": "/e/chat:a@3",
    "search": "/search?q=question",
    "usage": "/usage",
    "approvals": "/approvals",
    "projections": "/projections",
}
MOVING = """() => [...document.querySelectorAll("*")].filter((one) => {
  const style = getComputedStyle(one);
  return style.animationName !== "none" || style.transitionDuration.split(",").some((time) => parseFloat(time) > 0);
}).map((one) => one.outerHTML.slice(0, 120))"""
NARROW: ViewportSize = {"width": 320, "height": 600}
STEPS_MAX = 150
# What has the focus: a number of its own, its name for a screen reader, whether it is seen, and whether a ring is.
FOCUSED = """() => {
  const one = document.activeElement;
  window.numbers ??= new Map();
  if (!one || one === document.body) return null;
  if (!window.numbers.has(one)) window.numbers.set(one, window.numbers.size);
  const box = one.getBoundingClientRect(), style = getComputedStyle(one);
  const name = one.getAttribute("aria-label") || one.getAttribute("title") || one.textContent.trim()
    || [...(one.labels ?? [])].map((label) => label.textContent).join(" ") || one.placeholder;
  return { number: window.numbers.get(one), name, tag: one.outerHTML.slice(0, 120),
    seen: box.width > 0 && box.height > 0 && style.visibility === "visible",
    ring: style.outlineStyle !== "none" || one.id === "main" };
}"""


class Screen(NamedTuple):
    """A screen that is shown."""

    name: str
    page: Page


@pytest.fixture(scope="module")
def profile(browser: Browser, served: Served) -> Iterator[Watched]:
    """The profile that opens one screen after the other, each on a narrow page."""
    watched = Watched(browser, served, viewport=NARROW, device_scale_factor=2)
    yield watched
    watched.close()


@pytest.fixture(scope="module", params=SCREENS)
def opened(request: pytest.FixtureRequest, profile: Watched) -> Screen:
    """One of the screens: the tests of one come behind one another."""
    profile.page.set_viewport_size(NARROW)
    page = profile.open(SCREENS[request.param])
    # Rows of a list are alike: those on the first screen stand for all.
    page.evaluate("document.querySelectorAll('tbody tr:nth-child(n + 25)').forEach((row) => row.remove())")
    return Screen(request.param, page)


@pytest.fixture
def narrow(opened: Screen, profile: Watched) -> Iterator[Screen]:
    """The screen as it was opened; the test fails on each fault that only the browser's console shows."""
    yield opened
    profile.settle()


@pytest.fixture
def screen(narrow: Screen) -> Screen:
    """The screen on a wide page."""
    narrow.page.set_viewport_size(WIDE)
    return narrow


def test_each_screen_fits_a_narrow_page(narrow: Screen) -> None:
    """At 320 pixels, which is 640 at 200 % zoom, nothing makes the whole page scroll sideways."""
    page = narrow.page
    assert page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth]") == [320, 320]
    assert page.locator("main").evaluate("main => main.scrollWidth") <= 320
    # Nor is what the screen is about left out.
    tables = page.locator("main .scroll:not([hidden]) > table")
    assert tables.evaluate_all("all => all.filter((one) => !one.clientHeight).map((one) => one.outerHTML)") == []


def test_each_screen_shows_what_the_store_holds(screen: Screen) -> None:
    """Its own text is there; axe finds nothing in either theme; and nothing moves where that is not wanted."""
    own = {
        "home": "many000", "chat": "question 5", "past": 'look({"id": 7})', "tokens": "The largest items",
        "left": "truncate", "left a window": "stale", "replay": "first difference", "found": "6 found",
        "beside": "History of its attributes",
        "run diff": "description", "events": "message_added", "queue": "about 4", "pool": "i9", "window": "value c",
        "memory": "lang", "run": "Table", "node": "the orders of 0", "diff": "unchanged", "graph": "forked from a@27",
        "raw": '"version": 12', "pools": "q2", "nodes": "round 1?", "projection": "run:mia/s1/1/0",
        "log": "user=mia session=s1", "event": "trace-1", "search": "question 5", "usage": "planner",
        "approvals": "much money", "projections": "catalogue",
    }  # fmt: skip
    name, page = screen

    expect(page.locator("main")).to_contain_text(own[name])
    expect(page.locator(".state")).to_have_text("Live")
    assert page.title().endswith("· Refold")
    # Axe is put into the page by the debugger, which no policy of the page hinders.
    page.evaluate(Axe().axe_script)
    # The themes differ in nothing but colours: test_themes_differ_in_colours_alone.
    asked: tuple[tuple[Literal["light", "dark"], dict[str, list[str]]], ...] = (
        ("light", {}), ("dark", {"runOnly": ["color-contrast", "link-in-text-block"]}),
    )  # fmt: skip
    for scheme, rules in asked:
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate("(asked) => axe.run(asked)", {"resultTypes": ["violations"], **rules})["violations"]
        assert [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found] == [], scheme
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(MOVING) == []


@pytest.mark.long
def test_themes_differ_in_colours_alone() -> None:
    """What is so on a light page but for its colours is so on a dark one: the rules of a theme give colours."""
    css = (files("refold.infrastructure.inspector") / "static/page.css").read_text()
    themes = re.findall(r"data-theme[^{}]*\{([^{}]*)\}", css)
    assert len(themes) == css.count("data-theme") - 1  # One rule is for two.
    for theme in themes:
        assert re.sub(r"(color-scheme: dark|--[a-z-]+: (#[0-9a-f]{6}|[A-Z][A-Za-z]+));", "", theme).split() == []


def test_each_screen_is_walked_with_keys_alone(screen: Screen) -> None:
    """Tab begins at the skip link, reaches the end and never stays; each stop is seen, named, and has a ring."""
    page = screen.page
    stops = _walk(page)

    assert stops[0]["name"] == "Skip to the content"
    assert [stop["tag"] for stop in stops if not stop["seen"] or not stop["name"] or not stop["ring"]] == []
    assert len({stop["number"] for stop in stops}) == len(stops)
    assert len(stops) >= 10
    page.keyboard.press("Tab")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def _walk(page: Page) -> list[dict[str, str | bool | int]]:
    """Return the stops of the Tab key from the beginning of the page until it leaves it, or STEPS_MAX of them."""
    stops: list[dict[str, str | bool | int]] = []
    page.evaluate("() => document.activeElement.blur()")
    for _ in range(STEPS_MAX):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUSED)
        if stop is None or (stops and stop["number"] == 0):
            break
        stops.append(stop)
    return stops
