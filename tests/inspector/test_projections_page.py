"""Rebuilding and checking in a browser: progress, the comparison before the swap, and a person's decision."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Route, expect

import refold
from refold.domain.errors import DamagedError
from tests.projecting.histories import folded_rows, stored_rows
from tests.support.every_kind import fill

from .browser import Served, Watched, apart, intercept, running_browser
from .gates import Gate, spoil


@pytest.fixture(scope="module")
def store() -> Iterator[refold.Store]:
    """A store with some of everything; only this module has it."""
    with refold.open(":memory:") as opened:
        apart(lambda: asyncio.run(fill(opened)))
        yield opened


@pytest.fixture(autouse=True)
def _right_rows(store: refold.Store) -> Iterator[None]:
    """Each test begins with right rows, whatever became of those of another."""
    yield
    store.rebuild("catalogue")


@pytest.fixture(scope="module")
def served(store: refold.Store) -> Iterator[Served]:
    """It is served for writing."""
    server = Served(store, write=True)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests here."""
    with running_browser() as started:
        yield started


def of(watched: Watched, name: str) -> Locator:
    """Return the lines of a projection."""
    return watched.page.locator("tbody", has=watched.page.locator("td.name", has_text=name))


def press(row: Locator, name: str) -> None:
    """Press a button of a projection, as one who uses only keys does."""
    button = row.get_by_role("button", name=name)
    button.focus()
    row.page.keyboard.press("Enter")


def test_new_rows_are_swapped_when_a_person_has_seen_how_they_differ(watched: Watched, store: refold.Store) -> None:
    """Each key that differs is shown with both values; until the swap the old rows are read."""
    spoil(store, "chat:brief")
    wrong = stored_rows(store, "catalogue")
    watched.open("/projections")
    row = of(watched, "catalogue")

    press(row, "Rebuild catalogue")

    expect(row).to_contain_text("2 keys differ")
    expect(row.locator(".differing tr").filter(has_text="chat:brief")).to_contain_text("items: 99")
    expect(row.locator(".differing tr").filter(has_text="chat:~none")).to_contain_text("missing")
    assert stored_rows(store, "catalogue") == wrong
    press(row, "Swap")
    expect(row).to_contain_text("new rows are in use")
    assert stored_rows(store, "catalogue")["catalogue"] == folded_rows(store)["catalogue"]
    press(row, "Rebuild catalogue")
    expect(row).to_contain_text("all as those in use")
    press(row, "Discard")
    expect(row.get_by_role("button", name="Swap")).to_have_count(0)
    assert {one.name: one.rebuilt for one in store.projections()}["catalogue"] is None


def test_progress_is_shown_and_a_rebuild_is_cancelled(
    watched: Watched, store: refold.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every page that is open; the focus stays where it is while numbers change; what was left can go on."""
    gate = Gate(store, monkeypatch)
    other = watched.open("/projections", watched.context.new_page())
    watched.open("/projections")
    row = of(watched, "rollup")
    press(row, "Rebuild rollup")
    gate.wait()
    expect(row).to_contain_text("16 of")
    expect(row.get_by_role("progressbar")).to_be_visible()
    expect(other.locator("tbody", has=other.locator("td.name", has_text="rollup"))).to_contain_text("16 of")
    watched.page.reload()
    expect(row).to_contain_text("16 of")
    cancel = row.get_by_role("button", name="Cancel")
    cancel.focus()
    watched.page.keyboard.press("Enter")
    expect(row).to_contain_text("Stopping")
    expect(cancel).to_be_focused()
    gate.open()
    expect(row).to_contain_text("Nothing in use has changed")
    expect(row).to_contain_text("A rebuild was left after 16 events")
    press(row, "Continue")
    expect(row).to_contain_text("all as those in use")
    press(row, "Discard")
    expect(row.get_by_role("button", name="Swap")).to_have_count(0)


def test_a_page_whose_server_died_offers_to_go_on(
    browser: Browser, store: refold.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server that comes back knows no job, and the page its token; the rows that were left are in the store."""
    first = Served(store, write=True)
    profile = Watched(browser, first)
    profile.allowed = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET"]
    gate = Gate(store, monkeypatch)
    profile.open("/projections")
    row = of(profile, "growth")
    press(row, "Rebuild growth")
    gate.wait()
    first.app.state.jobs.cancel("growth")
    gate.open()
    first.stop()
    expect(profile.page.locator(".state")).not_to_have_text("Live")
    with profile.page.expect_event("load"):
        first.start()
    expect(profile.page.locator(".state")).to_have_text("Live")
    expect(row).to_contain_text("A rebuild was left after")
    # What is shown anew as it was keeps the focus, also while others write.
    row.get_by_role("button", name="Continue").focus()
    apart(lambda: store.chat("meanwhile").add_message("user", "more"))
    expect(profile.page.locator("main")).to_contain_text(f"{store.now().events} events in the log")
    expect(row.get_by_role("button", name="Continue")).to_be_focused()
    profile.page.keyboard.press("Enter")
    expect(row).to_contain_text("all as those in use")
    press(row, "Discard")
    expect(row).not_to_contain_text("A rebuild was left")
    profile.close()
    first.stop()


def test_the_whole_store_is_checked(watched: Watched, store: refold.Store) -> None:
    """A sound store is whole; wrong rows are named, with how to mend them."""
    page = watched.open("/projections")
    whole = page.get_by_role("region", name="The whole store")
    page.get_by_role("button", name="Check the whole store").click()
    expect(whole).to_contain_text("every event has its place and fits its digest")
    spoil(store, "chat:brief")
    page.get_by_role("button", name="Check the whole store").click()
    expect(whole).to_contain_text("projection catalogue")
    expect(whole).to_contain_text("refold verify --repair")
    expect(whole.get_by_role("link", name="chat:~none@")).to_be_visible()


def test_what_fails_says_why(watched: Watched, store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in use that cannot be compared, and a job that ends with an error, are shown where they were started."""

    def torn(*_: object) -> Any:
        raise DamagedError("the table of usage", "it is torn")

    watched.open("/projections")
    row = of(watched, "usage")
    monkeypatch.setattr(store._projections, "walk", torn)
    press(row, "Rebuild usage")
    expect(row).to_contain_text("The rows in use cannot be compared: the table of usage")
    answered: list[str] = []
    held: list[Route] = []
    watched.page.on("requestfinished", lambda request: answered.append(request.url.rpartition("/")[2]))
    # The first of two requests is slow, and is still the first.
    intercept(watched.page, "**/api/discard", lambda route: held.append(route))
    press(row, "Discard")
    press(row, "Compare usage")
    watched.page.wait_for_timeout(100)
    held.pop().continue_()
    expect(row).to_contain_text("failed")
    expect(row).to_contain_text("it is torn")
    assert [path for path in answered if path in ("discard", "check")] == ["discard", "check"]


def test_a_projection_has_a_page_of_its_own(watched: Watched, store: refold.Store) -> None:
    """Its line with its buttons, and its rows, of which some are chosen by their keys."""
    page = watched.open("/projections")
    page.get_by_role("link", name="catalogue").click()
    page.wait_for_url("**/projections/catalogue")
    expect(page.get_by_role("heading", level=1)).to_have_text("catalogue")
    rows = page.get_by_role("region", name="Its rows").locator("tbody tr")
    expect(rows).to_have_count(len(store.contexts()))
    page.get_by_label("Keys that begin with").fill("run:")
    page.wait_for_url("**/projections/catalogue?under=run*")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("session s1")
    press(of(watched, "catalogue"), "Compare catalogue")
    expect(page.locator("main")).to_contain_text("all as those in use")
    watched.allowed = ["404"]
    watched.open("/projections/none")
    expect(page.get_by_role("alert")).to_contain_text("none")
