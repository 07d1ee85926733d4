"""What a screen looks like where that says something: places that are kept, signs and numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

import refold

from .browser import Served, Watched, apart

EDGE = "(element, side) => element.getBoundingClientRect()[side]"


def _fill(store: refold.Store) -> None:
    chat = store.chat("grows", agent="teller")
    chat.add_message("user", "Where is it?")
    chat.add_function_call("look", "{}", call_id="c")
    chat.add_function_output("look", "Error: nobody is there", call_id="c", is_error=True)
    for number in range(60):
        chat.add_message("user", f"line {number}\n" * (1 + number % 4))
    store.chat("owned", user="U" * 120, session="S" * 150)
    run = store.run("mia", "s", 0, agent="planner")
    asked = run.register_query("Which one?")
    for place, is_done in enumerate((True, False)):
        run.register_node("Action", "", [asked], action="fetch", params={"n": place}, output="", success=is_done)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store with a long chat, and a run with a failure."""
    with refold.open(str(tmp_path_factory.mktemp("looks") / "s.db")) as store:
        apart(lambda: _fill(store))
        server = Served(store, name="/far/away/s.db")
        yield server
        server.stop()


def test_the_newest_item_is_whole_on_the_screen(watched: Watched) -> None:
    """The height of an item is known only when its text is there: until the reader scrolls, the end stays in view."""
    page = watched.open("/c/grows")
    last = page.locator(".item").filter(has_text="line 59")

    expect(last).to_be_in_viewport(ratio=1)
    page.locator(".panes > .view").hover()
    page.mouse.wheel(0, -2_000)
    expect(last).not_to_be_in_viewport()


def test_a_link_to_a_line_of_the_log_shows_that_line(watched: Watched) -> None:
    """The list is not on the screen yet when its lines are fetched."""
    page = watched.open("/log?row=40")

    expect(page.locator(".line").first).to_contain_text("line")
    expect(page.locator('.line[aria-rowindex="41"]')).to_be_in_viewport()


@pytest.mark.parametrize("width", [375, 620, 820, 960, 1024, 1200])
def test_the_header_and_the_tabs_keep_their_lines(browser: Browser, served: Served, width: int) -> None:
    """Screens and tabs are a line each, through which one scrolls; the buttons stay beside the search."""
    profile = Watched(browser, served, viewport={"width": width, "height": 700})
    page = profile.open("/c/grows")
    for parts in ("header .search, header .state, header button:visible", "nav a", "[role=tab]:visible"):
        middles = page.locator(parts).evaluate_all(
            "all => all.map((one) => one.getBoundingClientRect()).map((box) => (box.top + box.bottom) / 2)"
        )
        assert len(middles) > 3
        assert max(middles) - min(middles) < 4, parts
    profile.close()


@pytest.mark.parametrize(("path", "width"), [("/", 1280), ("/c/owned", 400)])
def test_a_long_user_and_a_long_session_are_broken_into_lines(
    browser: Browser, served: Served, path: str, width: int
) -> None:
    """They do not run over the edge, and take the columns behind them along."""
    profile = Watched(browser, served, viewport={"width": width, "height": 700})
    page = profile.open(path)
    expect(page.locator("main")).to_contain_text("U" * 120)
    for part in page.locator(".scroll, .headline").all():
        assert part.evaluate("one => one.scrollWidth <= one.clientWidth")
    profile.close()


def test_a_table_is_printed_whole(browser: Browser, served: Served) -> None:
    """Not the part of it that is on the screen: paper does not scroll."""
    profile = Watched(browser, served, viewport={"width": 900, "height": 300})
    page = profile.open("/projections")
    expect(page.get_by_role("row")).not_to_have_count(0)
    main = page.locator("main")
    assert main.evaluate("one => one.scrollHeight > one.clientHeight")
    page.emulate_media(media="print")
    assert main.evaluate("one => one.scrollHeight <= one.clientHeight && one.clientHeight > innerHeight")
    profile.close()


def test_the_header_names_the_store(watched: Watched) -> None:
    """By the last part of its location, of which it has the rest beside the pointer."""
    store = watched.open("/").locator("header .store")
    expect(store).to_have_text("s.db")
    expect(store).to_have_attribute("title", "/far/away/s.db")


def test_the_log_says_which_part_of_it_is_seen(watched: Watched) -> None:
    """A frame on the histogram, which is not there while a filter leaves lines out."""
    page = watched.open("/log")
    here = page.locator(".here")
    page.get_by_role("grid").focus()
    for key, side in (("Home", "left"), ("End", "right")):
        page.keyboard.press(key)
        expect(here).to_be_visible()
        seen, whole = (page.locator(one).evaluate(EDGE, side) for one in (".here", ".timeline canvas"))
        assert abs(seen - whole) < 4
    page.get_by_label("Actor").fill("teller")
    page.get_by_label("Actor").press("Enter")
    expect(here).to_be_hidden()


def test_details_say_nothing_that_is_not_there(watched: Watched) -> None:
    """A value that is missing is left out; a failure is one in words, too."""
    page = watched.open("/c/grows@4")
    page.locator('.item[data-role="error"]').click()

    expect(page.locator("aside")).to_contain_text("nobody is there")
    expect(page.locator("aside")).not_to_contain_text("null")
    watched.open("/c/run:mia%2Fs%2F0%2F0")
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("row").filter(has_text="failed")).to_have_count(1)


def test_texts_that_share_no_words_are_read_one_after_the_other(browser: Browser, served: Served) -> None:
    """Word by word nobody could read either."""
    watched = Watched(browser, served)
    page = watched.open("/")
    made = page.evaluate(
        """async () => {
            const base = document.querySelector('script[type="module"]').src.replace(/page\\.js$/, "");
            const { compared } = await import(base + "diff.js");
            const written = (part) => part.tagName ? `${part.tagName}:${part.textContent}` : part;
            return [["one two three", "four five six seven"], ["one two three", "one two four"]]
                .map(([before, after]) => compared(before, after).map(written).join("|"));
        }"""
    )
    watched.close()

    assert made[0] == "DEL:one two three|\n|INS:four five six seven"
    assert made[1].startswith("one| |two| |")
