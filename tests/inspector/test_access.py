"""The page without a mouse, for a screen reader, with the colours of the person, and without motion."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from .browser import Served, Watched
from .test_page import MOVING, SCREENS

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
# The colours of a canvas, each with how often it is there.
COLOURS = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const found = {};
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] > 200) { const key = [...data.slice(at, at + 3)].join(","); found[key] = (found[key] ?? 0) + 1; }
  }
  return found;
}"""
HEADER = """
- banner:
  - link "Refold"
  - navigation "Screens":
    - link "Contexts"
    - link "Pools"
    - link "Nodes"
    - link "Log"
    - link "Forks"
    - link "Approvals"
    - link "Usage"
    - link "Projections"
  - search:
    - searchbox "Search all contexts"
  - text: Live
  - button "Light or dark"
  - button "Keys"
"""
MAIN = {
    "home": """
- heading "Contexts" [level=1]
- combobox "Kind"
- textbox "User"
- textbox "Session"
- table
- paragraph:
  - button "Show more"
""",
    "chat": """
- heading "a" [level=1]
- slider
- tablist:
  - tab "Items" [selected]
- tabpanel:
  - feed
  - complementary "Details"
""",
    "log": """
- heading "Log" [level=1]
- textbox "Type"
- textbox "Actor"
- grid "Events"
""",
    "projections": """
- heading "Projections" [level=1]
- table
- region "The whole store":
  - paragraph:
    - button "Check the whole store"
""",
}


@pytest.mark.parametrize("name", SCREENS)
def test_each_screen_is_walked_with_keys_alone(kept: Callable[..., Watched], name: str) -> None:
    """Tab begins at the skip link, reaches the end and never stays; each stop is seen, named, and has a ring."""
    page = kept().open(SCREENS[name])
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


@pytest.mark.parametrize("name", MAIN)
def test_landmarks_are_what_a_screen_reader_finds(kept: Callable[..., Watched], name: str) -> None:
    """The header is the same everywhere; each screen has its heading and its parts in the order of reading."""
    page = kept().open(SCREENS[name])
    expect(page.locator(".state")).to_have_text("Live")
    expect(page.locator("body")).to_match_aria_snapshot(HEADER)
    expect(page.get_by_role("main")).to_match_aria_snapshot(MAIN[name])
    assert page.get_by_role("main").count() == page.get_by_role("banner").count() == 1
    assert page.get_by_role("heading", level=1).count() == 1


def test_the_slider_says_where_one_is(watched: Watched) -> None:
    """The version, what happened there, and what the context holds then."""
    slider = watched.open("/c/scrubbed@12").get_by_role("slider")
    chat = watched.served.store.chat("scrubbed", create=False).at(12)
    expect(slider).to_have_attribute(
        "aria-valuetext",
        re.compile(rf"^version 12 of 61 · message added .*, 11 items, {chat.estimated_tokens()} tokens$"),
    )
    watched.page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^version 1 of 61 .*, 0 items, 0 tokens$"))


@pytest.mark.parametrize("name", ["chat", "run", "tokens", "log"])
def test_drawings_have_the_colours_of_the_person(browser: Browser, served: Served, name: str) -> None:
    """With colours of one's own, canvases are drawn in these: nothing is dark on dark."""
    profile = Watched(browser, served, forced_colors="active", color_scheme="dark", reduced_motion="reduce")
    page = profile.open(SCREENS[name])
    back = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
    for canvas in page.locator("canvas:visible").all():
        seen = {tuple(map(int, one.split(","))): count for one, count in canvas.evaluate(COLOURS).items()}
        far = [one for one in seen if sum(abs(a - b) for a, b in zip(one, back, strict=True)) >= 200]
        assert far or not seen, (name, seen)
    assert page.evaluate(MOVING) == []
    profile.close()
