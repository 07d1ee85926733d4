"""A merge that is looked at before it is made: its answer, and the dialog of the page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

import refold

from .asking import Asked
from .browser import Served, Watched, apart, intercept

TAKE = {"source": "chat:side", "target": "chat:main"}


def _fill(store: refold.Store) -> None:
    """Make a chat and a fork of it that both went on and changed their instructions."""
    main = store.chat("main")
    main.add_message("system", "Be brief.")
    main.add_message("user", "Where is order 7?")
    main.add_message("assistant", "I look.")
    side = main.fork("side")
    side.add_message("assistant", "It is in Lyon.")
    side.evict(side.items[1].id, reason="said elsewhere")
    side.add_config_update(instructions="Answer in French.")
    main.add_config_update(instructions="Answer in full sentences.")
    main.add_message("user", "Hello?")


@pytest.fixture(params=["memory", "sqlite"])
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Asked]:
    """A store with both chats, served for writing."""
    with refold.open(":memory:" if request.param == "memory" else str(tmp_path / "s.db")) as store:
        _fill(store)
        yield Asked(store, write=True)


def test_a_preview_has_the_base_and_what_each_side_did(asked: Asked) -> None:
    """Both sides are compared with the last version that they share."""
    found = asked("preview", **TAKE)

    assert found["base"] == {"context": "chat:main", "version": 4}
    assert [(found[side]["context"], found[side]["version"]) for side in ("ours", "theirs")] == [
        ("chat:main", 6),
        ("chat:side", 4),
    ]
    came = {side: [one["body"] for one in found[side]["added"]["items"]] for side in ("ours", "theirs")}
    assert came == {
        "ours": ["instructions: Answer in full sentences.", "Hello?"],
        "theirs": ["It is in Lyon.", "instructions: Answer in French."],
    }
    assert [one["body"] for one in found["theirs"]["removed"]["items"]] == ["Where is order 7?"]
    assert found["ours"]["removed"]["count"] == 0


def test_an_answer_that_was_taken_is_no_event(asked: Asked) -> None:
    """A diff, and a preview of a merge that takes it once more, show its text, who said it, and who took it."""
    chat = asked.store.chat("one")
    helper = chat.fork("helper")
    helper.add_message("assistant", "So it is.")
    with refold.acting(actor="mia"):
        apart(asyncio.run, chat.merge_result(helper, agent_id="helper"))
    [added] = asked("diff", before="chat:one@1", after="chat:one")["added"]
    [taken] = asked("preview", target="chat:main", source="chat:one")["taken"]["items"]

    for shown in (added, taken):
        assert (shown["speaker"], shown["body"], shown["actor"]) == ("assistant", "So it is.", "mia")


def test_a_preview_says_which_items_come_and_which_stay_out(asked: Asked) -> None:
    """By each rule; the conflict has both values and the side that is kept."""
    kept = {rule: asked("preview", **TAKE, on_conflict=rule) for rule in ("ours", "theirs")}

    come = {rule: [one["body"] for one in found["taken"]["items"]] for rule, found in kept.items()}
    out = {rule: [one["body"] for one in found["stays_out"]["items"]] for rule, found in kept.items()}
    french = "instructions: Answer in French."
    assert come == {"ours": ["It is in Lyon."], "theirs": ["It is in Lyon.", french]}
    assert out == {"ours": [french], "theirs": []}
    assert [one["body"] for one in kept["ours"]["kept"]["items"]] == ["Where is order 7?"]
    for rule, found in kept.items():
        (conflict,) = found["conflicts"]
        assert (conflict["kind"], conflict["rule"], conflict["kept"]) == ("config", rule, rule)
        assert [one["body"] for one in conflict["ours"]["items"]] == ["instructions: Answer in full sentences."]
        assert [one["body"] for one in conflict["theirs"]["items"]] == [french]


@pytest.mark.parametrize("rule", ["ours", "theirs", "newest"])
def test_a_merge_does_what_its_preview_said(asked: Asked, rule: str) -> None:
    """A preview records nothing; the merge leaves the items and the tokens that it named."""
    before = asked.store.now()
    found = asked("preview", **TAKE, on_conflict=rule)
    assert asked.store.now() == before
    assert len(asked.store.chat("main").items) == found["ours"]["items"]

    done = asked.change("merge", **TAKE, on_conflict=rule, version=found["ours"]["version"])
    assert done.status_code == 200, done.text
    chat = asked.store.chat("main")
    assert found["result"] == {"items": len(chat.items), "tokens": chat.estimated_tokens()}
    assert asked("preview", **TAKE, on_conflict=rule)["taken"]["count"] == 0


def test_a_merge_of_an_earlier_version(asked: Asked) -> None:
    """An address names it, in the preview and in the merge; two changed contexts are no conflict there."""
    earlier = {**TAKE, "source": "chat:side@2"}
    found = asked("preview", **earlier)

    assert [one["body"] for one in found["taken"]["items"]] == ["It is in Lyon."]
    assert found["conflicts"] == []
    assert asked.change("merge", **earlier).status_code == 200
    merged = asked.store.log.read("chat:main")[-1].event
    assert (merged.source, merged.version) == ("chat:side", 2)


def test_a_merge_of_another_state_than_was_seen_is_refused(asked: Asked) -> None:
    """The version that the preview was made for goes with the request."""
    seen = asked("preview", **TAKE)["ours"]["version"]
    asked.store.chat("main").add_message("user", "Meanwhile.")
    refused = asked.change("merge", **TAKE, version=seen)

    assert (refused.status_code, refused.json()["error"]) == (409, "ConcurrencyError")
    assert asked.store.chat("main").version == seen + 1


def test_a_preview_of_what_cannot_be_merged(asked: Asked) -> None:
    """The answer says what is wrong."""
    apart(asyncio.run, asked.store.pool("p").add(refold.PoolItem("x", "x", "x")))
    for wish, said in (
        ({**TAKE, "source": "pool:p"}, "no chat"),
        ({**TAKE, "source": "chat:side@1..2"}, "one moment"),
        ({**TAKE, "on_conflict": "mine"}, "on_conflict is 'mine'"),
        ({"source": "chat:side"}, "target"),
    ):
        answer = asked.client.get("/api/preview", params=wish)
        assert answer.status_code == 400
        assert said in answer.json()["message"]


def test_a_person_sees_a_merge_before_it_is_made(browser: Browser) -> None:
    """The dialog has base, ours and theirs; another rule shows other items; the command is that of a terminal."""
    with refold.open(":memory:") as store:
        _fill(store)
        served = Served(store, write=True)
        profile = Watched(browser, served)
        page = profile.open("/graph")
        rows = page.locator("tbody tr")
        for name in ("side@4", "main@6"):
            rows.filter(has_text=name).locator("td").nth(2).click()
        page.get_by_role("button", name="Merge").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("tbody tr")).to_have_count(4)
        expect(dialog.locator("tbody tr").first).to_contain_text("main@4")
        expect(dialog).to_contain_text("Both sides changed the instructions or tools; ours wins.")
        expect(dialog).to_contain_text("Comes in: 1 item")
        dialog.get_by_label("Where both changed the same").select_option("theirs")
        expect(dialog).to_contain_text("Comes in: 2 items")
        expect(dialog.locator("code")).to_have_text("refold merge 'side@4' 'main' --on-conflict theirs")
        before = store.now()
        dialog.get_by_role("button", name="Merge").click()
        page.wait_for_url("**/c/main")
        assert store.now() != before
        assert "It is in Lyon." in [item.content[0] for item in store.chat("main").items if hasattr(item, "content")]
        profile.close()
        served.stop()


def test_a_preview_is_that_of_the_rule_that_was_chosen_last(browser: Browser) -> None:
    """The answer about another one that comes later is not shown: the merge would not follow it."""
    with refold.open(":memory:") as store:
        _fill(store)
        served = Served(store, write=True)
        profile = Watched(browser, served)
        page = profile.open("/graph")
        for name in ("side@4", "main@6"):
            page.locator("tbody tr").filter(has_text=name).locator("td").nth(2).click()
        page.get_by_role("button", name="Merge").click()
        dialog, held = page.get_by_role("dialog"), list[Route]()
        expect(dialog).to_contain_text("Comes in: 1 item")
        intercept(page, "**/api/preview?*on_conflict=theirs*", lambda route: held.append(route))
        for rule in ("theirs", "ours"):
            with page.expect_request("**/api/preview?*"):
                dialog.get_by_label("Where both changed the same").select_option(rule)
        expect(dialog.get_by_role("button", name="Merge")).to_be_enabled()
        with page.expect_response("**/api/preview?*"):
            held.pop().continue_()
        page.wait_for_timeout(200)
        expect(dialog).to_contain_text("Comes in: 1 item")
        profile.close()
        served.stop()


def test_a_page_for_reading_shows_the_preview_only(browser: Browser) -> None:
    """What a merge would do may be seen by anybody; its button is off, and says why."""
    with refold.open(":memory:") as store:
        _fill(store)
        served = Served(store)
        profile = Watched(browser, served, viewport={"width": 375, "height": 700})
        page = profile.open("/graph")
        for name in ("main@6", "side@4"):
            page.locator("tbody tr").filter(has_text=name).first.focus()
            page.keyboard.press("Enter")
        page.get_by_role("button", name="Merge").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("refold ui --write")
        expect(dialog.get_by_role("button", name="Merge")).to_be_disabled()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        profile.close()
        served.stop()
