"""
Sessions of the Claude Agent SDK, kept as chats: each line of a transcript is a message.

The SDK calls a line an entry. Lines with a message are items of the chat; lines of other types, such as titles, are
items that are apart: the SDK gets them back, and no provider is sent them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)

from ...domain.canonical import require_unicode
from ...domain.chat.events import ChatItemEvent, FunctionReturned, MessageAdded, Origin, is_user
from ...domain.chat.usage import metrics_of, put_usage
from ...domain.clock import REAL_SYSTEM
from ...domain.concurrency.threads import in_thread
from ...domain.context.journal import retried
from ...domain.context.transaction import current_or_new_transaction
from ...domain.errors import InvalidInputError
from ...domain.formats.anthropic.receive import AnthropicReader
from ...domain.formats.anthropic.source_shape import message_of
from ...domain.formats.parts import seconds_in, time_of
from ...domain.formats.receive import Fields, Receiver
from ...domain.ids import decoded_id, encoded_id, split_stream_id
from ..importing.claude_sessions import LOST, MESSAGE_TYPES, Order, read_lines
from .conversation import Conversation, Message
from .open_chats import OpenChat, OpenChats, acting_as, require_store, saved_under, take_all_out, user_of

if TYPE_CHECKING:
    from ...projections.saved_states import SavedStateRow
    from ..store import Store

NAME = "claude"
MAIN, SUB = "main", "sub"
# Between the parts of a key in the id of a chat.
BETWEEN = "/"
KEY_FIELDS = ("project_key", "session_id", "subpath")


class _Lines:
    """The form of a line: `line` is the line itself, and `id` its uuid if it has one."""

    name = NAME

    def read(self, message: Message, into: Receiver) -> None:
        """Add the items of a line's message, or an item that is apart."""
        line = message["line"]
        if line.get("type") in MESSAGE_TYPES:
            with suppress(InvalidInputError):
                reader = AnthropicReader(REAL_SYSTEM)
                reader.read_message(line.get("message"), "message")
                into.items += reader.items
        if not into.items:
            into.say("assistant", (), {}, "a line")
        if isinstance(said := into.items[0], MessageAdded) and not said.content:
            # A line without a message, or one with a block that only Claude understands.
            into.items[0] = msgspec.structs.replace(said, origin=Origin(apart=True))
        at = seconds_in(line.get("timestamp"))
        if at is not None:
            into.items[:] = [msgspec.structs.replace(item, created_at=at) for item in into.items]

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        """Return the line of a message."""
        first = items[0]
        line = {
            "type": "user" if isinstance(first, FunctionReturned) or is_user(first) else "assistant",
            "uuid": first.id,
            # No line has this uuid, so the line follows the one before it.
            "parentUuid": LOST,
            "timestamp": time_of(first).isoformat(timespec="milliseconds")[:-6] + "Z",
            "message": message_of(items),
        }
        return {"id": first.id, "line": line}


LINES = Conversation(_Lines())


class RefoldSessions(SessionStore):
    """
    A store of sessions of the Claude Agent SDK, with all optional methods: give it as `session_store` in the options.

    Each transcript is a chat, which can be shown, compared, forked, audited and searched like any other. A line that
    comes again with its `uuid` counts once. A line whose parent is in no line of the transcript is loaded with the line
    before it as its parent, so that a session can be resumed whole. Items that others add to the chat are loaded, too.
    """

    def __init__(self, store: Store, *, actor: str = NAME) -> None:
        """Keep sessions in `store`; `actor` is recorded where nobody else is named as the actor."""
        self._store, self._actor = require_store(store), actor
        self._chats = OpenChats(store, LINES, encode=_line_json)

    def chat_id(self, key: SessionKey) -> str:
        """
        Return the id of the chat of a transcript.

        Raises:
            InvalidInputError: a part of the key is missing, empty or no text, or all are too long for an id.
        """
        parts = [name for name in KEY_FIELDS if name != "subpath" or name in key]
        return BETWEEN.join(_part_of_id(_text_in(key, name), name) for name in parts)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """
        Put lines at the end of a transcript, all or none.

        Raises:
            InvalidInputError: a line is no object that can be kept as JSON.
        """
        await in_thread(self._append, key, list(entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the lines of a transcript; None if there is none."""
        found: list[SessionStoreEntry] | None = await in_thread(self._load, key)
        return found

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, with the time of the last append in milliseconds."""
        return await in_thread(self._sessions, project_key)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summaries of the sessions of a project."""
        return await in_thread(self._summaries, project_key)

    async def delete(self, key: SessionKey) -> None:
        """
        Take all lines out of the view, without a subpath also those of sub-agents: all or nothing. They stay in the
        past.
        """
        await in_thread(self._delete, key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session."""
        return await in_thread(self._subkeys, key)

    # Each of the following runs in a thread.

    def _append(self, key: SessionKey, entries: Sequence[Any]) -> None:
        context_id = self.chat_id(key)
        if not entries:
            return
        messages = [_message_of_line(number, entry) for number, entry in enumerate(entries)]
        # The transcript of a sub-agent is about the user of its session, too.
        session = SessionKey(project_key=key["project_key"], session_id=key["session_id"])
        with acting_as(self._actor):
            user = user_of(self._store, self.chat_id(session)) if "subpath" in key else None
            self._chats.change(context_id, lambda found: _add(found, key, messages), user=user)

    def _load(self, key: SessionKey) -> list[dict[str, Any]] | None:
        with self._chats.taken(self.chat_id(key)) as found:
            entries = [] if found is None else found.entries()
            lines = msgspec.json.decode(b"[" + b",".join(entry.encoded for entry in entries) + b"]")
        return _with_parents(lines, key["session_id"]) or None

    def _sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        return [
            SessionStoreListEntry(session_id=_session_id(row.context), mtime=row.recorded_at // 1000)
            for row in self._main_rows(project_key)
        ]

    def _main_rows(self, project_key: str) -> list[SavedStateRow]:
        return self._rows(_main_name(project_key), project_key=project_key)

    def _rows(self, name: str, **parts: str) -> list[SavedStateRow]:
        """Return what was saved last under a name, in the chats whose ids begin with these parts."""
        try:
            begun = "".join(f"{_part_of_id(part, field)}{BETWEEN}" for field, part in parts.items())
        except InvalidInputError:
            # No chat has such an id.
            return []
        return [row for row in saved_under(self._store, NAME, begun) if row.name == name]

    def _summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        found = []
        for row in self._main_rows(project_key):
            with self._chats.taken(split_stream_id(row.context)[1]) as chat:
                saved = None if chat is None else chat.chat.saved_states.at(row.version)
            if saved is not None and saved.value is not None:
                one = SessionSummaryEntry(
                    session_id=_session_id(row.context), mtime=row.recorded_at // 1000, data=saved.value["summary"]
                )
                found.append(one)
        return found

    def _subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        rows = self._rows(_sub_name(key), project_key=key["project_key"], session_id=key["session_id"])
        return [decoded_id(split_stream_id(row.context)[1].split(BETWEEN)[2]) for row in rows]

    def _delete(self, key: SessionKey) -> None:
        def delete() -> None:
            keys = [key]
            if "subpath" not in key:
                plain = SessionListSubkeysKey(project_key=key["project_key"], session_id=key["session_id"])
                keys += [SessionKey(**plain, subpath=subpath) for subpath in self._subkeys(plain)]
            with acting_as(self._actor), current_or_new_transaction(self._store.log):
                for one in keys:
                    self._chats.change(self.chat_id(one), partial(_empty, key=one), create=False)

        retried(delete)


def _add(found: OpenChat, key: SessionKey, messages: Sequence[Message]) -> None:
    chat = found.chat
    name = _saved_name(key)
    saved = chat.saved_states.last(NAME, name)
    before = {} if saved is None else saved.value or {"since": saved.version}
    new = _new_lines(found, messages, begins_again=bool(before.get("since")))
    if not new:
        return
    value = {**before, "is": {field: _text_in(key, field) for field in KEY_FIELDS if field in key}}
    if "subpath" not in key:
        data, plain = before.get("summary"), [message["line"] for message in new]
        earlier = None if data is None else SessionSummaryEntry(session_id=key["session_id"], mtime=0, data=data)
        value["summary"] = fold_session_summary(earlier, key, plain)["data"]
    groups = LINES.items_of(new, chat._state.items)
    if counted := _count(groups, new, before.get("counted")):
        value["counted"] = counted
    LINES.add_items(chat, groups)
    chat.saved_states.save(NAME, {name: value})


def _count(
    groups: Sequence[list[ChatItemEvent]], messages: Sequence[Message], counted: dict[str, Any] | None
) -> dict[str, Any] | None:
    """
    Keep the usage of answers with their items; return the answer that was counted last, with its usage.

    An answer comes in several lines. Each has the usage of the whole as far as it was known, so what counts is how much
    more it is than in the line before. Lines of a forked session were counted where they came from.
    """
    for items, message in zip(groups, messages, strict=True):
        line = message["line"]
        answer = line.get("message")
        usage = answer.get("usage") if line.get("type") == "assistant" and isinstance(answer, dict) else None
        if not isinstance(usage, dict) or "forkedFrom" in line:
            continue
        known = {name: count for name, count in usage.items() if type(count) is int}
        before = counted["usage"] if counted and counted["id"] == answer.get("id") else {}
        more = {name: max(0, count - before.get(name, 0)) for name, count in known.items()}
        counted = {"id": answer.get("id"), "usage": known}
        with suppress(InvalidInputError):
            named = {"model": model} if isinstance(model := answer.get("model"), str) else {}
            put_usage(
                items, metrics_of(None, more if any(more.values()) else None, **named), what="the usage of a line"
            )
    return counted


def _empty(found: OpenChat, key: SessionKey) -> None:
    take_all_out(found.chat)
    found.chat.saved_states.save(NAME, {_saved_name(key): None})


def _new_lines(found: OpenChat, messages: Sequence[Message], *, begins_again: bool) -> list[Message]:
    """Return the lines that the transcript does not have; after a delete only those in the view count."""
    held = found.chat._state.items
    shown = {entry.id for entry in found.entries()} if begins_again else set()
    new: list[Message] = []
    taken: set[str] = set()
    for message in messages:
        uuid = message.get("id")
        if uuid is not None:
            if uuid in taken or uuid in shown or (not begins_again and held.ordinal(uuid) is not None):
                continue
            taken.add(uuid)
        new.append(message)
    return new


def _message_of_line(number: int, entry: Any) -> Message:
    fields = Fields(f"entries[{number}]", entry)
    uuid = fields.value.get("uuid")
    return {"id": uuid, "line": entry} if isinstance(uuid, str) and uuid else {"line": entry}


def _line_json(message: Message) -> bytes:
    return msgspec.json.encode(message["line"])


def _with_parents(lines: list[dict[str, Any]], session_id: str) -> list[dict[str, Any]]:
    """Return the lines, those whose parent is not there with the line before as their parent."""
    known = {_text(line, "uuid") for line in lines}
    if all(_is_known(line, known) for line in lines):
        return lines
    try:
        parents = Order(read_lines(enumerate(lines, 1))).parents
    except InvalidInputError:
        # A line that nobody could import is the SDK's own affair.
        return lines
    return [
        line
        if _is_known(line, known)
        else {"sessionId": session_id, **line, "parentUuid": parents.get(_text(line, "uuid") or LOST)}
        for line in lines
    ]


def _text(line: dict[str, Any], field: str) -> str | None:
    """Return a field of a line if it is a text, as the SDK writes it."""
    found = line.get(field)
    return found if isinstance(found, str) else None


def _is_known(line: dict[str, Any], known: Collection[str | None]) -> bool:
    parent = _text(line, "parentUuid")
    return parent is None or parent in known


def _text_in(key: SessionKey | SessionListSubkeysKey, name: str) -> str:
    found = key.get(name)
    if not isinstance(found, str) or not found:
        raise InvalidInputError(f"{name} of the key is {found!r}, expected text that is not empty")
    return require_unicode(found, f"the {name} of a session")


def _part_of_id(text: str, name: str) -> str:
    return encoded_id(text, f"the {name} of a session").replace(BETWEEN, quote(BETWEEN, safe=""))


def _saved_name(key: SessionKey) -> str:
    return _sub_name(key) if "subpath" in key else _main_name(key["project_key"])


def _main_name(project_key: str) -> str:
    return f"{MAIN}/{quote(require_unicode(project_key, 'the project_key of a session'), safe='')}"


def _sub_name(key: SessionKey | SessionListSubkeysKey) -> str:
    return f"{SUB}/{quote(_text_in(key, 'project_key'), safe='')}/{quote(_text_in(key, 'session_id'), safe='')}"


def _session_id(stream: str) -> str:
    return decoded_id(split_stream_id(stream)[1].split(BETWEEN)[1])
