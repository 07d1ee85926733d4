"""Others beside the kit in one chat: what they add, what comes too late, and what is no event."""

import asyncio
import random
from contextvars import Context
from typing import Any

import pytest
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.flows.llm_flows.context._compaction import _process_compaction_events
from google.adk.sessions import Session
from google.genai import types

import refold
from refold.adk import RefoldSessionService
from refold.chat import FunctionCall, FunctionCallOutput, ImageContent
from refold.domain.chat.context import ChatContext
from refold.domain.chat.saved_states import SavedStates
from refold.domain.errors import ConcurrencyError, InvalidInputError
from refold.infrastructure.frameworks.adk import stored
from refold.infrastructure.frameworks.adk.form import EVENTS

from .test_sessions import KEY, MIA, filled, said, texts


async def test_pictures_that_others_added_are_the_kits(store: refold.Store) -> None:
    """Bytes as bytes, and an address as an address."""
    service = RefoldSessionService(store)
    await filled(service)
    shown = ["data:image/png;base64,//77AA==", "https://a.example/b.png"]
    store.chat(service.chat_id(**KEY)).add_message("user", ["Look:", *(ImageContent(image=one) for one in shown)])
    session = await service.get_session(**KEY)

    assert session is not None
    text, held, named = session.events[0].content.parts
    assert text.text == "Look:"
    assert (held.inline_data.data, held.inline_data.mime_type) == (b"\xff\xfe\xfb\x00", "image/png")
    assert named.file_data.file_uri == "https://a.example/b.png"


@pytest.mark.parametrize("place", ["the session", "the state of the app"])
async def test_others_that_never_pause(store: refold.Store, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """An append is tried a few times, and then it is one that came too late; nothing of it is recorded."""
    service = RefoldSessionService(store)
    session = await filled(service, said("hello", actions=EventActions(state_delta={"app:n": 1})))
    before = store.now()

    def overtaken(one: Any, *_: object, **__: object) -> None:
        stream = one.stream_id if place == "the session" else "chat:another"
        raise ConcurrencyError(stream, expected=1, actual=2)

    kind: Any = ChatContext if place == "the session" else SavedStates
    with monkeypatch.context() as patched:
        patched.setattr(kind, "record_items" if kind is ChatContext else "save", overtaken)
        with pytest.raises(ValueError, match="modified in storage"):
            await service.append_event(session, said("late", actions=EventActions(state_delta={"app:n": 2})))

    assert store.now() == before
    again = await service.get_session(**KEY)
    assert again is not None
    assert (again.state, await texts(service)) == ({"app:n": 1}, ["hello"])


@pytest.mark.parametrize("value", [object(), lambda: 1, "\ud800"])
async def test_data_beside_an_event_that_is_no_json_is_refused(store: refold.Store, value: Any) -> None:
    """The event is named, and nothing of it is recorded."""
    service = RefoldSessionService(store)
    session = await filled(service, said("hello"))
    before = store.now()
    with pytest.raises(InvalidInputError, match="the event e7"):
        await service.append_event(session, said("more", id="e7", custom_metadata={"x": value}))

    assert (store.now(), await texts(service)) == (before, ["hello"])


@pytest.mark.parametrize(("wrong", "field"), [({"author": 7}, "author"), ({"content": "hello"}, "content")])
def test_what_is_no_event_is_refused(store: refold.Store, wrong: dict[str, Any], field: str) -> None:
    """The field is named, and nothing is recorded."""
    chat = store.chat("c")
    with pytest.raises(InvalidInputError, match=field):
        EVENTS.add(chat, [{"author": "user", "content": {"parts": [{"text": "hello"}]}, **wrong}])
    assert chat.version == 1


@pytest.mark.parametrize("role", ["", None])
def test_a_content_without_a_role_has_that_of_its_author(store: refold.Store, role: str | None) -> None:
    """As the kit leaves it out, or empty."""
    chat = store.chat("c")
    content = {"role": role, "parts": [{"text": "hello"}]}
    EVENTS.add(chat, [{"author": author, "content": content} for author in ("user", "clerk")])
    assert [item.role for item in chat.items if isinstance(item, refold.ChatMessage)] == ["user", "assistant"]


async def test_a_session_made_by_hand_knows_what_its_last_event_says(store: refold.Store) -> None:
    """One with the newest event is appended to; one with an older one, or none, came too late."""
    service = RefoldSessionService(store)
    session = await filled(service, said("one"), said("two"))
    known: tuple[Any, ...] = (session.events, session.events[:1], [])
    newest, older, empty = (Session(**MIA, id="s1", events=events) for events in known)

    for late in (older, empty):
        with pytest.raises(ValueError, match="modified in storage"):
            await service.append_event(late, said("late"))
    await service.append_event(newest, said("three"))

    assert await texts(service) == ["one", "two", "three"]


async def test_an_event_that_changes_no_state_is_one_event_of_the_log(store: refold.Store) -> None:
    """The state is found near the end of a long session all the same, also as each event was saved with its place."""
    service = RefoldSessionService(store)
    session = await filled(service, said("one", actions=EventActions(state_delta={"n": 1})))
    chat = store.chat(service.chat_id(**KEY))
    before = chat.version
    for number in range(70):
        await service.append_event(session, said(f"{number}", timestamp=2_000.0 + number))

    chat.refresh()
    saves = [one for one in chat.saved_states.all("adk", after=before) if one.value]
    assert chat.version == before + 70 + len(saves)
    [place] = saves
    assert chat.version - place.version < 64
    assert place.value is not None
    assert chat.saved_states.at(place.value["since"]) == chat.saved_states.all("adk")[-2]
    for at in (2_069.0, 7.0):
        # The second time behind a save as earlier versions made one for each event.
        again = await RefoldSessionService(store).get_session(**KEY)
        listed = (await service.list_sessions_page(app_name=MIA["app_name"])).sessions
        assert again is not None
        assert [(one.state, one.last_update_time) for one in (again, *listed)] == [({"n": 1}, at)] * 2
        chat.saved_states.save("adk", {"session/shop/mia/": {"at": 7.0, "since": place.value["since"]}})

    for number in range(9):
        # Others changed the session, and made no item.
        chat.name_version(f"v{number}")
    [one] = (await service.list_sessions(app_name=MIA["app_name"])).sessions
    assert one.last_update_time == pytest.approx(chat.history()[-1].recorded_at / 1e6)


async def test_an_event_that_says_nothing_is_sent_to_no_model(store: refold.Store) -> None:
    """One that only changes state, that has an error, or whose texts are empty: the kit has it, and no provider."""
    service = RefoldSessionService(store)
    silent = [types.Content(role="model", parts=parts) for parts in ([], [types.Part(text="")])]
    events = [
        Event(author="clerk", actions=EventActions(state_delta={"n": 1})),
        Event(author="user", actions=EventActions(state_delta={"n": 2})),
        Event(author="clerk", error_code="429", error_message="too many"),
        *(Event(author="clerk", content=content) for content in silent),
    ]
    await filled(service, said("Where?"), *events, said("In Lyon.", "clerk"))

    chat = store.chat(service.chat_id(**KEY))
    assert [message["role"] for message in chat.to_openai_messages()] == ["user", "assistant"]
    session = await RefoldSessionService(store).get_session(**KEY)
    assert session is not None
    assert session.events[1:-1] == events


async def test_a_state_that_was_saved_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each save of its place names the version that saved it, and not the place before."""
    monkeypatch.setattr(stored, "SAVED_EVERY", 2)
    with refold.open(":memory:") as store:
        first = said("first", actions=EventActions(state_delta={"n": 1}))
        await filled(RefoldSessionService(store), first, *(said(str(number)) for number in range(6)))

        session = await RefoldSessionService(store).get_session(**KEY)
        assert session is not None
        assert session.state == {"n": 1}


async def test_a_rewind_leaves_what_is_pinned() -> None:
    """A person wants the model to see it."""
    with refold.open(":memory:") as store:
        service = RefoldSessionService(store)
        await filled(service, *(said(name, invocation_id=name) for name in ("one", "two")))
        chat = store.chat(service.chat_id(**KEY))
        chat.pin(chat.items[0].id)
        session = await service.get_session(**KEY)
        assert session is not None

        await service.append_event(
            session, Event(author="user", actions=EventActions(rewind_before_invocation_id="one"))
        )

        chat.refresh()
        assert [item.text for item in chat.messages() if item.text] == ["one"]


async def test_tasks_that_share_a_session_take_turns(store: refold.Store) -> None:
    """As with the kit's own service on a database: they append in the order of their calls, and none is too late."""
    service = RefoldSessionService(store)
    session = await filled(service)
    names = [str(number) for number in range(4)]
    await asyncio.gather(
        *(
            service.append_event(session, said(name, actions=EventActions(state_delta={name: 1, f"app:{name}": 1})))
            for name in names
        )
    )

    assert await texts(service) == names
    again = await service.get_session(**KEY)
    assert again is not None
    assert (session.events, session.state) == (again.events, again.state)
    assert len(service._turns) == 0


async def test_tasks_of_two_event_loops_do_not_wait_for_each_other(
    store: refold.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock is of one loop; the events of both are stored."""
    service = RefoldSessionService(store)
    session = await filled(service)
    add = EVENTS.add_named

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(EVENTS, "add_named", add)
        # Outside of the transaction, as the other loop would.
        Context().run(asyncio.run, asyncio.wait_for(service.append_event(session, said("first")), 3))
        return add(*given)

    monkeypatch.setattr(EVENTS, "add_named", overtaken)
    await service.append_event(session, said("second"))

    assert await texts(service) == [event.content.parts[0].text for event in session.events] == ["first", "second"]


async def test_a_task_that_is_cancelled_leaves_its_session_in_use(
    store: refold.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event is in the store and in the session, or in neither, and the others that share the session go on."""
    service = RefoldSessionService(store)
    session = await filled(service)
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    add = EVENTS.add_named

    def added(*given: Any) -> Any:
        loop.call_soon_threadsafe(begun.set)
        return add(*given)

    monkeypatch.setattr(EVENTS, "add_named", added)
    first, second = (asyncio.create_task(service.append_event(session, said(name))) for name in ("first", "second"))
    await begun.wait()
    first.cancel()
    second.cancel()
    assert [type(one) for one in await asyncio.gather(first, second, return_exceptions=True)] == [
        asyncio.CancelledError
    ] * 2
    await service.append_event(session, said("third"))

    assert await texts(service) == [event.content.parts[0].text for event in session.events] == ["first", "third"]


def summed_up(text: str, start: float, end: float, invocation_id: str) -> Event:
    """Return the event of a compaction."""
    summary = types.Content(role="model", parts=[types.Part(text=text)])
    compaction = EventCompaction(start_timestamp=start, end_timestamp=end, compacted_content=summary)
    actions = EventActions(compaction=compaction)
    return Event(author="user", actions=actions, invocation_id=invocation_id, timestamp=end + 0.5)


def rewound(invocation_id: str, at: float) -> Event:
    """Return the event of a rewind."""
    return Event(author="user", actions=EventActions(rewind_before_invocation_id=invocation_id), timestamp=at)


def part_of_call(part: types.Part, at: float, invocation_id: str) -> Event:
    """Return the event of a call, or of its output."""
    role = "model" if part.function_call else "user"
    content = types.Content(role=role, parts=[part])
    return Event(author="clerk", content=content, timestamp=at, invocation_id=invocation_id)


def called(call_id: str, at: float, invocation_id: str = "i") -> Event:
    """Return the event of a call."""
    return part_of_call(types.Part(function_call=types.FunctionCall(id=call_id, name="f", args={})), at, invocation_id)


def returned(call_id: str, at: float, invocation_id: str = "i") -> Event:
    """Return the event of an output."""
    output = types.FunctionResponse(id=call_id, name="f", response={"result": "r"})
    return part_of_call(types.Part(function_response=output), at, invocation_id)


def sent_by_kit(events: list[Event]) -> set[tuple[str, str | None]]:
    """Return the texts, calls and outputs that the kit sends to a model."""
    live = _process_compaction_events(_apply_rewinds(events))
    parts = [part for event in live if event.content for part in event.content.parts or ()]
    calls = {("function_call", part.function_call.id) for part in parts if part.function_call}
    outputs = {("function_call_output", part.function_response.id) for part in parts if part.function_response}
    return {("message", part.text) for part in parts if part.text} | calls | outputs


def shown_in(chat: refold.ChatContext) -> set[tuple[str, str | None]]:
    """Return the texts, calls and outputs in the view of a chat."""
    chat.refresh()
    texts = {("message", item.text) for item in chat.messages() if item.text}
    return texts | {
        (item.type, item.call_id) for item in chat.items if isinstance(item, FunctionCall | FunctionCallOutput)
    }


def random_event(draw: random.Random, number: int, waiting: list[str]) -> Event:
    """Return a text, a call, an output, a compaction or a rewind; some come with a time that is over."""
    sort, at, invocation_id = draw.random(), 1_000.0 + number, f"i{number // 2}"
    if sort > 0.8:
        return rewound(draw.choice([f"{kind}{some}" for kind in "ic" for some in range(number + 1)]), at)
    if sort > 0.6:
        start = draw.randint(1_000, 1_000 + number)
        return summed_up(f"s{number}", start, draw.randint(start, 1_000 + number), f"c{number}")
    at -= draw.randint(1, 6) if draw.random() < 0.15 else 0
    if sort > 0.4 and waiting:
        return returned(waiting.pop(0), at, invocation_id)
    if sort > 0.25:
        waiting.append(f"call{number}")
        return called(waiting[-1], at, invocation_id)
    return said(f"t{number}", invocation_id=invocation_id, timestamp=at)


@pytest.mark.parametrize("seed", range(12))
async def test_the_chat_shows_what_the_kit_sends_to_a_model(memory: refold.Store, seed: int) -> None:
    """
    Summaries may overlap, be within others, and be undone by a rewind, which brings back what they summed up.

    They are compared after each compaction and rewind: an event that comes too late is left out with the next one.
    """
    draw, waiting = random.Random(seed), list[str]()
    service = RefoldSessionService(memory)
    session = await filled(service)
    chat = memory.chat(service.chat_id(**KEY))
    for number in range(16):
        event = random_event(draw, number, waiting)
        await service.append_event(session, event)
        if event.actions.compaction or event.actions.rewind_before_invocation_id:
            assert shown_in(chat) == sent_by_kit(session.events)


async def test_a_rewind_brings_back_nothing_that_a_person_took_out(memory: refold.Store) -> None:
    """Not even the output of a call that is live again."""
    service = RefoldSessionService(memory)
    await filled(service, called("c7", 1_001.0), summed_up("s", 1_000.5, 1_001.0, "c1"), returned("c7", 1_004.0))
    chat = memory.chat(service.chat_id(**KEY))
    chat.evict([item.id for item in chat.items if item.type == "function_call_output"], reason="secret")
    again = await service.get_session(**KEY)
    assert again is not None
    await service.append_event(again, rewound("c1", 1_006.0))

    assert shown_in(chat) == {("function_call", "c7")}
