"""The session service: sessions as chats, and the state of users and apps beside them."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from ....domain.chat.context import ChatContext
from ....domain.chat.events import ChatItemEvent
from ....domain.chat.rules.commands import EvictItems, RestoreItems
from ....domain.clock import REAL_SYSTEM
from ....domain.concurrency.known_types import known
from ....domain.concurrency.threads import in_thread
from ....domain.context.journal import retried
from ....domain.errors import ConcurrencyError, InvalidInputError, LogWentBackError
from ....domain.ids import decoded_id, stream_id
from ....projections.catalogue import CatalogueRow
from ....projections.saved_states import SavedStateRow
from ..conversation import Message
from ..open_chats import DELETED, Entry, OpenChat, OpenChats, acting_as, require_store, saved_under, take_all_out
from .form import EVENTS, NAME
from .stored import (
    BETWEEN,
    STATE,
    Key,
    changed_at,
    message_of,
    of_scope,
    plain_state,
    save,
    save_place,
    saved_in,
    saved_prefix,
    scope_id,
    value_at,
)

try:
    from google.adk.errors._stale_session_error import StaleSessionError
except ImportError:
    # Earlier versions of the kit raise its base class.
    StaleSessionError = ValueError

if TYPE_CHECKING:
    from ...store import Store

# Items that left the view for these reasons are still events of the session: the kit itself leaves them out.
LEFT_BY_KIT = f"{NAME}: "
REWOUND, COMPACTED = f"{LEFT_BY_KIT}rewound", f"{LEFT_BY_KIT}compacted"
LIVE_AGAIN = f"{LEFT_BY_KIT}live again"
STALE = (
    "the session has been modified in storage since it was loaded: get it again with get_session before you append more"
)
NO_STATE: dict[str, Any] = {}
# The digits of the time in a cursor, in microseconds.
DIGITS_MAX = 18


class SessionPage(NamedTuple):
    """Some sessions, and the cursor for the next page; None if there are no more."""

    sessions: list[Session]
    cursor: str | None


class RefoldSessionService(BaseSessionService):
    """
    A session service of the Agent Development Kit: give it to a `Runner` as its `session_service`.

    Each session is a chat, which can be shown, compared, forked, audited and searched like any other, and an item that
    others add to the chat is an event of the session. The state with the prefixes `app:` and `user:` is saved in chats
    of the app and of its users. A rewind takes the events that it undoes out of the view, a compaction those that it
    sums up; the kit still gets them all.
    """

    def __init__(self, store: Store, *, actor: str = NAME) -> None:
        """Keep sessions in `store`; `actor` is recorded where nobody else is named as the actor."""
        self._store, self._actor = require_store(store), actor
        self._chats = OpenChats(store, EVENTS, shown=_events_of)
        # By a loaded session and its event loop; kept as long as a task appends to it.
        self._turns: WeakValueDictionary[tuple[int, int], asyncio.Lock] = WeakValueDictionary()

    def chat_id(self, *, app_name: str, user_id: str, session_id: str) -> str:
        """
        Return the id of the chat of a session.

        Raises:
            InvalidInputError: a name is missing, empty or no text, or all are too long for an id.
        """
        return Key(app_name, user_id, session_id).chat_id

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """
        Make a session, with an id of its own if none is given.

        Raises:
            AlreadyExistsError: there is one with this id.
            InvalidInputError: a name is empty, or a value of the state cannot be kept as JSON.
        """
        key = Key(app_name, user_id, (session_id or "").strip() or Event.new_id())
        return await in_thread(self._created, key, plain_state(state or {}))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with its events, or the last of them; None if there is none."""
        key = Key(app_name, user_id, session_id.strip())
        return await in_thread(self._loaded, key, config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return all sessions of an app, or of one of its users, without events; the last changed one is the last."""
        page = await in_thread(self._page, app_name, user_id, None, None)
        sessions = sorted(page.sessions, key=lambda one: (one.last_update_time, one.user_id, one.id))
        return ListSessionsResponse(sessions=sessions)

    async def list_sessions_page(
        self, *, app_name: str, user_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> SessionPage:
        """
        Return a page of the sessions, the last changed one first, and the cursor for the next page.

        Raises:
            InvalidInputError: the limit is less than 1, or the cursor is none of an earlier page.
        """
        if limit < 1:
            raise InvalidInputError(f"limit is {limit}: give 1 or more")
        return await in_thread(self._page, app_name, user_id, limit, cursor)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Take all events of a session out of its view; they stay in the past. The state of the user stays as well."""
        await in_thread(self._deleted, Key(app_name, user_id, session_id.strip()))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, its keys without the prefix."""
        return await in_thread(self._scope_state, scope_id(app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """
        Put an event at the end of a session, with its changes of state; one that comes again counts once.

        Raises:
            SessionNotFoundError: there is no such session.
            StaleSessionError: somebody else has changed the session since this one was loaded.
            InvalidInputError: a value cannot be kept as JSON.
        """
        if event.partial:
            return event
        key, message = Key(session.app_name, session.user_id, session.id), message_of(event)
        # Tasks that share a session, as in a live run, take turns: each appends to the session as the last one left it.
        turn = self._turns.setdefault((id(session), id(asyncio.get_running_loop())), asyncio.Lock())
        async with turn:
            versions: list[int] = []
            try:
                await in_thread(lambda: versions.append(self._appended(key, message, session)))
            finally:
                # Nothing is changed in memory before the event is stored; it may be, although the caller is cancelled.
                if versions:
                    self._note_appended(session, event, versions[0])
        return event

    def _note_appended(self, session: Session, event: Event, version: int) -> None:
        self._apply_temp_state(session, event)
        self._trim_temp_delta_state(event)
        if not any(one is event or one.id == event.id for one in session.events[-1:]):
            self._commit_event_to_session(session, event)
        session.last_update_time = event.timestamp
        session._storage_update_marker = _marker(version)

    # Each of the following runs in a thread.

    def _created(self, key: Key, state: Mapping[str, Any]) -> Session:
        now = REAL_SYSTEM.now()

        def begin(until: ExitStack) -> None:
            found = self._taken(key.chat_id, until, key.user)
            if saved_in(found, key) is not None:
                raise AlreadyExistsError(f"Session with id {key.session} already exists.")
            save(found, key, now, of_scope(state, ""))

        with acting_as(self._actor):
            self._change(key, state, begin)
        session = self._loaded(key, GetSessionConfig())
        assert session is not None, "it was saved with the session"
        return session

    def _loaded(self, key: Key, config: GetSessionConfig) -> Session | None:
        with self._chats.taken(key.chat_id) as found:
            saved = None if found is None else saved_in(found, key)
            if found is None or saved is None:
                return None
            recent = config.num_recent_events
            events = _wanted_events(found.entries() if recent is None else found.last(recent), config)
            session = Session(
                id=key.session,
                app_name=key.app,
                user_id=key.user,
                state=self._whole_state(key, saved.state, {}),
                events=events,
                last_update_time=saved.at,
            )
            session._storage_update_marker = _marker(found.chat.version)
            return session

    def _whole_state(self, key: Key, own: Mapping[str, Any], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Return the state of a session, with the states of user and app; `known` has states that were read before."""
        state = dict(own)
        for prefix, chat_id in key.scopes.items():
            if chat_id not in known:
                known[chat_id] = self._scope_state(chat_id)
            state |= {f"{prefix}{name}": value for name, value in known[chat_id].items()}
        return state

    def _scope_state(self, chat_id: str) -> dict[str, Any]:
        with self._chats.taken(chat_id) as found:
            saved = None if found is None else found.chat.saved_states.last(NAME, STATE)
            return {} if saved is None else saved.value or {}

    def _appended(self, key: Key, message: Message, session: Session) -> int:
        # Others may have come first: then the chat is read, since the event may be there already.
        with suppress(ConcurrencyError, LogWentBackError):
            return self._appended_after(key, message, session, _version_in(session))
        try:
            return self._appended_after(key, message, session, None)
        except ConcurrencyError as error:
            raise StaleSessionError(STALE) from error

    def _appended_after(self, key: Key, message: Message, session: Session, known: int | None) -> int:
        """Append to a session; if it is open at the version `known`, without reading it before."""
        with acting_as(self._actor), self._chats.taken(key.chat_id, known=known) as found:
            saved = None if found is None else saved_in(found, key)
            if found is None or saved is None:
                raise SessionNotFoundError(f"Session {key.session} not found.")
            chat, before, now = found.chat, saved, saved
            if _is_repeated(found, message):
                return chat.version
            _require_fresh(found, session)
            state: dict[str, Any] = message["actions"]["state_delta"]
            own = of_scope(state, "")
            at = float(message["timestamp"])

            def record(_: ExitStack) -> None:
                nonlocal now
                EVENTS.add_named(chat, [message])
                _apply(found, message)
                now = save(found, key, at, {**before.state, **own}) if own else save_place(found, key, at, before)

            self._change(key, state, record, decided_on=chat.stream_id)
            found.beside = (chat.version, now)
            return chat.version

    def _change(
        self,
        key: Key,
        state: Mapping[str, Any],
        record: Callable[[ExitStack], object],
        *,
        decided_on: str | None = None,
    ) -> None:
        """
        Record a change of a session with its changes of the states of user and app, all or nothing.

        It is done again where another one came first, unless that was in the stream `decided_on`.
        """
        deltas = [
            (chat_id, key.user if prefix == State.USER_PREFIX else None, of_scope(state, prefix))
            for prefix, chat_id in key.scopes.items()
        ]

        def attempt() -> None:
            with ExitStack() as until, self._store.transaction():
                scopes = [(self._taken(chat_id, until, user).chat, delta) for chat_id, user, delta in deltas if delta]
                record(until)
                for scope, delta in scopes:
                    saved = scope.saved_states.last(NAME, STATE)
                    whole = {**(NO_STATE if saved is None else saved.value or NO_STATE), **delta}
                    scope.saved_states.save(NAME, {STATE: whole}, expected_version=scope.version)

        retried(attempt, decided_on=decided_on)

    def _taken(self, chat_id: str, until: ExitStack, user: str | None) -> OpenChat:
        found = until.enter_context(self._chats.taken(chat_id, create=True, user=user))
        assert found is not None, "it is created if there is none"
        return found

    def _page(self, app: str, user: str | None, limit: int | None, cursor: str | None) -> SessionPage:
        near, name = scope_id(app, user) + BETWEEN, saved_prefix(app, user)
        saves = {row.context: row for row in saved_under(self._store, NAME, near) if row.name.startswith(name)}
        found: list[Any] = self._store.rows("catalogue", under=stream_id("chat", near))
        rows: list[CatalogueRow] = sorted((row for row in found if row.key in saves), key=_changed, reverse=True)
        if cursor is not None:
            rows = [row for row in rows if _changed(row) < _place(cursor)]
        shown = rows[:limit]
        states: dict[str, dict[str, Any]] = {}
        sessions = [one for row in shown if (one := self._listed(row, saves[row.key], states)) is not None]
        more = f"{shown[-1].changed_at}:{shown[-1].key}" if len(rows) > len(shown) else None
        return SessionPage(sessions, more)

    def _listed(self, row: CatalogueRow, saved: SavedStateRow, states: dict[str, dict[str, Any]]) -> Session | None:
        """Return a session without its events; `states` has the states of users and apps that were read already."""
        key = Key(*map(decoded_id, row.id.split(BETWEEN)))
        value = value_at(self._store, row.key, saved.version)
        if value is None:
            return None
        own = value if STATE in value else value_at(self._store, row.key, value["since"])
        state = self._whole_state(key, own[STATE] if own else {}, states)
        at = changed_at(self._store, row, saved, value["at"])
        return Session(id=key.session, app_name=key.app, user_id=key.user, state=state, last_update_time=at)

    def _deleted(self, key: Key) -> None:
        with acting_as(self._actor):
            self._chats.change(key.chat_id, lambda found: _empty(found, key), create=False)


def _empty(found: OpenChat, key: Key) -> None:
    if saved_in(found, key) is None:
        return
    chat = found.chat
    # Items that the kit left out come back first: else a new session of this id would have them.
    back = [item.id for item in _left_by_kit(chat)]
    if back:
        chat.restore(back, reason=DELETED)
    take_all_out(chat)
    chat.saved_states.save(NAME, {key.saved_name: None}, expected_version=chat.version)


def _marker(version: int) -> str:
    return f"{NAME}:{version}"


def _version_in(session: Session) -> int | None:
    """Return the version of the chat that a session shows; None for a session that a program made itself."""
    name, _, version = (session._storage_update_marker or "").partition(":")
    return int(version) if name == NAME and version.isdecimal() else None


def _left_by_kit(chat: ChatContext) -> list[ChatItemEvent]:
    items = chat.recorded_items()
    return [
        items.item_table.items[ordinal]
        for ordinal, how in items.departed()
        if (how.reason or "").startswith(LEFT_BY_KIT)
    ]


def _events_of(chat: ChatContext) -> Sequence[ChatItemEvent]:
    """Return the items in the view and those that the kit left out of it, these where they were recorded."""
    items = chat._state.items
    hidden = sorted(ordinal for ordinal, how in items.departed() if (how.reason or "").startswith(LEFT_BY_KIT))
    if not hidden:
        return items
    order: list[int] = []
    place = 0
    for ordinal in items.order():
        while place < len(hidden) and hidden[place] < ordinal:
            order.append(hidden[place])
            place += 1
        order.append(ordinal)
    return [items.item_table.items[ordinal] for ordinal in (*order, *hidden[place:])]


def _is_repeated(found: OpenChat, message: Message) -> bool:
    """Return whether the session has this very event; another one may have its id."""
    if found.chat._state.items.ordinal(message["id"]) is None:
        return False
    encoded = msgspec.json.encode(message, order="deterministic")
    same = (msgspec.json.decode(entry.encoded) for entry in found.entries() if entry.id == message["id"])
    return any(msgspec.json.encode(one, order="deterministic") == encoded for one in same)


def _require_fresh(found: OpenChat, session: Session) -> None:
    """
    Refuse a session that somebody else has changed since it was loaded.

    Raises:
        StaleSessionError: somebody else has changed it.
    """
    marker = session._storage_update_marker
    if marker is not None:
        is_fresh = marker == _marker(found.chat.version)
    else:
        # A program made the session itself: it is fresh if it ends with the same event.
        entries = found.entries()
        is_fresh = (entries[-1].id if entries else None) == (session.events[-1].id if session.events else None)
    if not is_fresh:
        raise StaleSessionError(STALE)


def _apply(found: OpenChat, message: Message) -> None:
    """Take out of the view what a rewind undoes or a compaction sums up, and put back what is live again."""
    if not (message["actions"].get("rewind_before_invocation_id") or message["actions"].get("compaction")):
        return
    chat, entries = found.chat, list(found.entries())
    out = _left_out([_marks_of(entry.encoded) for entry in entries])
    stay, hidden = set(chat.pinned_ids()), {item.id for item in _left_by_kit(chat)}
    # A rewind undoes a compaction, too: what that summed up is live again. Its partners stay out if the kit or a person
    # left them out.
    back = [one for place, entry in enumerate(entries) if place not in out for one in entry.item_ids if one in hidden]
    if back:
        chat._record(RestoreItems(chat.stream_id, tuple(back), LIVE_AGAIN, partners=False))
    shown = {item.id for item in chat.recorded_items()} - stay
    for reason in (REWOUND, COMPACTED):
        chosen = (entries[place] for place, why in out.items() if why == reason)
        ids = tuple(one for entry in chosen for one in entry.item_ids if one in shown)
        if ids:
            chat._record(EvictItems(chat.stream_id, ids, reason, partners=False))


class _Marks(msgspec.Struct):
    """The fields of a stored event that say what the kit leaves out; to decode all takes five times as long."""

    timestamp: float | str
    invocation_id: str | None = None
    actions: dict[str, Any] = {}


_marks_of = msgspec.json.Decoder(known(_Marks)).decode


def _left_out(events: Sequence[_Marks]) -> dict[int, str]:
    """Return the places of the events that the kit leaves out when it asks a model, each with the reason."""
    firsts: dict[str, int] = {}
    for place, event in enumerate(events):
        firsts.setdefault(event.invocation_id or "", place)
    out: dict[int, str] = {}
    place = len(events) - 1
    while place >= 0:
        wanted = events[place].actions.get("rewind_before_invocation_id")
        first = min(place, firsts.get(wanted, place)) if wanted else place
        out |= dict.fromkeys(range(first, place), REWOUND)
        place = first - 1
    compactions = {
        place: (one["start_timestamp"], one["end_timestamp"])
        for place, event in enumerate(events)
        if place not in out and (one := event.actions.get("compaction"))
    }
    # A range within another one has no summary of its own; of equal ranges the last one has it.
    ranges: list[tuple[float, float]] = []
    for place, (start, end) in sorted(compactions.items(), key=lambda one: (one[1][0], -one[1][1], -one[0])):
        if ranges and end <= ranges[-1][1]:
            out[place] = COMPACTED
        else:
            ranges.append((start, end))
    for place, event in enumerate(events) if ranges else ():
        if place not in out and place not in compactions:
            at = float(event.timestamp)
            # The last range that begins before it also ends last.
            near = bisect_right(ranges, (at, inf))
            if near and at <= ranges[near - 1][1]:
                out[place] = COMPACTED
    return out


def _wanted_events(entries: Sequence[Entry], config: GetSessionConfig) -> list[Event]:
    if config.after_timestamp is None:
        return [Event.model_validate_json(entry.encoded) for entry in entries]
    events: list[Event] = []
    for entry in reversed(entries):
        event = Event.model_validate_json(entry.encoded)
        if event.timestamp < config.after_timestamp:
            break
        events.append(event)
    return events[::-1]


def _changed(row: CatalogueRow) -> tuple[int, str]:
    return row.changed_at, row.key


def _place(cursor: str) -> tuple[int, str]:
    at, colon, context = cursor.partition(":")
    # A longer number is no time, and Python refuses to read a very long one.
    if not colon or not at.isdecimal() or len(at) > DIGITS_MAX:
        raise InvalidInputError(f"{cursor!r} is no cursor: give the one of the page before")
    return int(at), context
