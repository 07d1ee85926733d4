"""The page without a mouse, for a screen reader, with the colours of the person, and without motion."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from .browser import Served, Watched
from .test_screens import MOVING, SCREENS

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
    """The version, what happened there, and what the context holds then; with keys of the page it is said, too."""
    slider = watched.open("/c/scrubbed@12").get_by_role("slider")
    chat = watched.served.store.chat("scrubbed", create=False).at(12)
    expect(slider).to_have_attribute(
        "aria-valuetext",
        re.compile(rf"^version 12 of 61 · message added .*, 11 items, {chat.estimated_tokens()} tokens$"),
    )
    watched.page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^version 1 of 61 .*, 0 items, 0 tokens$"))
    for _ in range(2):
        watched.page.keyboard.press("ArrowRight")
    expect(watched.page.locator("#said")).to_have_text(re.compile("^3 of 61 · message added"))


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


def test_what_is_chosen_is_seen_in_the_colours_of_the_person(browser: Browser, served: Served) -> None:
    """These have no soft backgrounds: a chosen line has a frame, and a tab that is not chosen has no border."""
    profile = Watched(browser, served, forced_colors="active")
    page = profile.open("/c/a@12")
    page.locator(".item").first.click()
    expect(page.locator(".item[aria-current]")).to_have_css("outline-style", "solid")
    tabs = page.get_by_role("tab")
    borders = tabs.evaluate_all("all => all.map((one) => getComputedStyle(one).borderBottomColor)")
    assert borders.count(borders[0]) == 1
    page = profile.open("/c/run:mia%2Fs1%2F1%2F0")
    page.get_by_role("button", name="Table").click()
    page.get_by_role("row").last.click()
    expect(page.get_by_role("row", selected=True)).to_have_css("outline-style", "solid")
    profile.close()


def test_items_are_chosen_with_keys(watched: Watched, served: Served) -> None:
    """Up and down go from item to item, also beyond the screen, and the focus stays with the one that is chosen."""
    page = watched.open("/c/long")
    places = "all => all.map((one) => Number(one.dataset.place))"
    chosen = page.locator(".item[aria-current=true]")
    page.get_by_role("feed").focus()
    page.keyboard.press("ArrowDown")
    expect(chosen).to_be_focused()
    first = int(chosen.get_attribute("data-place") or -1)
    for _ in range(30):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("Control+ArrowUp")
    expect(chosen).to_have_attribute("data-place", str(first - 30))
    expect(chosen).to_be_focused()
    expect(chosen).to_be_in_viewport()
    expect(page.locator("aside")).to_contain_text(f"long {first - 30}")
    drawn = page.locator(".item").evaluate_all(places)
    assert drawn == sorted(drawn)
    page.get_by_role("feed").hover()
    page.mouse.wheel(0, -20_000)
    expect(page.locator('.item[data-place="0"]')).to_be_visible()
    drawn = page.locator(".item").evaluate_all(places)
    assert drawn == sorted(drawn)
    assert page.evaluate("document.activeElement !== document.body")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("slider")).to_have_value(str(served.store.chat("long", create=False).version - 1))


@pytest.mark.parametrize(
    ("path", "pressed", "goes_on"),
    [
        ("/c/a?q=question", "Why is it here?", "section.why"),
        ("/c/scrubbed@12", "Return to the newest", "section.context"),
        ("/c/a@5..29", "unchanged", "main"),
        ("/log?ctx=brief", "brief@1", "main"),
    ],
)
def test_the_focus_goes_on_where_what_had_it_is_gone(watched: Watched, path: str, pressed: str, goes_on: str) -> None:
    """In the nearest part of the page that stays, from which Tab and a screen reader go on."""
    page = watched.open(path)
    if "q=" in path:
        page.locator(".found button").first.click()
    one = page.locator("main").locator("button, a").filter(has_text=pressed).first
    one.focus()
    page.keyboard.press("Enter")
    expect(one).to_be_hidden()
    expect(page.locator(goes_on).last).to_be_focused()
