"""A page's side of the server, without a browser."""

from __future__ import annotations

import time
from typing import Any

from starlette.testclient import TestClient

import refold

LOCAL = "http://127.0.0.1:8421"
PATIENCE_SECONDS = 20


class Asked:
    """A page's side of the server."""

    def __init__(self, store: refold.Store, **settings: Any) -> None:
        self.store = store
        self.client = TestClient(refold.inspector(store, **settings), base_url=LOCAL)
        self.meta = self.client.get("/api/meta").json()

    def __call__(self, question: str, **given: Any) -> Any:
        """Return an answer."""
        answer = self.client.get(f"/api/{question}", params=given)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def change(self, path: str, **given: Any) -> Any:
        """Make a change, as the page does."""
        return self.client.post(f"/api/{path}", json=given, headers={"x-refold-token": self.meta["token"] or ""})

    def done(self, path: str, **given: Any) -> Any:
        """Start a job, wait for its end, and return it."""
        answer = self.change(path, **given)
        assert answer.status_code == 200, answer.text
        return self.ended(answer.json()["name"])

    def ended(self, name: str) -> Any:
        """Return a job once it is over."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            (job,) = (one for one in self("jobs") if one["name"] == name)
            if job["state"] != "running":
                return job
            time.sleep(0.01)
        raise AssertionError(f"the job {name} does not end")
