"""The page beside writers, other tabs and other starts of the server: it follows, and leaves its reader in peace."""

from __future__ import annotations

import re
import threading
from functools import partial
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import APIResponse, Browser, Page, Route, expect

import refold
from refold.infrastructure.projecting import runner

from .browser import Served, Watched, Writer, apart, ready


def test_live_follows_another_process_and_never_moves_a_reader(watched: Watched, served: Served, place: Path) -> None:
    """On, the page goes with what is written; off, it says how much is new, and stays."""
    before = served.store.chat("live").version
    page = watched.open("/c/live")
    writer = Writer(place)
    try:
        writer.say("live", "from elsewhere")
        expect(page.locator(".item.added")).to_contain_text("from elsewhere")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        for number in range(3):
            writer.say("live", f"later {number}")
        expect(page.locator(".banner:not(.bad)")).to_contain_text("3 new")
        expect(page.locator(".about")).to_contain_text(f"2 of {before + 4}")
        page.get_by_role("button", name="Return to the newest").click()
        expect(page.locator(".item.added")).to_contain_text("later 2")
        # They have been seen then.
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".banner")).to_contain_text("before the newest")
        expect(page.locator(".banner")).not_to_contain_text("new.")
        assert "3 new" not in page.locator(".banner").inner_text()
    finally:
        writer.close()


# Every screen has asked anew by then.
REFRESHED_MILLISECONDS = 1_300


@pytest.mark.parametrize(
    ("path", "pressed", "shown"),
    [
        ("/c/live@10", ".banner button", ".banner[hidden]"),
        ("/c/live", ".headline button:has-text('Fork')", "dialog"),
        ("/c/live?msg={item}", "aside button:has-text('Audit')", "dialog"),
        ("/c/live?q=live", "aside .found button >> nth=0", ".item[aria-current=true]"),
        ("/log", ".line >> nth=4", ".drawer:not([hidden])"),
        ("/", "tbody a:text-is('a')", "h1:text-is('a')"),
    ],
)
def test_what_is_pressed_stays_while_others_write(
    watched: Watched, served: Served, path: str, pressed: str, shown: str
) -> None:
    """What looks the same is not made anew with each event: a click on what goes away meanwhile would do nothing."""
    page = watched.open(path.format(item=served.store.chat("live", create=False).at(10).items[2].id))
    if path == "/log":
        # It comes behind the lines, and moves them.
        expect(page.locator(".legend span").first).to_be_visible()
    page.locator(pressed).hover()
    page.mouse.down()
    apart(served.store.chat("live").add_message, "user", "said while it is pressed")
    page.wait_for_timeout(REFRESHED_MILLISECONDS)
    page.mouse.up()
    expect(page.locator(shown)).to_be_attached()


@pytest.mark.parametrize(
    ("path", "question", "first"), [("/", "contexts", 200), ("/projections/search", "projection", 50)]
)
def test_more_rows_come_and_stay_while_others_write(
    watched: Watched, served: Served, path: str, question: str, first: int
) -> None:
    """News that come before the next page of a list, or behind it, take it from nobody."""
    page = watched.open(path)
    rows = page.locator("tbody").last.locator("tr")
    expect(rows).to_have_count(first)
    held: list[Route] = []
    page.route(f"**/api/{question}?*cursor=*", lambda route: held.append(route))
    more = page.get_by_role("button", name="Show more")
    more.click()
    while not held:
        page.wait_for_timeout(10)
    apart(served.store.chat("live").add_message, "user", "said while they come")
    page.wait_for_timeout(REFRESHED_MILLISECONDS)
    held[0].continue_()
    expect(rows).not_to_have_count(first)
    shown = rows.count()
    apart(served.store.chat("live").add_message, "user", "said when they are there")
    page.wait_for_timeout(REFRESHED_MILLISECONDS)
    assert rows.count() == shown > first


def test_the_number_of_events_follows(watched: Watched, served: Served) -> None:
    """The header of the contexts counts what came since the page was loaded, as the rows below do; later screens do."""
    page = watched.open("/")
    for screen in ("Contexts", "Pools", "Contexts"):
        page.get_by_role("navigation").get_by_role("link", name=screen).click()
        expect(page.locator("h1")).to_contain_text(screen)
        apart(served.store.chat("live").add_message, "user", "one more")
    expect(page.locator("main header")).to_contain_text(f"{served.store.now().events:,} events in the log")


def test_how_long_ago_goes_on_without_news(watched: Watched, served: Served) -> None:
    """A page that was left open does not call old what was new, nor the other way round."""
    watched.page.clock.install()
    served.store.chat("a").add_message("user", "just now")
    page = watched.open("/?kind=chat")
    link = page.get_by_role("link", name="a", exact=True)
    changed = page.get_by_role("row").filter(has=link).get_by_role("cell").last
    expect(changed).to_have_text(re.compile("just now|s ago"))
    page.clock.fast_forward(20 * 60 * 1000)
    expect(changed).to_have_text("20 min ago")


def test_what_a_person_writes_stays_while_others_write(watched: Watched, served: Served) -> None:
    """The reason of a decision, and a budget; and a link of a list keeps the focus, also where its row changes."""
    page = watched.open("/approvals")
    reason = page.get_by_label("Why").first
    reason.press_sequentially("too ")
    apart(served.store.chat("live").add_message, "user", "meanwhile")
    page.wait_for_timeout(REFRESHED_MILLISECONDS)
    page.keyboard.type("much")
    expect(reason).to_have_value("too much")
    page = watched.open("/c/live?tab=tokens")
    budget = page.get_by_label("Budget in tokens")
    budget.focus()
    page.keyboard.press("End")
    page.keyboard.type("9")
    version = served.store.chat("live").version
    apart(served.store.chat("live").add_message, "user", "meanwhile")
    expect(page.get_by_role("slider")).to_have_value(str(version + 1))
    page.keyboard.type("8\n")
    expect(budget).to_have_value("12800098")
    expect(budget).to_be_focused()
    link = watched.open("/?kind=chat").get_by_role("link", name="live", exact=True)
    link.focus()
    version = served.store.chat("live").version
    apart(served.store.chat("live").add_message, "user", "meanwhile")
    expect(page.locator("tbody")).to_contain_text(f"@{version + 1}")
    expect(link).to_be_focused()


def test_forks_usage_and_search_follow(watched: Watched, served: Served) -> None:
    """What comes is there; a row that was chosen stays chosen, with the focus, though others come before it."""
    live = served.store.chat("live")
    found, forks, usage = (
        watched.open(path, watched.context.new_page()) for path in ("/search?q=meanwhilst", "/graph", "/usage")
    )
    expect(found.locator(".empty")).to_contain_text("Nothing was found")
    row = forks.locator("tbody tr").nth(1)
    name = row.locator("a").inner_text()
    row.press("Enter")
    before = usage.locator(".sums strong").first.inner_text()
    apart(partial(live.add_message, "assistant", "said meanwhilst", model="follower", input_tokens=7_000))
    apart(live.fork, "followed")
    expect(found.locator("tbody")).to_contain_text("said meanwhilst")
    expect(forks.get_by_role("link", name="followed@1")).to_be_visible()
    chosen = forks.locator("tr[aria-selected=true]")
    expect(chosen.locator("a")).to_have_text(name)
    expect(chosen).to_be_focused()
    expect(usage.locator("tbody")).to_contain_text("follower")
    assert usage.locator(".sums strong").first.inner_text() != before


def test_a_node_follows(watched: Watched, served: Served) -> None:
    """What becomes of it is there, and the attribute that a reader chose stays chosen."""
    run = served.store.run("followed", "s1", 0)
    node = run.register_node("Table", "first", [run.register_query("which?")], "reads", label="t", path="t.csv")
    page = watched.open(f"/n/{node}?user=followed&session=s1")
    page.get_by_label("Attribute").select_option("description")
    expect(page.locator("tbody tr")).to_have_count(1)
    apart(partial(run.modify_node, node, {"description": "second"}))
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("dl")).to_contain_text("second")
    expect(page.get_by_label("Attribute")).to_have_value("description")


def test_a_server_that_starts_again_is_found_again(browser: Browser, served: Served) -> None:
    """The page says that it is alone, comes back by itself, and has what was written meanwhile."""
    other = Served(served.store)
    profile = Watched(browser, other)
    profile.allowed = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET"]
    page = profile.open("/c/restarted")
    expect(page.locator(".state")).to_have_text("Live")
    other.stop()
    expect(page.locator(".state")).not_to_have_text("Live")
    expect(page.locator("#said")).to_have_text(page.locator(".state").inner_text())
    served.store.chat("restarted").add_message("user", "while it was away")
    other.start()
    expect(page.locator(".state")).to_have_text("Live")
    expect(page.locator(".item.added")).to_contain_text("while it was away")
    profile.close()
    other.stop()


def test_a_server_that_shows_another_store_is_told_from_the_one_before(browser: Browser) -> None:
    """The page loads itself anew, so that no text of the store before stays among those of the other one."""
    with refold.open(":memory:") as store, refold.open(":memory:") as other:
        for name, filled in (("here", store), ("elsewhere", other)):
            chat = filled.chat("a")
            for number in range(8):
                apart(chat.add_message, "user", f"said {name} {number}")
        served = Served(store, name="one")
        profile = Watched(browser, served)
        profile.allowed = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET"]
        page = profile.open("/c/a@5")
        expect(page.locator(".item.added")).to_contain_text("said here 3")
        served.stop()
        served.store, served.settings = other, {"name": "two"}
        served.start()
        expect(page.locator(".store")).to_have_text("two")
        expect(ready(page).locator(".item.added")).to_contain_text("said elsewhere 3")
        page.keyboard.press("ArrowRight")
        expect(page.locator(".item.added")).to_contain_text("said elsewhere 4")
        assert "here" not in page.locator(".item .body").all_inner_texts()[0].split()
        profile.close()
        served.stop()


def _loaded_at_last(page: Page, served: Served) -> None:
    """Wait until the page has loaded itself after the last erasure: each of its questions names the one it knows."""
    cache = httpx.get(f"{served.url}/api/meta").json()["cache"]
    said = "cache => performance.getEntriesByType('resource').some(({ name }) => name.endsWith(`start=${cache}`))"
    page.wait_for_function(said, arg=cache)


def test_what_was_erased_is_on_no_page(watched: Watched, served: Served, tmp_path: Path) -> None:
    """An open page loads itself anew, and its browser gives it nothing of what it kept; it says where an archive is."""
    chat = served.store.chat("forgotten")
    for text in ("my number is 0123", "the end"):
        chat.add_message("user", text)
    page = watched.open("/c/forgotten@2")
    expect(page.locator(".item .body")).to_have_text("my number is 0123")
    with page.expect_event("load"):
        apart(lambda: served.store.erase(context="chat:forgotten", why="asked", dry_run=False))
    # It loads itself twice: rows may have the text until the erasure is finished.
    _loaded_at_last(page, served)
    expect(ready(page).locator(".item .body")).to_have_count(1)
    expect(page.locator(".item .waiting")).to_have_count(0)
    assert "0123" not in page.locator("main").inner_text()
    apart(served.store.chat("it's cold").add_message, "user", "said long ago")
    page = watched.open("/c/it's%20cold")
    with page.expect_event("load"):
        apart(lambda: served.store.archive(tmp_path / "cold", "it's cold", why="cold"))
    _loaded_at_last(page, served)
    said = f"Its texts are in {tmp_path / 'cold'}: refold unarchive 'chat:it'\\''s cold' brings them back."
    expect(ready(page).locator(".archive:visible")).to_have_text(said)


def test_news_without_a_pause_are_shown(folding: Page) -> None:
    """Calls that come all the time do not put off what they ask for; many are one; what is slow comes seldom."""
    source = str(folding.locator("script[src]").get_attribute("src")).replace("page.js", "dom.js")
    runs, calls, rested = folding.evaluate(
        """async address => {
          const { merged } = await import(address);
          let [runs, calls] = [0, 0];
          const ask = merged(50, async () => { runs++; });
          while (runs < 3 && calls < 1000) { calls++; ask(); await new Promise((done) => { setTimeout(done, 5); }); }
          const wait = (time) => new Promise((done) => { setTimeout(done, time); });
          const [begun, ended] = [[], []];
          const note = (times) => times.push(performance.now());
          const slow = merged(20, async () => { note(begun); await wait(40); note(ended); });
          while (begun.length < 2) { slow(); await wait(5); }
          return [runs, calls, begun[1] - ended[0]];
        }""",
        source,
    )
    assert runs == 3
    assert calls > runs
    assert rested > 150


def test_a_first_question_says_how_far_it_has_come(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that no projection has folded takes its time: the page shows how much of it is done, then the answer."""
    monkeypatch.setattr(runner, "PAGE_EVENTS", 16)
    opened, told = threading.Event(), list[tuple[int, int]]()
    with refold.open(":memory:") as store:
        apart(lambda: [store.chat("unasked").add_message("user", str(number)) for number in range(99)])

        def hold(done: int, total: int) -> None:
            told.append((done, total))
            assert opened.wait(20)

        store.on_folding(hold)
        served = Served(store)
        profile = Watched(browser, served)
        # The page says that it loads after a while only: the first news is there before it.
        profile.page.add_init_script(
            "const soon = setTimeout; window.setTimeout = (work, wait) => soon(work, wait === 150 ? 1500 : wait);"
        )
        profile.page.goto(served.url)
        main = profile.page.locator("main")
        expect(main).to_contain_text("16 of 100 events")
        expect(main.get_by_role("progressbar")).to_have_attribute("value", "16")
        opened.set()
        expect(ready(profile.page).locator("tbody")).to_contain_text("unasked")
        assert told[0] == (16, 100)
        profile.close()
        served.stop()


def test_after_a_gap_all_is_asked_anew(watched: Watched, served: Served) -> None:
    """Where the server lost the thread, the page shows what no news named, and listens on."""
    chat = served.store.chat("live")
    answers = iter([("", 0), ('event: fault\ndata: {"message": "the log went back"}\n\n', 1)])

    def answer(route: Route) -> None:
        body, count = next(answers, (None, 0))
        if body is None:
            route.continue_()
            return
        for _ in range(count):
            apart(chat.add_message, "user", "said in the gap")
        route.fulfill(status=200, content_type="text/event-stream", body=f"retry: 300\n\n{body}")

    watched.page.route("**/api/tail?*", answer)
    page = watched.open("/c/live")
    expect(page.locator(".item.added")).to_contain_text("said in the gap")
    expect(page.locator(".state")).to_have_text("Live")
    served.store.chat("live").add_message("user", "said after the gap")
    expect(page.locator(".item.added")).to_contain_text("said after the gap")


@pytest.mark.parametrize(("status", "says"), [(503, "Not live"), (500, "Log damaged")])
def test_a_page_whose_database_is_away_goes_on(watched: Watched, status: int, says: str) -> None:
    """It says what is wrong as long as it is, and then is shown and live without being loaded anew."""
    away = True

    def answer(route: Route) -> None:
        if away:
            route.fulfill(status=status, json={"error": "StorageError", "message": "no answer"})
        else:
            route.continue_()

    watched.page.route("**/api/*", answer)
    watched.allowed = [str(status)]
    page = watched.page
    page.goto(f"{watched.served.url}/c/live")
    expect(page.locator("main")).to_contain_text("no answer")
    expect(page.locator(".state")).to_have_text(says)
    expect(page.locator(".state")).to_have_attribute("title", "no answer")
    away = False
    expect(page.locator(".state")).to_have_text("Live")
    expect(page.locator("main")).to_contain_text("live 59")


def test_who_may_not_read_the_log_is_told_so(browser: Browser) -> None:
    """The page is not live, says why, and does not ask without a pause."""

    def allow(actor: str | None, action: str, context: str | None) -> bool:
        return action != "read" or context is not None

    with refold.open(":memory:", allow=allow) as store:
        apart(lambda: store.chat("a").add_message("user", "hello"))
        served = Served(store)
        profile = Watched(browser, served)
        page = profile.open("/c/a")
        expect(page.locator(".state")).to_have_text("Not live")
        expect(page.locator(".state")).to_have_attribute("title", re.compile("may not read in the whole store"))
        page.wait_for_timeout(1500)
        assert profile.asked.count("/api/tail") <= 4
        profile.close()
        served.stop()


def test_news_that_come_while_a_screen_loads_are_in_it(watched: Watched, served: Served) -> None:
    """The answer to its question may be older than they are."""
    page = watched.page
    held: list[tuple[Route, APIResponse]] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route("**/api/context?*", hold)
    page.goto(f"{served.url}/c/live")
    while not held:
        page.wait_for_timeout(10)
    served.store.chat("live").add_message("user", "said while it loads")
    expect(page.locator("#said")).to_contain_text("new event")
    route, answer = held[0]
    route.fulfill(response=answer)
    expect(page.locator(".item.added")).to_contain_text("said while it loads")


def test_nine_tabs_share_one_stream(watched: Watched, served: Served) -> None:
    """A browser has six connections to a server: one tab listens for all; when it closes, another one does."""
    pages = [watched.open("/c/tabs", page) for page in (watched.page, *(watched.context.new_page() for _ in range(8)))]
    expect(pages[0].locator(".state")).to_have_text("Live")
    assert watched.asked.count("/api/tail") == 1
    served.store.chat("tabs").add_message("user", "to all")
    for page in pages:
        expect(page.locator(".item.added")).to_contain_text("to all")
    pages[0].close()
    expect(pages[8].locator(".state")).to_have_text("Live")
    served.store.chat("tabs").add_message("user", "to the rest")
    expect(pages[8].locator(".item.added")).to_contain_text("to the rest")
    assert watched.asked.count("/api/tail") == 2


def test_what_stays_is_moved_up(watched: Watched) -> None:
    """Where an earlier one went away; and one that looks like the one in its place leaves that one there."""
    page = watched.open("/")
    source = page.locator("script[type=module][src]").first.get_attribute("src")
    assert source is not None
    found = page.evaluate(
        """async (address) => {
          const { h, refill } = await import(address);
          const [one, two, three, four] = ["1", "2", "3", "4"].map((text) => h("p", {}, text));
          const place = refill(h("div"), one, two, three, four);
          const moved = refill(place, two, three, four).textContent;
          return [moved, refill(place, h("p", {}, "2"), four, one).textContent, place.firstChild === two];
        }""",
        source.replace("page.js", "dom.js"),
    )
    assert found == ["234", "241", True]


def test_numbers_are_short_and_have_their_noun(watched: Watched) -> None:
    """Also where a number is rounded up into the next unit, and where there is one of something."""
    page = watched.open("/")
    source = page.locator("script[type=module][src]").first.get_attribute("src")
    assert source is not None
    found = page.evaluate(
        """async (address) => {
          const { brief, counted } = await import(address);
          return [...[9999, 61280, 999949, 999950, 2345678].map(brief), counted(1, "item"), counted(1200, "item")];
        }""",
        source.replace("page.js", "dom.js"),
    )
    assert found == ["9,999", "61.3k", "999.9k", "1.0M", "2.3M", "1 item", "1,200 items"]
