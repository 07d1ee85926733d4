"""
The one that is killed.

Its page begins to rebuild the catalogue; once the first page of events is in the new rows, it prints a line and stands
still.
"""

import sys
import threading

from starlette.testclient import TestClient

import refold
from refold.infrastructure.projecting import runner
from refold.infrastructure.projecting.shadow import Build


def stand_still(*_: object) -> None:
    """Say that the middle is reached, and go no further."""
    sys.stdout.write("in the middle\n")
    sys.stdout.flush()
    threading.Event().wait()


def main(place: str) -> None:
    """Serve a store, and be killed."""
    runner.PAGE_EVENTS = 16
    Build.report = stand_still  # type: ignore[assignment]  # it is called when a page is stored
    client = TestClient(refold.inspector(refold.open(place), write=True), base_url="http://127.0.0.1:8421")
    token = client.get("/api/meta").json()["token"]
    client.post("/api/rebuild", json={"name": "catalogue"}, headers={"x-refold-token": token})
    threading.Event().wait()
