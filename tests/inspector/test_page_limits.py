"""The page with hostile texts, with millions of rows; and its own fold beside Python's."""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, Request, Route, expect

import refold
from refold.domain.memory.records import MemoryRecord
from refold.infrastructure.inspector.parameters import Parameters
from refold.infrastructure.inspector.questions import QUESTIONS

from .browser import Served, Watched, apart, intercept, ready

NASTY = "<img src=x onerror=alert(1)><script>alert(2)</script>"

BIDI = "\u202eedoc\u2066 \x07\x1b[2J\x00 after"

SHOWN = r"\u202eedoc\u2066 \u0007\u001b[2J\u0000 after"

DOM_MAX, FIRST_LOAD_MAX = 400, 60_000


def test_scrubbing_asks_for_nothing_but_bodies(watched: Watched) -> None:
    """The page folds by itself: two hundred steps make no request but for texts, each once."""
    page = watched.open("/c/scrubbed@1")
    watched.asked.clear()
    for key in ("ArrowRight", "ArrowLeft", "ArrowRight"):
        for _ in range(60):
            page.keyboard.press(key)
    expect(page.locator(".item.added")).to_contain_text("scrubbed 59")
    page.wait_for_url("**/c/scrubbed@61")
    assert set(watched.asked) <= {"/api/items"}
    assert len(watched.asked) <= 60


def test_a_text_that_is_on_its_way_is_not_asked_for_again(watched: Watched) -> None:
    """Each step on a slow connection asks for what it adds alone."""
    page = watched.open("/c/scrubbed@1")
    held: list[Route] = []
    intercept(page, "**/api/items?*", lambda route: held.append(route))
    for count in (1, 2, 3):
        page.keyboard.press("ArrowRight")
        while len(held) < count:
            page.wait_for_timeout(10)
    asked = [value for route in held for name, value in parse_qsl(urlsplit(route.request.url).query) if name == "ref"]
    assert asked == ["chat:scrubbed@2", "chat:scrubbed@3", "chat:scrubbed@4"]
    for route in held:
        route.continue_()
    expect(page.locator(".item.added")).to_contain_text("scrubbed 2")


ASK_ANEW = """async (address) => {
  const { fetchBodies, forgetUnfinished, known } = await import(address);
  const asked = [];
  window.fetch = (_, { signal }) => new Promise((take, refuse) => {
    signal?.addEventListener("abort", () => refuse(signal.reason));
    asked.push((body) => take(new Response(JSON.stringify(body))));
  });
  const next = async () => {
    while (!asked.length) await new Promise((done) => setTimeout(done));
    return asked.shift();
  };
  const text = (ref) => ({ ref, body: ref, grows: true });
  const timeout = AbortSignal.timeout;
  const limits = [];
  AbortSignal.timeout = (limit) => { limits.push(limit); return timeout.call(AbortSignal, 50); };
  const ends = [];
  for (const texts of [[], [text("hung")]]) {
    const fetched = fetchBodies(["hung"]).then(() => "there", (error) => error.kind);
    const answer = await next();
    if (texts.length) answer(texts);
    const hung = new Promise((done) => setTimeout(done, 5_000, "awaited for ever"));
    ends.push(await Promise.race([fetched, hung]));
    if (ends.at(-1) !== "Unreachable") return [ends, limits, []];
    asked.length = 0;
  }
  AbortSignal.timeout = timeout;
  const fetched = fetchBodies(["one", "two", "none"]);
  (await next())([text("one"), text("two")]);
  const pieces = { begun: "", pieces: [], is_written: false };
  (await next())(pieces);
  const second = await next();
  forgetUnfinished();
  second(pieces);
  await fetched;
  return [ends, limits, ["hung", "one", "two", "none"].map((ref) => known(ref)?.body)];
}"""


def test_texts_that_do_not_come_are_given_up(watched: Watched) -> None:
    """They are asked for again; news between two messages that are being written do not make the first one missing."""
    page = watched.open("/")
    source = str(page.locator("script[src]").get_attribute("src")).replace("page.js", "api.js")
    ends, limits, bodies = page.evaluate(ASK_ANEW, source)

    assert ends == ["Unreachable", "Unreachable"]
    assert limits == [60_000] * 3
    assert bodies == [None, None, "two", "this event is missing"]


async def _fill_hostile(store: refold.Store) -> None:
    with refold.acting(actor=NASTY, correlation_id=BIDI.replace("\0", "")):
        chat = store.chat("evil", user=NASTY, session=BIDI.replace("\0", ""), agent=NASTY)
        chat.add_message("user", NASTY + BIDI)
        chat.add_message("assistant", "x" * 1_000_000)
        chat.add_function_call(NASTY, json.dumps({"a": NASTY}), call_id="c1")
        chat.approvals.request("c1", because=NASTY)
        chat.add_message("user", NASTY)
        chat.evict(chat.items[-1].id, reason=NASTY)
        child = chat.fork("evil<b>")
        child.add_message("user", BIDI)
        # Names that a short address could take for another one's.
        for name in ("pool:evil", "chat:evil", "\u00fc/%2F?x#y"):
            store.chat(name).add_message("user", f"said in {name}")
        await store.pool("evil").add(refold.PoolItem({"n": NASTY}, NASTY, "i"))
        store.window("evil").add(refold.BudgetItem(NASTY, NASTY, NASTY, 1))
        run = store.run("evil", "s", 0, agent=NASTY)
        table = run.register_node("Table", "", [run.register_query(NASTY)], "reads", NASTY, path=NASTY)
        run.modify_node(table, {"description": NASTY, "path": NASTY * 2})
        memory = store.memory()
        await memory.put(MemoryRecord(scope="user:evil", key=NASTY, value={NASTY: NASTY}, tags=[NASTY]))
        await memory.put(MemoryRecord(scope="user:evil", key="gone", value=NASTY))
        await memory.forget(scope="user:evil", key="gone")
        store.queue("evil", tags=[NASTY])
        store.chat("beside", user="evil", session="s").add_message("user", NASTY)
        chat.name_version("evil")
        store.name_moment("evil")
    store.add_projection(Nasty())


class NastyRow(msgspec.Struct, frozen=True):
    """A row of nothing."""

    key: str
    text: str


class Nasty:
    """A projection whose name and whose errors are what a hostile writer might bring in."""

    name = "nasty_b"
    version = 1
    row = NastyRow

    def keys(self, event: Any) -> list[str]:
        """Return a key for each event."""
        return [NASTY]

    def evolve(self, key: str, row: NastyRow | None, event: Any) -> NastyRow | None:
        """Fail at the first event of a run; else make a row."""
        if event.stream.startswith("run:"):
            raise ValueError(NASTY)
        return NastyRow(key, NASTY)


def test_hostile_text_is_shown_as_text(browser: Browser) -> None:
    """No text of a model becomes a part of the page, on any screen."""
    with refold.open(":memory:") as store:
        apart(lambda: asyncio.run(_fill_hostile(store)))
        served = Served(store, name=NASTY)
        profile = Watched(browser, served)
        page = profile.page
        page.on("dialog", lambda dialog: profile.faults.append(f"a script ran: {dialog.message}"))
        node = next(name for name in store.run("evil", "s", 0).nodes() if name.startswith("Table"))
        paths = ["/", "/c/evil", "/c/evil?tab=left", "/c/evil?tab=log", "/c/evil?tab=tokens", "/c/evil%3Cb%3E",
                 "/c/pool:evil", "/c/window:evil", "/c/run:evil%2Fs%2F0%2F0", "/log", "/e/chat:evil@2", "/graph",
                 "/e/chat:evil@7", "/search?q=img", "/approvals", "/usage", "/c/evil@1..7", "/projections",
                 "/c/memory:user:evil", "/c/memory:user:evil?tab=log", "/c/queue:evil",
                 "/c/run:evil%2Fs%2F0%2F0?tab=log",
                 f"/log?q={NASTY}&type={NASTY}&actor={NASTY}", f"/?user={NASTY}", f"/c/evil?q={NASTY}&msg={NASTY}",
                 "/n", f"/n?label={NASTY}&user={NASTY}&session={NASTY}", "/pools", f"/pools?kind=queue&q={NASTY}",
                 "/projections/nasty_b", f"/projections/nasty_b?under={NASTY}", "/projections/usage", "/c/evil?tab=raw",
                 "/c/pool:evil?tab=raw", "/c/run:evil%2Fs%2F0%2F0?tab=raw", "/e/3", "/log?pos=3",
                 "/c/evil?tab=replay", f"/n/{quote(node)}?user=evil&session=s",
                 f"/c/beside?run=run:evil%2Fs%2F0%2F0&node={quote(node)}",
                 f"/c/beside?run={NASTY}&node={NASTY}"]  # fmt: skip
        store.rows("nasty_b")
        for path in paths:
            profile.open(path)
            if "beside" in path:
                # It comes after the items of the chat.
                expect(page.get_by_role("application")).to_be_visible()
                expect(page.locator(".drawer h2")).to_have_count(int("node=Table" in path))
            assert page.locator("main img, main script, main b").count() == 0, path
            assert page.evaluate("document.documentElement.scrollWidth") <= 1280, path
        profile.allowed = ["404", "400"]
        for path in (
            f"/c/{quote(NASTY)}",
            f"/e/chat:{quote(NASTY)}@1",
            f"/n/{quote(NASTY)}",
            f"/{quote(NASTY)}",
            f"/projections/{quote(NASTY)}",
            f"/log?pos={quote(NASTY)}",
            f"/n?type={quote(NASTY)}",
        ):
            profile.open(path)
            assert page.locator("main img, main script, main b").count() == 0, path
            expect(page.get_by_role("alert")).to_be_visible()
        profile.open("/projections")
        expect(page.locator("tbody", has_text="nasty_b")).to_contain_text(f"ValueError: {NASTY}")
        page.get_by_role("button", name="Compare nasty_b").click()
        expect(page.locator("tbody", has_text="nasty_b")).to_contain_text("all as those in use")
        for name in ("pool:evil", "chat:evil", "\u00fc/%2F?x#y"):
            profile.open("/")
            page.get_by_role("link", name=name, exact=True).first.click()
            expect(page.locator(".item")).to_contain_text(f"said in {name}")
            page.keyboard.press("Home")
            page.wait_for_url("**@1")
            page.reload()
            expect(ready(page).locator(".about")).to_contain_text("1 of 2")
        page = profile.open("/c/evil@2")
        expect(page.locator(".item .body").first).to_have_text(NASTY + SHOWN)
        page.goto(f"{served.url}/c/run:evil%2Fs%2F0%2F0")
        ready(page).get_by_role("button", name="Table").click()
        page.get_by_role("row").filter(has_text="Table").first.click()
        page.get_by_role("link", name="History of its attributes").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(node)
        profile.close()
        served.stop()


def test_a_command_that_is_shown_does_only_what_it_says(watched: Watched, served: Served) -> None:
    """A name that would end its quotes is one word of the shell."""
    name = "it's; echo gone"
    apart(lambda: served.store.chat(name).add_message("user", "hello"))
    page = watched.open(f"/c/{quote(name)}")
    page.get_by_role("button", name="Fork", exact=True).click()
    shown = page.get_by_role("dialog").locator("code").inner_text()
    assert shlex.split(shown) == ["refold", "fork", f"{name}@2", f"{name}-2"]


def test_a_browser_that_keeps_nothing(watched: Watched) -> None:
    """Where a person allows no page to keep something, this one is there all the same."""
    refuse = (
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    watched.page.add_init_script(refuse)
    page = watched.open("/c/a")
    for _ in range(2):
        page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator(".state")).to_have_text("Live")


def test_the_first_load_is_small(watched: Watched) -> None:
    """The code that a context needs, as it is sent."""
    sizes: list[int] = []

    def note(one: Request) -> None:
        if one.resource_type in ("document", "script", "stylesheet"):
            sizes.append(one.sizes()["responseBodySize"])

    watched.context.on("requestfinished", note)
    watched.open("/c/a")
    assert 5 <= len(sizes) <= 13
    assert sum(sizes) <= FIRST_LOAD_MAX


def _big_run(route: Route) -> None:
    nodes = [
        {"name": f"State(s{at})", "type": "State", "label": f"s{at}", "version": at + 1, "stream": "run:mia/s1/1/0",
         "round": 1, "sub": 0, "attributes": {}, "pointer": False, "column": at // 4, "row": at % 4}
        for at in range(10_000)
    ]  # fmt: skip
    edges = [[f"State(s{at})", f"State(s{at + 4})", "leads", False] for at in range(9_996)]
    route.fulfill(json={"context": "run:mia/s1/1/0", "nodes": nodes, "edges": edges, "columns": 2500, "rows": 4})


def _big_log(route: Route) -> None:
    given = dict(one.split("=") for one in route.request.url.partition("?")[2].split("&"))
    row = int(given.get("row", 0))
    events = [
        {"position": str(at + 1), "stream": "chat:a", "version": at + 1, "at": "2026-01-01T00:00:00Z", "actor": None,
         "type": "chat.message_added.v1", "text": f"line {at + 1}", "because": None, "damaged": False}
        for at in range(row, row + int(given["limit"]))
    ]  # fmt: skip
    route.fulfill(json={"row": row, "events": events, "next": None, "total": 1_000_000, "scanned": len(events)})


def test_millions_of_rows_are_few_elements(watched: Watched) -> None:
    """With 10,000 nodes and 1,000,000 events only what is on the screen exists, wherever one scrolls."""
    page = watched.page
    page.route("**/api/graph?*", _big_run)
    page.route("**/api/log?*", _big_log)
    count = "document.querySelectorAll('*').length"
    watched.open("/c/run:mia%2Fs1%2F1%2F0")
    page.get_by_role("button", name="Table", exact=True).click()
    expect(page.get_by_role("row").first).to_contain_text("State(s0)")
    assert page.evaluate(count) <= DOM_MAX
    page.get_by_role("grid").evaluate("table => { table.scrollTop = table.scrollHeight; }")
    expect(page.get_by_role("row").last).to_contain_text("State(s9999)")
    assert page.evaluate(count) <= DOM_MAX
    watched.open("/log")
    grid = page.get_by_role("grid")
    expect(page.locator(".line").first).to_contain_text("line 1")
    grid.focus()
    page.keyboard.press("End")
    expect(page.locator(".line").last).to_contain_text("line 1000000")
    top = page.locator(".line").first
    first = int(str(top.get_attribute("aria-rowindex")))
    page.keyboard.press("ArrowUp")
    expect(top).to_contain_text(f"line {first - 1}")
    grid.evaluate("grid => { grid.scrollTop = grid.scrollHeight / 2; }")
    expect(page.locator(".line").first).to_contain_text("line 50")
    assert page.evaluate(count) <= DOM_MAX


def test_a_large_graph_is_shown_from_its_beginning_and_as_a_whole(watched: Watched) -> None:
    """It opens at a scale at which nodes can be told from each other, with a map; Fit, or 0, shows all of it."""
    page = watched.page
    page.route("**/api/graph?*", _big_run)
    watched.open("/c/run:mia%2Fs1%2F1%2F0")
    minimap = page.locator("canvas[aria-hidden]").last
    expect(minimap).to_have_css("visibility", "hidden")
    page.get_by_role("button", name="Fold").click()
    expect(minimap).to_have_css("visibility", "visible")
    page.get_by_role("application").focus()
    page.keyboard.press("0")
    expect(minimap).to_have_css("visibility", "hidden")
    page.keyboard.press("+")
    expect(minimap).to_have_css("visibility", "visible")
    page.get_by_role("button", name="Fit").click()
    expect(minimap).to_have_css("visibility", "hidden")


def test_a_long_text_of_a_node_is_not_measured_whole(watched: Watched) -> None:
    """A graph is drawn with each step of a drag: only as much of a text as may have room is looked at."""

    def answer(route: Route) -> None:
        found = route.fetch().json()
        for node in found["nodes"]:
            node["attributes"] = {"query": "Q" * 100_000, "description": "D" * 100_000}
        route.fulfill(json=found)

    page = watched.page
    page.add_init_script(
        "const { prototype } = CanvasRenderingContext2D, { measureText } = prototype; window.longest = 0;"
        "prototype.measureText = function(text) { window.longest = Math.max(window.longest, text.length);"
        " return measureText.call(this, text); };"
    )
    page.route("**/api/graph?*", answer)
    watched.open("/c/run:mia%2Fs1%2F1%2F0")
    drawn = "async () => { while (!window.longest) await new Promise(requestAnimationFrame); return window.longest; }"
    assert page.evaluate(drawn) < 1_000


# The items that are there at versions, and those that left just then.
FOLD_AT = """([columns, versions]) => versions.map((version) => {
  const shown = window.folds.present(columns, version);
  const [there, gone] = [true, false].map((wanted) =>
    shown.filter((place) => window.folds.isThere(columns, place, version) === wanted));
  return [there, gone].map((all) => all.map((place) => columns.item[place]));
})"""

EDITS = ["say", "instruct", "evict", "restore", "truncate", "clear"]

STEPS = st.lists(st.tuples(st.sampled_from(EDITS), st.integers(0, 9)))


@given(STEPS)
@settings(max_examples=15)
def test_the_page_folds_as_python_does(folding: Page, steps: list[tuple[str, int]]) -> None:
    """At each version of a chat both show the same items; the page also shows those that left just then."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        for step, number in [("say", 0), *steps]:
            take_step(chat, step, number)
        answer: Any = QUESTIONS["context"].answer(store, Parameters({"context": "chat:a"}, []))
        found = folding.evaluate(FOLD_AT, [answer["items"], list(range(1, answer["head"] + 1))])
        there: list[str] = []
        for version, (shown, gone) in enumerate(found, 1):
            before, there = there, [item.id for item in chat.at(version).items]
            assert shown == there
            assert set(gone) == set(before) - set(there)


def take_step(chat: refold.ChatContext, step: str, number: int) -> None:
    """Make one of EDITS in a chat."""
    items = chat.items
    match step:
        case "say":
            chat.add_message("user", f"text {number}")
        case "evict" if items:
            chat.evict(items[number % len(items)].id, reason="generated")
        case "restore":
            chat.restore()
        case "truncate":
            chat.truncate(max_items=max(1, number))
        case "clear":
            chat.clear()
        case "instruct":
            chat.add_message("system", f"rule {number}")
