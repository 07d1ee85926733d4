"""Sessions beside those of the kit's own services: the same answers, and chats that everything else can read."""

import asyncio
import itertools
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions import BaseSessionService, DatabaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold.adk import RefoldSessionService
from refold.chat import FunctionCallOutput
from refold.domain.errors import InvalidInputError

APP: dict[str, Any] = {"app_name": "shop"}
MIA: dict[str, Any] = {**APP, "user_id": "mia"}
KEY: dict[str, Any] = {**MIA, "session_id": "s1"}
VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "ä", {"a": [1, None]}, [], 0.5])
NAMES = st.sampled_from(["a", "b", "app:a", "app:b", "user:a", "temp:a", "user:"])
STATES = st.dictionaries(NAMES, VALUES, max_size=3)
IDS = st.sampled_from(["s1", "s2", " s1 "])
USERS = st.sampled_from(["mia", "tom/ä %"])
PARTS = st.lists(
    st.sampled_from([
        types.Part(text="Where is my order?"),
        types.Part(text="I think", thought=True),
        types.Part(text="signed", thought_signature=b"\xff\x00"),
        types.Part(function_call=types.FunctionCall(id="c1", name="track", args={"order": 7, "deep": {"x": [1.5]}})),
        types.Part(function_call=types.FunctionCall(name="ping")),
        types.Part(function_response=types.FunctionResponse(id="c1", name="track", response={"result": "Lyon"})),
        types.Part(function_response=types.FunctionResponse(id="c1", name="track", response={"error": "{}"})),
        types.Part(function_response=types.FunctionResponse(name="track", response={"rows": [1, {"a": None}]})),
        types.Part(inline_data=types.Blob(data=b"\xff\xfe\xfb\x00", mime_type="image/png")),
        types.Part(inline_data=types.Blob(data=b"plain", mime_type="text/plain")),
        types.Part(file_data=types.FileData(file_uri="https://a.example/b.png", mime_type="image/png")),
        types.Part(executable_code=types.ExecutableCode(code="1+1", language=types.Language.PYTHON)),
    ]),
    max_size=3,
)  # fmt: skip
CONTENTS = st.none() | st.builds(types.Content, role=st.sampled_from(["user", "model", None]), parts=PARTS)
USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=5, candidates_token_count=7)
EVENTS: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    author=st.sampled_from(["user", "clerk"]),
    invocation_id=st.sampled_from(["i1", "i2", "i3"]),
    content=CONTENTS,
    partial=st.sampled_from([None, False, True]),
    branch=st.sampled_from([None, "clerk.helper"]),
    long_running_tool_ids=st.sampled_from([None, {"c1"}]),
    usage_metadata=st.sampled_from([None, USAGE]),
    error_code=st.sampled_from([None, "SAFETY"]),
    output=st.sampled_from([None, {"a": 1}]),
    actions=st.builds(
        EventActions,
        state_delta=STATES,
        artifact_delta=st.sampled_from([{}, {"f.txt": 1}]),
        transfer_to_agent=st.sampled_from([None, "helper"]),
        rewind_before_invocation_id=st.sampled_from([None, None, None, "i1", "i2", "none"]),
        agent_state=st.sampled_from([None, {"step": 1}]),
    ),
)
LIMITS = st.sampled_from([None, 0, 1, 2, 50])
STEPS = st.lists(
    st.tuples(st.just("create"), USERS, IDS, STATES)
    | st.tuples(st.just("append"), USERS, IDS, EVENTS)
    | st.tuples(st.just("append"), USERS, IDS, EVENTS)
    | st.tuples(st.just("get"), USERS, IDS, LIMITS)
    | st.tuples(st.just("since"), USERS, IDS, st.integers(0, 12))
    | st.tuples(st.just("list"), st.none() | USERS, st.none(), st.none())
    | st.tuples(st.just("delete"), USERS, IDS, st.none())
    | st.tuples(st.just("user"), USERS, st.none(), st.none()),
    max_size=14,
)


def shown(session: Session | None, *, is_listed: bool = False) -> Any:
    """Return what is compared of a session: all but the time of its creation, which a clock gives."""
    if session is None:
        return None
    plain = session.model_dump(mode="json")
    if not session.events:
        plain["last_update_time"] = None
    plain["events"] = [event.model_dump(mode="json", exclude_none=True) for event in session.events]
    return plain


async def took(service: BaseSessionService, step: tuple[Any, ...], number: int) -> Any:
    """Take a step and return its answer, or the kind of its error."""
    name, user, session_id, given = step
    key = {**APP, "user_id": user}
    try:
        if name == "create":
            return shown(await service.create_session(**key, state=given, session_id=session_id.strip()))
        if name == "append":
            session = await service.get_session(**key, session_id=session_id.strip())
            if session is None:
                session = Session(**key, id="gone")
            fields = {**given, "actions": given["actions"].model_copy(deep=True)}
            event = Event(id=f"e{number}", timestamp=1_000.0 + number, **fields)
            answer = await service.append_event(session, event)
            return answer.model_dump(mode="json"), shown(session)
        if name in ("get", "since"):
            limits = {"num_recent_events": given} if name == "get" else {"after_timestamp": 1_000.0 + given}
            return shown(
                await service.get_session(**key, session_id=session_id.strip(), config=GetSessionConfig(**limits))
            )
        if name == "list":
            found = (await service.list_sessions(**APP, user_id=user)).sessions
            return sorted((one.user_id, one.id, sorted(one.state.items(), key=str), len(one.events)) for one in found)
        if name == "delete":
            return await service.delete_session(**key, session_id=session_id.strip())
        return await service.get_user_state(**key)
    except (AlreadyExistsError, SessionNotFoundError) as error:
        return type(error)


def compared(ours: BaseSessionService, theirs: BaseSessionService, steps: list[tuple[Any, ...]]) -> None:
    """Take steps with both, and require the same answers."""

    async def run() -> None:
        for number, step in enumerate(steps):
            mine = await took(ours, step, number)
            other = await took(theirs, step, number)
            assert mine == other, step
        if isinstance(theirs, DatabaseSessionService):
            await theirs.close()

    asyncio.run(run())


@given(STEPS)
def test_it_answers_as_the_service_in_memory(steps: list[tuple[Any, ...]]) -> None:
    """Whatever sessions, events and states come and go; and every chat can be sent to every provider."""
    with refold.open(":memory:") as store:
        compared(RefoldSessionService(store), InMemorySessionService(), steps)
        for row in store.contexts():
            chat = store.chat(row.id)
            chat.to_openai_messages()
            chat.to_anthropic_messages()
            chat.to_google_json()
        assert store.verify(processes=1).problems == ()


@given(STEPS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_it_answers_as_the_service_in_a_database(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    """The kit's own service on SQLite, and Refold's on SQLite."""
    folder = tmp_path_factory.mktemp("kit")
    with refold.open(str(folder / "ours.db"), synchronous="NORMAL") as store:
        theirs = DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'theirs.db'}")
        compared(RefoldSessionService(store), theirs, steps)


def said(text: str, author: str = "user", **fields: Any) -> Event:
    """Return an event with a text."""
    role = "user" if author == "user" else "model"
    return Event(author=author, content=types.Content(role=role, parts=[types.Part(text=text)]), **fields)


async def filled(service: RefoldSessionService, *events: Event) -> Session:
    """Make a session with events."""
    session = await service.create_session(**KEY)
    for event in events:
        await service.append_event(session, event)
    return session


async def texts(service: RefoldSessionService) -> list[str | None]:
    """Return the texts of the session's events."""
    session = await service.get_session(**KEY)
    assert session is not None
    return [event.content and event.content.parts[0].text for event in session.events]


async def test_a_session_is_a_chat(store: refold.Store) -> None:
    """Its events are items, by who and when and with tokens; calls are tied to outputs; what others add is an event."""
    service = RefoldSessionService(store)
    call = types.Part(function_call=types.FunctionCall(id="c1", name="track", args={"order": 7}))
    answer = types.Part(function_response=types.FunctionResponse(id="c1", name="track", response={"result": "Lyon"}))
    asked = Event(author="clerk", content=types.Content(role="model", parts=[call]), timestamp=1_001.0)
    told = Event(author="clerk", content=types.Content(role="user", parts=[answer]), usage_metadata=USAGE)
    about = {"model_version": "g-1", "actions": EventActions(state_delta={"city": "Lyon"})}
    used = USAGE.model_copy(update={"thoughts_token_count": 4})
    last = said("In Lyon.", "clerk", usage_metadata=used, **about)
    await filled(service, said("Where is my order?", timestamp=1_000.0), asked, told, last)

    chat = store.chat(service.chat_id(**KEY))
    assert [item.type for item in chat.items] == ["message", "function_call", "function_call_output", "message"]
    assert [item.created_at for item in chat.items[:2]] == [1_000.0, 1_001.0]
    assert [item.agent_id for item in chat.items] == [None, "clerk", "clerk", "clerk"]
    assert chat.pending_calls() == []
    assert [item.output for item in chat.items if isinstance(item, FunctionCallOutput)] == ["Lyon"]
    assert {event.meta.actor for event in chat.history()} == {"adk"}
    assert [(row.model, row.counted_in, row.counted_out) for row in store.usage(by=("model",)) if row.model] == [
        ("g-1", 5, 11)
    ]
    assert [hit.context for hit in store.search("where order")] == [chat.id]

    chat.add_message("user", "by hand")
    assert (await texts(service))[-1] == "by hand"
    session = await service.get_session(**KEY)
    assert session is not None
    await service.append_event(session, said("go on"))
    assert (await texts(service))[-2:] == ["by hand", "go on"]
    assert session.state == {"city": "Lyon"}
    earlier = [saved.value.get("state") for saved in chat.saved_states.all("adk") if saved.value]
    assert [one for one in earlier if one is not None] == [{}, {"city": "Lyon"}]


async def test_what_others_added_has_the_roles_of_the_kit(store: refold.Store) -> None:
    """Of a person and a tool `user`, of a model `model`."""
    service = RefoldSessionService(store)
    await filled(service, said("Where is my order?"))
    chat = store.chat(service.chat_id(**KEY))
    chat.add_message("user", "by hand")
    chat.add_message("assistant", "I look.")
    chat.add_function_call("track", "{}", "c1")
    chat.add_function_output("track", "Lyon", "c1")
    session = await service.get_session(**KEY)

    assert session is not None
    contents = [event.content for event in session.events[1:]]
    assert [content and content.role for content in contents] == ["user", "model", "model", "user"]


async def test_the_last_events_are_read_alone(store: refold.Store) -> None:
    """By a service that has read nothing yet, whoever added what: as many as there are, and the same as of all."""
    call = types.Part(function_call=types.FunctionCall(id="c1", name="track", args={}))
    mixed = Event(author="clerk", content=types.Content(role="model", parts=[types.Part(text="wait"), call, call]))
    service = RefoldSessionService(store)
    session = await filled(service, said("one", invocation_id="i1"), mixed, said("two", invocation_id="i2"))
    rewind = Event(author="user", actions=EventActions(rewind_before_invocation_id="i2"))
    await service.append_event(session, rewind)
    for is_mixed in (False, True):
        if is_mixed:
            store.chat(service.chat_id(**KEY)).add_message("user", "by hand")
            loaded = await service.get_session(**KEY)
            assert loaded is not None
            await service.append_event(loaded, mixed.model_copy(update={"id": "e9"}))
        whole = await service.get_session(**KEY)
        assert whole is not None
        for count in range(9):
            limits = GetSessionConfig(num_recent_events=count)
            found = await RefoldSessionService(store).get_session(**KEY, config=limits)
            assert found is not None
            assert found.events == (whole.events[-count:] if count else [])


async def test_a_rewind_leaves_the_view(store: refold.Store) -> None:
    """The kit gets all events, and what it takes for live is what the chat shows; so it is after a second rewind."""
    service = RefoldSessionService(store)
    session = await filled(
        service,
        said("one", invocation_id="i1"),
        said("two", invocation_id="i2"),
        said("three", invocation_id="i3"),
        Event(author="user", actions=EventActions(rewind_before_invocation_id="i2")),
        said("four", invocation_id="i4"),
    )
    chat = store.chat(service.chat_id(**KEY))

    async def live() -> list[str]:
        found = await service.get_session(**KEY)
        assert found is not None
        return [one.content.parts[0].text for one in _apply_rewinds(found.events)]

    assert await texts(service) == ["one", "two", "three", None, "four"]
    assert await live() == [item.text for item in chat.messages() if item.text] == ["one", "four"]
    await service.append_event(session, Event(author="user", actions=EventActions(rewind_before_invocation_id="i1")))
    chat.refresh()
    assert await live() == [item.text for item in chat.messages() if item.text] == []
    assert len((await service.get_session(**KEY)).events) == 6  # type: ignore[union-attr]
    why = store.why_gone(chat.stream_id, session.events[0].id)
    assert (why.state, why.reason) == ("gone", "adk: rewound")
    await service.delete_session(**KEY)
    await service.create_session(**KEY)
    assert await texts(service) == []


async def test_a_compaction_stands_for_what_it_sums_up(store: refold.Store) -> None:
    """Others are sent its summary in the place of the events; the kit gets all of them."""
    service = RefoldSessionService(store)
    summary = types.Content(role="model", parts=[types.Part(text="They said one and two.")])
    compaction = EventCompaction(start_timestamp=1_000.0, end_timestamp=1_001.0, compacted_content=summary)
    await filled(
        service,
        said("one", timestamp=1_000.0),
        said("two", timestamp=1_001.0),
        said("three", timestamp=1_002.0),
        Event(author="user", actions=EventActions(compaction=compaction), timestamp=1_003.0),
    )

    chat = store.chat(service.chat_id(**KEY))
    assert [item.text for item in chat.messages()] == ["three", "They said one and two."]
    assert await texts(service) == ["one", "two", "three", None]
    found = await service.get_session(**KEY)
    assert found is not None
    assert found.events[-1].actions.compaction == compaction


async def test_a_second_writer_is_refused(store: refold.Store) -> None:
    """Of two that loaded a session the second is told; after loading it again it goes on. Nothing forks."""
    one, two = RefoldSessionService(store), RefoldSessionService(store)
    await filled(one, said("hello"))
    first, second = await one.get_session(**KEY), await two.get_session(**KEY)
    assert first is not None
    assert second is not None
    await one.append_event(first, said("first"))
    before = store.now()
    late = said("second", actions=EventActions(state_delta={"temp:x": 1, "user:y": 2, "z": 3}))
    with pytest.raises(ValueError, match="modified in storage"):
        await two.append_event(second, late)

    assert store.now() == before
    assert (len(second.events), second.state, late.actions.state_delta) == (1, {}, {"temp:x": 1, "user:y": 2, "z": 3})
    again = await two.get_session(**KEY)
    assert again is not None
    await two.append_event(again, late)
    assert again.state == {"temp:x": 1, "user:y": 2, "z": 3}
    assert await texts(one) == ["hello", "first", "second"]
    by_hand = Session(**MIA, id="s1", events=[said("other")])
    with pytest.raises(ValueError, match="modified in storage"):
        await one.append_event(by_hand, said("third"))


async def test_many_writers_lose_nothing(store: refold.Store) -> None:
    """Eight at once, each until it is through: each event and each change of a shared state is there once."""
    services = [RefoldSessionService(store) for _ in range(4)]
    await filled(services[0])
    for number in range(2):
        await services[0].create_session(**MIA, session_id=f"own {number}")

    async def write(service: RefoldSessionService, name: str, session_id: str) -> None:
        for number in range(4):
            delta = {f"app:{name} {number}": number}
            event = said(f"{name} {number}", actions=EventActions(state_delta=delta))
            while True:
                session = await service.get_session(**MIA, session_id=session_id)
                assert session is not None
                try:
                    await service.append_event(session, event)
                    break
                except ValueError:
                    continue

    places = ["s1", "s1", "own 0", "own 1"]
    await asyncio.gather(
        *(write(one, f"w{n}", place) for n, (one, place) in enumerate(zip(services, places, strict=True)))
    )
    found = await texts(services[0])
    session = await services[0].get_session(**KEY)
    assert session is not None
    assert sorted(str(text) for text in found) == sorted(f"w{n} {number}" for n in range(2) for number in range(4))
    assert session.state == {f"app:w{n} {number}": number for n in range(4) for number in range(4)}


async def test_an_event_that_comes_again_counts_once(store: refold.Store) -> None:
    """As after an answer that was lost; another event with its id is another event."""
    service = RefoldSessionService(store)
    session = await filled(service, said("hello", id="e1", actions=EventActions(state_delta={"n": 1})))
    lost = session.model_copy(deep=True)
    before = store.now()
    await service.append_event(lost, session.events[0].model_copy(deep=True))

    assert (store.now(), len(lost.events)) == (before, 1)
    await service.append_event(session, said("other", id="e1"))
    found = await service.get_session(**KEY)
    assert found is not None
    assert [(event.id, event.content.parts[0].text) for event in found.events] == [("e1", "hello"), ("e1", "other")]


async def test_an_append_reads_nothing(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The append itself is refused if others came first; only then the chat is read."""
    mine, other = RefoldSessionService(store), RefoldSessionService(store)
    session = await filled(mine, said("hello"))
    with monkeypatch.context() as patched:
        patched.setattr(type(store.log), "read", lambda *_, **__: pytest.fail("the log was read"))
        await mine.append_event(session, said("more"))
    theirs = await other.get_session(**KEY)
    assert theirs is not None
    event = said("again", id="e3")
    await other.append_event(theirs, event)
    stale = session.model_copy(deep=True)

    before = store.now()
    # An event that somebody else brought, as from a run that two workers repeat, counts once; another one is refused.
    await mine.append_event(session, event.model_copy(deep=True))
    with pytest.raises(ValueError, match="modified in storage"):
        await mine.append_event(stale, said("late"))
    assert store.now() == before
    await mine.append_event(session, said("last"))
    assert await texts(other) == ["hello", "more", "again", "last"]


@pytest.mark.parametrize("value", [object(), lambda: 1, {1, object()}, float("nan"), {"x": float("inf")}, "\ud800"])
async def test_what_is_no_json_is_refused(store: refold.Store, value: Any) -> None:
    """No text about it is kept in its place; nothing is changed, in the store or in memory."""
    service = RefoldSessionService(store)
    session = await filled(service, said("hello"))
    before = store.now()
    event = said("state", actions=EventActions(state_delta={"x": value, "temp:y": value}))
    with pytest.raises(InvalidInputError):
        await service.append_event(session, event)
    with pytest.raises(InvalidInputError):
        await service.create_session(**MIA, session_id="s2", state={"user:x": value})
    with pytest.raises(InvalidInputError):
        await service.append_event(session, said("agent", actions=EventActions(agent_state={"x": value})))

    assert (store.now(), len(session.events), session.state) == (before, 1, {})
    assert set(event.actions.state_delta) == {"x", "temp:y"}


async def test_names_are_checked(store: refold.Store) -> None:
    """An empty one, or one that is too long, is refused before anything is made; any other one is kept apart."""
    service = RefoldSessionService(store)
    wrong: tuple[dict[str, Any], ...] = (
        {"app_name": "", "user_id": "u"},
        {"app_name": "a", "user_id": ""},
        {"app_name": "x" * 9_999, "user_id": "u"},
    )
    for names in wrong:
        with pytest.raises(InvalidInputError):
            await service.create_session(**names, session_id="s")
    odd = ["a/b", "a%2Fb", "a", "ä:@..", " x"]
    for app, user in itertools.product(odd, odd):
        await service.create_session(app_name=app, user_id=user, session_id="s", state={"user:is": [app, user]})
    for app, user in itertools.product(odd, odd):
        assert await service.get_user_state(app_name=app, user_id=user) == {"is": [app, user]}
        [found] = (await service.list_sessions(app_name=app, user_id=user)).sessions
        assert (found.app_name, found.user_id) == (app, user)


async def test_sessions_come_page_by_page(store: refold.Store) -> None:
    """The last changed one first, each once; a cursor of another place is refused."""
    service = RefoldSessionService(store)
    for number in range(7):
        await service.create_session(**MIA, session_id=f"s{number}", state={"n": number, "user:last": number})
    session = await service.get_session(**MIA, session_id="s2")
    assert session is not None
    await service.append_event(session, said("hello"))
    await service.delete_session(**MIA, session_id="s4")
    seen, cursor = [], None
    while True:
        page = await service.list_sessions_page(**APP, limit=4, cursor=cursor)
        seen += page.sessions
        cursor = page.cursor
        if cursor is None:
            break

    assert [one.id for one in seen] == ["s2", "s6", "s5", "s3", "s1", "s0"]
    assert [one.state for one in seen][:2] == [{"n": 2, "user:last": 6}, {"n": 6, "user:last": 6}]
    whole = (await service.list_sessions(**MIA)).sessions
    assert whole[0].id == "s0"
    for one in whole:
        found = await service.get_session(**MIA, session_id=one.id)
        assert found is not None
        assert found.last_update_time == one.last_update_time
    for wrong in ("x", "1", "a:b", "9" * 5_000 + ":b"):
        with pytest.raises(InvalidInputError):
            await service.list_sessions_page(**APP, cursor=wrong)
    with pytest.raises(InvalidInputError):
        await service.list_sessions_page(**APP, limit=0)


async def test_what_was_erased_is_not_read_from_memory(tmp_path: Any) -> None:
    """Neither events nor the states beside them, which are the user's: the same service reads them again."""
    with refold.open(str(tmp_path / "s.db")) as store:
        service = RefoldSessionService(store)
        session = await service.create_session(**KEY, state={"card": "secret 4111", "user:pin": "secret 1"})
        said = types.Content(role="user", parts=[types.Part(text="secret order")])
        await service.append_event(session, Event(author="user", invocation_id="i1", content=said))
        for _ in range(2):
            assert repr(await service.get_session(**KEY)).count("secret") == 3

        store.erase(user="mia", why="asked for", dry_run=False)

        assert "secret" not in repr(await service.get_session(**KEY))
        assert "secret" not in repr(await service.get_user_state(**MIA))
