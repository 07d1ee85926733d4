"""The log from a position or from a line on, as JSON on each sort of store, and on the page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import refold
from refold.domain.errors import LogWentBackError
from refold.domain.positions import Moment
from refold.infrastructure.inspector import live, log_answers
from refold.projections.rollup import RollupRow
from tests.support.every_kind import fill

from .asking import Asked
from .browser import Served, Watched, apart, ready, running_browser

SESSIONS, TURNS = 3, 130


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Asked]:
    """A filled store of each sort."""
    places = {"memory": ":memory:", "sqlite": str(tmp_path / "s.db")}
    place = places.get(request.param) or request.getfixturevalue("ready_pg_url")
    with refold.open(place) as store:
        asyncio.run(fill(store))
        yield Asked(store)


def _lines(asked: Asked) -> list[dict[str, Any]]:
    """Return all lines of the log, from its beginning on."""
    found: list[dict[str, Any]] = []
    after = None
    while page := asked("log", limit=50, **({"after": after} if after else {})):
        if not page["events"]:
            break
        found += page["events"]
        after = page["next"]
    return found


def _ref(line: dict[str, Any]) -> str:
    return f"{line['stream']}@{line['version']}"


@pytest.mark.long
def test_a_position_is_the_first_line(asked: Asked) -> None:
    """That of each event; on a log with one sequence its number is that of the line."""
    lines = _lines(asked)
    for at, line in enumerate(lines):
        found = asked("log", pos=line["position"], limit=1)
        assert found["events"] == [line]
        assert asked("event", event=line["position"])["digest"] == asked("event", event=_ref(line))["digest"]
        if not asked.meta["has_slices"]:
            assert found["row"] == at


def test_a_position_is_found_a_page_at_a_time(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few events are read at once, and however many came side by side with it."""
    lines = _lines(asked)[::9]
    known = [asked("log", pos=line["position"], limit=1) for line in lines]
    monkeypatch.setattr(log_answers, "SCANNED_AT_ONCE", 1)
    assert [asked("log", pos=line["position"], limit=1) for line in lines] == known
    monkeypatch.setattr(log_answers, "SCANNED_MAX", 3)
    assert [asked("log", pos=line["position"], limit=1) for line in lines] == known


def test_a_position_within_a_context_or_a_filter(asked: Asked) -> None:
    """The first event from there on that fits."""
    lines = _lines(asked)
    own = [line for line in lines if line["stream"] == "chat:a"]
    for line in own[:: len(own) // 4]:
        found = asked("log", pos=line["position"], context="a", limit=1)
        assert (found["events"], found["row"]) == ([line], line["version"] - 1)
        assert asked("log", pos=line["position"], type="chat", limit=1)["events"][0] == line


@pytest.mark.parametrize("position", ["0", "x", "1000000", "3.17", "1023.9", "vkgA", "-1"])
def test_no_position_is_refused(asked: Asked, position: str) -> None:
    """A text that is none, one of another sort of log, and one that the log has not reached."""
    for question, name in (("log", "pos"), ("event", "event")):
        answer = asked.client.get(f"/api/{question}", params={name: position})
        assert answer.status_code in (400, 404)
        assert position in answer.json()["message"]


def test_a_line_has_as_many_before_it_as_its_number(asked: Asked) -> None:
    """Also with slices, where those are near: so nothing lies beyond the last line."""
    total = asked.meta["events"]
    for row in range(0, total, 17):
        found = asked("log", row=row, limit=500)
        assert found["row"] == row
        rest = asked("log", after=found["next"], limit=500)["events"]
        assert len(found["events"]) + len(rest) == min(1_000, total - row)


@pytest.mark.parametrize(
    ("row", "heads"), [(1_023, {}), (1_024, {0: 1_024}), (1_300, {0: 1_024, 5: 200}), (9_999, {0: 1_324, 5: 200})]
)
def test_whole_blocks_of_the_log_lead_near_a_line(row: int, heads: dict[int, int]) -> None:
    """In the order of their times, as many as have no more events."""
    sizes = {(0, 0): (1_024, 10), (0, 1): (300, 30), (5, 0): (200, 20)}
    rows = [
        RollupRow(key="", lane=lane, block=block, events=events, last_at=last_at)
        for (lane, block), (events, last_at) in sizes.items()
    ]

    assert log_answers._moment_near(rows, row) == (Moment.of(heads), sum(heads.values()))


@pytest.mark.parametrize("of", [{}, {"context": "a"}])
def test_nothing_is_missed_behind_the_end(asked: Asked, of: dict[str, str]) -> None:
    """A line beyond the end is the end: the next event is the first one from there on."""
    end = asked("log", row=10**6, **of)
    assert (end["events"], end["row"]) == ([], end["total"])
    asked.store.chat("a").add_message("user", "one more")
    assert [line["text"] for line in asked("log", after=end["next"], **of)["events"]] == ["user: one more"]


def test_news_of_a_log_that_went_back_end(asked: Asked) -> None:
    """The page, which has seen more events than there are, is told so and asks anew, instead of waiting for them."""
    heads = dict(asked.store.now().heads)
    seen = Moment.of({lane: number + 3 for lane, number in heads.items()})
    with pytest.raises(LogWentBackError, match=f"it has {asked.meta['events']}"):
        live._read_on(asked.store.log, seen)
    news = asked.client.get("/api/tail", params={"after": str(seen)}).text
    assert "event: fault" in news


def test_a_context_that_is_called_like_a_version_is_not_kept(asked: Asked) -> None:
    """Its newest version is asked for, and that changes."""
    for name in ("42", "43"):
        asked.store.chat(name).add_message("user", f"ticket {name}")
    now, then = (
        asked.client.get(
            "/api/diff", params={"before": f"42{version}", "after": f"43{version}", "start": asked.meta["cache"]}
        )
        for version in ("", "@2")
    )
    assert (now.status_code, now.headers["cache-control"]) == (200, "no-store")
    assert "immutable" in then.headers["cache-control"]


def _fill_interleaved(store: refold.Store) -> None:
    for turn in range(TURNS):
        with store.transaction():
            for session in range(SESSIONS):
                store.chat(f"s{session}").add_message("user", f"turn {turn}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests here."""
    with running_browser() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgres"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """A store of chats that were written side by side."""
    place = request.getfixturevalue("ready_pg_url") if request.param == "postgres" else str(tmp_path / "s.db")
    with refold.open(place) as store:
        apart(_fill_interleaved, store)
        server = Served(store)
        yield server
        server.stop()


def _refs(page: Page) -> dict[int, str]:
    """Return the references of the lines on the screen, by their numbers from 0."""
    expect(page.locator(".line").get_by_text("…", exact=True)).to_have_count(0)
    found = page.locator(".line").evaluate_all(
        "lines => lines.map(line => [Number(line.ariaRowIndex), line.children[2].textContent])"
    )
    return {int(number) - 1: str(text) for number, text in found}


def test_whoever_goes_down_the_log_sees_each_event_once(watched: Watched, browser: Browser, served: Served) -> None:
    """From the beginning, line by line; and from the end up and down again no event is twice on a screen."""
    order = [_ref(line).removeprefix("chat:") for line in _lines(Asked(served.store))]
    page = watched.open("/log")
    grid = page.get_by_role("grid")
    grid.focus()
    found: dict[int, str] = {}
    for _ in range(2 * len(order) // 10):
        found |= _refs(page)
        if len(found) == len(order):
            break
        page.keyboard.press("PageDown")
        page.wait_for_timeout(20)
    assert [found[row] for row in sorted(found)] == order
    watched.open("/log")
    grid.focus()
    page.keyboard.press("End")
    for key in ("PageUp", "PageUp", "PageUp", "PageUp", "PageDown", "PageDown"):
        seen = _refs(page)
        assert len(seen) == len(set(seen.values()))
        page.keyboard.press(key)
        page.wait_for_timeout(50)


def test_an_address_opens_the_log_at_a_position(watched: Watched, served: Served) -> None:
    """The event is open among the lines around it; which event is open is in the address, and a filter keeps it."""
    lines = _lines(Asked(served.store))
    line = lines[230]
    ref = _ref(line)
    page = watched.open(f"/log?pos={line['position']}")
    expect(page.locator(".drawer strong")).to_have_text(ref)
    expect(page.locator('.line[aria-selected="true"]')).to_contain_text(ref.removeprefix("chat:"))
    expect(page.locator('.line[aria-selected="true"]')).to_be_in_viewport()
    other = page.locator(".line").nth(5)
    name = other.locator("[role=gridcell]").nth(2).inner_text()
    other.locator("[role=gridcell]").nth(5).click()
    position = next(one["position"] for one in lines if _ref(one) == f"chat:{name}")
    page.wait_for_url(f"**/log?pos={position}")
    page.reload()
    expect(ready(page).locator(".drawer strong")).to_have_text(f"chat:{name}")
    page.get_by_role("grid").focus()
    page.keyboard.press("Escape")
    expect(page.locator(".drawer")).to_be_hidden()
    page.wait_for_url(lambda url: "pos=" not in url)
    watched.open(f"/log?ctx={line['stream']}&pos={line['position']}")
    expect(page.locator(".drawer strong")).to_have_text(ref)
    watched.open(f"/log?q=turn&pos={line['position']}")
    expect(page.locator(".line").first).to_contain_text(ref.removeprefix("chat:"))
    watched.open(f"/e/{line['position']}")
    expect(page.get_by_role("heading", level=1)).to_have_text(ref.removeprefix("chat:"))
    page.get_by_role("link", name="its place in the log").click()
    expect(page.locator(".drawer strong")).to_have_text(ref)
    watched.allowed = ["404", "400"]
    watched.open("/log?pos=99999999")
    expect(page.get_by_role("alert")).to_contain_text("99999999")
