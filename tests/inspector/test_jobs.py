"""Rebuilds and checks that the page starts, on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.testclient import TestClient

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.inspector import live
from refold.infrastructure.inspector.jobs import PROBLEMS_MAX, STORE, Job, Jobs
from refold.infrastructure.inspector.live import _lines
from refold.projections.rollup import ROLLUP
from tests.contract.writing import at_once
from tests.projecting.histories import folded_rows, something_of_everything, stored_rows
from tests.support.processes import Program
from tests.verifying.damaging import sql

from .asking import Asked
from .gates import Gate, spoil

SERVER = Program("tests.inspector.dying_server")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Asked]:
    """A filled store of each sort, served for writing; no projection is made yet."""
    places = {"memory": ":memory:", "sqlite": str(tmp_path / "s.db")}
    with refold.open(places.get(request.param) or request.getfixturevalue("ready_pg_url")) as store:
        something_of_everything(store)
        yield Asked(store, write=True)


def rebuilt(asked: Asked, name: str) -> int | None:
    """Return how many events are in the rows that a rebuild left."""
    found: dict[str, int | None] = {one["name"]: one["rebuilt"] for one in asked("projections")["projections"]}
    return found[name]


def test_a_rebuild_is_compared_before_a_person_swaps_it(asked: Asked) -> None:
    """Both values of each key are shown; the rows in use change with the swap, not before."""
    store = asked.store
    spoil(store, "chat:c0")
    wrong = stored_rows(store, "catalogue")

    job = asked.done("rebuild", name="catalogue")

    assert (job["kind"], job["state"], job["error"]) == ("rebuild", "done", None)
    assert (job["report"]["differing"], job["report"]["fault"]) == (2, None)
    found = {one["key"]: one for one in job["report"]["differences"]}
    assert found["chat:c0"]["live"]["items"] == 99 != found["chat:c0"]["rebuilt"]["items"]
    assert found["chat:~none"]["rebuilt"] is None
    assert stored_rows(store, "catalogue") == wrong
    assert asked.done("swap", name="catalogue")["state"] == "done"
    assert stored_rows(store, "catalogue")["catalogue"] == folded_rows(store)["catalogue"]
    assert asked.done("rebuild", name="catalogue")["report"]["differing"] == 0
    assert asked.change("discard", name="catalogue").json()["state"] == "done"
    assert rebuilt(asked, "catalogue") is None


def test_a_cancelled_rebuild_can_go_on_or_be_dropped(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its progress is told while it runs; one projection has one job at a time."""
    gate = Gate(asked.store, monkeypatch)
    asked.store.contexts()
    live = stored_rows(asked.store, "catalogue")
    started = asked.change("rebuild", name="catalogue").json()
    gate.wait()
    (job,) = asked("jobs")
    assert (started["state"], job["state"], job["done"]) == ("running", "running", 16)
    assert job["total"] == asked.store.now().events
    for path in ("rebuild", "check", "discard"):
        refused = asked.change(path, name="catalogue")
        assert (refused.status_code, "is running" in refused.json()["message"]) == (400, True)

    assert asked.change("cancel", name="catalogue").json()["is_cancelled"]
    gate.open()

    job = asked.ended("catalogue")
    assert (job["state"], job["report"]["is_done"], rebuilt(asked, "catalogue")) == ("stopped", False, 16)
    assert stored_rows(asked.store, "catalogue") == live
    on = asked.done("rebuild", name="catalogue")["report"]
    assert (on["events"], on["differing"]) == (asked.store.now().events - 16, 0)
    asked.change("discard", name="catalogue")
    assert asked.change("swap", name="catalogue").status_code == 400
    assert stored_rows(asked.store, "catalogue") == live


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_server_that_dies_in_the_middle_has_swapped_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The rows in use are as they were; another server goes on where it was."""
    place = str(tmp_path / "s.db") if kind == "sqlite" else request.getfixturevalue("ready_pg_url")
    with refold.open(place) as store:
        something_of_everything(store)
        spoil(store, "chat:c0")
        wrong = stored_rows(store, "catalogue")
        killed = SERVER.start(place)
        assert killed.stdout.readline() == "in the middle\n"
        killed.kill()
        killed.communicate()

        asked = Asked(store, write=True)
        assert stored_rows(store, "catalogue") == wrong
        assert (asked("jobs"), rebuilt(asked, "catalogue")) == ([], 16)
        on = asked.done("rebuild", name="catalogue")["report"]
        assert (on["events"], on["differing"]) == (store.now().events - 16, 2)
        asked.done("swap", name="catalogue")
        assert stored_rows(store, "catalogue")["catalogue"] == folded_rows(store)["catalogue"]


def test_a_read_only_page_compares_and_checks_but_changes_nothing(asked: Asked) -> None:
    """What only reads needs no token; what would change rows is refused."""
    spoil(asked.store, "chat:c0")
    wrong = stored_rows(asked.store, "catalogue")
    page = Asked(asked.store)
    for path in ("rebuild", "swap", "discard"):
        assert page.change(path, name="catalogue").status_code == 403

    assert page.done("check", name="catalogue")["report"]["differing"] == 2
    report = page.done("verify")["report"]

    assert (report["is_done"], report["is_whole"], report["events"]) == (True, False, asked.store.now().events)
    found = {(one["kind"], one["where"].partition("@")[0], one["repairable"]) for one in report["problems"]}
    assert found == {("projection", "catalogue", True), ("version", "chat:~none", False)}
    assert stored_rows(asked.store, "catalogue") == wrong


def test_a_check_of_the_store_is_cancelled(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its report says that not everything was looked at."""
    gate = Gate(asked.store, monkeypatch)
    asked.change("verify")
    gate.wait()
    asked.change("cancel", name=STORE)
    gate.open()
    job = asked.ended(STORE)

    assert (job["state"], job["report"]["is_done"], job["report"]["is_whole"]) == ("stopped", False, False)


def test_a_damaged_store_has_a_bounded_list_of_problems(tmp_path: Path) -> None:
    """Each with its place; the report says how many there are in all."""
    place = tmp_path / "s.db"
    with refold.open(str(place)) as store:
        for number in range(PROBLEMS_MAX + 5):
            store.chat(f"c{number:03}")
    # The event of each chat loses its first byte.
    sql(place, "UPDATE event SET payload = substr(payload, 2)")
    with refold.open(str(place)) as store:
        report = Asked(store).done("verify")["report"]

    assert len(report["problems"]) == PROBLEMS_MAX < report["problem_count"]
    assert report["problems"][0]["where"].startswith("chat:c")


def test_a_fold_that_fails_names_its_event(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows in use stay, and the job has the event to look at."""
    asked.store.rollup()

    def fail(*_: object) -> None:
        raise ValueError("no luck")

    monkeypatch.setattr(type(ROLLUP), "on_fault", "stop", raising=False)
    monkeypatch.setattr(type(ROLLUP), "evolve_all", fail, raising=False)
    monkeypatch.setattr(type(ROLLUP), "evolve", fail)
    job = asked.done("rebuild", name="rollup")

    assert (job["state"], job["error"]["error"], job["error"]["event"]) == ("failed", "ProjectionError", "chat:c0@1")
    assert "no luck" in job["error"]["message"]
    assert rebuilt(asked, "rollup") is None

    # Where Refold itself fails, nothing but the type is shown.
    monkeypatch.setattr(refold.Store, "check", Mock(side_effect=ValueError("a secret")))
    job = asked.done("check", name="rollup")
    assert job["error"] == {
        "error": "InternalError", "message": "the check failed with ValueError: its log has the reason", "event": None
    }  # fmt: skip


@pytest.mark.parametrize("path", ["rebuild", "check", "swap", "discard"])
def test_unknown_projections_are_refused(path: str) -> None:
    """By name, with those that there are; no job is left of it."""
    with refold.open(":memory:") as store:
        page = Asked(store, write=True)
        refused = page.change(path, name="nonsense")

        assert (refused.status_code, "there are catalogue" in refused.json()["message"]) == (404, True)
        assert page.change("cancel", name="nonsense").status_code == 404
        assert page("jobs") == []


async def test_the_news_have_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that comes later gets the present state of each; every text passes the hook that hides."""

    class Open:
        async def is_disconnected(self) -> bool:
            return False

    def hide(value: object) -> object:
        return value if not isinstance(value, dict) else {**value, "name": "***"}

    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "one")
        gate = Gate(store, monkeypatch)
        jobs = Jobs(store)
        jobs.start("catalogue", "check", lambda tell, _: (store.check("catalogue", progress=tell).is_done, {}))
        gate.wait()
        lines = _lines(jobs, hide, store.now(), Open())  # type: ignore[arg-type]  # only this is asked of a request
        assert "retry:" in await anext(lines)
        first = await anext(lines)
        gate.open()
        last = await anext(lines)

        assert first.startswith("event: job\ndata: ")
        assert ('"name": "***"' in first, '"done": 2, "total": 2' in first, '"running"' in first) == (True, True, True)
        assert '"state": "done"' in last


def test_a_browser_that_missed_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told how many events it missed, and not which streams they are of."""
    monkeypatch.setattr(live, "MISSED_MAX", 3)
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "one")
        moments = [store.now()]
        for number in range(4):
            store.chat("a").add_message("user", str(number))
            moments.append(store.now())

        assert live._read_on(store.log, moments[0]) == (moments[-1], {}, 4, None)
        assert live._read_on(store.log, moments[1])[:3] == (moments[-1], {"chat:a": 6}, 3)


async def test_a_long_first_question_tells_how_far_it_is() -> None:
    """The news say so while it folds; a step that ends at once is none."""

    class Open:
        async def is_disconnected(self) -> bool:
            return False

    with refold.open(":memory:") as store:
        jobs, seen = Jobs(store), store.now()
        jobs.folding = 5, 9
        lines = _lines(jobs, str, seen, Open())  # type: ignore[arg-type]  # only this is asked of a request
        assert "retry:" in await anext(lines)
        assert await anext(lines) == 'event: folding\ndata: {"done": 5, "total": 9}\n\n'
        jobs.folding = 9, 9
        for name in "ab":
            store.chat(name)
            assert (await anext(lines)).startswith("event: news\n")


def test_the_end_of_the_server_stops_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stop at the end of their page; what they left can go on later."""
    with refold.open(":memory:") as store:
        something_of_everything(store)
        gate = Gate(store, monkeypatch)
        app = refold.inspector(store, write=True)
        with TestClient(app, base_url="http://127.0.0.1") as client:
            token = client.get("/api/meta").json()["token"]
            client.post("/api/rebuild", json={"name": "catalogue"}, headers={"x-refold-token": token})
            gate.wait()
            gate.open()
        assert not [one for one in threading.enumerate() if one.name == "refold rebuild"]


def test_of_two_that_start_at_once_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody comes between the look at the job before and the new one."""
    goes_on = threading.Event()

    class Slow(dict[str, Job]):
        def get(self, *given: Any) -> Any:
            found = super().get(*given)
            time.sleep(0.05)
            return found

    def work(tell: object, is_stopped: object) -> tuple[bool, dict[str, Any]]:
        goes_on.wait()
        return True, {}

    with refold.open(":memory:") as store:
        jobs = Jobs(store)
        jobs._jobs = Slow()
        raised = at_once(*[lambda: jobs.start("catalogue", "rebuild", work)] * 2)
        goes_on.set()

    assert [type(error) for error in raised] == [InvalidInputError]


def test_a_job_whose_thread_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not there: the next one of its name is begun."""
    with refold.open(":memory:") as store:
        jobs = Jobs(store)
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
            with pytest.raises(RuntimeError, match="can't start"):
                jobs.start("catalogue", "rebuild", lambda *_: (True, None))
        assert jobs.since(0) == (0, [])

        assert jobs.start("catalogue", "rebuild", lambda *_: (True, None), wait=True)["state"] == "done"
