"""Going along a context: the window on the timeline, the panes, the keys, deep links, and Back."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, Route, expect

from .browser import WIDE, Served, Watched, intercept, ready
from .test_page import address_of

# Versions pass faster than a test looks: the page notes them.
WATCH_VERSIONS = """() => {
  const about = document.querySelector(".about");
  const played = [];
  new MutationObserver(() => {
    played.push(about.textContent.split(" ")[0]);
    document.documentElement.dataset.played = played.join(" ");
  }).observe(about, { childList: true });
}"""

FOLLOW_LINK = "href => document.body.appendChild(Object.assign(document.createElement('a'), { href })).click()"


def _drag(page: Page, first: float, last: float, *, key: str | None = None) -> None:
    """Drag along the timeline, from one share of its width to another."""
    box = page.locator(".timeline canvas").bounding_box()
    assert box
    if key:
        page.keyboard.down(key)
    page.mouse.move(box["x"] + box["width"] * first, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * last, box["y"] + 20, steps=4)
    page.mouse.up()
    if key:
        page.keyboard.up(key)


def test_a_window_narrows_the_log_the_diff_and_the_keys(watched: Watched, served: Served) -> None:
    """Shift and a drag mark it; it is in the address; Back and its button show all versions again."""
    page = watched.open("/c/scrubbed@30?tab=log")
    expect(page.locator(".line").first).to_contain_text("opened")
    _drag(page, 0.331, 0.65, key="Shift")
    page.wait_for_url("**/c/scrubbed@30?tab=log&win=21-40")
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "20")
    expect(page.locator(".line").first).to_contain_text("scrubbed 19")
    page.reload()
    expect(ready(page).get_by_role("grid")).to_have_attribute("aria-rowcount", "20")
    page.locator("h1").click()
    page.keyboard.press("End")
    page.wait_for_url("**/c/scrubbed@40?*win=21-40")
    page.keyboard.press("Home")
    page.wait_for_url("**/c/scrubbed@21?*win=21-40")
    page.get_by_role("button", name="Compare @21 with @40").click()
    page.wait_for_url("**/c/scrubbed@21..40")
    expect(page.locator(".change")).to_have_count(19)
    page.go_back()
    page.get_by_role("button", name="show all versions").click()
    page.wait_for_url("**/c/scrubbed@21?tab=log")
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "61")
    page.go_back()
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "20")


def test_keys_mark_and_clear_a_window(watched: Watched) -> None:
    """W at the first version and at the last one; W again, or Esc, shows all."""
    page = watched.open("/c/scrubbed@10")
    button = page.get_by_role("button", name="show all versions")
    for clear in ("w", "Escape"):
        page.keyboard.press("w")
        expect(button).to_contain_text("@10–…")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("w")
        page.wait_for_url("**/c/scrubbed@11?win=10-11")
        page.keyboard.press(clear)
        page.wait_for_url("**/c/scrubbed@11")
        expect(button).to_have_count(0)
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("w")
    page.keyboard.press("w")
    expect(button).to_have_count(0)


def test_a_window_narrows_the_graph(watched: Watched) -> None:
    """Nodes of other versions go, the table and the sums with them."""
    page = watched.open("/c/run:mia%2Fs1%2F1%2F0")
    expect(page.locator("aside")).to_contain_text("3 nodes")
    watched.open("/c/run:mia%2Fs1%2F1%2F0?win=2-4")
    expect(page.locator("aside")).to_contain_text("2 nodes")
    page.get_by_role("button", name="Table", exact=True).click()
    expect(page.get_by_role("row")).to_have_count(2)


def test_play_ends_with_the_window_at_the_recorded_pace(watched: Watched) -> None:
    """It begins at the window's first version again."""
    page = watched.open("/c/scrubbed@7?win=5-9")
    page.get_by_label("Speed").select_option("real")
    page.locator("h1").click()
    page.evaluate(WATCH_VERSIONS)
    for played in ("8 9", "8 9 5 6 7 8 9"):
        page.keyboard.press("Space")
        expect(page.locator("html")).to_have_attribute("data-played", played)
        expect(page.get_by_label("Play")).to_be_visible()


def test_a_click_on_the_timeline_goes_there(watched: Watched) -> None:
    """And Back returns."""
    page = watched.open("/c/scrubbed@30")
    _drag(page, 0.5, 0.5)
    page.wait_for_url("**/c/scrubbed@31")
    page.go_back()
    page.wait_for_url("**/c/scrubbed@30")
    expect(page.locator(".about")).to_contain_text("30 of 61")


def test_the_details_are_made_wider_and_keep_their_width(watched: Watched) -> None:
    """By dragging their border, by keys on it, and by brackets anywhere."""
    page = watched.open("/c/a")
    border = page.get_by_role("separator")
    expect(border).to_have_attribute("aria-valuenow", "340")
    page.keyboard.press("[")
    expect(border).to_have_attribute("aria-valuenow", "380")
    page.keyboard.press("]")
    page.keyboard.press("]")
    expect(border).to_have_attribute("aria-valuenow", "300")
    border.focus()
    page.keyboard.press("ArrowLeft")
    expect(border).to_have_attribute("aria-valuenow", "320")
    box = border.bounding_box()
    assert box
    page.mouse.move(box["x"] + 2, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] - 98, box["y"] + 50)
    page.mouse.up()
    expect(border).to_have_attribute("aria-valuenow", "420")
    page.reload()
    aside = ready(page).locator("aside").bounding_box()
    assert aside
    assert aside["width"] == 420


def test_a_narrow_page_has_the_details_in_a_tab(browser: Browser, served: Served) -> None:
    """Below 900 pixels items and details take turns."""
    profile = Watched(browser, served, viewport={"width": 800, "height": 700})
    page = profile.open("/c/a")
    expect(page.locator("aside")).to_be_hidden()
    page.locator(".item").last.click()
    page.get_by_role("tab", name="Details").click()
    expect(page.locator("aside h2")).to_be_visible()
    expect(page.locator(".item").first).to_be_hidden()
    expect(page.get_by_role("tab", name="Details")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="Items").click()
    expect(page.locator("aside")).to_be_hidden()
    expect(page.locator(".item").first).to_be_visible()
    profile.close()


def test_alt_and_arrows_go_to_the_changes_of_what_is_chosen(watched: Watched, served: Served) -> None:
    """Of an item, where it came, was pinned and left; of a node, where its attributes changed."""
    item = served.store.chat("a", create=False).at(10).items[1].id
    page = watched.open(f"/c/a?msg={item}")
    about = page.locator(".about")
    for key, version in (("ArrowLeft", 27), ("ArrowLeft", 3), ("ArrowRight", 27)):
        page.keyboard.press(f"Alt+{key}")
        expect(about).to_contain_text(f"{version} of")


def test_alt_and_arrows_follow_a_node_over_its_runs(watched: Watched) -> None:
    """A table is the same in all rounds of a session: its changes are gone through by time, and it stays chosen."""
    page = watched.open("/c/run:mia%2Fs1%2F1%2F0?node=Table(orders)")
    place = page.locator("h1, .about")
    for key, shown in (
        ("ArrowLeft", ["run:mia/s1/1/0", "6 of"]), ("ArrowLeft", ["run:mia/s1/0/0", "5 of"]),
        ("ArrowLeft", ["run:mia/s1/0/0", "3 of"]), ("ArrowRight", ["run:mia/s1/0/0", "5 of"]),
        ("ArrowRight", ["run:mia/s1/1/0", "6 of"]), ("ArrowRight", ["run:mia/s1/2/0", "6 of"]),
    ):  # fmt: skip
        page.keyboard.press(f"Alt+{key}")
        expect(place).to_contain_text(shown)
        expect(ready(page).locator("aside h2")).to_have_text("Table(orders)")
    page.keyboard.press("Alt+ArrowRight")
    expect(page.locator("#said")).to_have_text("no later change")
    page.go_back()
    expect(place).to_contain_text(["run:mia/s1/1/0", "6 of"])


def test_g_n_leads_to_the_chosen_node_or_to_those_of_the_session(watched: Watched) -> None:
    """And elsewhere to all nodes; a filter is in the address, and a row leads to its node."""
    page = watched.open("/c/run:mia%2Fs1%2F1%2F0?node=Table(orders)")
    expect(page.locator("aside h2")).to_have_text("Table(orders)")
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.get_by_role("heading", level=1)).to_have_text("Table(orders)")
    page = watched.open("/c/run:mia%2Fs1%2F1%2F0")
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.wait_for_url("**/n?user=mia&session=s1")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(10)
    page.get_by_label("Type").select_option("Table")
    page.wait_for_url("**/n?type=Table&user=mia&session=s1")
    expect(rows).to_have_count(3)
    page.get_by_label("Label").fill("none")
    expect(page.get_by_text("No node fits.")).to_be_visible()
    page.get_by_label("Label").fill("orders")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("the orders of 1")
    rows.nth(1).get_by_role("link", name="mia/s1/1/0@4").click()
    page.wait_for_url("**/c/run*@4?node=Table*")
    expect(page.locator("aside h2")).to_have_text("Table(orders)")


def test_a_chat_leads_to_what_else_its_session_has(watched: Watched) -> None:
    """Chats and runs of one session are a list."""
    page = watched.open("/c/a")
    page.locator(".headline").get_by_role("link", name="s1").click()
    page.wait_for_url("**/?session=s1")
    expect(page.locator("tbody")).to_contain_text("mia/s1/1/0")
    expect(page.locator("tbody")).not_to_contain_text("many000")


def test_raw_is_what_the_twin_has(watched: Watched) -> None:
    """The JSON of the version that is shown, which goes along with it."""
    page = watched.open("/c/a@12?tab=raw")
    raw = page.locator("pre.raw")
    expect(raw).to_contain_text('"version": 12')
    page.keyboard.press("ArrowRight")
    expect(raw).to_contain_text('"version": 13')
    with page.expect_popup() as opened:
        page.get_by_role("link", name="all of it").click()
    assert opened.value.url.endswith("/c/a@13.json")


def test_a_chosen_node_has_the_attributes_of_the_version(watched: Watched) -> None:
    """They follow from its history, which is asked for once; what the version itself set is marked."""
    page = watched.open("/c/run:mia%2Fs1%2F1%2F0@5?node=Table(orders)")
    aside = page.locator("aside")
    expect(aside).to_contain_text("the orders of 0")
    expect(aside).not_to_contain_text("set here")
    watched.asked.clear()
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    expect(aside).to_contain_text("the orders of 1")
    expect(aside.locator("div.dim").filter(has_text="set here")).to_have_text("description set here")
    page.keyboard.press("Home")
    expect(aside).to_contain_text("It comes later, with @4.")
    assert watched.asked == []


def test_a_link_holds_all_that_is_seen(watched: Watched, served: Served) -> None:
    """A chosen node and the order of its graph, too; Y copies the address."""
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched.open("/c/run:mia%2Fs1%2F1%2F0@7?node=Table(orders)&x=log")
    expect(page.get_by_role("button", name="Log order")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("aside h2")).to_have_text("Table(orders)")
    page.keyboard.press("y")
    expect(page.locator("#said")).to_have_text("address copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.get_by_role("button", name="Log order").click()
    page.wait_for_url("**@7?node=Table*")
    assert "x=" not in address_of(page, served)
    page.get_by_role("application").focus()
    page.keyboard.press("Escape")
    page.wait_for_url("**@7")
    page = watched.open("/c/scrubbed@20?tab=tokens")
    expect(page.get_by_role("tab", name="Tokens")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="Replay").click()
    page.wait_for_url("**/c/scrubbed@20?tab=replay&policy=items*")


def test_a_policy_is_tried_on_what_was_said(watched: Watched) -> None:
    """Both prompts of a call stand side by side, with the first difference marked; the address has the policy."""
    page = watched.open("/c/scrubbed?tab=replay&policy=items:5&call=30")
    sides = page.locator(".sides .side")
    expect(sides.first).to_contain_text("As it was: 28 items")
    expect(sides.last).to_contain_text("Under the policy: 4 items")
    expect(sides.first.locator(".first")).to_contain_text("scrubbed 0")
    expect(sides.last.locator(".first")).to_contain_text("scrubbed 24")
    page.get_by_label("How many").fill("3")
    page.get_by_label("How many").press("Enter")
    expect(sides.last).to_contain_text("Under the policy: 1 item")
    page.wait_for_url("**policy=items*3&call=30")
    page.get_by_label("What is kept").select_option("all")
    expect(page.locator("main")).to_contain_text("Both prompts are the same.")
    page.get_by_role("button", name="@33").click()
    expect(page.locator("main")).to_contain_text("The prompt of the call @33")
    left = "one => one.map(side => side.getBoundingClientRect().left)"
    assert len(set(sides.evaluate_all(left))) == 2
    page.set_viewport_size({"width": 375, "height": 700})
    assert len(set(sides.evaluate_all(left))) == 1
    page.set_viewport_size(WIDE)
    watched.allowed = ["400"]
    watched.open("/c/scrubbed?tab=replay&policy=newest")
    expect(page.get_by_role("alert")).to_contain_text("there is no policy")


def test_a_node_is_shown_as_it_was(watched: Watched) -> None:
    """Its attributes at a version, the later changes marked, and each version leads to its run then."""
    page = watched.open("/c/run:mia%2Fs1%2F1%2F0@5?node=Table(orders)")
    page.get_by_role("link", name="History of its attributes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Table(orders)@5")
    rows = page.locator("tbody tr")
    expect(rows.filter(has_text="later")).to_have_count(2)
    expect(page.locator("dl")).to_contain_text("the orders of 0")
    page.get_by_role("link", name="as it is now").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Table(orders)")
    expect(page.locator("dl")).to_contain_text("the orders of 2")
    expect(rows.filter(has_text="later")).to_have_count(0)
    rows.get_by_role("link", name="mia/s1/1/0@6").first.click()
    page.wait_for_url("**@6?node=Table*")
    expect(page.locator(".about")).to_contain_text("6 of")


def test_tokens_say_what_a_summary_would_leave(watched: Watched, served: Served) -> None:
    """All but the last turns become so many tokens; nothing is recorded."""
    head = served.store.chat("scrubbed", create=False).version
    page = watched.open("/c/scrubbed?tab=tokens")
    total = served.store.chat("scrubbed", create=False).estimated_tokens()
    after = page.locator(".after")
    page.get_by_label("Tokens of the summary").fill("7")
    page.get_by_label("Tokens of the summary").press("Enter")
    expect(page.locator("main")).to_contain_text("51 items in one")
    kept = served.store.chat("scrubbed", create=False).fork_filtered(recent_turns=3).estimated_tokens()
    expect(after).to_have_text(f"{total} → {kept + 7} tokens")
    page.get_by_label("Turns that stay").fill("30")
    page.get_by_label("Turns that stay").press("Enter")
    expect(page.locator("main")).to_contain_text("nothing is old enough")
    page.get_by_label("Turns that stay").fill("-5")
    page.get_by_label("Turns that stay").press("Enter")
    expect(page.get_by_label("Turns that stay")).to_have_value("0")
    assert served.store.chat("scrubbed", create=False).version == head


def test_a_tab_that_was_opened_keeps_the_focus(watched: Watched) -> None:
    """Who uses keys goes on from there."""
    page = watched.open("/c/scrubbed@30")
    page.get_by_role("tab", name="Left").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Left")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tab", name="Left")).to_be_focused()


def test_back_before_a_screen_is_there_shows_the_one_before(watched: Watched, served: Served) -> None:
    """A screen that takes long leaves its place again when the reader does not wait for it."""
    page = watched.open("/c/scrubbed@30")
    held: list[Route] = []
    intercept(page, "**/api/lineage*", lambda route: held.append(route))
    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(page.locator("main")).to_contain_text("Loading")
    page.go_back()
    expect(ready(page).locator(".item.added")).to_contain_text("scrubbed 28")
    for route in held:
        route.continue_()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".item.added")).to_contain_text("scrubbed 27")
    assert address_of(page, served).startswith("/c/scrubbed")


def test_a_screen_that_comes_after_back_takes_neither_address_nor_keys(watched: Watched, served: Served) -> None:
    """A context or a node that was left before it was there changes nothing of the screen that is shown again."""
    page = watched.open("/c/run:mia%2Fs1%2F1%2F0?node=Table(orders)")
    expect(page.locator("aside h2")).to_have_text("Table(orders)")
    held: list[Route] = []
    for asked, link in (("context?*scrubbed*", "/c/scrubbed@30"), ("node?*", "/n/Table(orders)?user=mia&session=s1")):
        intercept(page, f"**/api/{asked}", lambda route: held.append(route))
        with page.expect_request(f"**/api/{asked}"):
            page.evaluate(FOLLOW_LINK, link)
        page.go_back()
        expect(ready(page).locator("h1")).to_have_text("run:mia/s1/1/0")
        before = int(page.locator(".about").inner_text().split()[0])
        with page.expect_response(f"**/api/{asked}"):
            held.pop().continue_()
        page.evaluate("new Promise((done) => setTimeout(done, 50))")
        assert address_of(page, served).startswith("/c/run:mia")
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".about")).to_contain_text(f"{before - 1} of")
        page.wait_for_url(f"**/c/run:mia*@{before - 1}?node=*")
        page.unroute_all()


def test_a_context_is_called_by_its_full_name(watched: Watched) -> None:
    """Also where the address has only its id: the steps that follow are in the address."""
    page = watched.open("/c/q@2?tab=log")
    page.wait_for_url("**/c/queue:q@2?tab=log")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**/c/queue:q@1?tab=log")


def test_of_two_tabs_the_last_one_is_shown(watched: Watched) -> None:
    """One that took longer to come is not the one that goes along with the versions."""
    page = watched.open("/c/scrubbed@30")
    held: list[Route] = []
    is_late = True

    def hold(route: Route) -> None:
        if is_late:
            held.append(route)
        else:
            route.continue_()

    intercept(page, "**/api/log?*", hold)
    page.get_by_role("tab", name="Log").click()
    page.get_by_role("tab", name="Raw").click()
    twin = page.get_by_role("link", name="all of it")
    expect(twin).to_have_attribute("href", re.compile("@30.json$"))
    is_late = False
    with page.expect_response("**/api/log?*limit=100*"):
        held.pop().continue_()
    page.wait_for_timeout(300)
    page.locator("h1").click()
    page.keyboard.press("ArrowLeft")
    expect(twin).to_have_attribute("href", re.compile("@29.json$"))


def test_an_address_that_is_read_late_moves_nobody(watched: Watched) -> None:
    """The reader has gone on to another version meanwhile."""
    page = watched.open("/c/scrubbed@30")
    held: list[Route] = []
    intercept(page, "**/api/resolve?*", lambda route: held.append(route))
    with page.expect_request("**/api/resolve?*"):
        page.evaluate(FOLLOW_LINK, "/c/scrubbed@-20")
    page.go_back()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**/c/scrubbed@29")
    with page.expect_response("**/api/resolve?*"):
        held.pop().continue_()
    page.wait_for_timeout(300)
    expect(page.locator(".about")).to_contain_text("29 of")


def test_back_at_once_does_not_say_that_it_loads(watched: Watched) -> None:
    """A screen that was left before it said that it loads does not say so over the one that is shown again."""
    page = watched.open("/c/scrubbed@30")
    held: list[Route] = []
    intercept(page, "**/api/lineage*", lambda route: held.append(route))
    with page.expect_request("**/api/lineage*"):
        page.evaluate(
            """new Promise((done) => {
                document.querySelector('nav a[data-path="/graph"]').click();
                history.back();
                setTimeout(done, 300);
            })"""
        )
    page.wait_for_url("**/c/scrubbed@30")
    expect(ready(page).locator(".item.added")).to_contain_text("scrubbed 28")
    for route in held:
        route.continue_()
