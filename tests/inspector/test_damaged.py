"""A damaged store on the page: what can still be read is shown, and what is damaged is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import refold
from refold.domain.chat.events import MessageAdded
from tests.verifying.damaging import rows_of, sql

from .asking import Asked
from .browser import Served, Watched, running_browser

GOOD, END, SEGMENT = 64, 301, 512
# The damage of chat a, the first version that cannot be read, and the last one.
DAMAGE = {
    "a changed byte": ("UPDATE event SET payload = CAST(payload || x'00' AS BLOB) WHERE {rows} AND version = 290", 290),
    "a deleted row": ("DELETE FROM event WHERE {rows} AND version = 290", 290),
    "a sealed block": ("UPDATE block SET body = zeroblob(9) WHERE key = {block}", GOOD + 1),
}


def write(place: str) -> None:
    """Write 301 events to each of two chats; most are sealed at the end."""
    with refold.open(place) as store:
        chats = [store.chat(name, session="s") for name in "ab"]
        for start in range(0, END - 1, 10):
            for chat in chats:
                numbers = range(start, start + 10)
                chat.record_items(
                    [MessageAdded(id=f"m{one}", created_at=1.0, role="user", content=f"text {one}") for one in numbers]
                )


def harm(place: str, damage: str) -> int:
    """Damage chat a; return the first version that cannot be read."""
    statement, version = DAMAGE[damage]
    rows = rows_of(place, "chat:a")
    (key,) = rows.split("= ")[1:]
    found = sql(place, f"SELECT block FROM part WHERE stream = {key} AND first_version = {GOOD + 1}")
    sql(place, statement.format(rows=rows, block=found[0][0]))
    return version


@pytest.fixture(params=DAMAGE)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[refold.Store, int]]:
    """A store in which rows of projections were made before the damage, and its first bad version."""
    place = str(tmp_path / "store.db")
    write(place)
    with refold.open(place) as store:
        for status in store.projections():
            store.rows(status.name)
    version = harm(place, request.param)
    with refold.open(place) as store:
        yield store, version


def test_what_can_be_read_is_answered(damaged: tuple[refold.Store, int]) -> None:
    """Versions before the damage, all other events, and the other contexts."""
    store, bad = damaged
    asked = Asked(store)

    context = asked("context", context="a")
    assert (context["head"], context["damage"]["event"], context["damage"]["head"]) == (bad - 1, f"chat:a@{bad}", END)
    assert "is damaged" in context["damage"]["message"]
    assert len(context["versions"]["at"]) == bad - 1
    assert asked("context", context="b")["damage"] is None
    lines = asked("log", context="chat:a", row=bad - 2, limit=3)["events"]
    assert [(one["version"], one["damaged"]) for one in lines[:2]] == [(bad - 1, False), (bad, True)]
    first = asked("log", limit=500)
    whole = [*first["events"], *asked("log", after=first["next"], limit=500)["events"]]
    assert len(whole) == asked.meta["events"] == 2 * END
    lost = [one for one in whole if one["damaged"]]
    # A block that cannot be opened hides the order of its segment; its contexts have their own events still.
    assert 1 <= len(lost) <= SEGMENT
    assert len({one["text"] for one in lost} - {""}) >= 1
    read = [one for row in (0, 300) for one in asked("log", context="chat:a", row=row, limit=300)["events"]]
    assert len([one for one in read if one["damaged"]]) <= 64
    assert {one["stream"] for one in whole if not one["damaged"]} == {"chat:a", "chat:b"}
    items = asked("items", ref=[f"chat:a@{bad - 1}", f"chat:a@{bad}"])
    assert items[0]["speaker"] == "user"
    assert [one["speaker"] for one in items[1:]] in ([], ["damaged"])
    fault = asked.client.get("/api/event", params={"event": f"chat:a@{bad}"})
    assert (fault.status_code, fault.json()["error"]) == (500, "DamagedError")


def test_without_rows_there_are_names(tmp_path: Path) -> None:
    """Nothing can be folded from a damaged log, and each context that it names can still be opened."""
    place = str(tmp_path / "store.db")
    write(place)
    with refold.open(place) as store:
        store.name_moment("kept")
    bad = harm(place, "a sealed block")
    with refold.open(place) as store:
        asked = Asked(store)
        # The moments are in a stream of the store, which is no context.
        assert [one["id"] for one in asked("contexts")["contexts"]] == ["a", "b"]
        found = asked("contexts", limit=1)
        assert [(one["kind"], one["id"], one["version"]) for one in found["contexts"]] == [("chat", "a", END)]
        assert "is damaged" in found["damage"]
        assert [one["id"] for one in asked("contexts", cursor=found["cursor"])["contexts"]] == ["b"]
        assert [one["id"] for one in asked("contexts", kind="chat")["contexts"]] == ["a", "b"]
        assert asked("contexts", kind="run")["contexts"] == []
        context = asked("context", context="a")
        assert (context["head"], context["damage"]["has_items"], context["items"]["item"]) == (bad - 1, False, [])
        assert len(asked("view", context="a", version=str(bad - 1))["items"]) == bad - 2
        # The rows are of all contexts, also of those that are whole.
        damage = asked("context", context="b")["damage"]
        assert (damage["event"], damage["head"], damage["has_items"]) == (None, END, False)
        assert "is damaged" in damage["message"]


@pytest.mark.long
def test_without_rows_no_context_looks_empty(tmp_path: Path) -> None:
    """One that is whole has its items in a list, and nothing is counted that cannot be."""
    place = str(tmp_path / "store.db")
    write(place)
    harm(place, "a sealed block")
    with refold.open(place) as store, running_browser() as browser:
        served = Served(store)
        profile = Watched(browser, served)
        page = profile.open("/c/b")
        expect(page.get_by_role("alert")).to_contain_text("Only the versions and the log of this context are shown")
        expect(page.locator("main")).to_contain_text("text 299")
        expect(page.locator("main")).not_to_contain_text("0 items")
        profile.close()
        served.stop()


@pytest.mark.long
def test_the_page_never_stays_blank(damaged: tuple[refold.Store, int]) -> None:
    """Each screen shows something that is there, and says what is damaged and what to do."""
    store, bad = damaged
    with running_browser() as browser:
        _look_around(browser, store, bad)


def _look_around(browser: Browser, store: refold.Store, bad: int) -> None:
    served = Served(store)
    profile = Watched(browser, served)
    profile.allowed = ["500"]
    page = profile.open("/")
    expect(page.get_by_role("link", name="a", exact=True)).to_be_visible()
    page = profile.open("/c/a")
    expect(page.get_by_role("alert")).to_contain_text(f"The versions from {bad} to {END} cannot be shown")
    expect(page.locator(".about")).to_contain_text(f"{bad - 1} of {bad - 1}")
    expect(page.locator(".item.added")).to_contain_text(f"text {bad - 3}")
    page.get_by_role("tab", name="Log").click()
    expect(page.locator(".line").first).to_be_visible()
    page.get_by_role("grid").focus()
    page.keyboard.press("End")
    expect(page.locator(".line").last).to_contain_text(f"@{END}")
    if bad == END - 11:
        page.locator(".line.damaged").first.click()
        expect(page.locator("main")).to_contain_text(f"event chat:a@{bad} is damaged")
    profile.open(f"/c/a@{bad}")
    expect(page.get_by_role("alert")).to_contain_text("The store is damaged")
    profile.open(f"/e/chat:a@{bad}")
    expect(page.get_by_role("alert")).to_contain_text("restore it from a copy")
    profile.open("/c/b")
    expect(page.locator(".item.added")).to_contain_text("text 299")
    profile.open("/log")
    expect(page.locator(".line").first).to_be_visible()
    page.get_by_role("grid").focus()
    page.keyboard.press("End")
    expect(page.locator(".line").last).to_contain_text(f"{2 * END}")
    profile.open("/projections")
    page.get_by_role("button", name="Check the whole store").click()
    whole = page.get_by_role("region", name="The whole store")
    expect(whole).to_contain_text(f"chat:a@{bad}")
    expect(whole).to_contain_text("damaged")
    profile.close()
    served.stop()


def test_a_context_of_which_nothing_can_be_read(tmp_path: Path) -> None:
    """The answer says what is damaged, and the others are answered."""
    place = str(tmp_path / "store.db")
    with refold.open(place) as store:
        for name in "ab":
            store.chat(name).add_message("user", "hello")
    sql(place, f"UPDATE event SET payload = x'00' WHERE {rows_of(place, 'chat:a')}")
    with refold.open(place) as store:
        asked = Asked(store)
        fault = asked.client.get("/api/context", params={"context": "a"})
        assert (fault.status_code, fault.json()["error"]) == (500, "DamagedError")
        assert "chat:a@1 is damaged" in fault.json()["message"]
        assert asked("context", context="b")["damage"]["event"] is None


def test_a_log_with_slices_that_lacks_an_event(pg_url: str) -> None:
    """Which event is the next one is not known, so that the answer says what is damaged."""
    with refold.open(pg_url) as store:
        for name in "ab":
            store.chat(name).add_message("user", "hello")
    sql(pg_url, f"DELETE FROM event WHERE {rows_of(pg_url, 'chat:a')} AND version = 1")
    with refold.open(pg_url) as store:
        fault = Asked(store).client.get("/api/log")
        assert (fault.status_code, fault.json()["error"]) == (500, "DamagedError")
