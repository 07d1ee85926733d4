"""
The chats that an adapter has open, so that a call reads and converts only what is new.

A call takes a chat out, works on it alone, and puts it back when it has succeeded. So no two threads share a chat, and
after an error or an interrupt the next call opens it again. While a chat is out, other calls open it again, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from ...domain.arguments import require_instance
from ...domain.chat.context import ChatContext
from ...domain.chat.events import ChatItemEvent
from ...domain.concurrency.threads import in_thread
from ...domain.context.journal import retried
from ...domain.context.transaction import current_or_new_transaction, current_transaction
from ...domain.erasure.forgetting import watch
from ...domain.errors import LogWentBackError, NotFoundError
from ...domain.ids import stream_id
from ...domain.log.envelope import acting, current_meta
from ...domain.log.gate import behind_gate, gate_of
from ...projections.saved_states import SAVED_STATES, SavedStateRow, states_prefix
from ..store import Store
from .conversation import Conversation, Message, ViewMessage, is_later_part

CHATS_KEPT_MAX = 64
# The reason with which items leave that a framework has deleted.
DELETED = "deleted"
# In a chat that was just opened, the first look at the end reads so many items for each message that is wanted.
ITEMS_OF_A_MESSAGE = 4
Shown = Callable[[ChatContext], Sequence[ChatItemEvent]]
T = TypeVar("T")
P = ParamSpec("P")


def require_store(store: Store) -> Store:
    """
    Return the store that an adapter is given.

    Raises:
        InvalidInputError: it is none, such as the path of one.
    """
    way_out = "give an open one, as `refold.open()` returns it, or the `sync` of an async one"
    return require_instance(store, Store, "the store", way_out)


def user_of(store: Store, chat_id: str) -> str | None:
    """Return the user of a chat, or None; the chats beside it get the same user, so that an erasure finds them."""
    # The user is recorded and not shown, so a caller who may not read that chat may still make one beside it.
    begun = behind_gate(store.log).read_events(stream_id("chat", chat_id), until=1)
    return next((getattr(event, "user", None) for event in begun), None)


def saved_under(store: Store, framework: str, begun: str) -> list[SavedStateRow]:
    """Return what a framework saved last under each key, reading only chats whose ids begin with `begun`."""
    if (gate := gate_of(store.log)) is not None:
        gate.ask("read")
    rows = store._runner.rows_under([SAVED_STATES], [states_prefix(framework, None) + stream_id("chat", begun)])
    return sorted((row for row in rows if not row.is_deleted), key=lambda row: (row.context, row.version))


def awaited(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method for a running event loop: the sync one of this name, also that of a subclass, in a thread."""

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        found: T = await in_thread(getattr(self, method.__name__), *args, **kwargs)
        return found

    call.__name__ = f"a{method.__name__}"
    call.__qualname__ = method.__qualname__.replace(method.__name__, call.__name__)
    return call


def acting_as(actor: str) -> AbstractContextManager[None]:
    """Record what the block does as done by `actor` where nobody else is named as the actor."""
    return acting(actor=current_meta(default_actor=actor, idempotency_key=None).actor)


class Entry(NamedTuple):
    """A message in the view of a chat as JSON, with its id, the ids of its items, and the index behind the last one."""

    encoded: bytes
    id: Any
    item_ids: tuple[str, ...]
    end: int


def view_of(chat: ChatContext) -> Sequence[ChatItemEvent]:
    """Return the items in the view; those that nobody looks at stay in the log."""
    return chat._state.items


def take_all_out(chat: ChatContext) -> None:
    """Take all items out of the view, also pinned ones: the framework has deleted what the chat held."""
    if chat.recorded_items():
        chat.clear(reason=DELETED, expected_version=chat.version)


def entries_of(messages: Iterable[ViewMessage], encode: Callable[[Message], bytes]) -> list[Entry]:
    """Return messages as JSON."""
    return [Entry(encode(one.message), one.message.get("id"), one.item_ids, one.end) for one in messages]


class OpenChat:
    """A chat with its messages as they were read last."""

    def __init__(
        self, chat: ChatContext, conversation: Conversation, encode: Callable[[Message], bytes], shown: Shown
    ) -> None:
        self.chat = chat
        self._conversation, self._encode, self._shown = conversation, encode, shown
        self._items: list[ChatItemEvent] = []
        self._entries: list[Entry] = []
        # Data that the adapter found beside the items, with the version that has it.
        self.beside: tuple[int, Any] = (-1, None)

    def entries(self) -> list[Entry]:
        """
        Return the messages in the view; those that were read before are not converted again.

        They are kept as JSON, so that a caller who changes a message does not change it for the next one.
        """
        # All are looked at, so they are read together.
        self.chat.recorded_items()
        items = list(self._shown(self.chat))
        same = _same_at_start(self._items, items)
        if same == len(self._items) == len(items):
            return self._entries
        entries = self._entries
        while entries and entries[-1].end >= same:
            entries.pop()
        if entries:
            # A message that another framework recorded may go on with the item behind it.
            entries.pop()
        start = entries[-1].end if entries else 0
        entries += entries_of(self._conversation.kept(items, start), self._encode)
        self._items = items
        return entries

    def last(self, count: int) -> list[Entry]:
        """Return the last messages in the view; of a chat that was just opened only these are read and converted."""
        items = [] if self._items else self._shown(self.chat)
        start, left, low = len(items), count, len(items)
        near: list[ChatItemEvent] = []
        while start and left:
            if start == low:
                low = max(0, low - max(ITEMS_OF_A_MESSAGE * count, len(near)))
                near = [*items[low:start], *near]
            start -= 1
            if self._conversation.begins(near[start - low]):
                left -= 1
            elif not is_later_part(near[start - low]):
                # Where the message of another framework begins is only known from the start.
                return self.entries()[-count:]
        if not items or not start:
            return self.entries()[-count:] if count else []
        # A part of a message whose beginning left the view is a message of its own.
        return entries_of(self._conversation.kept(near, start - low)[-count:], self._encode)


class OpenChats:
    """The chats of a store that an adapter has open, and their messages, at most so many chats."""

    def __init__(
        self,
        store: Store,
        conversation: Conversation,
        *,
        encode: Callable[[Message], bytes] = msgspec.json.encode,
        shown: Shown = view_of,
        kept_max: int = CHATS_KEPT_MAX,
    ) -> None:
        """Open chats of `store`; `encode` says what is kept of a message, `shown` which items are read."""
        self._store, self._conversation = store, conversation
        self._encode, self._shown, self._kept_max = encode, shown, kept_max
        # Its methods are single steps for other threads.
        self._chats: OrderedDict[str, OpenChat] = OrderedDict()
        self._erasures = 0
        watch(store.log, self)

    def _forget_erased(self) -> None:
        self._erasures += 1
        self._chats.clear()

    @contextmanager
    def taken(
        self, chat_id: str, *, create: bool = False, known: int | None = None, user: str | None = None
    ) -> Iterator[OpenChat | None]:
        """
        Take out a chat that is up to date, for this block; None if there is none and `create` is False.

        A new chat is that of `user`. A chat that is open at the version `known` is not read again: this is for an
        append at that version, which is refused if others came first.
        """
        erasures, found = self._erasures, self._refreshed(chat_id, known)
        if found is None:
            with suppress(NotFoundError):
                # An existing chat keeps the user that it was made with, or none.
                is_new = create and user is not None and not self._store.log.head(stream_id("chat", chat_id))
                chat = self._store.chat(chat_id, create=create, user=user if is_new else None)
                found = OpenChat(chat, self._conversation, self._encode, self._shown)
        yield found
        within = current_transaction(self._store.log)
        # A chat that was out during an erasure may have erased texts; the changes of a transaction may be rolled back.
        if found is not None and erasures == self._erasures and not found.chat._journal.is_changed_within(within):
            # A new entry is the last one, and the first one is dropped.
            self._chats.pop(chat_id, None)
            self._chats[chat_id] = found
            while len(self._chats) > self._kept_max:
                with suppress(KeyError):
                    self._chats.popitem(last=False)

    def change(
        self, chat_id: str, change: Callable[[OpenChat], T], *, create: bool = True, user: str | None = None
    ) -> T | None:
        """
        Change a chat in one transaction, which also makes it if there is none: so no empty one is left by an error.

        It is done again as long as another writer comes first. Without `create`, None is returned if there is no chat.

        Raises:
            ConcurrencyError: another writer came first a hundred times.
        """

        def attempt() -> T | None:
            with ExitStack() as until, current_or_new_transaction(self._store.log):
                # The chat is put back after the transaction.
                found = until.enter_context(self.taken(chat_id, create=create, user=user))
                return None if found is None else change(found)

        return retried(attempt)

    def _refreshed(self, chat_id: str, known: int | None) -> OpenChat | None:
        found = self._chats.pop(chat_id, None)
        if found is None or (known and found.chat.version == known):
            return found
        try:
            found.chat.refresh()
        except LogWentBackError:
            # An older copy of the database was put back: it is opened as that has it.
            return None
        return found if found.chat.version else None


def _same_at_start(before: Sequence[ChatItemEvent], now: Sequence[ChatItemEvent]) -> int:
    """Return how many items at the start are the same ones."""
    if before == now[: len(before)]:
        # Lists are compared in one call, and the same object is equal to itself at once.
        return len(before)
    pairs = enumerate(zip(before, now, strict=False))
    return next((index for index, (old, new) in pairs if old is not new), min(len(before), len(now)))
