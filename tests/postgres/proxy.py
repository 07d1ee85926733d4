"""A man in the middle: between a client and a PostgreSQL server, counting round trips, losing what it is told to.

It knows nothing of what passes. A server that speaks after its client did ends a round trip.
"""

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

SOCKET = ".s.PGSQL.5432"
CHUNK = 1 << 16


class Proxy:
    """Passes bytes on until `lose_answer` or `lose_request` is set; then the next of its kind is dropped for good."""

    def __init__(self, url: str, folder: str) -> None:
        server = conninfo_to_dict(url)
        self.url = f"postgresql:///{server['dbname']}?host={folder}&user={server['user']}"
        self.trips = 0
        self.lose_answer = False
        self.lose_request = False
        self._server = f"{server['host']}/{SOCKET}"
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(folder, SOCKET)))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Hang up on everybody."""
        for one in (self._listener, *self._open):
            _hang_up(one)

    def cut(self) -> None:
        """Hang up on those who are connected; who connects again is welcome."""
        while self._open:
            _hang_up(self._open.pop())

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._open += [client, server]
                asking = threading.Event()
                for pump in (self._requests, self._answers):
                    threading.Thread(target=pump, args=(client, server, asking), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, asking: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(CHUNK):
                if self.lose_request:
                    self.lose_request = False
                    break
                asking.set()
                server.sendall(data)
        _hang_up(client)
        _hang_up(server)

    def _answers(self, client: socket.socket, server: socket.socket, asking: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(CHUNK):
                self.trips += asking.is_set()
                asking.clear()
                if self.lose_answer:
                    self.lose_answer = False
                    break
                client.sendall(data)
        _hang_up(client)
        _hang_up(server)


def _hang_up(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """Stand before the server of a URL for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="refold-proxy-") as folder:
        proxy = Proxy(url, folder)
        try:
            yield proxy
        finally:
            proxy.close()
