"""A store with some of everything behind a server, and a browser that looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import refold
from tests.support.every_kind import fill

from .browser import Served, Watched, apart, running_browser

CONTEXTS = 210


async def _fill(store: refold.Store) -> None:
    await fill(store)
    await _fill_compared(store)
    pay = store.chat("pay")
    for number in range(2):
        pay.add_function_call("pay", f'{{"amount": {number}}}', call_id=f"c{number}")
        pay.approvals.request(f"c{number}", because="much money")
    for number in range(CONTEXTS):
        store.chat(f"many{number:03}", user="many")
    for name, count in {"scrubbed": 60, "live": 60, "restarted": 60, "tabs": 60, "long": 130}.items():
        chat = store.chat(name)
        for number in range(count):
            chat.add_message("user" if number % 3 == 0 else "assistant", f"{name} {number}")


async def _fill_compared(store: refold.Store) -> None:
    """Make a pool in which, from version 6 on, an item came, one went, one changed and one moved."""
    pool = store.pool("compared")
    for name in ("stays", "moves", "between", "changes", "goes"):
        await pool.add(refold.PoolItem(f"{name} as it was", name, name))
    for name, content in {"moves": "moves as it was", "changes": "changes as it is"}.items():
        await pool.remove(name)
        await pool.add(refold.PoolItem(content, name, name))
    await pool.remove("goes")
    await pool.add(refold.PoolItem("new", "comes", "comes"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database that is served."""
    return tmp_path_factory.mktemp("inspector") / "s.db"


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[Served]:
    """A store with some of everything, served for writing."""
    with refold.open(str(place)) as store:
        apart(lambda: asyncio.run(_fill(store)))
        server = Served(store, write=True)
        yield server
        server.stop()


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    """One browser for all tests here; each has a profile of its own."""
    with running_browser() as started:
        yield started


@pytest.fixture
def watched(browser: Browser, served: Served) -> Iterator[Watched]:
    """A fresh profile; the test fails on each fault that is only seen in the browser's console."""
    profile = Watched(browser, served)
    yield profile
    profile.close()


@pytest.fixture(scope="module")
def _profiles(browser: Browser) -> Iterator[dict[str, Watched]]:
    profiles: dict[str, Watched] = {}
    yield profiles
    for profile in profiles.values():
        profile.close()


@pytest.fixture
def kept(_profiles: dict[str, Watched], browser: Browser, served: Served) -> Iterator[Callable[..., Watched]]:
    """
    Return the profile of the module with some settings, for tests that only look at one page.

    The processes of a fresh one take as long as such a test. Storage and faults are those of the test alone.
    """
    taken: list[Watched] = []

    def take(**settings: Any) -> Watched:
        key = repr(settings)
        if key not in _profiles:
            _profiles[key] = Watched(browser, served, **settings)
        taken.append(_profiles[key])
        return _profiles[key]

    yield take
    for profile in taken:
        profile.settle()


@pytest.fixture(scope="module")
def folding(browser: Browser, served: Served) -> Iterator[Page]:
    """A page with the functions of feed.js that fold."""
    profile = Watched(browser, served)
    page = profile.open("/c/a")
    source = page.locator("script[src]").get_attribute("src")
    assert source
    page.evaluate("async address => { window.folds = await import(address); }", source.replace("page.js", "feed.js"))
    yield page
    profile.close()
