"""The page in a browser, as a person uses it, on a store of every kind."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from .browser import Served, Watched, ready


def address_of(page: Page, served: Served) -> str:
    """Return the address without the server's name."""
    return page.url.removeprefix(served.url)


def test_contexts_are_filtered_and_paged(watched: Watched, served: Served) -> None:
    """A page of contexts says that there are more; filters go into the address."""
    page = watched.open("/")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(200)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("main")).to_contain_text(f"{len(served.store.contexts())} contexts")
    page.get_by_label("User").fill("many")
    expect(page.locator("main")).to_contain_text("the first 200 contexts")
    page.get_by_label("Kind").select_option("pool")
    expect(page.get_by_text("No context fits.")).to_be_visible()
    assert address_of(page, served) == "/?kind=pool&user=many"
    page.reload()
    expect(ready(page).get_by_label("User")).to_have_value("many")
    expect(page.get_by_label("Kind")).to_have_value("pool")
    page.get_by_label("User").fill("")
    expect(rows).to_have_count(3)


def test_steps_replace_the_address_and_jumps_go_back(watched: Watched, served: Served) -> None:
    """Back undoes a jump, not each step of a drag; forward does it again."""
    page = watched.open("/c/scrubbed@30")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".item.added")).to_contain_text("scrubbed 26")
    page.wait_for_url("**/c/scrubbed@28")
    page.keyboard.press("Home")
    page.wait_for_url("**/c/scrubbed@1")
    page.go_back()
    page.wait_for_url("**/c/scrubbed@28")
    expect(page.locator(".item.added")).to_contain_text("scrubbed 26")
    page.go_forward()
    page.wait_for_url("**/c/scrubbed@1")
    expect(page.locator(".about")).to_contain_text("1 of 61")


def test_a_link_to_an_item_shows_it(watched: Watched, served: Served) -> None:
    """An address with an item chooses it; an address by name, time or distance finds its version."""
    item = served.store.chat("scrubbed", create=False).items[10].id
    page = watched.open(f"/c/scrubbed?msg={item}")
    expect(page.locator(".item[aria-current=true]")).to_contain_text("scrubbed 10")
    expect(page.locator("aside")).to_contain_text(item)
    watched.open("/c/scrubbed@-1")
    expect(page.locator(".about")).to_contain_text("60 of 61")
    watched.open("/c/side@here")
    expect(page.locator(".about")).to_contain_text("of 4")
    page.locator("input.version").fill("no such name")
    watched.allowed = ["404", "400"]
    page.locator("input.version").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("no such name")


def test_the_keys_do_what_the_help_says(watched: Watched, served: Served) -> None:
    """Each key of the table, and none of them in a field."""
    page = watched.open("/c/scrubbed@30")
    about, press = page.locator(".about"), page.keyboard.press
    press("Shift+ArrowRight")
    expect(about).to_contain_text("32 of 61")
    press("Shift+ArrowLeft")
    expect(about).to_contain_text("29 of 61")
    press("End")
    expect(about).to_contain_text("61 of 61")
    press("Home")
    page.locator("select[aria-label=Speed]").select_option("4")
    page.locator("h1").click()
    press("Space")
    expect(page.get_by_label("Pause")).to_be_visible()
    # It goes on meanwhile: which version is met is chance.
    expect(about).to_contain_text(re.compile(r"\b([3-9]|[1-5]\d) of 61"))
    press("Space")
    expect(page.get_by_label("Play")).to_be_visible()
    press("l")
    expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "true")
    press("f")
    expect(page.get_by_role("dialog")).to_contain_text("Fork scrubbed at version 61")
    press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    press("?")
    expect(page.get_by_role("dialog")).to_contain_text("compare from here")
    press("Escape")
    page.locator(".item").last.click()
    expect(page.locator(".item[aria-current=true]")).to_have_count(1)
    press("Escape")
    expect(page.locator(".item[aria-current=true]")).to_have_count(0)
    press("t")
    press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    press("f")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator("h1").click()
    press("Home")
    press("d")
    press("End")
    press("d")
    page.wait_for_url("**/c/scrubbed@1..61")
    expect(page.locator(".change")).to_have_count(60)
    press("n")
    press("n")
    expect(page.locator(".change[aria-current]")).to_contain_text("scrubbed 1")
    press("p")
    expect(page.locator(".change[aria-current]")).to_contain_text("scrubbed 0")
    for key, path in {
        "q": "pools",
        "n": "n",
        "l": "log",
        "g": "graph",
        "a": "approvals",
        "t": "usage",
        "p": "projections",
        "c": "",
    }.items():
        press("g")
        press(key)
        page.wait_for_url(f"**/{path}")
        ready(page)


def test_single_letters_can_be_switched_off(watched: Watched) -> None:
    """Who speaks to the machine types no letters by accident."""
    page = watched.open("/")
    page.keyboard.press("?")
    page.get_by_label("no single letters").check()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("l")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.url.endswith("/")


def test_a_read_only_page_offers_no_change(browser: Browser, served: Served) -> None:
    """Without --write each dialog says so, and gives the command line."""
    other = Served(served.store)
    profile = Watched(browser, other)
    page = profile.open("/c/a@12")
    page.get_by_role("button", name="Fork").click()
    expect(page.get_by_role("dialog")).to_contain_text("refold fork 'a@12' 'a-12'")
    expect(page.get_by_role("dialog").get_by_role("button", name="Fork")).to_be_disabled()
    expect(page.get_by_role("dialog").locator("p.dim code").last).to_have_text("refold ui --write")
    profile.open("/approvals")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    profile.open("/projections")
    expect(page.locator("main")).to_contain_text("This page is read-only: rebuild with refold rebuild NAME, or")
    expect(page.get_by_role("button", name="Rebuild")).to_have_count(0)
    page.get_by_role("button", name="Compare catalogue").click()
    expect(page.locator("main")).to_contain_text("all as those in use")
    profile.close()
    other.stop()


def test_a_person_forks_merges_and_decides(watched: Watched, served: Served) -> None:
    """What the buttons do is in the store."""
    page = watched.open("/c/a@12")
    # A key that is held down opens the dialog, and does not confirm it.
    page.get_by_role("button", name="Fork").focus()
    page.keyboard.down("Enter")
    page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    assert page.get_by_label("Name of the new chat").evaluate("field => field === document.activeElement")
    page.get_by_label("Name of the new chat").fill("by-hand")
    page.keyboard.press("Enter")
    page.wait_for_url("**/c/by-hand")
    assert len(served.store.chat("by-hand", create=False).items) == 11
    watched.open("/graph?context=by-hand")
    rows = page.locator("tbody tr")
    for name in ("brief@2", "by-hand@1"):
        rows.filter(has_text=name).locator("td").nth(2).click()
    page.get_by_role("button", name="Merge").click()
    page.get_by_role("dialog").get_by_role("button", name="Merge").click()
    page.wait_for_url("**/c/by-hand")
    assert served.store.chat("by-hand").version > 1
    watched.open("/graph")
    for name in ("brief@2", "side@4"):
        rows.filter(has_text=name).locator("td").nth(2).click()
    page.get_by_role("button", name="Compare").click()
    expect(ready(page).get_by_role("heading", level=1)).to_have_text("brief@2 → side@4")
    watched.open("/approvals")
    page.get_by_label("Why").first.fill("too much")
    page.get_by_role("button", name="Reject").first.click()
    expect(page.locator(".change")).to_have_count(1)
    assert [one.call.call_id for one in served.store.pending_approvals()] == ["c1"]


def test_a_run_is_walked_as_a_graph_and_as_a_table(watched: Watched, served: Served) -> None:
    """Keys go along edges, the table has the same nodes, and each leads to its history."""
    page = watched.open("/c/run:mia%2Fs1%2F1%2F0")
    page.get_by_role("application").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(page.locator("aside h2")).to_have_text("Table(orders)")
    for key in ("ArrowLeft", "ArrowRight", "+", "-", "0", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("aside h2")).to_have_text("Table(orders)")
    page.get_by_role("button", name="Table", exact=True).click()
    expect(page.get_by_role("row")).to_have_count(3)
    page.get_by_role("grid").focus()
    for key, row in (("ArrowUp", 0), ("ArrowDown", 1), ("ArrowDown", 2), ("ArrowDown", 2), ("ArrowUp", 1)):
        page.keyboard.press(key)
        expect(page.get_by_role("row", selected=True)).to_have_attribute("aria-rowindex", str(row + 1))
    page.keyboard.press("Control+ArrowUp")
    expect(page.get_by_role("row", selected=True)).to_have_attribute("aria-rowindex", "2")
    expect(page.locator("aside h2")).to_have_text("Table(orders)")
    page.get_by_role("button", name="Table", exact=True).click()
    page.get_by_role("application").focus()
    page.evaluate("window.isSamePage = true")
    page.keyboard.press("Enter")
    expect(ready(page).get_by_role("heading", level=1)).to_have_text("Table(orders)")
    assert page.evaluate("window.isSamePage"), "the page is not loaded anew"
    page.get_by_label("Attribute").select_option("path")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "attribute=path" in page.url
    page.get_by_role("link", name="its run").click()
    page.wait_for_url("**/c/run:mia*")


def test_runs_and_fans_of_a_graph_are_one_sign_until_opened(watched: Watched, served: Served) -> None:
    """A long thin graph fits a screen; the table leads to a node within a sign, and opens it."""
    run = served.store.run("mia", "long", 0)
    last = run.register_query("go")
    for number in range(10):
        last = run.register_node("Table", "", [last], "reads", f"t{number}", path="/t.csv")
    for number in range(5):
        run.register_node("Table", "", [last], "reads", f"leaf{number}", path="/t.csv")
    page = watched.open("/c/run:mia%2Flong%2F0%2F0")
    expect(page.locator("aside")).to_contain_text("16 nodes, 15 edges")
    graph = page.get_by_role("application")
    graph.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Open 9 nodes")).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Open 5 nodes")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Open 5 nodes")).to_have_count(0)
    page.get_by_role("button", name="Table", exact=True).click()
    page.get_by_label("Order of the table").select_option("type")
    expect(page.get_by_role("row").first).to_contain_text("Query")
    expect(page.get_by_role("row").last).to_contain_text("Table")
    page.get_by_role("row").filter(has_text="Table(t4)").click()
    expect(page.locator("aside h2")).to_have_text("Table(t4)")
    page.get_by_role("button", name="Table", exact=True).click()
    graph.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("aside h2")).to_have_text("Table(t3)")
    page.get_by_role("button", name="Fold").click()
    page.get_by_role("button", name="Fold").click()
    expect(page.get_by_role("button", name="Open 9 nodes")).to_be_visible()


def test_the_log_is_filtered_and_an_event_leads_on(watched: Watched, served: Served) -> None:
    """Filters are in the address; an event has neighbours, causes and its context."""
    page = watched.open("/log?type=pool")
    expect(page.locator(".line").first).to_contain_text("pool:p")
    page.get_by_label("Actor").fill("nobody")
    page.get_by_label("Actor").press("Enter")
    expect(page.locator("main")).to_contain_text("No event fits.")
    page.wait_for_url("**/log?type=pool&actor=nobody")
    watched.open("/log?ctx=a&q=question")
    expect(page.locator(".line")).to_have_count(7)
    page.locator(".line").nth(1).locator("span").last.click()
    drawer = page.get_by_role("region", name="The event")
    expect(drawer.locator("pre")).to_contain_text('"question 1"')
    page.get_by_role("textbox", name="Context", exact=True).fill("nowhere")
    page.get_by_role("textbox", name="Context", exact=True).press("Enter")
    watched.allowed = ["404"]
    expect(page.get_by_role("alert")).to_contain_text("nowhere")
    watched.open("/log?row=100")
    page.get_by_role("grid").focus()
    page.keyboard.press("Enter")
    expect(drawer).to_be_visible()
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(page.locator(".line").first).to_contain_text("101")
    watched.open("/e/pool:p@2")
    expect(page.locator("main")).to_contain_text("It follows from")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("pool:p@3")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("heading", level=1)).to_have_text("pool:p@2")
    page.get_by_role("link", name="chat:a@2").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("a@2")
    page.get_by_role("link", name="the context at this version").click()
    page.wait_for_url("**/c/a@2")
    expect(page.locator(".item.added")).to_contain_text("Be kind.")


def test_an_address_with_a_percent_sign_that_was_typed(watched: Watched) -> None:
    """It means itself: the page is not blank."""
    watched.allowed = ["404"]
    page = watched.open("/c/100%")
    expect(page.get_by_role("alert")).to_contain_text("there is no context '100%'")


def test_what_is_not_there_says_so(watched: Watched, served: Served) -> None:
    """An unknown context, version, event and page each get a screen with a way on."""
    watched.allowed = ["404", "400"]
    for path in ("/c/none", "/c/a@999", "/e/chat:a@999", "/nothing", "/c/a@5..999", "/n/Table(none)"):
        page = watched.open(path)
        expect(page.get_by_role("alert")).to_contain_text("Not found")
        expect(page.get_by_role("button", name="Try again")).to_be_visible()
        expect(page).to_have_title("Not found · Refold")
    page.get_by_role("link", name="All contexts").click()
    expect(ready(page).get_by_role("heading", level=1)).to_have_text("Contexts")
    expect(page.locator("#said")).to_have_text("Contexts")
    expect(watched.open("/c/none").get_by_role("alert").locator("code")).to_have_text("refold contexts")
    expect(watched.open("/search").locator(".empty")).to_have_text(re.compile("^All words must be in one item"))
    nothing = {"row": 0, "events": [], "next": None, "total": 0, "scanned": 0}
    page.route(re.compile("/api/log"), lambda route: route.fulfill(json=nothing))
    expect(watched.open("/log").locator("main")).to_contain_text("No event was recorded yet.")
