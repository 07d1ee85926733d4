"""A session of the OpenAI Agents SDK, kept as a chat: each entry of the Responses API is an item."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

import msgspec
from agents.memory.session import SessionABC, _CompactionSnapshot
from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

from ...domain.chat.context import ChatContext
from ...domain.chat.events import ChatItemEvent, FunctionReturned, Spoken
from ...domain.chat.rules.commands import EvictItems
from ...domain.concurrency.known_types import known
from ...domain.concurrency.locks import renew_in_child, synchronized
from ...domain.concurrency.threads import in_thread
from ...domain.erasure.forgetting import watch
from ...domain.errors import ConcurrencyError
from ...domain.formats.messages import named_outputs
from ...domain.formats.responses.receive import items_from_session
from ...domain.formats.responses.send import entries_of
from ...domain.ids import encoded_id
from ...domain.log.envelope import acting
from .conversation import is_called
from .open_chats import acting_as, require_store

if TYPE_CHECKING:
    from agents.run_state import RunState

    from ..store import Store

Entry = dict[str, Any]
# The name under which data of the SDK is saved beside the items.
NAME = "openai_agents"
RUN_STATE = "run_state"
COMPACTED, EXPIRED = "compacted", "expired"
_HISTORY = ("get_items", "add_items", "pop_item", "clear_session")


class RefoldSession(SessionABC):
    """
    A session whose entries are the items of a chat: that with its id, in which an `@` is written as `%40`.

    Give it to `Runner.run(..., session=...)`. The chat can be shown, compared, forked, audited and searched like any
    other, and what others add to it is part of the session. Every entry comes back as it was given. An entry that
    leaves (`pop_item`, `clear_session`) leaves the view; it stays in the past.

    `actor` names who does something, given the SDK's context wrapper of a run, or None where there is none.
    """

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        actor: Callable[[Any], str | None] | None = None,
        **opening: Any,
    ) -> None:
        """Open the chat; `opening` is passed to `store.chat`, such as `user`, `agent` or `durability`."""
        require_store(store)
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self._store, self._actor, self._default_actor = store, actor, opening.get("agent") or NAME
        self._chat: ChatContext = self._as(None, store.chat)(encoded_id(session_id, "the session id"), **opening)
        self._default_actor = self._chat._journal.place.actor or NAME
        # The entries of the items that were read, by id, as JSON: a long session is decoded in one call. None before
        # the first reading.
        self._encoded: dict[str, tuple[ChatItemEvent, bytes]] | None = None
        # Calls of the SDK run in threads, and a transaction of one must not have the changes of another one in it.
        self._lock = threading.RLock()
        renew_in_child(self)
        watch(store.log, self)

    def _forget_erased(self) -> None:
        self._encoded = None if self._encoded is None else {}

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    @property
    def chat(self) -> ChatContext:
        """The chat with the entries."""
        return self._chat

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        """Return the entries in order; with a limit, here or in the settings, the last ones. 0 means none."""
        return await in_thread(self._entries, resolve_session_limit(limit, self.session_settings))

    async def add_items(self, items: Sequence[Any], *, wrapper: Any = None) -> None:
        """
        Put entries at the end, all or none.

        Raises:
            InvalidInputError: an entry is no object that can be kept as JSON.
        """
        await in_thread(self._as(wrapper, self._add), list(items))

    async def pop_item(self, *, wrapper: Any = None) -> Any | None:
        """Take the last entry out of the view and return it; None if there is none."""
        return await in_thread(self._as(wrapper, self._pop))

    async def clear_session(self, *, wrapper: Any = None) -> None:
        """Take all entries out of the view."""
        await in_thread(self._as(wrapper, self._clear))

    async def save_run_state(self, state: RunState[Any, Any]) -> None:
        """Save the state of a run that waits, such as for an approval, beside the items."""
        await in_thread(self._as(None, self._save), {RUN_STATE: state.to_json()})

    async def run_state(self, agent: Any) -> RunState[Any, Any] | None:
        """Return the state of a run that was saved last, for `Runner.run(agent, state)`; None if there is none."""
        from agents.run_state import RunState

        found = await in_thread(self._chat.saved_states.last, NAME, RUN_STATE)
        return None if found is None or found.value is None else await RunState.from_json(agent, found.value)

    # The SDK's compaction looks for the following two names. They do nothing in a subclass that changes what is stored,
    # for example by encrypting it: there the SDK uses the methods above.

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None
    ) -> _CompactionSnapshot | None:
        """Return the last entries, and how to replace their end and take out entries at the start that have expired."""
        return await in_thread(self._snapshot, limit, prune_prefix) if self._is_plain else None

    async def _atomic_replace_items(self, items: Sequence[Any]) -> bool:
        """Replace all entries in one transaction; False if that is not possible."""
        if not self._is_plain:
            return False
        await in_thread(self._as(None, self._replace_all), list(items))
        return True

    @property
    def _is_plain(self) -> bool:
        return all(getattr(type(self), name) is getattr(RefoldSession, name) for name in _HISTORY)

    # Each of the following runs in a thread.

    def _as(self, wrapper: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        def acted(*arguments: Any, **named: Any) -> Any:
            actor = None if self._actor is None else self._actor(wrapper)
            with acting(actor=actor) if actor else acting_as(self._default_actor):
                return call(*arguments, **named)

        return acted

    @synchronized
    def _entries(self, limit: int | None) -> list[Entry]:
        if limit == 0:
            return []
        self._chat.refresh()
        items = self._chat.recorded_items()
        if limit is None or limit < 0:
            return self._entries_from(items, 0)
        # Not every item is an entry: a chat has changes of agents and tools, too.
        width, entries = limit, self._entries_from(items, max(0, len(items) - limit))
        while len(entries) < limit and width < len(items):
            width *= 2
            entries = self._entries_from(items, max(0, len(items) - width))
        return entries[-limit:]

    def _entries_from(self, items: Sequence[ChatItemEvent], start: int) -> list[Entry]:
        if self._encoded is None:
            # A session that is read once, as by a run that resumes it, is not kept as JSON, too.
            self._encoded = {}
            return [entry for item in _sound(items, start) for entry in _entries_of(item)]
        encoded = filter(None, map(self._encoded_entries, _sound(items, start)))
        entries: list[Entry] = msgspec.json.decode(b"[" + b",".join(encoded) + b"]", type=known(list[Entry]))
        return entries

    def _encoded_entries(self, item: ChatItemEvent) -> bytes:
        """Return the entries of an item as JSON, without the brackets of a list."""
        assert self._encoded is not None, "the session was read before"
        of, encoded = self._encoded.get(item.id, (None, b""))
        # With each piece, a message that is written piece by piece is another item; so is one that was erased.
        if of is not item:
            encoded = msgspec.json.encode(_entries_of(item))[1:-1]
            self._encoded[item.id] = item, encoded
        return encoded

    @synchronized
    def _add(self, entries: Sequence[Any]) -> None:
        items = items_from_session(entries)
        named = named_outputs(items, self._chat._state.items)
        if not items:
            return
        if all(item.name for item in named if isinstance(item, FunctionReturned)):
            # Nothing in these items depends on what others recorded meanwhile, so that need not be read before.
            self._chat.record_items(named)
            self._chat.flush()
        else:
            self._chat.rebase(lambda chat: _record(chat, items))

    @synchronized
    def _save(self, saved: dict[str, Any]) -> None:
        self._chat.saved_states.save(NAME, saved)
        self._chat.flush()

    @synchronized
    def _clear(self) -> None:
        self._chat.rebase(lambda chat: chat.clear())

    @synchronized
    def _replace_all(self, entries: Sequence[Any]) -> None:
        items = items_from_session(entries)

        def replaced(chat: ChatContext) -> None:
            with self._store.transaction():
                _take_out(chat, chat.recorded_items(), COMPACTED)
                _record(chat, items)

        self._chat.rebase(replaced)

    @synchronized
    def _pop(self) -> Entry | None:
        def popped(chat: ChatContext) -> Entry | None:
            last = next((item for item in reversed(chat.recorded_items()) if _entries_of(item)), None)
            if last is None:
                return None
            _take_out(chat, [last], "popped")
            return _entries_of(last)[-1]

        return self._chat.rebase(popped)

    @synchronized
    def _snapshot(self, limit: int, prune_prefix: Callable[[Any], bool] | None) -> _CompactionSnapshot | None:
        self._chat.refresh()
        # One more says whether there are others before them.
        found = self._last_with_entries(limit + 1)
        shown = found[-limit:] if limit > 0 else []
        entries = [entry for item in shown for entry in _entries_of(item)]
        if len(entries) != len(shown):
            # An imported item may have its reasoning with it: an end that begins between the two cannot be replaced.
            return None
        replace = partial(self._replace_end, shown, prune_prefix)
        return _CompactionSnapshot(items=entries, complete=len(shown) == len(found), replace_suffix=replace)  # type: ignore[arg-type]  # plain JSON

    def _last_with_entries(self, count: int) -> list[ChatItemEvent]:
        found = (item for item in reversed(self._chat.recorded_items()) if _entries_of(item))
        return list(islice(found, count))[::-1]

    async def _replace_end(
        self,
        shown: Sequence[ChatItemEvent],
        prune_prefix: Callable[[Any], bool] | None,
        start: int,
        output: list[Any],
    ) -> bool:
        call: Callable[..., bool] = self._as(None, self._replaced)
        awaited: Awaitable[bool] = in_thread(call, list(shown[start:]), prune_prefix, output)
        return await awaited

    @synchronized
    def _replaced(
        self, leaving: list[ChatItemEvent], prune_prefix: Callable[[Any], bool] | None, output: list[Any]
    ) -> bool:
        """Replace the end of the entries, all or nothing; False if it is another one now."""
        chat = self._chat
        chat.refresh()
        if not leaving or self._last_with_entries(len(leaving)) != leaving:
            return False
        items = items_from_session(output)
        before = takewhile(lambda item: item.id != leaving[0].id, chat.recorded_items())
        expired = (
            list(takewhile(lambda item: all(map(prune_prefix, _entries_of(item))), before)) if prune_prefix else []
        )
        try:
            with self._store.transaction():
                _take_out(chat, expired, EXPIRED)
                _take_out(chat, leaving, COMPACTED)
                _record(chat, items)
        except ConcurrencyError:
            return False
        return True


def _record(chat: ChatContext, items: Sequence[ChatItemEvent]) -> None:
    if items:
        chat.record_items(named_outputs(items, chat._state.items))


def _take_out(chat: ChatContext, items: Sequence[ChatItemEvent], reason: str) -> None:
    """Take out exactly these items: an output may go before its call does."""
    if items:
        leave = EvictItems(chat.stream_id, tuple(item.id for item in items), reason, partners=False)
        chat._record(leave, expected_version=chat.version)


def _sound(items: Sequence[ChatItemEvent], start: int) -> Iterator[ChatItemEvent]:
    """Yield the items from `start` on, without outputs that the API would refuse."""
    for place, item in enumerate(items[start:], start):
        # Another framework may keep an output whose call left.
        if type(item) is not FunctionReturned or _is_own(item) or is_called(items, place):
            yield item


def _is_own(item: FunctionReturned) -> bool:
    origin = item.origin
    return origin is not None and origin.starts and (not origin.rest or b'"responses"' in origin.rest)


def _entries_of(item: ChatItemEvent) -> list[Entry]:
    return entries_of(item) if isinstance(item, Spoken) else []
