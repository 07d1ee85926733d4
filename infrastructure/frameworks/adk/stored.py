"""
What is saved of a session beside its items: names, times and state.

The state of a session is saved in its own chat, and that of an app or a user in a chat of that app or user. Each is
saved as a whole when it has changed, so that it is read at once, and its past is the past of the chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec
from google.adk.events.event import Event
from google.adk.sessions.state import State
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ....domain.canonical import canonical_json
from ....domain.chat.context import ChatContext
from ....domain.chat.events import StateSaved
from ....domain.errors import InvalidInputError
from ....domain.ids import encoded_id
from ..conversation import Message
from ..open_chats import OpenChat
from .form import NAME

if TYPE_CHECKING:
    from ...store import Store

SESSION, STATE = "session", "state"
BETWEEN = "/"


class Key(NamedTuple):
    """The names of a session."""

    app: str
    user: str
    session: str

    @property
    def chat_id(self) -> str:
        return BETWEEN.join((scope_id(self.app, self.user), _encoded(self.session, "the session id")))

    @property
    def saved_name(self) -> str:
        return saved_prefix(self.app, self.user)

    @property
    def scopes(self) -> dict[str, str]:
        """The chats with the state of the app and of the user, by the prefix of their keys."""
        return {State.APP_PREFIX: scope_id(self.app), State.USER_PREFIX: scope_id(self.app, self.user)}


class Saved(NamedTuple):
    """
    Data beside the last event of a session: the time of its last change, its own state as JSON, and the version that
    saved this state.
    """

    at: float
    encoded: bytes
    since: int

    @property
    def state(self) -> dict[str, Any]:
        """The state, as a dict of the caller's own."""
        found: dict[str, Any] = msgspec.json.decode(self.encoded)
        return found


def _encoded(name: Any, what: str) -> str:
    # What is no text is refused, and may have no hash.
    return _encoded_text(name, what) if isinstance(name, str) else encoded_id(name, what)


# Each append asks for the same few names six times, which took a tenth of its own time.
@lru_cache(maxsize=1_024)
def _encoded_text(name: str, what: str) -> str:
    return encoded_id(name, what).replace(BETWEEN, quote(BETWEEN, safe=""))


def scope_id(app: str, user: str | None = None) -> str:
    parts = [_encoded(app, "the app name")] + ([] if user is None else [_encoded(user, "the user id")])
    return BETWEEN.join(parts)


@lru_cache(maxsize=1_024)
def saved_prefix(app: str, user: str | None) -> str:
    return "/".join([SESSION, *(quote(name, safe="") for name in (app, user) if name is not None), ""])


def plain_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return state as JSON, without the part that lives as long as an invocation.

    Raises:
        InvalidInputError: a value cannot be kept as JSON; the kit's own services keep a text about it instead.
    """
    return _plain({name: one for name, one in state.items() if not name.startswith(State.TEMP_PREFIX)}, "the state")


def message_of(event: Event) -> Message:
    """
    Return an event as JSON, without state that lives as long as an invocation.

    Raises:
        InvalidInputError: a value cannot be kept as JSON.
    """
    # These are checked by themselves: the kit would write a text in the place of a value that is no JSON.
    checked = {"state_delta": plain_state(event.actions.state_delta)}
    if event.actions.agent_state is not None:
        checked["agent_state"] = _plain(event.actions.agent_state, "the state of the agent")
    try:
        message: Message = event.model_dump(
            mode="json", exclude_none=True, exclude={"actions": {"agent_state", "state_delta"}}
        )
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidInputError(f"the event {event.id} cannot be kept as JSON: {error}") from error
    message["actions"] = {**message.get("actions", {}), **checked}
    return _checked(message, f"the event {event.id}")


def _plain(value: dict[str, Any], what: str) -> dict[str, Any]:
    if not value:
        return {}
    try:
        plain: dict[str, Any] = to_jsonable_python(value)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{what} cannot be kept as JSON: {error}") from error
    return _checked(plain, what)


def _checked(plain: dict[str, Any], what: str) -> dict[str, Any]:
    """Return what the kit calls plain: numbers that are none, and halves of characters, are no JSON either."""
    canonical_json(plain, what=what)
    return plain


def delta_of(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = message["actions"]["state_delta"]
    return found


def of_scope(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the part of a state with a prefix, its keys without it; with no prefix, the part of the session."""
    if not prefix:
        prefixes = (State.APP_PREFIX, State.USER_PREFIX, State.TEMP_PREFIX)
        return {name: value for name, value in state.items() if not name.startswith(prefixes)}
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def saved_in(found: OpenChat, key: Key) -> Saved | None:
    """Return the data beside a session's last event; None if the chat is no session. It is read once for a version."""
    version, saved = found.beside
    if version != found.chat.version:
        saved = _read(found.chat, key)
        found.beside = (found.chat.version, saved)
    assert saved is None or isinstance(saved, Saved)
    return saved


def _read(chat: ChatContext, key: Key) -> Saved | None:
    saved = chat.saved_states.last(NAME, key.saved_name)
    if saved is None or saved.value is None:
        return None
    value, since = saved.value, saved.version
    if STATE not in value:
        since = value["since"]
        before = chat.saved_states.at(since)
        assert before is not None, "a version that is named has a state"
        return Saved(value["at"], msgspec.json.encode((before.value or {})[STATE]), since)
    return Saved(value["at"], msgspec.json.encode(value[STATE]), since)


def save(found: OpenChat, key: Key, at: float, state: dict[str, Any] | None, before: Saved | None) -> Saved:
    """
    Save the time of a change, and the state if it is another one now; else the version that saved it.

    The result has no version of a state that is saved here: once it is committed, that is the version of the chat.
    """
    if state is None:
        assert before is not None, "a session begins with a state"
        about: dict[str, Any] = {"since": before.since}
        saved = before._replace(at=at)
    else:
        about, saved = {STATE: state}, Saved(at, msgspec.json.encode(state), 0)
    found.chat.saved_states.save(NAME, {key.saved_name: {"at": at, **about}}, expected_version=found.chat.version)
    return saved


def value_at(store: Store, stream: str, version: int) -> dict[str, Any] | None:
    """Return what an event saved, without opening its chat."""
    event = next(iter(store.log.read_events(stream, after=version - 1, until=version)), None)
    found: dict[str, Any] | None = (
        msgspec.json.decode(event.value) if isinstance(event, StateSaved) and event.value else None
    )
    return found
