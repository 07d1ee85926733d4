"""What every answer of the server has, and what it refuses; and that it ends when it is told to."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient

import refold
from refold.domain.errors import (
    DamagedError,
    InvalidInputError,
    KeyDestroyedError,
    KeyMissingError,
    LogWentBackError,
    RefoldError,
    StorageBusyError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from refold.infrastructure.cli.serve import bound
from refold.infrastructure.inspector.app import BODY_MAX, HEADERS
from refold.infrastructure.inspector.questions import ACTIONS, QUESTIONS, Question
from refold.infrastructure.log.row_faults import MissingTableError
from refold.infrastructure.request_guard import LOCAL_HOSTS, RequestGuard
from tests.cli.running import refold as run

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


async def test_an_answer_that_breaks_off(caplog: pytest.LogCaptureFixture) -> None:
    """What fails in the middle of an answer is raised, and no second answer is begun; a line of the log is one line."""
    sent = list[Any]()

    async def breaking(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("in the middle")

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    guard = RequestGuard(breaking, name="page", hosts=["localhost"], headers={})
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    with pytest.raises(RuntimeError, match="in the middle"):
        await guard(scope, receive, send)

    failing = RequestGuard(Mock(side_effect=RuntimeError), name="page", hosts=["localhost"], headers={})
    await failing({**scope, "path": "/\nforged"}, receive, send)

    assert [message["status"] for message in sent if "status" in message] == [200, 500]
    assert [one.getMessage() for one in caplog.records] == [r"GET '/\nforged' failed"]


async def test_a_request_without_an_end(caplog: pytest.LogCaptureFixture) -> None:
    """It is refused where it is too long, however much more there is; who goes away in its middle is no fault."""
    sent = list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    def receiving(*messages: Any) -> Any:
        waiting = iter(messages)

        async def receive() -> Any:
            return next(waiting)

        return receive

    part = {"type": "http.request", "body": b"x" * BODY_MAX, "more_body": True}
    with refold.open(":memory:") as store:
        app = refold.inspector(store, write=True)
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/api/verify", "headers": headers, "query_string": b"",
                 "root_path": ""}  # fmt: skip
        await app(scope, receiving(part, part), send)
        assert sent[0]["status"] == 413
        sent.clear()
        await app(scope, receiving({**part, "body": b"{"}, {"type": "http.disconnect"}), send)

    assert (sent, [one for one in caplog.records if one.levelname == "ERROR"]) == ([], [])


@pytest.mark.parametrize("host", HOSTS)
def test_other_hosts_are_refused(host: str) -> None:
    """A name that leads here by a trick of DNS is not answered, however it is written."""
    with refold.open(":memory:") as store:
        client = Asked(store).client
        for path in ("/", "/api/meta", "/api/tail"):
            assert client.get(path, headers={"host": host}).status_code == 400
        for fine in ("127.0.0.1", "localhost:1", "LocalHost:8421", "[::1]", "[::1]:8421"):
            assert client.get("/api/meta", headers={"host": fine}).status_code == 200


@pytest.mark.parametrize("at", ["0.0.0.0", "[::]"])
def test_a_server_at_all_addresses_is_asked_by_each(at: str) -> None:
    """By a number no other site leads here; its names are still those that were given."""
    with refold.open(":memory:") as store:
        client = Asked(store, hosts=(*LOCAL_HOSTS, at)).client
        for fine in ("192.0.2.7:8421", "[2001:db8::1]:8421", "10.0.0.1", "localhost"):
            assert client.get("/api/meta", headers={"host": fine}).status_code == 200
        for other in ("evil.example", "192.0.2.7.evil.example", "[evil]", ""):
            answer = client.get("/api/meta", headers={"host": other})
            assert (answer.status_code, "as --host" in answer.json()["message"]) == (400, True)
        assert Asked(store).client.get("/api/meta", headers={"host": "192.0.2.7"}).status_code == 400


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
            for wrong in ("", "x", page.meta["token"][:-1], b"\xe9"):
                headers = {**plain, "x-refold-token": wrong}
                assert page.client.post(f"/api/{path}", content=body, headers=headers).status_code == 403
        got = page.client.get(f"/api/{path}")
        assert (got.status_code, got.headers["allow"]) == (405, "POST")
        assert (store.now(), page("jobs")) == (before, [])


def test_another_method() -> None:
    """HEAD is answered as GET without the text, the endless answer, too; of others the refusal says what is taken."""
    with refold.open(":memory:") as store:
        client = Asked(store).client
        news, got, nothing = client.head("/api/tail"), client.get("/api/contexts"), client.put("/api/nothing")
        assert (news.status_code, news.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert client.head("/api/contexts").headers == got.headers
        assert nothing.status_code == 404
        for method, path in (("PUT", "/api/log"), ("POST", "/c/a@3.json"), ("DELETE", "/"), ("POST", "/api/tail")):
            answer = client.request(method, path)
            said = {"error": "RequestError", "message": f"{path} takes GET, HEAD, not {method}"}
            assert (answer.status_code, answer.headers["allow"], answer.json()) == (405, "GET, HEAD", said)


def test_the_token_of_the_page_is_not_hidden() -> None:
    """A hook that takes it for a key would leave the page without one, and no change would be taken."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "hello")
        page = Asked(store, write=True, redact=lambda text: "***" if len(text) > 10 else text)
        answer = page.change("fork", context="a", name="b")

        assert (answer.status_code, store.chat("b", create=False).version) == (200, 1)
        assert page.meta["store"] == ":memory:"


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("[]", 400, "the request is no JSON object"),
        ("{", 400, "the request is no JSON object"),
        ("[" * 100_000, 400, "the request is no JSON object"),
        (
            json.dumps({"context": "a", "name": "b", "more": "x" * BODY_MAX}),
            413,
            "the request has more than 1,048,576 bytes",
        ),
    ],
)
def test_what_is_no_request_is_refused(body: str, status: int, says: str) -> None:
    """It says why, and nothing is changed."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "hello")
        page = Asked(store, write=True)
        before = store.now()
        headers = {"x-refold-token": page.meta["token"], "content-type": "application/json"}
        answer = page.client.post("/api/fork", content=body, headers=headers)

        assert (answer.status_code, answer.json()["message"].startswith(says)) == (status, True), answer.text
        assert store.now() == before


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("replay?context=pool:p&policy=items:3", "pool:p is no chat: only the prompts of a chat are run again"),
        ("graph?context=chat:a", "chat:a is no run: it has no graph"),
        ("view?context=run:u/s/0/0", "run:u/s/0/0 is a run, which holds a graph: ask for graph?context="),
    ],
)
def test_a_question_about_another_kind_of_context(asked: str, says: str) -> None:
    """It says what the context is."""
    with refold.open(":memory:") as store:
        for opened in (store.chat("a"), store.pool("p"), store.run("u", "s")):
            assert opened.version == 1
        answer = Asked(store).client.get(f"/api/{asked}")

    assert (answer.status_code, answer.json()["message"]) == (400, says)


def test_a_store_that_is_closed_says_so(tmp_path: Path) -> None:
    """Also where the page asks what it needs at its start."""
    with refold.open(tmp_path / "s.db") as store:
        page = Asked(store)
    answer = page.client.get("/api/meta")

    assert (answer.status_code, answer.json()["error"]) == (503, "StorageClosedError")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StorageUnavailableError("the server does not answer"), 503),
        (StorageBusyError("the server is at its limit"), 503),
        (StorageReadOnlyError("the database forbids it"), 503),
        (MissingTableError("the database lacks a table: restore it from a copy"), 500),
        (KeyMissingError("mia", "the file"), 503),
        (KeyDestroyedError("mia"), 500),
        (LogWentBackError("the log"), 500),
        (DamagedError("event chat:a@1", "its digest differs"), 500),
    ],
)
def test_a_database_that_is_away_is_no_damage(error: RefoldError, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status says which of the two it is, and the answer why."""

    def fail(_: object) -> None:
        raise error

    with refold.open(":memory:") as store:
        client = Asked(store).client
        monkeypatch.setattr(type(store.log), "now", fail)
        answer = client.get("/api/meta")

    assert (answer.status_code, answer.json()) == (status, {"error": type(error).__name__, "message": str(error)})


def test_news_after_no_moment_are_refused() -> None:
    """The answer ends at once, and says what was wrong, as every fault does; texts are hidden there, too."""
    with refold.open(":memory:") as store:
        page = Asked(store, redact=lambda text: text.replace("secret", "***"))
        answer = page.client.get("/api/tail", params={"after": "yesterday, secret"})

    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidInputError")
    assert "yesterday, ***" in answer.json()["message"]


class Serving:
    """A server that is asked once, from its own address, instead of being run."""

    def __init__(self, config: Any) -> None:
        self.config, self.answer = config, dict[str, Any]()
        SERVED.append(self)

    def handle_exit(self, number: int, frame: object) -> None:
        """End at a signal; none comes."""

    def run(self, sockets: list[socket.socket]) -> None:
        """Ask what there is."""
        host, port = sockets[0].getsockname()
        self.answer = TestClient(self.config.app, base_url=f"http://{host}:{port}").get("/api/meta").json()


SERVED: list[Serving] = []


def test_who_may_reach_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At another address than this machine's own a warning is printed; at each it answers, and ends in a second."""
    place, opened = tmp_path / "s.db", list[str]()
    refold.open(place).close()
    monkeypatch.setattr(uvicorn, "Server", Serving)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    SERVED.clear()

    own = run("ui", "--db", place, "--port", 0, "--write")
    other = run("ui", "--db", place, "--port", 0, "--host", "127.0.0.2", "--no-open")

    assert own.err.startswith(f"{place} is shown at {opened[0]}; Ctrl-C ends it")
    assert "for reading only; Ctrl-C ends it" in other.err
    warning = "who reaches this address can read the store: nothing asks for a password"
    assert [warning in one.err for one in (own, other)] == [False, True]
    assert len(opened) == 1
    assert [one.answer["token"] is not None for one in SERVED] == [True, False]
    for one in SERVED:
        config = one.config
        assert (config.timeout_graceful_shutdown, config.server_header, config.log_level) == (1, False, "warning")


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 0)])
def test_a_database_that_is_silent_does_not_keep_the_server(number: str, code: int, tmp_path: Path) -> None:
    """Once it is asked to end, it waits some seconds for answers that are on their way, and ends as otherwise."""
    refold.open(tmp_path / "s.db").close()
    program = f"""
import signal, sys, threading, uvicorn
from refold.infrastructure.cli import main, progress
progress.STOPPING_SECONDS_MAX = 0.1
uvicorn.Server.run = lambda server, sockets: server.handle_exit(signal.{number}, None) or threading.Event().wait()
sys.exit(main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", program, "ui", "--no-open", "--port", "0", "--db", str(tmp_path / "s.db")]
    ended = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=False)

    assert ended.returncode == code
    assert b"stopped without waiting any longer for what it had begun: the database is slow" in ended.stderr


def test_a_browser_that_waits_for_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in a terminal returns when it is closed: the server is begun all the same."""
    place, closed = tmp_path / "s.db", threading.Event()
    refold.open(place).close()
    monkeypatch.setattr(uvicorn, "Server", Serving)
    monkeypatch.setattr(webbrowser, "open", lambda url: closed.wait(PATIENCE_SECONDS))
    SERVED.clear()
    began = time.monotonic()

    run("ui", "--db", place, "--port", 0)
    closed.set()

    assert len(SERVED) == 1
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_a_port_that_is_taken() -> None:
    """It is said that another program has it, and how to take another one."""
    wanted = pytest.raises(InvalidInputError, match="another program listens there, give another --port")
    with bound("127.0.0.1", 0, 0) as other, wanted:
        bound("127.0.0.1", other.getsockname()[1], 0)


@pytest.mark.parametrize("port", [None, 8124])
def test_an_address_of_another_machine(port: int | None) -> None:
    """Nothing can listen there, which is said with the port that was meant."""
    # An address that stands in documents alone.
    with pytest.raises(InvalidInputError, match=f"nothing can listen at 192.0.2.1:{port or 8123}: "):
        bound("192.0.2.1", port, 8123)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_an_open_page(tmp_path: Path, number: signal.Signals) -> None:
    """A signal ends the server although the news of an open page have no end, and the store is closed."""
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
            process.send_signal(number)
            assert process.wait(PATIENCE_SECONDS) == (130 if number == signal.SIGINT else 0)
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert list(tmp_path.glob("*-wal")) == []
