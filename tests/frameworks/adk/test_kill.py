"""A process is killed at any point of an append: the event is there whole, with its state, or not at all."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from google.adk.sessions import Session

import refold
from refold.adk import RefoldSessionService
from tests.support.project import ROOT

EVENTS = 3
MOMENTS_MIN = 12
KEY: dict[str, Any] = {"app_name": "shop", "user_id": "mia", "session_id": "s1"}

# A process that has everything loaded forks another one for each moment, which kills itself before or after a save.
PROGRAM = """
import asyncio, os, signal, sys, traceback
import refold
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from refold.adk import RefoldSessionService
from refold.domain.chat.context import ChatContext
from refold.domain.chat.saved_states import SavedStates

KEY = {"app_name": "shop", "user_id": "mia", "session_id": "s1"}
folder, events = sys.argv[1], int(sys.argv[2])

def around(owner, name, pass_by):
    plain = getattr(owner, name)

    def watched(*args, **kwargs):
        pass_by()
        result = plain(*args, **kwargs)
        pass_by()
        return result

    setattr(owner, name, watched)

async def run(place, diary, last):
    moments = iter(range(10_000))

    def pass_by():
        if next(moments) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with refold.open(place) as store:
        service = RefoldSessionService(store)
        session = await service.get_session(**KEY) or await service.create_session(**KEY)
        if last is not None:
            around(ChatContext, "record_items", pass_by)
            around(SavedStates, "save", pass_by)
        for number in range(events):
            delta = {"n": number, "user:n": number, "app:n": number}
            content = types.Content(role="user", parts=[types.Part(text=str(number))])
            event = Event(id=f"e{number}", timestamp=number + 1.0, author="user", content=content,
                          actions=EventActions(state_delta=delta))
            await service.append_event(session, event)
            with open(diary, "a") as file:
                file.write(f"{number}\\n")
            if last is not None:
                pass_by()

def forked(*args):
    child = os.fork()
    if not child:
        try:
            asyncio.run(run(*args))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for moment in range(10_000):
    place, diary = f"{folder}/{moment}.db", f"{folder}/{moment}.txt"
    code = forked(place, diary, moment)
    if code not in (0, -signal.SIGKILL):
        sys.exit(f"moment {moment} ended with {code}")
    if code == 0:
        break
"""


async def _loaded(store: refold.Store) -> Session | None:
    return await RefoldSessionService(store).get_session(**KEY)


def _checked(place: Path) -> None:
    """Require that what was reported is there, and that the last event is there with all of its state or not at all."""
    diary = place.with_suffix(".txt")
    reported = [int(line) for line in diary.read_text(encoding="utf-8").split()] if diary.exists() else []
    with refold.open(str(place)) as store:
        session = asyncio.run(_loaded(store))
        if session is None:
            assert not reported
            return
        there = [int(event.id[1:]) for event in session.events]
        assert there == list(range(len(there)))
        assert len(reported) <= len(there) <= len(reported) + 1
        last = len(there) - 1
        assert session.state == (dict.fromkeys(("n", "user:n", "app:n"), last) if there else {})
        assert session.last_update_time == last + 1.0 or not there
        assert store.verify(processes=1).problems == ()


def test_a_killed_append_is_whole_or_not_there(tmp_path: Path) -> None:
    """Between any two steps of it; and what was sent again afterwards counts once."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path), str(EVENTS)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr

    places = sorted(tmp_path.glob("*.db"), key=lambda path: int(path.stem))
    assert len(places) > MOMENTS_MIN
    for place in places:
        _checked(place)
        again = PROGRAM.rpartition("for moment in")[0] + f"asyncio.run(run({str(place)!r}, {os.devnull!r}, None))"
        arguments = [sys.executable, "-c", again, str(tmp_path), str(EVENTS)]
        if place in places[:: max(1, len(places) // 4)]:
            sent = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
            assert sent.returncode == 0, sent.stderr
            with refold.open(str(place)) as store:
                session = asyncio.run(_loaded(store))
                assert session is not None
                assert [event.id for event in session.events] == [f"e{number}" for number in range(EVENTS)]
                assert session.state == dict.fromkeys(("n", "user:n", "app:n"), EVENTS - 1)
