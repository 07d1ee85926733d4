"""
The part of a chat context that changes what is there: inserting, evicting, restoring, pinning, clearing, truncating.

Every call is one event, decided on the context as this handle knows it: when another writer came first it is told
by a ConcurrencyError, and `rebase` runs it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import TypeVar, cast

from ...canonical import Without
from ...context.journal import Outcome
from ..events import added_item
from ..items import ChatItem
from ..rules.commands import Clear, EvictItems, InsertItems, PinItems, RestoreItems, Truncate
from ..state.sequence import Items
from ..tokens import DEFAULT, TokenCounter
from ..views import item_of, recorded_form
from .eviction import Eviction
from .writing import WritableChat, items_as_given

Item = TypeVar("Item", bound=ChatItem)
Self = TypeVar("Self", bound="EditingChat")


class EditingChat(WritableChat):
    """What is changed; every change can be seen, explained and taken back."""

    def insert(self, item: Item, *, expected_version: int | None = None, idempotency_key: str | None = None) -> Item:
        """
        Put an item before the first one that is younger, else at the end, and return it (SPEC V2.21).

        Raises:
            DuplicateItemError: another item has this id; the same item again is nothing new.
            ConcurrencyError: another writer came first.
        """
        outcome = self._insert([item], expected_version, idempotency_key)
        recorded = added_item(outcome.events[0]) if outcome.replayed and outcome.events else None
        # The same key again: the item that was put in the first time.
        return item if recorded is None else cast(Item, item_of(recorded))

    def insert_many(
        self,
        items: Iterable[ChatItem],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Insert items, the oldest first, all or none (SPEC V2.23).

        Raises:
            DuplicateItemError: another item has one of these ids.
            ConcurrencyError: another writer came first.
        """
        self._insert(list(items), expected_version, idempotency_key)

    def _insert(self, given: Sequence[ChatItem], expected_version: int | None, key: str | None) -> Outcome:
        command = InsertItems(self._journal.place.stream, tuple(recorded_form(item) for item in given))
        return self._edit(
            command,
            call=lambda: ("insert", items_as_given(given, command.items)),
            expected_version=expected_version,
            idempotency_key=key,
        )

    def evict(
        self,
        ids: str | Iterable[str],
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Eviction:
        """
        Take items out of the view, a call together with its output, and say what that does to the prompt.

        They stay in the past, in `evicted_items()`, and can be restored.

        Raises:
            NotFoundError: the context never held one of them.
            InvalidInputError: one of them is pinned.
            ConcurrencyError: another writer came first.
        """
        before = self._journal.state.items
        command = EvictItems(self._journal.place.stream, _ids(ids), reason)
        outcome = self._edit(command, expected_version=expected_version, idempotency_key=idempotency_key)
        if outcome.replayed:
            return Eviction(*self._around(outcome), outcome.version)
        return Eviction(before, self._journal.state.items, self.version)

    def restore(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> list[str]:
        """
        Put items back into their places, a call together with its output, and return the ids of what came back.

        Without ids: what the last evict, truncate or clear took away and is not back.

        Raises:
            NotFoundError: the context never held one of them.
            ConcurrencyError: another writer came first.
        """
        before = self._journal.state.items
        command = RestoreItems(self._journal.place.stream, None if ids is None else _ids(ids), reason)
        outcome = self._edit(command, expected_version=expected_version, idempotency_key=idempotency_key)
        after = self._journal.state.items
        if outcome.replayed:
            before, after = self._around(outcome)
        gone = before.edits.gone if before.edits else {}
        return [before.arena.items[ordinal].id for ordinal in gone if after.shows(ordinal)]

    def pin(
        self,
        ids: str | Iterable[str],
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Let no policy take these items out of the view: not truncate, not summarize, not evict.

        Raises:
            NotFoundError: one of them cannot be seen.
            ConcurrencyError: another writer came first.
        """
        self._pin(ids, True, reason, expected_version, idempotency_key)

    def unpin(
        self,
        ids: str | Iterable[str],
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Let items go again that were pinned.

        Raises:
            NotFoundError: the context never held one of them.
            ConcurrencyError: another writer came first.
        """
        self._pin(ids, False, reason, expected_version, idempotency_key)

    def clear(
        self,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Take everything out of the view, pinned items too; `restore()` takes it back.

        Raises:
            ConcurrencyError: another writer came first.
        """
        self._edit(Clear(reason), expected_version=expected_version, idempotency_key=idempotency_key)

    def truncate(
        self: Self,
        max_items: int | None = None,
        max_tokens: int | None = None,
        *,
        reason: str | None = None,
        counter: TokenCounter = DEFAULT,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """
        Take the oldest items out of the view until both limits hold, and return self (SPEC V6).

        Protected are the first instructions, the first summary, the last user message, all handoffs and config
        updates, calls of the running turn that wait for their output, and what is pinned. A call goes with its
        output. `counter` says how many tokens a text has. `restore()` takes it back.

        Raises:
            ConcurrencyError: another writer came first.
        """
        command = Truncate(max_items, max_tokens, reason, counter)
        call = Without(command, "counter")
        self._edit(command, call=call, expected_version=expected_version, idempotency_key=idempotency_key)
        return self

    def _around(self, outcome: Outcome) -> tuple[Items, Items]:
        """Return the items before and after what was done the first time."""
        journal, last = self._journal, outcome.version
        return journal.past(last - len(outcome.events)).items, journal.past(last).items

    def _pin(
        self,
        ids: str | Iterable[str],
        is_pinned: bool,
        reason: str | None,
        expected_version: int | None,
        idempotency_key: str | None,
    ) -> None:
        command = PinItems(self._journal.place.stream, _ids(ids), is_pinned, reason)
        self._edit(command, expected_version=expected_version, idempotency_key=idempotency_key)


def _ids(ids: str | Iterable[str]) -> tuple[str, ...]:
    # A set has another order in each process, and a call that is repeated there is the same one.
    return (ids,) if isinstance(ids, str) else tuple(sorted(ids) if isinstance(ids, Set) else ids)
