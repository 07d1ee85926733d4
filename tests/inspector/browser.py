"""A browser that looks at a served store, and fails the test on faults that only its console shows."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Route,
    ViewportSize,
    expect,
    sync_playwright,
)

import refold

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
# The shell first: it has no window to keep, and takes half of the processor time.
PROGRAMS = ("chromium-headless-shell", "chromium")
WIDE: ViewportSize = {"width": 1280, "height": 800}
# What is awaited comes within milliseconds; a machine under load takes its time.
PATIENCE_SECONDS = 20
WRITER = """
import sys, refold
with refold.open(sys.argv[1]) as store:
    for line in sys.stdin:
        context, _, text = line.rstrip("\\n").partition(" ")
        store.chat(context).add_message("user", text)
        print("done", flush=True)
"""


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start Chromium; without one the test is skipped, and fails where CI says that it must be there."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        missing = f"no {' or '.join(PROGRAMS)} on PATH"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{missing}: .ci/run installs one")
        pytest.skip(missing)
    expect.set_options(timeout=PATIENCE_SECONDS * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


class Served:
    """A store under an address of this machine; `stop` and `start` are a server that is started anew."""

    def __init__(self, store: refold.Store, **settings: Any) -> None:
        self.store, self.settings, self.port = store, settings, 0
        self.start()

    @property
    def url(self) -> str:
        """The address of the page, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, at the port of the last time if there was one."""
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", self.port))
        bound.listen(64)
        self.port = bound.getsockname()[1]
        self.app = refold.inspector(self.store, **self.settings)
        self._server = uvicorn.Server(uvicorn.Config(self.app, log_level="critical", timeout_graceful_shutdown=0))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [bound]}, daemon=True)
        self._bound = bound
        self._thread.start()

    def stop(self) -> None:
        """End the server; a request that waits ends with it."""
        self._server.should_exit = True
        self._thread.join(PATIENCE_SECONDS)
        self._bound.close()
        assert not self._thread.is_alive(), "the server did not stop"


class Watched:
    """A profile of the browser: its pages, what they asked for, and every fault that they had."""

    def __init__(self, browser: Browser, served: Served, **settings: Any) -> None:
        self.served = served
        self.context: BrowserContext = browser.new_context(**{"viewport": WIDE, **settings})
        self.faults: list[str] = []
        self.asked: list[str] = []
        # Texts of console errors that the test provokes.
        self.allowed: Sequence[str] = ()
        self.context.on("console", self._listen)
        self.context.on("weberror", lambda error: self.faults.append(str(error.error)))
        self.context.on("request", self._note)
        self.page = self.context.new_page()

    def _listen(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.text} ({message.location.get('url')})")

    def _note(self, request: Request) -> None:
        parts = urlsplit(request.url)
        self.asked.append(parts.path)
        if parts.scheme not in ("data", "blob") and parts.hostname != "127.0.0.1":
            self.faults.append(f"a request left the machine: {request.url}")

    def open(self, path: str, page: Page | None = None) -> Page:
        """Go to an address of the store's page, and wait until it is shown."""
        page = page or self.page
        page.goto(self.served.url + path)
        return ready(page)

    def settle(self) -> None:
        """Make it as new for the next test; fails if there was a fault that this one did not expect."""
        self.page.unroute_all()
        self.page.emulate_media(color_scheme="null", reduced_motion="null")
        self.page.evaluate("localStorage.clear(), sessionStorage.clear()")
        self.context.clear_cookies()
        faults, allowed = list(self.faults), self.allowed
        self.faults.clear()
        self.asked.clear()
        self.allowed = ()
        _require_none(faults, allowed)

    def close(self) -> None:
        """End it; fails if there was a fault that the test did not expect."""
        self.context.close()
        _require_none(self.faults, self.allowed)


def _require_none(faults: Sequence[str], allowed: Sequence[str]) -> None:
    assert [fault for fault in faults if not any(text in fault for text in allowed)] == []


def ready(page: Page) -> Page:
    """Wait until the screen of the present address is shown."""
    expect(page.locator("html[data-ready]")).to_be_attached()
    return page


def intercept(page: Page, pattern: str, answer: Callable[[Route], object]) -> None:
    """
    Answer requests of a page that is open in the place of its server.

    Chromium says that it does so before the page takes part: for a moment requests still reach the server.
    """
    page.route("**/?intercepted", lambda route: route.fulfill(status=204))
    page.route(pattern, answer)
    page.evaluate("async () => { while ((await fetch('/?intercepted')).status !== 204); }")


def apart(run: Any, *arguments: Any) -> Any:
    """Run something in a thread of its own: the loop of the browser's driver fills this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, run, *arguments).result()


class Writer:
    """Another process that writes into a store."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def say(self, context: str, text: str) -> None:
        """Add a message of the user; returns once it is stored."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{context} {text}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)
        self._process.stdout.close()
