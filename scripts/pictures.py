"""
Pictures of each screen of the page: light and dark, wide and narrow, with few data and with many.

People who change the page look at them. Beside the tests there are two pictures of each screen, which differ in all
three respects, and some pictures are in the documents. If a folder is given as an argument, all pictures are written to
it.
"""

from __future__ import annotations

import asyncio
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple

import refold
from refold.infrastructure.demo import fill_store
from refold.infrastructure.demo.analysis import ROUNDS, SESSION, USER
from refold.infrastructure.open import open_store

ROOT = Path(__file__).resolve().parents[1]
BESIDE_TESTS = ROOT / "tests" / "inspector" / "pictures"
IN_DOCUMENTS = ROOT / "docs" / "pictures"
# The end of all histories, and ten minutes later, when they are looked at.
UNTIL = 1_795_000_000.0
LOOKED_AT = UNTIL + 600
THEMES = ("light", "dark")
WIDTHS = {"wide": {"width": 1440, "height": 900}, "narrow": {"width": 375, "height": 760}}
KEPT = (("light", "wide", "many"), ("dark", "narrow", "few"))
# Those that documents show.
SHOWN = ("items-light-wide-many.png", "forks-light-wide-many.png", "run-light-wide-many.png")
# Few colours make small files; letters stay readable.
COLOURS = 128
RUN = "run:mia.frey%2Flate-orders%2F1%2F0"
BESIDE_MANY = "/c/late-orders?run=run:mia.frey%2Flate-orders%2F1%2F0&node=Table(orders)"
CRAWL = "run:ops%2Fcrawl%2F0%2F0"


class Shot(NamedTuple):
    """A picture's name, which screen of the page it shows, and the addresses of it with few and with many data."""

    name: str
    screen: str
    few: str
    many: str
    act: Callable[[Any], None] | None = None


def _choose(page: Any) -> None:
    page.locator(".item").nth(2).click()


def _help(page: Any) -> None:
    page.keyboard.press("?")


def _fork(page: Any) -> None:
    page.keyboard.press("f")


def _choose_two(page: Any) -> None:
    rows = page.locator("tbody tr")
    for number in (0, 1):
        rows.nth(number).click(position={"x": 40, "y": 12})


def _merge(page: Any) -> None:
    rows = page.locator("tbody tr").filter(has=page.get_by_text("head", exact=True))
    for name in (("support-42-again", "support-42@"), ("flaky-test-two-models", "flaky-test@"))[rows.count() > 3]:
        rows.filter(has_text=name).first.locator("td").nth(2).click()
    page.get_by_role("button", name="Merge").click()


def _node(page: Any) -> None:
    page.locator("canvas.graph").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    # Its attributes are asked for when it is chosen.
    page.locator("aside pre").first.wait_for(state="attached")


def _graph_beside(page: Any) -> None:
    # On a narrow page it is a tab.
    if page.get_by_role("tab", name="Graph").is_visible():
        page.get_by_role("tab", name="Graph").click()
    if "node=" in page.url:
        # Its attributes are asked for when it is chosen.
        page.locator(".drawer pre").first.wait_for(state="attached")


def _table(page: Any) -> None:
    page.get_by_role("button", name="Table").click()


SHOTS = (
    Shot("contexts", "home", "/", "/"),
    Shot("none", "home", "/?user=nobody", "/?user=nobody"),
    Shot("items", "context", "/c/support-42", "/c/refund-7Q2KLM"),
    Shot("past", "context", "/c/support-42@4", "/c/flaky-test@61", _choose),
    Shot("long", "context", "/c/support-42@6", "/c/night-watch@8100"),
    Shot("beside", "context", "/c/support-42?run=run:mia%2Forders%2F0%2F0", BESIDE_MANY, _graph_beside),
    Shot("tokens", "context", "/c/support-42?tab=tokens", "/c/lease-review@198?tab=tokens"),
    Shot("left", "context", "/c/support-42?tab=left", "/c/flaky-test?tab=left"),
    Shot("events", "context", "/c/support-42?tab=log", "/c/heron-report@40?tab=log"),
    Shot("fork", "context", "/c/support-42@5", "/c/refund-7Q2KLM@20", _fork),
    Shot("window", "context", "/c/window:draft", "/c/window:heron-draft@15"),
    Shot("pool", "context", "/c/pool:notes", "/c/pool:policies@8"),
    Shot("memory", "context", "/c/memory:user:mia", "/c/memory:user:ada.brink"),
    Shot("run", "context", "/c/run:mia%2Forders%2F0%2F0", f"/c/{RUN}", _node),
    Shot("run-past", "context", "/c/run:mia%2Forders%2F0%2F0@3", f"/c/{RUN}@40"),
    Shot("run-large", "context", "/c/run:mia%2Forders%2F0%2F0", f"/c/{CRAWL}"),
    Shot("run-table", "context", "/c/run:mia%2Forders%2F0%2F0", f"/c/{RUN}", _table),
    Shot("differences", "diff", "/c/support-42@3..7", "/c/flaky-test@55..75"),
    Shot(
        "two-chats", "diff", "/diff/support-42@7...support-42-again@2", "/diff/heron-report@30...heron-report-short@3"
    ),
    Shot("forks", "graph", "/graph", "/graph", _choose_two),
    Shot("merge", "graph", "/graph", "/graph", _merge),
    Shot("node", "node", "/n/Table(orders)", "/n/Table(orders)?user=mia.frey&session=late-orders"),
    Shot("raw", "context", "/c/support-42@4?tab=raw", "/c/flaky-test@61?tab=raw"),
    Shot("pools", "pools", "/pools", "/pools"),
    Shot("nodes", "nodes", "/n", "/n?user=mia.frey&session=late-orders"),
    Shot("projection", "projection", "/projections/catalogue", "/projections/usage"),
    Shot("log", "log", "/log", "/log?row=12000"),
    Shot("log-at", "log", "/log?pos=4", "/log?pos=12000"),
    Shot("log-by-actor", "log", "/log?actor=mia", "/log?actor=noor.vasquez"),
    Shot("event", "event", "/e/chat:support-42@3", "/e/chat:refund-7Q2KLM@16"),
    Shot("search", "search", "/search?q=order", "/search?q=taxi"),
    Shot("usage", "usage", "/usage", "/usage"),
    Shot("approvals", "approvals", "/approvals", "/approvals"),
    Shot("projections", "projections", "/projections", "/projections"),
    Shot("help", "home", "/", "/", _help),
    Shot("missing", "home", "/c/nothing-here", "/c/refund-7Q2KLM@900"),
)


class Picture(NamedTuple):
    """One picture: what it shows, and with which setting."""

    shot: Shot
    theme: str
    width: str
    data: str

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.shot.name}-{self.theme}-{self.width}-{self.data}.png"

    @property
    def address(self) -> str:
        """The path that it is a picture of."""
        return self.shot.few if self.data == "few" else self.shot.many


def pictures(*, is_all: bool) -> Iterator[Picture]:
    """Yield the pictures: all, or of each screen the two that differ in everything."""
    for shot, theme, width, data in product(SHOTS, THEMES, WIDTHS, ("few", "many")):
        if is_all or (theme, width, data) in KEPT:
            yield Picture(shot, theme, width, data)


def fill_few(store: refold.Store) -> None:
    """Write a chat, its fork, a call that waits, and a run of four nodes."""
    chat = store.chat("support-42", user="mia", session="orders", agent="triage")
    with refold.acting(actor="mia"):
        chat.add_message("user", "Where is my order 7?")
    call = chat.add_function_call("lookup", '{"order": 7}')
    chat.add_function_output("lookup", "in transit", call_id=call.call_id)
    chat.add_message(
        "assistant", "It is on its way.", model="north-small", input_tokens=212, output_tokens=9, cost=0.0001
    )
    chat.name_version("answered")
    with refold.acting(actor="mia"):
        chat.add_message("user", "Cancel it, please.")
    waiting = chat.add_function_call("cancel", '{"order": 7}')
    chat.approvals.request(waiting.call_id, because="it was paid")
    chat.at("answered").fork("support-42-again").add_message("user", "Send it to my office, please.")
    run = store.run("mia", "orders", 0, agent="analyst")
    asked = run.register_query("How many orders were late?")
    read = run.register_node("Action", "", [asked], action="read", params={"table": "orders"}, output="3", success=True)
    table = run.register_node("Table", "", [read], label="orders", path="/data/orders.csv")
    run.register_node("State", "", [read], state="Two of three.")
    run.modify_node(table, {"description": "Orders of 2031"})
    chat.add_message("assistant", "Shall I cancel all three that were late?")
    window = store.window("draft", max_tokens=40)
    for number in range(3):
        window.add(refold.BudgetItem(f"note {number}", "The order left the warehouse on Monday.", "tool", number))
    notes = store.pool("notes")
    asyncio.run(notes.add(refold.PoolItem("It is in Lyon.", "where the stock is", "stock")))
    store.memory().scope("user:mia").put(refold.MemoryRecord(scope="user:mia", key="language", value="en"))


class End:
    """The clock of the store with many data, which stands at the end of all histories, and ids of its own."""

    def __init__(self) -> None:
        self._ids = count(0xFFFF00000000)

    def now(self) -> float:
        """Return the end, in seconds since 1970."""
        return UNTIL

    def new_id(self, prefix: str) -> str:
        """Return an id that no history has."""
        return f"{prefix}{next(self._ids):012x}"


def fill_beside(store: refold.Store) -> None:
    """Write the chat of the session whose runs the made-up histories have."""
    chat = store.chat("late-orders", user=USER, session=SESSION, agent="analyst")
    for question, _, conclusion in ROUNDS:
        with refold.acting(actor=USER):
            chat.add_message("user", question)
        if conclusion:
            chat.add_message("assistant", conclusion)


def take(wanted: list[Picture], folder: Path) -> None:
    """Take pictures into a folder."""
    # Here, so that their list needs no browser.
    from tests.inspector.browser import Served, apart, running_browser

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        stores = {data: stack.enter_context(_store(Path(temporary, f"{data}.db"), data)) for data in ("few", "many")}
        served = {data: Served(store, write=True, name=f"{data}.db") for data, store in stores.items()}
        browser = stack.enter_context(running_browser())
        for place, picture in enumerate(wanted):
            (folder / picture.file).write_bytes(_taken(browser, served[picture.data].url, picture))
            print(f"{place + 1} of {len(wanted)}: {picture.file}", flush=True)
        for one in served.values():
            apart(one.stop)


def _store(place: Path, data: str) -> refold.Store:
    """Return the store that has few data, or many."""
    if data == "many":
        fill_store(str(place), size="large", until=UNTIL)
        with open_store(str(place), system=End()) as store:
            fill_beside(store)
        return refold.open(place)
    store = refold.open(place)
    fill_few(store)
    return store


def _taken(browser: Any, url: str, picture: Picture) -> bytes:
    """Return a picture as PNG."""
    context = browser.new_context(viewport=WIDTHS[picture.width], color_scheme=picture.theme, reduced_motion="reduce")
    try:
        page = context.new_page()
        if picture.data == "many":
            page.clock.set_fixed_time(LOOKED_AT)
        page.goto(url + picture.address)
        page.locator("html[data-ready]").wait_for(state="attached")
        page.wait_for_timeout(500)
        if picture.shot.act is not None:
            picture.shot.act(page)
            page.wait_for_timeout(500)
        return _small(page.screenshot())
    finally:
        context.close()


def _small(png: bytes) -> bytes:
    """Return a picture in few of its colours: backgrounds keep theirs, and so do small signs in strong colours."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as opened:
        image = opened.convert("RGB")
        found: Any = sorted(image.getcolors(image.width * image.height) or (), key=_weight, reverse=True)
        palette = Image.new("P", (1, 1))
        palette.putpalette([part for _, colour in found[:COLOURS] for part in colour])
        small = image.quantize(palette=palette, dither=Image.Dither.NONE)
    made = io.BytesIO()
    small.save(made, "PNG", optimize=True)
    return made.getvalue()


def _weight(counted: tuple[int, tuple[int, int, int]]) -> float:
    """Return how much a colour matters: one that is far from grey counts as many times as often as it is so."""
    count, colour = counted
    return count * (1 + (max(colour) - min(colour)) / 8)


def main(*arguments: str) -> None:
    """Take the pictures, or list them."""
    if arguments == ("--list",):
        print(*(f"{one.shot.screen} {one.file}" for one in pictures(is_all=False)), sep="\n")
        return
    is_all = bool(arguments)
    take(list(pictures(is_all=is_all)), Path(arguments[0]) if is_all else BESIDE_TESTS)
    if not is_all:
        IN_DOCUMENTS.mkdir(exist_ok=True)
        for name in SHOWN:
            shutil.copyfile(BESIDE_TESTS / name, IN_DOCUMENTS / name)


if __name__ == "__main__":
    main(*sys.argv[1:])
