"""A pooler in transaction mode for tests, as strict as a pooler can be.

Like pgbouncer without support for prepared statements: clients share a few server connections, each
transaction may get another one, and here it gets another one whenever one is free. Features that need one connection
throughout (prepared statements, session settings, advisory locks, LISTEN) fail behind it.
"""

import asyncio
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

PROTOCOL = 3 << 16
ASKS_FOR_ENCRYPTION = (80877103, 80877104)
# Settings made at the start would have to follow a client to every connection; pgbouncer refuses others.
STARTUP_KEYS = frozenset({b"user", b"database", b"application_name", b"client_encoding"})
WELCOME = b"R" + struct.pack("!ii", 8, 0) + b"K" + struct.pack("!iii", 12, 99_999_999, 0)
READY = b"Z" + struct.pack("!ic", 5, b"I")
GONE = (asyncio.IncompleteReadError, ConnectionError)
SOCKET, SECONDS_MAX = ".s.PGSQL.5432", 10


def _framed(kind: bytes, body: bytes) -> bytes:
    """Put a message of the protocol together."""
    return kind + struct.pack("!i", len(body) + 4) + body


# As pgbouncer's own errors, it has no field with a severity that is the same in every language.
NO_TRANSACTIONS = _framed(b"E", b"SFATAL\0C08P01\0Mtransaction blocks not allowed in statement pooling mode\0\0")


async def _received(reader: asyncio.StreamReader, *, kinds: int = 1) -> tuple[bytes, bytes]:
    """Read one message, its kind and its body; the first message of a client has no kind."""
    kind = await reader.readexactly(kinds)
    (length,) = struct.unpack("!i", await reader.readexactly(4))
    return kind, await reader.readexactly(length - 4)


@dataclass(eq=False)
class _Backend:
    """One connection to the server, and what it still owes the client that holds it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    owed: deque[bytes] = field(default_factory=deque)
    unsynced: bool = False

    def send(self, kind: bytes, body: bytes) -> None:
        """Pass on a message of the client. Each Query and each Sync is to be answered by one ReadyForQuery."""
        self.writer.write(_framed(kind, body))
        if kind in b"QSF":
            self.owed.append(kind)
        self.unsynced = kind in b"PBDEC" or (self.unsynced and kind not in b"QSF")

    def finishes(self, kind: bytes, body: bytes) -> bool:
        """Note an answer; return True if the client no longer needs this connection."""
        if kind == b"G" and self.owed and self.owed[0] == b"S":
            self.owed.popleft()  # the server skips the Sync before a COPY's rows; another comes after them
        if kind != b"Z":
            return False
        self.owed.popleft()
        return body == b"I" and not self.owed and not self.unsynced


@dataclass(eq=False)
class _Client:
    """One client, the connection it holds while in a transaction, and the one it held before."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    backend: _Backend | None = None
    last: _Backend | None = None
    answers: asyncio.Task[None] = field(init=False)


class _Pool:
    """The server connections; None is one that is not made yet."""

    def __init__(self, url: str, size: int, *, lends_statements: bool) -> None:
        server = conninfo_to_dict(url)
        self.lends_statements = lends_statements
        self._socket = Path(str(server["host"]), SOCKET)
        self._login = f"user\0{server['user']}\0database\0{server['dbname']}\0\0".encode()
        self.free: deque[_Backend | None] = deque([None] * size)
        self._slots = asyncio.Semaphore(size)
        self.greeting = b""

    async def take(self, *, other_than: _Backend | None) -> _Backend:
        """Wait for a free connection, and take another one than the last if there is one."""
        await self._slots.acquire()
        backend = next((one for one in self.free if one is not other_than), other_than)
        self.free.remove(backend)
        try:
            return backend or await self._connected()
        except BaseException:
            self.give_back(None)
            raise

    def give_back(self, backend: _Backend | None) -> None:
        """Make a connection free again, or None the place of a broken one."""
        self.free.append(backend)
        self._slots.release()

    async def _connected(self) -> _Backend:
        """Log in, and keep the server's greeting for the clients."""
        backend = _Backend(*await asyncio.open_unix_connection(self._socket))
        backend.writer.write(_framed(b"", struct.pack("!i", PROTOCOL) + self._login))
        kind = said = b""
        while kind != b"Z":
            kind, body = await _received(backend.reader)
            said += _framed(kind, body) if kind == b"S" else b""
            assert kind != b"E", body
        self.greeting = said
        return backend


async def _greeted(client: _Client, greeting: bytes) -> bool:
    """Accept a client; return False if it asks for something that a pooler does not have."""
    code = ASKS_FOR_ENCRYPTION[0]
    while code in ASKS_FOR_ENCRYPTION:
        _, body = await _received(client.reader, kinds=0)
        (code,) = struct.unpack("!i", body[:4])
        client.writer.write(b"N" if code in ASKS_FOR_ENCRYPTION else b"")
    unknown = {*body[4:].split(b"\0")[::2]} - STARTUP_KEYS - {b""}
    fits = code == PROTOCOL and not unknown
    why = b"unsupported startup parameter: " + b", ".join(sorted(unknown))
    refusal = _framed(b"E", b"SFATAL\0VFATAL\0C08P01\0M" + why + b"\0\0")
    client.writer.write(WELCOME + greeting + READY if fits else refusal)
    return fits


async def _serve(client: _Client, pool: _Pool) -> None:
    """Pass a client's messages on until it leaves."""
    try:
        if not await _greeted(client, pool.greeting):
            return
        while (message := await _received(client.reader))[0] != b"X":
            if client.backend is None and message[0] in b"SH":
                # Sync and Flush alone, as psycopg sends around pipelines, are no transaction.
                client.writer.write(READY if message[0] == b"S" else b"")
                continue
            if client.backend is None:
                client.backend = client.last = await pool.take(other_than=client.last)
                client.answers = asyncio.create_task(_answer(client, client.backend, pool))
            client.backend.send(*message)
    except GONE:
        return  # one side has closed; the other connection is closed, too
    finally:
        client.writer.close()
        if client.backend is not None:  # the client left within a transaction: no other client may get this connection
            client.answers.cancel()
            client.backend.writer.close()
            pool.give_back(None)


async def _answer(client: _Client, backend: _Backend, pool: _Pool) -> None:
    """Pass on the server's messages until the transaction has ended, and then release the connection."""
    message = b"", b""
    try:
        while not backend.finishes(*message):
            message = await _received(backend.reader)
            if pool.lends_statements and message == (b"Z", b"T"):
                client.writer.write(NO_TRANSACTIONS)
                client.writer.close()
                return
            client.writer.write(_framed(*message))
        client.backend = None
        pool.give_back(backend)
    except GONE:
        client.writer.close()


async def _listen(pool: _Pool, socket: Path, ready: Future[Callable[[], object]]) -> None:
    """Serve all clients; `ready` gets the function that ends this."""
    pool.give_back(await pool.take(other_than=None))  # the greeting is the server's own
    server = await asyncio.start_unix_server(lambda *streams: _serve(_Client(*streams), pool), socket)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    ready.set_result(lambda: loop.call_soon_threadsafe(stop.set))
    await stop.wait()
    server.close()
    for backend in filter(None, pool.free):
        backend.writer.close()


@contextmanager
def pooler(url: str, *, size: int = 2, lends_statements: bool = False) -> Iterator[str]:
    """
    Run a pooler with so many connections to the database of a URL, and yield the URL to use instead.

    In statement mode (`lends_statements`) a transaction may not last longer than a round trip.
    """
    server = conninfo_to_dict(url)
    ready: Future[Callable[[], object]] = Future()
    with tempfile.TemporaryDirectory(prefix="refold-pool-") as folder, ThreadPoolExecutor(1) as thread:
        pool = _Pool(url, size, lends_statements=lends_statements)
        ended = thread.submit(asyncio.run, _listen(pool, Path(folder, SOCKET), ready))
        either: list[Future[Any]] = [ready, ended]
        stop = next(as_completed(either, SECONDS_MAX)).result()
        try:
            yield f"postgresql:///{server['dbname']}?host={folder}&user={server['user']}"
        finally:
            stop()
            ended.result(SECONDS_MAX)
