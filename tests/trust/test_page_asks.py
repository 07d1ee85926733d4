"""The page asks as every call does."""

from starlette.testclient import TestClient

import refold

from .policy import Policy

LOCAL = "http://127.0.0.1:8421"


def test_the_page_answers_403_and_lets_nothing_be_kept() -> None:
    """The body says what is not allowed; an answer that is allowed is not cached."""
    policy = Policy()
    with refold.open(":memory:", allow=policy) as store:
        store.chat("a").add_message("user", "secret")
        client = TestClient(refold.inspector(store), base_url=LOCAL)
        asked = client.get("/api/view?context=a&version=2")
        policy.allowed = set()
        refused = [client.get(f"/api/{path}") for path in ("view?context=a&version=2", "contexts")]
        refused += [
            client.get(f"/api/{path}") for path in ("nodes", "projection?name=search", "log?pos=2", "event?event=2")
        ]
        refused += [client.get("/c/a@2.json")]

    assert (asked.status_code, "secret" in asked.text, asked.headers["cache-control"]) == (200, True, "no-store")
    assert [answer.status_code for answer in refused] == [403] * 7
    assert not any("secret" in answer.text for answer in refused)
