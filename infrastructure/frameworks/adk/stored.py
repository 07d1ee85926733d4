"""
The data of a session that is saved beside its items: names, times and state.

The state of a session is saved in its own chat, and that of an app or a user in a chat of that app or user. Each is
saved as a whole when it has changed, so that it is read at once, and its past is the past of the chat. An event that
changes no state is its items alone: the session changed last when the last of them was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec
from google.adk.events.event import Event
from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from ....domain.canonical import require_json
from ....domain.chat.context import ChatContext
from ....domain.chat.events import ITEM_EVENTS, StateSaved
from ....domain.clock import time_of
from ....domain.ids import encoded_id
from ..conversation import Message, kept_as_json
from ..open_chats import OpenChat
from .form import NAME

if TYPE_CHECKING:
    from ....projections.catalogue import CatalogueRow
    from ....projections.saved_states import SavedStateRow
    from ...store import Store

SESSION, STATE = "session", "state"
BETWEEN = "/"
# A save is looked for from the end of a chat, so the place of the state is saved again after so many events.
SAVED_EVERY = 64
# The time of the last change of a session in a list is looked for in so many events at its end.
LOOKED_AT = 8


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
    Data beside the events of a session: the time of its last change, its own state as JSON, the version that saved this
    state, and that of the last save.
    """

    at: float
    encoded: bytes
    since: int
    version: int

    @property
    def state(self) -> dict[str, Any]:
        """The state, as a dict of the caller's own."""
        found: dict[str, Any] = msgspec.json.decode(self.encoded)
        return found


def _encoded(name: Any, what: str) -> str:
    # A name that is no text is refused, and may have no hash.
    return _encoded_text(name, what) if isinstance(name, str) else encoded_id(name, what)


# Each append asks for the same few names six times, which took a tenth of its time.
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
    # States are converted and checked here: the kit would replace a value that is no JSON by a text about it.
    checked = {"state_delta": plain_state(event.actions.state_delta)}
    if event.actions.agent_state is not None:
        checked["agent_state"] = _plain(event.actions.agent_state, "the state of the agent")
    with kept_as_json(f"the event {event.id}"):
        message: Message = event.model_dump(
            mode="json", exclude_none=True, exclude={"actions": {"agent_state", "state_delta"}}
        )
    message["actions"] = {**message.get("actions", {}), **checked}
    return _checked(message, f"the event {event.id}")


def _plain(value: dict[str, Any], what: str) -> dict[str, Any]:
    if not value:
        return {}
    with kept_as_json(what):
        plain: dict[str, Any] = to_jsonable_python(value)
    return _checked(plain, what)


def _checked(plain: dict[str, Any], what: str) -> dict[str, Any]:
    """Return data that the kit calls plain, if it is JSON: NaN and halves of characters are none."""
    require_json(plain, what=what)
    return plain


def of_scope(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the part of a plain state with a prefix, its keys without it; with no prefix, that of the session."""
    if not prefix:
        prefixes = (State.APP_PREFIX, State.USER_PREFIX)
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
    value, since, items = saved.value, saved.version, chat._state.items
    whole = value
    if STATE not in value:
        since = value["since"]
        before = chat.saved_states.at(since)
        assert before is not None, "a version that is named has a state"
        whole = before.value or {}
    last = items.reach - 1
    is_newer = last >= 0 and items.arrival(last) > saved.version
    at = items.item_table.items[last].created_at if is_newer else value["at"]
    return Saved(at, msgspec.json.encode(whole[STATE]), since, saved.version)


def save(found: OpenChat, key: Key, at: float, state: dict[str, Any]) -> Saved:
    """Save the state of a session as a whole."""
    version = _save(found, key, {"at": at, STATE: state})
    return Saved(at, msgspec.json.encode(state), version, version)


def save_place(found: OpenChat, key: Key, at: float, before: Saved) -> Saved:
    """Save now and then which version has the state, to be found near the end; return what is known afterwards."""
    if found.chat.version - before.version < SAVED_EVERY:
        return before._replace(at=at)
    return before._replace(at=at, version=_save(found, key, {"at": at, "since": before.since}))


def _save(found: OpenChat, key: Key, value: dict[str, Any]) -> int:
    return found.chat.saved_states.save(NAME, {key.saved_name: value}, expected_version=found.chat.version)


def changed_at(store: Store, row: CatalogueRow, saved: SavedStateRow, at: float) -> float:
    """Return when a session in a list changed last; `at` is the time that was saved last."""
    after = max(saved.version, row.version - LOOKED_AT)
    for event in reversed(list(store.log.read_events(row.key, after=after, until=row.version))):
        if isinstance(event, ITEM_EVENTS):
            return event.created_at
    return at if after == saved.version else time_of(row.changed_at).timestamp()


def value_at(store: Store, stream: str, version: int) -> dict[str, Any] | None:
    """Return what an event saved, without opening its chat."""
    event = next(iter(store.log.read_events(stream, after=version - 1, until=version)), None)
    found: dict[str, Any] | None = (
        msgspec.json.decode(event.value) if isinstance(event, StateSaved) and event.value else None
    )
    return found
