"""What every answer of the server has, and what it refuses; and that it ends when it is told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

import refold
from refold.infrastructure.inspector.app import HEADERS
from refold.infrastructure.inspector.questions import ACTIONS, QUESTIONS
from refold.infrastructure.inspector.wish import Question

from .asking import LOCAL, Asked

PATIENCE_SECONDS = 30
HOSTS = (
    "evil.example", "127.0.0.1.evil.example", "evil.example:8421", "localhost:8421@evil.example", "localhost.", "[::2]",
    "127.0.0.1:", "",
)  # fmt: skip


def test_every_answer_has_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page, its files, every question and action, and all refusals; also where Refold itself fails."""

    def fail(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setitem(QUESTIONS, "moments", Question(fail, "", {}))
    with refold.open(":memory:") as store:
        client = TestClient(refold.inspector(store), base_url=LOCAL, raise_server_exceptions=False)
        page = client.get("/").text
        static = page.partition('href="/static/')[2].partition("/")[0]
        gets = ["/", "/c/a@3", "/nothing", f"/static/{static}/page.js", f"/static/{static}/none.js", "/api/nothing",
                *(f"/api/{one}" for one in (*QUESTIONS, "meta", "jobs", "openapi.json"))]  # fmt: skip
        answers = [client.get(path) for path in gets]
        answers += [client.post(f"/api/{path}", json={}) for path in ACTIONS]
        answers += [client.get("/", headers={"host": "evil.example"}), client.delete("/api/log")]

        for answer in answers:
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, answer.url
        failed = client.get("/api/moments")
        assert (failed.status_code, failed.json()["error"]) == (500, "InternalError")
        assert "secret" not in failed.text
        assert {answer.status_code for answer in answers} >= {200, 400, 403, 404, 405, 500}


@pytest.mark.parametrize("host", HOSTS)
def test_other_hosts_are_refused(host: str) -> None:
    """A name that leads here by a trick of DNS is not answered, however it is written."""
    with refold.open(":memory:") as store:
        client = Asked(store).client
        for path in ("/", "/api/meta", "/api/tail"):
            assert client.get(path, headers={"host": host}).status_code == 400
        for fine in ("127.0.0.1", "localhost:1", "[::1]", "[::1]:8421"):
            assert client.get("/api/meta", headers={"host": fine}).status_code == 200


@pytest.mark.parametrize("path", ACTIONS)
def test_actions_are_only_taken_from_the_page(path: str) -> None:
    """Not from a page of another site, as a form, or without the token where it is needed; nothing is changed."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "hello")
        page = Asked(store, write=True)
        before = store.now()
        body = json.dumps({"name": "catalogue", "context": "a", "source": "a", "target": "a", "call_id": "c"})
        token, plain = {"x-refold-token": page.meta["token"]}, {"content-type": "application/json"}
        for origin in ("https://evil.example", "null", "http://127.0.0.1:9"):
            headers = {**token, **plain, "origin": origin}
            assert page.client.post(f"/api/{path}", content=body, headers=headers).status_code == 403
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            headers = {**token, "content-type": kind}
            assert page.client.post(f"/api/{path}", content=body, headers=headers).status_code == 415
        if ACTIONS[path].needs_token:
            for wrong in ("", "x", page.meta["token"][:-1]):
                headers = {**plain, "x-refold-token": wrong}
                assert page.client.post(f"/api/{path}", content=body, headers=headers).status_code == 403
        assert page.client.get(f"/api/{path}").status_code in (404, 405)
        assert (store.now(), page("jobs")) == (before, [])


def test_it_ends_with_an_open_page(tmp_path: Path) -> None:
    """Ctrl-C ends the server although the news of an open page have no end, and the store is closed."""
    database = tmp_path / "s.db"
    with refold.open(str(database)) as store:
        store.chat("a").add_message("user", "hello")
    command = [sys.executable, "-m", "refold", "ui", "--db", str(database), "--port", "0", "--no-open", "--write"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        address = process.stderr.readline().partition("shown at ")[2].partition(";")[0].strip()
        with httpx.stream("GET", f"{address}api/tail", timeout=PATIENCE_SECONDS) as news:
            lines = news.iter_lines()
            assert next(lines).startswith("retry:")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) in (0, 130)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert list(tmp_path.glob("*-wal")) == []
