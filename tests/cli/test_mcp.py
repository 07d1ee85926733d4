"""`refold mcp`: how it starts the server. What the server answers is tested in tests/frameworks/mcp."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import uvicorn

import refold
from refold.domain.errors import StorageClosedError
from refold.infrastructure import frameworks
from refold.infrastructure.cli import serve
from refold.infrastructure.request_guard import LOCAL_HOSTS
from tests.cli.running import refold as run

OPEN = "who reaches this address can read the store: nothing asks for a password"


class Started:
    """The package's module of the server, and what the command asked of it."""

    def __init__(self) -> None:
        self.server: dict[str, Any] = {}
        self.stdio = 0
        self.hosts: tuple[str, ...] = ()
        self.config: Any = None
        self.address = ("", 0)

    def mcp_server(self, store: refold.Store, **options: Any) -> refold.Store:
        """Take the options of the server, which is the store here."""
        self.server = {**options, "contexts": [row.id for row in store.contexts()]}
        return store

    async def serve_stdio(self, server: refold.Store) -> None:
        """Count that it is served over stdin and stdout, where Ctrl-C ends it as SIGTERM does; end."""
        assert signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGTERM)
        self.stdio += 1

    def http_app(self, server: refold.Store, *, hosts: tuple[str, ...]) -> object:
        """Take the hosts that clients may name."""
        self.hosts = hosts
        return server

    def uvicorn_server(self, config: uvicorn.Config) -> Started:
        """Take how it is served."""
        self.config = config
        return self

    def handle_exit(self, number: int, frame: object) -> None:
        """End at a signal; none comes."""

    def run(self, sockets: list[socket.socket]) -> None:
        """Take where it listens, and end."""
        [listening] = sockets
        self.address = listening.getsockname()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Put it in the place of the server, whose package is not installed."""
    found, package, module = Started(), ModuleType("mcp"), ModuleType("server")
    vars(module).update(
        mcp_server=found.mcp_server, serve_stdio=found.serve_stdio, http_app=found.http_app, PATH="/mcp"
    )
    monkeypatch.setitem(sys.modules, f"{frameworks.__name__}.mcp", package)
    monkeypatch.setitem(sys.modules, f"{frameworks.__name__}.mcp.server", module)
    monkeypatch.setattr(uvicorn, "Server", found.uvicorn_server)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a store with a chat is."""
    path = tmp_path / "s.db"
    with refold.open(path) as store:
        store.chat("a")
    return path


def test_over_stdin_and_stdout(started: Started, place: Path) -> None:
    """It reads unless it may write, and its actor has a name; nothing is printed."""
    before = signal.getsignal(signal.SIGINT)
    assert run("mcp", "--db", place) == (0, "", "")
    assert started.server == {"write": False, "actor": "mcp", "version": refold.__version__, "contexts": ["a"]}

    assert run("mcp", "--db", place, "--write", "--actor", "helper") == (0, "", "")
    assert (started.server["write"], started.server["actor"]) == (True, "helper")
    assert (started.stdio, started.config) == (2, None)
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize("way", [(), ("--http", "--port", 0)])
def test_a_store_that_closes_slowly(
    way: tuple[object, ...], started: Started, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that the end may take begins before the store is closed: when stdin ends, or at Ctrl-C."""
    ends: list[threading.Event] = []
    in_time: list[bool] = []
    monkeypatch.setattr(serve, "end_in_time", lambda asked, *_: ends.append(asked))
    monkeypatch.setattr(started, "run", lambda sockets: signal.raise_signal(signal.SIGINT))
    close = refold.Store.close

    def closing(store: refold.Store) -> None:
        in_time.extend(asked.is_set() for asked in ends)
        close(store)

    with monkeypatch.context() as patch:
        patch.setattr(refold.Store, "close", closing)
        run("mcp", "--db", place, "--write", *way)
    assert in_time[-1:] == [True]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_where_there_are_no_more_threads(
    number: int, code: int, started: Started, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The store is closed and the process ended all the same, with the codes of other servers; the loop goes on until
    then.
    """
    ended = threading.Event()
    stores: list[refold.Store] = []
    told: list[int] = []

    def end(with_code: int) -> None:
        with pytest.raises(StorageClosedError):
            stores[0].now()
        told.append(with_code)
        ended.set()

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def serve_stdio(server: refold.Store) -> None:
        stores.append(server)
        with monkeypatch.context() as patch:
            patch.setattr(os, "_exit", end)
            patch.setattr(threading.Thread, "start", start)
            signal.raise_signal(number)
            assert ended.wait(20)

    monkeypatch.setattr(sys.modules[f"{frameworks.__name__}.mcp.server"], "serve_stdio", serve_stdio)
    run("mcp", "--db", place, "--write")
    assert told == [code]


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 0)])
def test_a_database_that_is_silent(number: str, code: int, place: Path) -> None:
    """The server over stdin and stdout ends with the same code, and says why it did not wait."""
    program = f"""
import asyncio, signal, sys, threading, types
from refold.infrastructure import frameworks
from refold.infrastructure.cli import main, progress, serve
from refold.infrastructure.store import Store
async def serve_stdio(server):
    Store.close = lambda _: threading.Event().wait()
    signal.raise_signal(signal.{number})
    await asyncio.sleep(60)
module = types.ModuleType("server")
module.mcp_server, module.serve_stdio = lambda store, **_: store, serve_stdio
sys.modules[frameworks.__name__ + ".mcp"], sys.modules[frameworks.__name__ + ".mcp.server"] = module, module
progress.STOPPING_SECONDS_MAX = 0.1
sys.exit(main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", program, "mcp", "--db", str(place)]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)

    assert ended.returncode == code
    assert b"stopped without waiting any longer for what it had begun: the database is slow" in ended.stderr


def test_over_http(started: Started, place: Path) -> None:
    """On this machine's own address it says where, and at another one who may read; it ends in a second."""
    own = run("mcp", "--db", place, "--http", "--port", 0)
    config, (host, port) = started.config, started.address

    assert (own.code, own.err) == (0, f"{place} is served at http://{host}:{port}/mcp; Ctrl-C ends it\n")
    assert (host, started.hosts, started.stdio) == ("127.0.0.1", (*LOCAL_HOSTS, "127.0.0.1"), 0)
    assert (config.timeout_graceful_shutdown, config.server_header, config.log_level) == (1, False, "warning")

    other = run("mcp", "--db", place, "--http", "--port", 0, "--host", "127.0.0.2")
    assert OPEN in other.err
    assert started.hosts == (*LOCAL_HOSTS, "127.0.0.2")


@pytest.mark.parametrize("options", [["--port", 1], ["--host", "127.0.0.2"]])
def test_options_of_http_go_with_http(options: list[object], started: Started, place: Path) -> None:
    """Without it nobody listens there."""
    assert run("mcp", "--db", place, *options).fault.startswith("--port and --host go with --http")
    assert started.server == {}
