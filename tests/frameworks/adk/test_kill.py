"""A process is killed at any point of an append: the event is there whole, with its state, or not at all."""

import asyncio
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import Session
from google.genai import types

import refold
from refold.adk import RefoldSessionService

from ..killed import Report, killed_at_each_moment, reported

EVENTS = 3
KEY: dict[str, Any] = {"app_name": "shop", "user_id": "mia", "session_id": "s1"}


async def work(place: Path, report: Report) -> None:
    """Append each event, whatever is there: one that comes again counts once."""
    with refold.open(place) as store:
        service = RefoldSessionService(store)
        session = await service.get_session(**KEY) or await service.create_session(**KEY)
        for number in range(EVENTS):
            delta = {"n": number, "user:n": number, "app:n": number}
            content = types.Content(role="user", parts=[types.Part(text=str(number))])
            actions = EventActions(state_delta=delta)
            event = Event(id=f"e{number}", timestamp=number + 1.0, author="user", content=content, actions=actions)
            await service.append_event(session, event)
            report(number)


async def loaded(store: refold.Store) -> Session | None:
    """Return the session."""
    return await RefoldSessionService(store).get_session(**KEY)


def checked(place: Path) -> None:
    """Require that what was reported is there, and that the last event is there with all of its state or not at all."""
    done = len(reported(place))
    with refold.open(place) as store:
        session = asyncio.run(loaded(store))
        if session is None:
            assert not done
            return
        there = [int(event.id[1:]) for event in session.events]
        assert there == list(range(len(there)))
        assert done <= len(there) <= done + 1
        last = len(there) - 1
        assert session.state == (dict.fromkeys(("n", "user:n", "app:n"), last) if there else {})
        assert session.last_update_time == last + 1.0 or not there
        assert store.verify(processes=1).problems == ()


def test_a_killed_append_is_whole_or_not_there(tmp_path: Path) -> None:
    """Between any two steps of it; and what was sent again afterwards counts once."""
    places = killed_at_each_moment("tests.frameworks.adk.test_kill", tmp_path)

    # Before and behind the items, the data beside them and the append of each event, and behind its report.
    assert len(places) > 7 * EVENTS
    for place in places:
        checked(place)
        asyncio.run(work(place, lambda _: None))
        with refold.open(place) as store:
            session = asyncio.run(loaded(store))
            assert session is not None
            assert [event.id for event in session.events] == [f"e{number}" for number in range(EVENTS)]
            assert session.state == dict.fromkeys(("n", "user:n", "app:n"), EVENTS - 1)
