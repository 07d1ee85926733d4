"""Lists of sessions: what they read of a large store."""

import pytest

import refold
from refold.adk import RefoldSessionService
from tests.support.effort import rows_read


async def test_a_list_reads_no_sessions_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a user, or of an app: the rows of others are not read."""
    with refold.open(":memory:") as store:
        service = RefoldSessionService(store)
        for app, user in (("a", "u"), ("a", "u2"), ("ab", "u")):
            for session in ("s1", "s2"):
                await service.create_session(app_name=app, user_id=user, session_id=session)
        read = rows_read(store, monkeypatch)

        mine = (await service.list_sessions(app_name="a", user_id="u")).sessions
        assert ([one.id for one in mine], len(read)) == (["s1", "s2"], 4)
        read.clear()
        every = (await service.list_sessions(app_name="a")).sessions
        assert (len(every), len(read)) == (4, 8)
