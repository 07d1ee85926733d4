"""The page asks as every call does."""

from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

import refold
from refold.infrastructure.inspector.live import _lines
from tests.inspector.asking import Asked

from .policy import Policy

LOCAL = "http://127.0.0.1:8421"


def test_the_page_answers_403_and_lets_nothing_be_kept() -> None:
    """The body says what is not allowed; an answer that is allowed is not cached."""
    policy = Policy()
    with refold.open(":memory:", allow=policy) as store:
        store.chat("a").add_message("user", "secret")
        client = TestClient(refold.inspector(store), base_url=LOCAL)
        asked = client.get("/api/view?context=a&version=2")
        policy.allowed = set()
        refused = [client.get(f"/api/{path}") for path in ("view?context=a&version=2", "contexts")]
        refused += [
            client.get(f"/api/{path}") for path in ("nodes", "projection?name=search", "log?pos=2", "event?event=2")
        ]
        refused += [client.get("/c/a@2.json")]

    assert (asked.status_code, "secret" in asked.text, asked.headers["cache-control"]) == (200, True, "no-store")
    assert [answer.status_code for answer in refused] == [403] * 7
    assert not any("secret" in answer.text for answer in refused)


@pytest.mark.parametrize("path", ["verify", "check", "rebuild", "swap"])
def test_a_job_is_done_for_who_started_it(location: str, path: str) -> None:
    """The app around the page says who acts, and the job's thread asks as the same one."""
    policy = Policy()

    def as_ann(app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            with refold.acting(actor="ann"):
                await app(scope, receive, send)

        return call

    with refold.open(location, allow=policy) as store:
        with refold.acting(actor="ann"):
            store.chat("a").add_message("user", "hi")
            store.rebuild("catalogue", swap=False)
        asked = Asked(store, write=True)
        asked.client = TestClient(as_ann(asked.client.app), base_url=LOCAL)
        policy.asked.clear()
        job = asked.done(path, name="catalogue")

    assert (job["state"], job["error"]) == ("done", None)
    assert ("ann", "admin", None) in policy.asked
    assert {actor for actor, _, _ in policy.asked} == {"ann"}


async def test_reports_of_jobs_are_for_who_may_see_the_store() -> None:
    """A report has rows of all contexts: neither the list of jobs nor the news shows it to others, who stop none."""

    class Open:
        async def is_disconnected(self) -> bool:
            return False

    policy = Policy()
    with refold.open(":memory:", allow=policy) as store:
        page = Asked(store)
        app: Any = page.client.app
        jobs = app.state.jobs
        jobs.start("catalogue", "check", lambda tell, stop: (True, {"differences": ["secret"]}))
        policy.allowed = {"read", "open", "append"}
        refused = [page.client.get("/api/jobs"), page.change("cancel", name="catalogue")]
        lines = _lines(jobs, str, store.now(), Open())  # type: ignore[arg-type]  # only this is asked of a request
        assert "retry:" in await anext(lines)
        store.chat("a")
        news = await anext(lines)

    assert [answer.status_code for answer in refused] == [403, 403]
    assert news.startswith("event: news")
