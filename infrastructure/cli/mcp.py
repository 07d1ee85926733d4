"""`refold mcp`: the store as tools and resources for agents, by the Model Context Protocol."""

from __future__ import annotations

import asyncio
import importlib
import signal
from collections.abc import Callable
from typing import Any

import click

from ...domain.errors import InvalidInputError
from ..store import Store
from .args import database, optional_text, shown, usage_error
from .ui import LOOPBACK, SERVER_SETTINGS, announce, bound, in_url, serving, url_of

DEFAULT_PORT = 8422
ACTOR = "mcp"
MISSING = 'the server needs one more package: pip install "refold[mcp]"'


@click.command("mcp")
@click.option("--http", is_flag=True, help="Serve over HTTP, at /mcp, instead of stdin and stdout.")
@click.option(
    "--port",
    metavar="P",
    type=click.IntRange(0, 65_535),
    help="With --http: the port to listen at.  [default: 8422, or a free one]",
)
@click.option("--host", metavar="H", default=LOOPBACK, show_default=True, help="With --http: the address to listen at.")
@click.option("--write", is_flag=True, help="Offer the tools that append, fork, merge, evict and restore.")
@click.option(
    "--actor", metavar="A", callback=optional_text, default=ACTOR, show_default=True, help="The actor, for the log."
)
@database
def command(http: bool, port: int | None, host: str, write: bool, actor: str, location: str) -> None:
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
        raise InvalidInputError(MISSING) from error
    # The facade has the version. It is above this layer, so it is imported by name.
    version: str = importlib.import_module(__name__.partition(".")[0]).__version__

    def serve(store: Store) -> None:
        server = mcp_server(store, write=write, actor=actor, version=version)
        if http:
            _serve_http(server, location, host, port)
        else:
            _ending_at_once(lambda: asyncio.run(serve_stdio(server)))

    serving(location, serve, write=write)


def _ending_at_once(serve: Callable[[], None]) -> None:
    """Let Ctrl-C end the process while it serves: the package waits for its next line, whatever is raised."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        serve()
    finally:
        signal.signal(signal.SIGINT, before)


def _serve_http(server: Any, location: str, host: str, port: int | None) -> None:
    import uvicorn

    from ..frameworks.mcp.server import PATH, http_app
    from ..request_guard import LOCAL_HOSTS

    with bound(host, port, DEFAULT_PORT) as listening:
        app = http_app(server, hosts=(*LOCAL_HOSTS, in_url(host)))
        announce(f"{shown(location)} is served at {url_of(listening, host)}{PATH}", host)
        uvicorn.Server(uvicorn.Config(app, **SERVER_SETTINGS)).run(sockets=[listening])
