"""Contexts with more items than one answer has: the page gets a window of versions, and asks for the next one."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from playwright.sync_api import Page, Route, expect

import refold
from refold.infrastructure.inspector import answers, windows
from refold.infrastructure.inspector.parameters import Parameters
from refold.infrastructure.inspector.questions import QUESTIONS

from .browser import Served, Watched, apart, intercept
from .test_page_limits import DOM_MAX, FOLD_AT, STEPS, take_step

# In place of 50,000 intervals, and 5,000 changes on either side.
INTERVALS, CHANGES, HELD = 50, 20, 12


def ask(store: refold.Store, question: str, **given: str) -> Any:
    """Return the answer to a question about the chat `a`."""
    return QUESTIONS[question].answer(store, Parameters({"context": "chat:a", **given}, []))


@pytest.mark.parametrize("kind", ["chat", "chat,chat", "queue,chat,chat"])
def test_a_kind_that_is_named_twice_counts_once(kind: str) -> None:
    """Each of its contexts is listed once, on whichever page."""
    with refold.open(":memory:") as store:
        for name in "abc":
            store.chat(name).add_message("user", "Hello.")
        found, cursor = [], ""
        while cursor is not None:
            page = ask(store, "contexts", kind=kind, limit="2", cursor=cursor)
            found += [row["id"] for row in page["contexts"]]
            cursor = page["cursor"]

    assert found == ["a", "b", "c"]


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Windows that a small context fills."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "INTERVALS_MAX", INTERVALS)
        patch.setattr(windows, "INTERVALS_MAX", INTERVALS)
        patch.setattr(windows, "CHANGES_MAX", CHANGES)
        patch.setattr(windows, "HELD_MAX", HELD)
        yield


@pytest.fixture(scope="module")
def served(small: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store with a chat of 150 versions that keeps its newest 30 items, and one that keeps all of its own."""
    with refold.open(str(tmp_path_factory.mktemp("windows") / "s.db")) as store:
        apart(_fill, store)
        server = Served(store)
        yield server
        server.stop()


def _fill(store: refold.Store) -> None:
    # The page with the functions that fold shows this one.
    store.chat("a")
    for name, most in (("rolls", 30), ("stays", 1_000)):
        chat = store.chat(name)
        for number in range(120):
            chat.add_message("user" if number % 3 == 0 else "assistant", f"{name} {number}")
            if number % 4 == 3:
                chat.truncate(max_items=most)


def _shown(page: Page) -> list[str]:
    expect(page.locator(".context:not([aria-busy])")).to_be_attached()
    return page.locator(".item:not(.gone) .body").all_inner_texts()


def test_a_small_context_comes_at_once(served: Served) -> None:
    """Up to the limit there are no windows."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        for number in range(INTERVALS):
            chat.add_message("user", str(number))
        assert "window" not in ask(store, "context")
        chat.add_message("user", "one more")
        assert ask(store, "context")["window"]["last"] == chat.version


def test_events_of_others_have_nothing_read_again(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The intervals of a long context are read once for all its windows, until it grows or something is erased."""
    read: list[str] = []

    def validity(store: refold.Store, stream: str) -> Any:
        read.append(stream)
        return known(store, stream)

    known = refold.Store.validity
    monkeypatch.setattr(refold.Store, "validity", validity)
    with refold.open(":memory:") as store:
        chat, other = store.chat("a"), store.chat("b")
        for number in range(INTERVALS + 1):
            chat.add_message("user", str(number))
        first = ask(store, "intervals", version="2")
        other.add_message("user", "Hello.")
        assert ask(store, "intervals", version="2") == first
        assert len(read) == 1
        chat.add_message("user", "one more")
        assert ask(store, "context")["items"]["v0"][-1] == chat.version
        assert len(read) == 2
        store.erase(context="chat:b", why="asked for", dry_run=False)
        ask(store, "intervals", version="2")
        assert len(read) == 3


def test_an_older_copy_that_grew_to_the_same_version(small: None, tmp_path: Path) -> None:
    """It has other items in the place of those that were lost, and none of these are shown."""
    place, older = tmp_path / "s.db", tmp_path / "older.db"
    with refold.open(place) as store:
        for number in range(INTERVALS):
            store.chat("a").add_message("user", str(number))
    shutil.copy(place, older)
    with refold.open(older) as copy:
        other = copy.chat("a").add_message("user", "other")
    with refold.open(place) as writer:
        writer.chat("a").add_message("user", "lost")
    with refold.open(place) as store:
        assert windows.intervals_of(store, "chat:a", "chat")[-1].item != other.id
        with closing(sqlite3.connect(older)) as copied, closing(sqlite3.connect(place)) as replaced:
            copied.backup(replaced)
        assert windows.intervals_of(store, "chat:a", "chat")[-1].item == other.id


@given(STEPS.map(lambda steps: [("say", 0)] * 12 + steps + [("say", 1)] * 40 + steps))
@settings(max_examples=10, deadline=None)
def test_each_window_folds_as_python_does(small: None, folding: Page, steps: list[tuple[str, int]]) -> None:
    """Whichever window has a version, the page shows its items, but for the first ones, which the window counts."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        for step, number in steps:
            take_step(chat, step, number)
        version = 1
        while version <= chat.version:
            answer = ask(store, "intervals", version=str(version))
            window, columns = answer["window"], answer["items"]
            assert window["first"] <= version <= window["last"]
            held = window["held"]["count"]
            at = list(range(window["first"], window["last"] + 1))
            for one, (shown, gone) in zip(at, folding.evaluate(FOLD_AT, [columns, at]), strict=True):
                there = [item.id for item in chat.at(one).items]
                before = [item.id for item in chat.at(one - 1).items] if one > 1 else []
                # Those that are left out are the first that are there in the whole window.
                assert len(shown) + held == len(there)
                assert [item for item in there if item in set(shown)] == shown
                assert set(gone) == set(before) - set(there)
            whole = ask(store, "intervals", version=str(version), whole="1")
            [[shown, _]] = folding.evaluate(FOLD_AT, [whole["items"], [version]])
            assert shown == [item.id for item in chat.at(version).items]
            tokens = sum(sum(one[2:]) for one in window["held"]["sums"])
            estimated = dict(zip(whole["items"]["item"], whole["items"]["tokens"], strict=True))
            known = set(folding.evaluate(FOLD_AT, [columns, [version]])[0][0])
            assert tokens == sum(estimated[item] for item in shown if item not in known)
            version = window["last"] + 1


@pytest.mark.parametrize(
    ("came", "left", "is_seen", "is_only_there"),
    [(4, 0, True, True), (5, 0, True, False), (4, 10, True, True), (4, 9, True, False), (4, 4, False, False)],
)
def test_what_comes_or_leaves_in_a_window_is_in_it(came: int, left: int, is_seen: bool, is_only_there: bool) -> None:
    """Its first and last versions belong to it."""
    window, stay = windows.Window(5, 9), SimpleNamespace(v0=came, v1=left)

    assert (window.touches(stay), window.is_within(stay)) == (is_seen, is_only_there)


@pytest.mark.parametrize(
    ("versions_max", "whole", "first", "last", "held"),
    [(500, False, 21, 200, 8), (50, False, 50, 150, 28), (50, True, 50, 150, 0)],
)
def test_how_long_a_window_is(
    small: None, monkeypatch: pytest.MonkeyPatch, versions_max: int, whole: bool, first: int, last: int, held: int
) -> None:
    """Up to the changes, or to the versions, on either side; of what is there throughout, the last items come."""
    monkeypatch.setattr(windows, "VERSIONS_MAX", versions_max)
    same = {"v1": 0, "type": "message", "role": "user", "agent": "", "tokens": 2, "how": "", "reason": ""}
    stays = [SimpleNamespace(item=f"m{at}", birth=f"chat:a@{at}", v0=at, **same) for at in range(1, 41)]

    answer = windows.windowed(stays, "chat:a", 100, 200, whole=whole)

    sums = [["message", "user", 2 * held]] if held else []
    assert (answer["window"]["first"], answer["window"]["last"]) == (first, last)
    assert answer["window"]["held"] == {"count": held, "sums": sums}
    assert answer["items"]["v0"] == [*range(held + 1, 41)]


def test_sums_are_those_of_all_versions(small: None) -> None:
    """The line of versions and the chart of tokens need no window."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        for number in range(2 * INTERVALS):
            chat.add_message("user", "x" * 40 * (number % 5 + 1))
        chat.truncate(max_items=3)
        answer = ask(store, "context")
        stays = store.validity("a")
        sums = answer["sums"]
        assert sums["step"] == 1
        assert sums["came"] == [sum(one.tokens for one in stays if one.v0 == at) for at in range(1, chat.version + 1)]
        assert sums["left"] == [sum(one.tokens for one in stays if one.v1 == at) for at in range(1, chat.version + 1)]


def test_the_page_goes_along_windows(watched: Watched, served: Served) -> None:
    """Within a window it asks for texts only; a reader sees what the server has at each version."""
    chat = served.store.chat("rolls", create=False)
    page = watched.open("/c/rolls@60")
    expected = {
        version: [str(getattr(item, "content", [""])[0]) for item in chat.at(version).items]
        for version in range(50, 100)
    }
    assert set(_shown(page)) <= set(expected[60])
    watched.asked.clear()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
    assert set(watched.asked) <= {"/api/items"}
    for version in range(61, 100):
        page.keyboard.press("ArrowRight")
        expect(page.locator(".about")).to_contain_text(f"{version} of ")
        expect(page.locator(".headline")).to_contain_text(f"{len(expected[version])} items")
        assert set(_shown(page)) <= set(expected[version]) | {"…"}
    assert watched.asked.count("/api/context") == 0
    assert 1 <= watched.asked.count("/api/intervals") <= 6
    watched.asked.clear()
    page.keyboard.press("Home")
    expect(page.locator(".item.added")).to_have_count(0)
    expect(page.locator(".about")).to_contain_text("1 of ")
    page.keyboard.press("End")
    expect(page.locator(".headline")).to_contain_text("30 items")
    assert watched.asked.count("/api/intervals") <= 4


def test_a_drag_over_all_versions_asks_for_few_windows(watched: Watched) -> None:
    """Of the versions that the reader passes while an answer is on its way only the last one is asked for."""
    page = watched.page
    held: list[Route] = []
    is_free = threading.Event()
    watched.open("/c/rolls")

    def hold(route: Route) -> None:
        if is_free.is_set():
            route.continue_()
        else:
            held.append(route)

    intercept(page, "**/api/intervals?*", hold)
    slider = page.get_by_role("slider", name="Version")
    for version in range(1, 100):
        slider.fill(str(version))
    expect(page.locator(".context")).to_have_attribute("aria-busy", "")
    is_free.set()
    [first] = held
    first.continue_()
    expect(page.locator(".context:not([aria-busy])")).to_be_attached()
    expect(page.locator(".about")).to_contain_text("99 of ")
    assert watched.asked.count("/api/intervals") <= 4


def test_a_window_that_does_not_come_says_why(watched: Watched) -> None:
    """And the next step asks for it again."""
    page = watched.open("/c/rolls@2")
    expect(page.locator(".rest")).to_be_hidden()
    watched.allowed = ["500"]
    intercept(
        page, "**/api/intervals?*", lambda route: route.fulfill(status=500, json={"error": "E", "message": "no luck"})
    )
    page.keyboard.press("End")
    expect(page.get_by_role("alert").filter(has_text="no luck")).to_be_visible()
    page.unroute_all()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".headline")).to_contain_text("33 items")
    expect(page.get_by_role("alert").filter(has_text="no luck")).to_have_count(0)


def test_the_first_items_of_a_long_view_are_loaded_when_asked_for(watched: Watched, served: Served) -> None:
    """The page says how many are not there, counts them, and then has them."""
    count = len(served.store.chat("stays", create=False).items)
    page = watched.open("/c/stays")
    expect(page.locator(".headline")).to_contain_text(f"{count} items")
    rest = page.locator(".rest")
    expect(rest).to_contain_text("are not loaded")
    page.get_by_role("tab", name="Tokens").click()
    expect(page.locator("main")).to_contain_text("before them are not loaded")
    page.get_by_role("tab", name="Items").click()
    page.get_by_role("button", name="Load all").click()
    expect(rest).to_be_hidden()
    expect(page.locator(".headline")).to_contain_text(f"{count} items")
    expect(page.locator(".item").first).to_have_attribute("aria-setsize", str(count))
    assert page.evaluate("document.querySelectorAll('*').length") <= DOM_MAX


def test_what_is_beyond_the_window_is_found(watched: Watched, served: Served) -> None:
    """What was chosen stays chosen, a search leads to versions that are not here, and turns go on behind the end."""
    page = watched.open("/c/rolls")
    page.locator(".finder").fill("rolls 5")
    page.locator(".finder").press("Enter")
    page.locator("aside").get_by_role("button").first.click()
    page.wait_for_url("**/c/rolls@7?*")
    expect(page.locator(".item[aria-current=true]")).to_contain_text("rolls 5")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator(".about")).to_contain_text("8 of ")
    for _ in range(20):
        page.keyboard.press("Shift+ArrowRight")
        expect(page.locator(".context:not([aria-busy])")).to_be_attached()
    expect(page.locator(".item.added")).to_contain_text("rolls 66")
    item = served.store.chat("rolls", create=False).at(60).items[-1].id
    watched.open(f"/c/rolls@60?msg={item}")
    expect(page.locator(".item[aria-current=true]")).to_have_count(1)
    page.keyboard.press("End")
    expect(page.locator(".headline")).to_contain_text("30 items")
    page.keyboard.press("Home")
    expect(page.locator(".item")).to_have_count(0)
