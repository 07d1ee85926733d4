"""Places that keep the entries of a witness: a disk that is nearly full, and an endpoint with too many entries."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from refold.infrastructure.trust import witness
from refold.infrastructure.trust.witness import FileWitness, HttpWitness

LINE = '{"kind":"closed"}'


def test_an_entry_that_the_disk_takes_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is whole in the end, or an error says that it is not."""
    write, path = os.write, tmp_path / "witness.log"
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:5]))
    FileWitness(path).add(LINE)
    assert FileWitness(path).entries() == [LINE]

    def fill(handle: int, data: bytes) -> int:
        if len(data) <= 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[:-10])

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(OSError, match="No space left"):
        FileWitness(path).add(LINE)
    monkeypatch.setattr(os, "write", write)
    FileWitness(path).add(LINE)
    assert FileWitness(path).entries() == [LINE, LINE[:8], LINE]


class Lines(BaseHTTPRequestHandler):
    """Answers with three entries."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{LINE}\n".encode() * 3)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a server with three entries."""
    server = HTTPServer(("127.0.0.1", 0), Lines)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_with_more_entries_than_are_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are not left out: less would be compared with them."""
    monkeypatch.setattr(witness, "HTTP_BYTES_MAX", 3 * (len(LINE) + 1))
    assert HttpWitness(url).entries() == [LINE] * 3
    monkeypatch.setattr(witness, "HTTP_BYTES_MAX", 3 * len(LINE))
    with pytest.raises(OSError, match="it has more than 51 bytes"):
        HttpWitness(url).entries()
