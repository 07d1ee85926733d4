"""`refold ui` serves a store as a page for people; `refold mcp` serves it to agents, by the Model Context Protocol."""

from __future__ import annotations

import asyncio
import errno
import importlib
import logging
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import click

from ...domain.errors import InvalidInputError, RefoldError
from ..frameworks.extras import PAGE_MISSING
from ..store import Store
from .args import answered, database, flag, given_database, keeping, shown, text, usage_error
from .program import INTERRUPTED
from .progress import ASKING, end_in_time, set_at_end

LOOPBACK = "127.0.0.1"
UI_PORT, MCP_PORT = 8421, 8422
# The endless answer that an open page reads does not hold up the end of the program.
SERVER_SETTINGS: dict[str, Any] = {"log_level": "warning", "timeout_graceful_shutdown": 1, "server_header": False}
ACTOR = "mcp"


@click.command("ui")
@click.option(
    "--port", metavar="P", type=click.IntRange(0, 65_535), help="The port to listen at.  [default: 8421, or a free one]"
)
@click.option("--host", metavar="H", default=LOOPBACK, show_default=True, help="The address to listen at.")
@flag("--write", help="Let the page fork, merge, decide on calls and rebuild.")
@flag("--no-open", help="Do not open a browser.")
@database
def ui(port: int | None, host: str, write: bool, no_open: bool) -> None:
    """
    Serve a page on which one looks at the store: at any version of a context, its forks, its log, live.

    It listens on this machine only, and can change nothing unless --write is given. Ctrl-C ends it.
    """
    try:
        import uvicorn

        from ..inspector.app import inspector
        from ..request_guard import LOCAL_HOSTS
    except ImportError as error:
        raise InvalidInputError(PAGE_MISSING) from error
    with bound(host, port, UI_PORT) as listening, _ending_in_time() as asked:

        def serve(store: Store) -> None:
            app = inspector(store, write=write, name=shown(given_database()), hosts=(*LOCAL_HOSTS, in_url(host)))
            url = f"{url_of(listening, host)}/"
            reads = "" if write else ", for reading only"
            announce(f"{shown(given_database())} is shown at {url}{reads}", host)
            if not no_open:
                # A browser in the terminal ends with its window, and waits for the server that is begun here.
                threading.Thread(target=webbrowser.open, args=[url], daemon=True).start()
            _run_server(uvicorn.Server(uvicorn.Config(app, **SERVER_SETTINGS)), listening, asked)

        serving(serve, write=write)


@click.command("mcp")
@flag("--http", help="Serve over HTTP, at /mcp, instead of stdin and stdout.")
@click.option(
    "--port",
    metavar="P",
    type=click.IntRange(0, 65_535),
    help="With --http: the port to listen at.  [default: 8422, or a free one]",
)
@click.option("--host", metavar="H", default=LOOPBACK, show_default=True, help="With --http: the address to listen at.")
@flag("--write", help="Offer the tools that append, fork, merge, evict and restore.")
@text("--actor", metavar="A", default=ACTOR, show_default=True, help="The actor, for the log.")
@database
def mcp(http: bool, port: int | None, host: str, write: bool, actor: str) -> None:
    """
    Serve the store to agents by the Model Context Protocol: tools that show, search, compare and explain contexts.

    A client starts it and speaks over stdin and stdout; with --http clients reach it at an address of this machine. It
    can change nothing unless --write is given. It ends when stdin does, or by Ctrl-C.
    """
    if not http and (port is not None or host != LOOPBACK):
        raise usage_error("--port and --host go with --http")
    try:
        from ..frameworks.mcp.server import mcp_server, serve_stdio
    except ImportError as error:
        raise InvalidInputError('the server needs one more package: pip install "refold[mcp]"') from error
    # The facade has the version. It is above this layer, so it is imported by name.
    version: str = importlib.import_module(__name__.partition(".")[0]).__version__

    with _ending_in_time() as asked:

        def serve(store: Store) -> None:
            server = mcp_server(store, write=write, actor=actor, version=version)
            if http:
                _serve_http(server, host, port, asked)
            else:
                _closing_at_a_signal(store, asked, lambda: asyncio.run(serve_stdio(server)))

        serving(serve, write=write)


class Ending(threading.Event):
    """Set when the program is asked to end; `code` is its exit code, which is INTERRUPTED after Ctrl-C."""

    code = 0

    def ask(self, number: int) -> None:
        """Note that a signal asks the program to end."""
        if number == signal.SIGINT:
            self.code = INTERRUPTED
        self.set()


@contextmanager
def _ending_in_time() -> Iterator[Ending]:
    """Yield an event to set when the program is asked to end; a silent database does not hold it up for long."""
    asked = Ending()
    with set_at_end() as over, _noting_ctrl_c(asked):
        about = (asked, over, _say, lambda: asked.code)
        threading.Thread(target=end_in_time, args=about, name="refold-end", daemon=True).start()
        yield asked


@contextmanager
def _noting_ctrl_c(asked: Ending) -> Iterator[None]:
    """Set `asked` at Ctrl-C, also while no server runs, as when the store is opened or closed."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        # Ctrl-C is ignored, as in a job in the background.
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        asked.ask(number)
        before(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _say(text: str) -> None:
    # The disk of the log may be full.
    with suppress(OSError):
        click.echo(text, err=True)


def _closing_at_a_signal(store: Store, asked: Ending, serve: Callable[[], None]) -> None:
    """
    Call `serve`; Ctrl-C and SIGTERM close the store and end the process meanwhile, because the package of MCP waits for
    its next line, whatever is raised. A second signal leaves the store as a kill does.
    """
    numbers: list[int] = []

    def close() -> None:
        asked.wait()
        if numbers:
            with suppress(RefoldError):
                store.close()
            os._exit(asked.code)

    def ending(number: int, _: FrameType | None) -> None:
        for one in ASKING:
            signal.signal(one, signal.SIG_DFL)
        numbers.append(number)
        asked.ask(number)

    # Started before the signal comes: at that time the process may get no more threads.
    threading.Thread(target=close, name="refold-close", daemon=True).start()
    before = {number: signal.signal(number, ending) for number in ASKING}
    try:
        serve()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        # After the end of stdin the client waits for the end of the process. The handlers were set back before, because
        # a signal within this call would make the same call, and wait for it for ever.
        asked.set()


def _serve_http(server: Any, host: str, port: int | None, asked: Ending) -> None:
    import uvicorn

    from ..frameworks.mcp.server import PATH, http_app
    from ..request_guard import LOCAL_HOSTS

    with bound(host, port, MCP_PORT) as listening:
        app = http_app(server, hosts=(*LOCAL_HOSTS, in_url(host)))
        announce(f"{shown(given_database())} is served at {url_of(listening, host)}{PATH}", host)
        _run_server(uvicorn.Server(uvicorn.Config(app, **SERVER_SETTINGS)), listening, asked)


def _run_server(server: Any, listening: socket.socket, asked: Ending) -> None:
    """Run a server of uvicorn until Ctrl-C or SIGTERM, which set `asked`. After both the store is closed."""
    end = server.handle_exit

    def handle_exit(number: int, frame: FrameType | None) -> None:
        asked.ask(number)
        end(number, frame)

    def is_wanted(record: logging.LogRecord) -> bool:
        # The endless answers of open pages are cancelled at the end, which is no fault.
        fault = record.exc_info[1] if record.exc_info else None
        return not server.should_exit or not isinstance(fault, asyncio.CancelledError | None)

    # The server repeats the signal when it has ended, and SIGTERM would end the process before the store is closed.
    before, logger = signal.signal(signal.SIGTERM, lambda *_: sys.exit()), logging.getLogger("uvicorn.error")
    logger.addFilter(is_wanted)
    server.handle_exit = handle_exit
    try:
        server.run(sockets=[listening])
    finally:
        logger.removeFilter(is_wanted)
        signal.signal(signal.SIGTERM, before)


def serving(serve: Callable[[Store], None], *, write: bool) -> None:
    """Serve a store, for reading only or for changes, too."""
    if write:
        with keeping() as store:
            serve(store)
    else:
        # With the stored rows of projections, so that a large store answers at once.
        answered(serve)


def in_url(host: str) -> str:
    """Return an address as it stands in a URL, and in the header `Host`."""
    return f"[{host}]" if ":" in host else host


def url_of(listening: socket.socket, host: str) -> str:
    """Return the URL of a socket that listens at an address, without a path."""
    return f"http://{in_url(host)}:{listening.getsockname()[1]}"


def announce(said: str, host: str) -> None:
    """Say on stderr what is served, and whether others than this machine can read it."""
    click.echo(f"{said}; Ctrl-C ends it", err=True)
    if host != LOOPBACK:
        click.echo("who reaches this address can read the store: nothing asks for a password", err=True)


def bound(host: str, port: int | None, usual: int) -> socket.socket:
    """Return a socket that listens at the port, or at a free one if none was asked for and the usual one is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (usual, 0) if port is None else (port,):
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, wanted))
            # From here on a client is kept waiting instead of being refused, so the address can be printed.
            found.listen()
        except OSError as error:
            found.close()
            fault = error
            continue
        return found
    is_taken = fault.errno == errno.EADDRINUSE
    reason = "another program listens there, give another --port" if is_taken else fault.strerror or fault
    raise InvalidInputError(f"nothing can listen at {host}:{port or usual}: {reason}")
