"""
How soon does the page show its screens, with a graph of 10,000 nodes and with a log of 2,000,000 events?

The server is `refold ui`, a process of its own; the browser is Chromium without a screen. Times are taken in the page,
from a key, a scroll or the beginning of a load to the frame in which all of it is drawn. The processor time is that of
the page's main thread, and needs no quiet machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import refold
from refold import Store

from ..bench import Bench
from ..rows import MILLISECONDS, Goal, Row
from ..timing import Stats, of_values
from . import large
from .graphs import SESSION, USER, growing

if TYPE_CHECKING:
    # Where frameworks are measured there is no driver of a browser.
    from playwright.sync_api import Browser, Page

# The switches of the tests' browser that affect the speed; the caches of the machine stay as they are.
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
# Chromium first, unlike in the tests: the figures in docs/benchmarks.md were taken with it.
PROGRAMS = ("chromium", "chromium-headless-shell")
STEP_GOAL, LOAD_GOAL, JUMP_GOAL = (Goal(limit, absolute=True) for limit in (30, 1_500, 100))
AT_ONCE = 1_000
LOADS = 3
SHOWN = re.compile(r"is shown at (http://\S+)/")
# Notes when the screen is there and drawn.
READY = """
new MutationObserver((_, seen) => {
  if (!document.documentElement?.dataset.ready) return;
  seen.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.readyAt = performance.now(); }));
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-ready"] });
"""
# A message is taken up after the frame is drawn.
DRAWN = """
const drawn = async () => {
  await new Promise(requestAnimationFrame);
  const { port1, port2 } = new MessageChannel();
  await new Promise((done) => { port1.onmessage = done; port2.postMessage(0); });
};
"""
STEP = f"""async (key) => {{
  {DRAWN}
  const began = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true, cancelable: true }}));
  await drawn();
  return performance.now() - began;
}}"""
JUMP = f"""async (share) => {{
  {DRAWN}
  const rows = document.querySelector(".rows");
  const isWaiting = () => [...rows.querySelectorAll(".line")].some((line) => line.children[1].textContent === "…");
  const began = performance.now();
  rows.scrollTop = share * (rows.scrollHeight - rows.clientHeight);
  do await drawn(); while (performance.now() - began < 40 || isWaiting());
  return performance.now() - began;
}}"""


class MissingBrowserError(Exception):
    """No browser is installed."""


def inspector(bench: Bench, database: str) -> Iterator[Row]:
    """
    Show a run of many nodes, and a store of many events.

    Raises:
        MissingBrowserError: there is no browser.
    """
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise MissingBrowserError(f"no {' or '.join(PROGRAMS)} on PATH")
    with bench.subjects(database, ("ours",)) as small, bench.subjects(database, ("ours",)) as full:
        locations = [subjects["ours"].location for subjects in (small, full)]
        # This comes before the browser starts, because its driver runs an event loop in this thread.
        for location, fill in zip(locations, (_fill_run, _fill_log), strict=True):
            with closing(refold.open(location)) as store:
                fill(store, bench)
        with _browser(program) as browser:
            yield from of_run(browser, locations[0], database, bench)
            yield from of_log(browser, locations[1], database, bench)


def of_run(browser: Browser, location: str, database: str, bench: Bench) -> Iterator[Row]:
    """Load the graph of a run, and go back through its versions one by one; straight runs folded, and opened."""
    label = f"a run of {bench.scale.loaded:,} nodes"
    with _served(location) as (url, _):
        path = f"{url}/c/run:{USER}%2F{SESSION}%2F0%2F0"
        yield _loads(browser, path, f"first load of {label}", database)
        for folded in (True, False):
            with _page(browser, path) as page:
                if not folded:
                    page.get_by_role("button", name="Fold").click()
                steps = _measured(page, bench, lambda page: page.evaluate(STEP, "ArrowLeft"))
            sort = "folded" if folded else "all of it drawn"
            yield Row(f"one step in time, {label}, {sort}", database, MILLISECONDS, {"ours": steps}, STEP_GOAL)


def of_log(browser: Browser, location: str, database: str, bench: Bench) -> Iterator[Row]:
    """Start the server of a large store, load its first page, and jump to random lines of its log."""
    label = f"{bench.scale.stored:,} events"
    with _served(location) as (url, seconds):
        yield Row(f"`refold ui` answers, {label}", database, MILLISECONDS, {"ours": of_values(seconds)})
        yield _loads(browser, f"{url}/", f"first load of the contexts, {label}", database)
        with _page(browser, f"{url}/log") as page:
            shares = iter(_shares(bench))
            jumps = _measured(page, bench, lambda page: page.evaluate(JUMP, next(shares)))
        yield Row(f"a jump in the log, {label}", database, MILLISECONDS, {"ours": jumps}, JUMP_GOAL)


def _shares(bench: Bench) -> list[float]:
    """Return places of the log that are far from each other, as fractions of its length."""
    count = bench.scale.runs * bench.scale.blocks + 1
    # The golden ratio spreads any number of places evenly.
    return [number * 0.618034 % 1 for number in range(1, count + 1)]


def _measured(page: Page, bench: Bench, act: Callable[[Page], float]) -> Stats:
    """
    Return the times that an action takes in the page: the first one, and blocks of later ones; and the work of the page
    itself.
    """
    stats = Stats(first=[act(page) / 1_000])
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    for _ in range(bench.scale.blocks):
        before = _work(session)
        stats.blocks.append([act(page) / 1_000 for _ in range(bench.scale.runs)])
        stats.processor.append((_work(session) - before) / bench.scale.runs)
    return stats


def _work(session: Any) -> float:
    """Return the seconds for which the page's main thread has worked."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def _loads(browser: Browser, path: str, label: str, database: str) -> Row:
    """Load a page, each time with an empty cache."""
    seconds = []
    for _ in range(LOADS):
        with _page(browser, path) as page:
            seconds.append(float(page.evaluate("window.readyAt")) / 1_000)
    return Row(label, database, MILLISECONDS, {"ours": of_values(*seconds)}, LOAD_GOAL)


@contextmanager
def _page(browser: Browser, path: str) -> Iterator[Page]:
    """Open a page in a fresh profile, and wait until its screen is drawn."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_init_script(READY)
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(path)
    page.wait_for_selector("html[data-ready]", state="attached")
    # Not `wait_for_function`, which the page's policy forbids: it makes code of a text.
    while page.evaluate("window.readyAt") is None:
        page.wait_for_timeout(10)
    yield page
    context.close()


@contextmanager
def _browser(program: str) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def _served(location: str) -> Iterator[tuple[str, float]]:
    """Start `refold ui`; yield its address, and the seconds until it answered."""
    command = [sys.executable, "-m", "refold", "ui", "--db", location, "--port", "0", "--no-open"]
    began = perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = next((one for line in process.stderr if (one := SHOWN.search(line))), None)
            if found is None:
                raise RuntimeError(f"refold ui ended with {process.wait()}")
            yield found[1], perf_counter() - began
        finally:
            process.terminate()


def _fill_run(store: Store, bench: Bench) -> None:
    """Register the nodes of a run: actions, each with a table that it found and a conclusion."""
    run = store.run(USER, SESSION)
    run.register_query("Which orders are late?")
    grow, count = growing(run), bench.scale.loaded
    for start in range(0, count, AT_ONCE):
        with store.transaction():
            for _ in range(start, min(count, start + AT_ONCE)):
                grow()


def _fill_log(store: Store, bench: Bench) -> None:
    """Write the events, and fold them once, as the first question does, or `refold run` while they are written."""
    large.fill(store, bench.scale.stored)
    store.contexts()
    store.rollup()
