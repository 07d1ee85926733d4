"""The page beside two versions: of items, of graphs, and of the prompts under another policy."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from .browser import Served, Watched

WIDER = {"width": 1440, "height": 900}


def test_a_diff_is_one_list_with_what_moved_and_what_is_the_same(watched: Watched) -> None:
    """Each sort of change is where it belongs, the words that differ are marked, and what is the same opens."""
    page = watched.open("/c/pool:compared@6..")
    heads = page.locator(".change > .dim").all_inner_texts()
    assert [head.split(" \u00b7 ")[0] for head in heads] == [
        "between moved here", "between moved away", "goes removed", "changes changed", "comes added",
    ]  # fmt: skip
    expect(page.locator(".changed del")).to_have_text("was")
    expect(page.locator(".changed ins")).to_have_text("is")
    expect(page.locator("main header")).to_contain_text("tokens 26 → 23 (-3)")
    expect(page.locator("main")).to_contain_text("2 unchanged")
    assert page.locator(".change.unchanged").count() == 0
    for count in (1, 2):
        page.get_by_role("button", name="unchanged").first.click()
        expect(page.locator(".change.unchanged")).to_have_count(count)
    expect(page.locator(".change.unchanged").first).to_contain_text("stays as it was")


def test_a_diff_lists_the_events_between(watched: Watched) -> None:
    """They are asked for when they are opened, and each leads to its event."""
    page = watched.open("/c/a@25..29")
    watched.asked.clear()
    page.get_by_text("4 events between").click()
    expect(page.locator(".between li")).to_have_count(4)
    assert watched.asked == ["/api/log"]
    expect(page.locator(".between li").nth(1)).to_contain_text("items pinned mia")
    page.locator(".between").get_by_role("link", name="@28").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("a@28")


def test_a_wide_page_has_both_versions_side_by_side(browser: Browser, served: Served) -> None:
    """From 1,400 pixels on; on a narrower page they are one list again, with the same changes."""
    profile = Watched(browser, served, viewport=WIDER)
    page = profile.open("/c/pool:compared@6..")
    changed = page.locator(".change.changed .side")
    expect(changed.first).to_contain_text("as it was")
    expect(changed.last).to_contain_text("as it is")
    lefts = [changed.nth(at).bounding_box() for at in (0, 1)]
    assert lefts[0]
    assert lefts[1]
    assert lefts[0]["x"] + lefts[0]["width"] <= lefts[1]["x"]
    assert lefts[0]["y"] == lefts[1]["y"]
    page.set_viewport_size({"width": 1300, "height": 900})
    expect(page.locator(".side")).to_have_count(0)
    expect(page.locator(".change")).to_have_count(5)
    profile.close()


def test_a_long_diff_comes_in_parts(watched: Watched) -> None:
    """What is not drawn yet is said; the key for the next change draws on."""
    page = watched.open("/c/scrubbed@0..")
    expect(page.locator(".change")).to_have_count(60)
    expect(page.locator("main")).not_to_contain_text("not shown yet")
    page = watched.open("/c/long@0..")
    expect(page.locator(".change")).to_have_count(60)
    expect(page.get_by_role("button", name="Show more")).to_contain_text("70 of 130 changes")
    assert page.evaluate("document.querySelectorAll('*').length") <= 400
    page.keyboard.press("p")
    expect(page.locator(".change[aria-current]")).to_contain_text("long 129")
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)


def test_a_diff_of_a_run_shows_nodes_and_attributes(watched: Watched) -> None:
    """Nodes that came, attributes with their words, and keys from one to the next."""
    page = watched.open("/c/run:mia%2Fs1%2F1%2F0@4..")
    expect(page.locator(".change.added").first).to_have_text("State(state00001)")
    expect(page.locator(".change.changed")).to_contain_text("Table(orders) description:")
    page.keyboard.press("n")
    expect(page.locator(".change[aria-current]")).to_have_text("State(state00001)")
    page.get_by_role("link", name="State(state00001)").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("State(state00001)")
