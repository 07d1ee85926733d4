"""A server on this machine that answers as it is told to, and remembers what it was asked."""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Answer:
    """
    One answer: a status, and a body whole or in pieces.

    `breaks_off` closes the connection without the end that was announced; `holds` keeps it open after the
    last piece until the server stops.
    """

    def __init__(
        self,
        pieces: Iterable[str] = (),
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        breaks_off: bool = False,
        holds: bool = False,
    ) -> None:
        self.pieces, self.status = list(pieces), status
        self.headers = headers or {}
        self.breaks_off, self.holds = breaks_off, holds


def sse(*events: Any, named: bool = False) -> list[str]:
    """Return server-sent events, each a piece; `named` puts the type of each before its data, as Anthropic does."""
    return [
        (f"event: {event['type']}\n" if named else "")
        + f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n"
        for event in events
    ]


def refusal(status: int, body: Any, **headers: str) -> Answer:
    """Return an error as the providers send it; the clients are told not to try again by themselves."""
    sent = {"content-type": "application/json", "x-should-retry": "false", **headers}
    return Answer([json.dumps(body)], status=status, headers=sent)


class Server(ThreadingHTTPServer):
    """Answers requests in turn with what is in `answers`; `requests` has paths, headers and bodies."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = []
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.stopped = threading.Event()
        self.left = threading.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def body(self) -> Any:
        """What the last request asked."""
        return self.requests[-1][2]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        """Remember the request and give the next answer."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers, body))
        answer = self.server.answers.pop(0)
        self.send_response(answer.status)
        for name, value in ({"content-type": "text/event-stream"} | answer.headers).items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            self._send(answer)
        except (BrokenPipeError, ConnectionResetError):
            self.server.left.set()
            self.close_connection = True

    def _send(self, answer: Answer) -> None:
        for piece in answer.pieces:
            self._chunk(piece)
        while answer.holds and not self.server.stopped.wait(0.02):
            # A comment, which clients skip: it shows when nobody listens any more.
            self._chunk(": still here\n\n")
        if answer.breaks_off:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server in a thread for as long as the block lasts."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
