"""The context window, which holds items for a prompt within a budget of tokens; and the context of one request."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import Field, dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from ..arguments import NotAnItemError, other_item, require_optional, require_whole
from ..canonical import Without, require_unicode
from ..chat.tokens import TokenCounter
from ..context.context import Attachment, Context, detached_attachment, detached_journal
from ..context.journal import Journal, Outcome
from ..errors import InvalidInputError, NotFoundError
from ..frozen import FrozenList
from ..log.admission import NUMBER_MAX
from ..log.envelope import NO_TRACE, Trace
from ..memory.records import MemoryStore
from ..named_events import recorded_event
from ..pool.state import ref_of
from ..positions import Moment
from . import rules
from .events import AdmissionPolicy as AdmissionPolicy
from .events import WindowDropped, WindowOpened
from .items import QUARTERS_PER_TOKEN, ContextItem, DroppedItem, EvictedItem
from .state import Departures, WindowState

MAX_TOKENS = 100_000

# The seed counts a character as a quarter of a token, and twenty characters for the text that `build` puts around an
# item.
CHARACTERS_AROUND = 20


def section_of(item: ContextItem) -> str:
    """Return the section of `build()` that shows an item."""
    return f"[{item.key} (source: {item.source})]\n{item.value}"


def quarters_of(item: ContextItem, counter: TokenCounter | None) -> int:
    """
    Return the size of an item in quarters of a token: the seed's estimate, or the number that `counter` gives for its
    section and the blank line after it.

    Raises:
        InvalidInputError: the counter does not return a number of tokens.
    """
    if counter is None:
        return len(item.key) + len(item.value) + len(item.source) + CHARACTERS_AROUND
    tokens = counter(f"{section_of(item)}\n\n")
    if not isinstance(tokens, int) or tokens < 0:
        raise InvalidInputError(f"the counter gave {tokens!r} for item {item.key!r}: it must return a whole number")
    return tokens * QUARTERS_PER_TOKEN


def incoming_of(item: object, counter: TokenCounter | None) -> rules.Incoming:
    """
    Return an item in the form that is recorded.

    Raises:
        TypeError: it is not a ContextItem, or its key, value or source is not a text.
        InvalidInputError: a text is not valid Unicode, or the priority is not a number.
    """
    if not isinstance(item, ContextItem):
        given = f"{type(item).__name__!r}{other_item(item, 'refold.BudgetItem')}"
        raise NotAnItemError(f"a ContextWindow takes ContextItem instances, not {given}")
    priority = _priority_of(item)
    key, value, source = (_text_of(item, field) for field in ("key", "value", "source"))
    return rules.Incoming(key, value, source, priority, quarters_of(item, counter))


def _text_of(item: ContextItem, field: str) -> str:
    text = getattr(item, field)
    if not isinstance(text, str):
        raise NotAnItemError(f"the {field} of item {item.key!r} is {type(text).__name__}: take a text")
    # For a class derived from str, only the text is kept.
    return require_unicode(text, f"the {field} of item {item.key!r}")


def _priority_of(item: ContextItem) -> int | float:
    priority: object = item.priority
    if isinstance(priority, int) and _is_storable(priority):
        return int(priority)
    if isinstance(priority, float) and not math.isnan(priority):
        return float(priority)
    raise InvalidInputError(f"the priority of item {item.key!r} is {priority!r}: take a whole number")


def require_max_tokens(max_tokens: Any) -> int:
    """
    Return a budget as a number; with 0, no item is admitted.

    Raises:
        InvalidInputError: it is not a whole number, or is negative.
    """
    number = require_whole(max_tokens, "max_tokens")
    if not _is_storable(number):
        raise InvalidInputError(f"max_tokens is {max_tokens!r}, which is more than 64 bits hold")
    return number


def require_policy(policy: str) -> AdmissionPolicy:
    """
    Return `policy` if there is a policy of that name.

    Raises:
        InvalidInputError: there is no such policy.
    """
    known: AdmissionPolicy
    for known in get_args(AdmissionPolicy):
        if known == policy:
            return known
    raise InvalidInputError(f"policy is {policy!r}: take {' or '.join(map(repr, get_args(AdmissionPolicy)))}")


def _is_storable(number: int) -> bool:
    return -NUMBER_MAX <= number <= NUMBER_MAX


if TYPE_CHECKING:
    from typing import Self


@dataclass
class _Fields:
    """The fields of the seed's dataclass, for `dataclasses.fields`, `asdict` and `replace` of a window."""

    max_tokens: int = MAX_TOKENS
    items: list[ContextItem] = field(default_factory=list)


class ContextWindow(Context[WindowState]):
    """
    Items for a prompt, within a budget of estimated tokens.

    `ContextWindow()` is detached, with a log in memory; `store.window(id)` gives one that is stored. With the policy
    `first_come`, an item that does not fit is dropped; with `evict_lower_priority`, items with a lower priority make
    room for it, if that is enough. `counter` counts a text's tokens; the default is the seed's estimate. Calls that
    change the window take `expected_version=` and `idempotency_key=` (a repeated call gives the first result).

    Like the seed's dataclass, windows are compared by value, are unhashable, and accept no other attributes;
    `dataclasses.asdict` and `replace` work.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = {one.name: one for one in fields(_Fields)}
    __match_args__ = ("max_tokens", "items")
    _counter: TokenCounter | None
    _shown: tuple[object, FrozenList[ContextItem]] | None

    def __init__(
        self,
        max_tokens: int = MAX_TOKENS,
        items: Iterable[ContextItem] | None = None,
        *,
        counter: TokenCounter | None = None,
        policy: AdmissionPolicy = "first_come",
    ) -> None:
        opened = WindowOpened(max_tokens=require_max_tokens(max_tokens), policy=require_policy(policy))
        attachment = detached_attachment()
        journal = detached_journal(attachment, "window", rules.WINDOWS)
        journal.execute(rules.Begin(opened))
        self._stand_on(journal, attachment)
        self._counter = counter
        if items:
            self.items = items

    @classmethod
    def standing_on(
        cls,
        journal: Journal[WindowState],
        attachment: Attachment,
        *,
        counter: TokenCounter | None = None,
        trace: Trace = NO_TRACE,
    ) -> Self:
        """Return the window whose events a journal has; a store uses this to open a window."""
        made = super().standing_on(journal, attachment)
        made._counter, made._trace = counter, trace
        return made

    # Reading

    @property
    def max_tokens(self) -> int:
        """The budget. Setting it records an event; no item leaves because of it."""
        return self._state.max_tokens

    @max_tokens.setter
    def max_tokens(self, max_tokens: int) -> None:
        self._set(rules.ChangeSettings({"max_tokens": require_max_tokens(max_tokens)}))

    @property
    def policy(self) -> AdmissionPolicy:
        """The policy where there is no room: `first_come` or `evict_lower_priority`. Setting it records an event."""
        return require_policy(self._state.policy)

    @policy.setter
    def policy(self, policy: AdmissionPolicy) -> None:
        self._set(rules.ChangeSettings({"policy": require_policy(policy)}))

    @property
    def items(self) -> FrozenList[ContextItem]:
        """
        The items in the order in which they were added, as a read-only list.

        Setting `items` clears the window and adds the new ones; as in the seed, they are not tested against the budget.
        """
        held = self._state.held
        if self._shown is None or self._shown[0] is not held:
            self._shown = (held, FrozenList(one.item for one in held.in_order()))
        return self._shown[1]

    @items.setter
    def items(self, items: Iterable[ContextItem]) -> None:
        self._set(rules.SetItems(tuple(incoming_of(item, self._counter) for item in items)))

    @property
    def births(self) -> list[str]:
        """The name of each item's origin, `stream@version`, in order. `evict` and `restore` take these names."""
        return [f"{self.stream_id}@{held.version}" for held in self._state.held.in_order()]

    def get(self, key: str) -> ContextItem | None:
        """Return the last item with a key, or None."""
        items = self._state.with_key(require_unicode(key, "the key"))
        return items[-1].item if items else None

    def build(self) -> str:
        """Return the text for the prompt: a section for each item, those with a higher priority first."""
        in_order = sorted(self.items, key=lambda item: item.priority, reverse=True)
        return "\n\n".join(map(section_of, in_order))

    def estimated_tokens(self) -> int:
        """Return the estimated tokens of all items; the total is kept up to date, so this is cheap."""
        return self._state.tokens

    @staticmethod
    def _estimate_item_tokens(item: ContextItem) -> int:
        """Return the seed's estimate of one item."""
        return quarters_of(item, None) // QUARTERS_PER_TOKEN

    def dropped(self) -> list[DroppedItem]:
        """Return the items that were not admitted and are not in the window now, each with the reason."""
        return self._departures().dropped()

    def evicted(self) -> list[EvictedItem]:
        """Return the items that left and were not restored, in the order in which they left, each with how and why."""
        return self._departures().evicted()

    def _departures(self) -> Departures:
        self.flush()
        events: list[Any] = self._journal.events(until=self.version)
        return Departures(self.stream_id, map(recorded_event, events))

    def _forget_shown(self) -> None:
        self._shown = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ContextWindow):
            return NotImplemented
        return (self.max_tokens, self.items) == (other.max_tokens, other.items)

    __hash__ = None  # type: ignore[assignment]

    def _shown_by_repr(self, identity: str) -> str:
        return f"{'' if self.is_detached else f'{identity}, '}max_tokens={self.max_tokens}, items={self.items}"

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and not isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        super().__setattr__(name, value)

    # Changing

    def add(
        self, item: ContextItem, *, expected_version: int | None = None, idempotency_key: str | None = None
    ) -> bool:
        """
        Add an item at the end, and return whether it was admitted; if not, it is in `dropped()`.

        Raises:
            TypeError: it is not a ContextItem, or its key, value or source is not a text.
            InvalidInputError: a text is not valid Unicode, or the priority is not a number.
        """
        incoming = incoming_of(item, self._counter)
        call = ("add", Without(incoming, "quarters"))
        return _is_in(self._record(rules.Add(incoming), expected_version, idempotency_key, catch_up=True, call=call))

    def put(
        self, item: ContextItem, *, expected_version: int | None = None, idempotency_key: str | None = None
    ) -> bool:
        """
        Add an item in the place of all items with its key, and return whether it was admitted; if not, they stay.

        Raises:
            TypeError, InvalidInputError: as for `add`.
        """
        command = rules.Put(incoming_of(item, self._counter))
        call = ("put", Without(command.incoming, "quarters"))
        outcome = self._record(command, expected_version, idempotency_key, catch_up=True, call=call)
        # If this view shows the item already, the view may be stale.
        while not outcome.events and not self._journal.is_ahead and self.refresh():
            outcome = self._record(command, expected_version, idempotency_key, catch_up=True, call=call)
        return _is_in(outcome)

    def remove(
        self,
        key: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Remove all items with a key; `restore` brings them back.

        Raises:
            NotFoundError: there is no such item (a KeyError).
            ConcurrencyError: another writer came first.
        """
        command = rules.Remove(require_unicode(key, "the key"), require_optional(reason, "the reason"))
        self._record(command, expected_version, idempotency_key, catch_up=False)

    def evict(
        self,
        *births: str,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Evict the items that `births` name; `restore` brings them back.

        Raises:
            NotFoundError: no such item is there.
            InvalidInputError: one of `births` is not the name of an origin.
            ConcurrencyError: another writer came first.
        """
        command = rules.Evict(self._versions(births), require_optional(reason, "the reason"))
        self._record(command, expected_version, idempotency_key, catch_up=False)

    def restore(self, *births: str, expected_version: int | None = None, idempotency_key: str | None = None) -> None:
        """
        Add items at the end that had left or were not admitted; `evicted()` and `dropped()` name them.

        Raises:
            NotFoundError: no such item left or was dropped.
            LimitExceededError: with them the window would hold more than `max_tokens`.
            ConcurrencyError: another writer came first.
        """
        versions = self._versions(births)
        call = ("restore", versions)
        if self._writer.repeated(call, idempotency_key):
            return
        command = rules.Restore(self.stream_id, tuple(self._departures().returning(versions)))
        self._record(command, expected_version, idempotency_key, catch_up=False, call=call)

    def clear(self, *, expected_version: int | None = None, idempotency_key: str | None = None) -> None:
        """
        Remove all items.

        Raises:
            ConcurrencyError: another writer came first.
        """
        self._record(rules.Clear(), expected_version, idempotency_key, catch_up=False)

    def _set(self, command: rules.Command) -> None:
        self._record(command, catch_up=False)

    def _versions(self, births: Iterable[str]) -> tuple[int, ...]:
        refs = [ref_of(birth, self.stream_id) for birth in births]
        for birth, ref in zip(births, refs, strict=True):
            if ref.stream != self.stream_id:
                raise NotFoundError(f"{birth} is not an item of {self.stream_id}")
        return tuple(ref.version for ref in refs)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copied or unpickled window is a detached one that begins with the same items.
        return _detached, (self.max_tokens, list(self.items), self._counter, self.policy)

    # Views

    def at(self, moment: int | str | datetime | Moment) -> ReadOnlyContextWindow:
        """
        Return the window as it was: at a version, a time, a position of the log, or a named version.

        Raises:
            NotFoundError, InvalidInputError: as for `version_at`.
        """
        return self._view(ReadOnlyContextWindow, self.version_at(moment))

    @property
    def readonly(self) -> ReadOnlyContextWindow:
        """A live view of this window that cannot be changed."""
        return self._view(ReadOnlyContextWindow)


class ReadOnlyContextWindow(ContextWindow):
    """A read-only window: as it was at a version, or a live view."""


def _is_in(outcome: Outcome) -> bool:
    return not any(isinstance(event, WindowDropped) for event in outcome.events)


def _detached(
    max_tokens: int, items: list[ContextItem], counter: TokenCounter | None, policy: AdmissionPolicy
) -> ContextWindow:
    return ContextWindow(max_tokens, items, counter=counter, policy=policy)


@dataclass(slots=True)
class AgentContext:
    """
    One request to an agent: its trace, its endpoint, its user, the window for the prompt, and the memory.

    Without a store, the window lives as long as the request. `store.agent_context(...)` gives one whose window is
    stored with the session and whose memory is the store's; events that are recorded through it have the trace and the
    endpoint.
    """

    trace_id: str
    endpoint_name: str
    session_id: str | None = None
    user_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    context_window: ContextWindow = field(default_factory=ContextWindow)
    memory: MemoryStore | None = None

    def add_context(self, key: str, value: str, *, source: str = "agent", priority: int = 0) -> None:
        """
        Add an item to the window; an item that does not fit is in `context_window.dropped()`.

        Raises:
            TypeError: key, value or source is not a text.
            InvalidInputError: a text is not valid Unicode, or the priority is not a number.
        """
        self.context_window.add(ContextItem(key, value, source, priority))
