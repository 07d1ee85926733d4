"""What can be seen of a window: its items, the text made of them, its budget, and what is not in it."""

from __future__ import annotations

from collections.abc import Iterable

from ..chat.counting import TokenCounter
from ..frozen import FrozenList
from ..homed import HomedContext
from .items import QUARTERS_PER_TOKEN, ContextItem, DroppedItem, EvictedItem
from .rules.commands import ChangeSettings, Command, SetItems
from .sizing import (
    AdmissionPolicy,
    incoming_of,
    quarters_of,
    require_max_tokens,
    require_policy,
    section_of,
)
from .state.departures import Departures
from .state.fold import WindowState


class ShownWindow(HomedContext):
    """
    A window as it is seen. To set its budget, its policy or its items is a change, and an event.

    Like the seed's dataclass it is equal by value, unhashable, and takes no other attributes (SPEC A2.19).
    """

    _counter: TokenCounter | None
    _shown: tuple[object, FrozenList[ContextItem]] | None

    @property
    def _state(self) -> WindowState:
        state: WindowState = self._journal.state
        return state

    @property
    def max_tokens(self) -> int:
        """The budget. To set it is an event; nothing leaves because of it."""
        return self._state.max_tokens

    @max_tokens.setter
    def max_tokens(self, max_tokens: int) -> None:
        self._set(ChangeSettings(require_max_tokens(max_tokens), self.policy))

    @property
    def policy(self) -> AdmissionPolicy:
        """Who is let in where there is no room: `first_come` or `evict_lower_priority`. To set it is an event."""
        return require_policy(self._state.policy)

    @policy.setter
    def policy(self, policy: AdmissionPolicy) -> None:
        self._set(ChangeSettings(self.max_tokens, require_policy(policy)))

    @property
    def items(self) -> FrozenList[ContextItem]:
        """
        The items as they came, as a read-only list (SPEC A2.10).

        To set it is to clear and to take these in; as in the seed they are not tested against the budget (SPEC A2.12).
        """
        held = self._state.held
        if self._shown is None or self._shown[0] is not held:
            self._shown = (held, FrozenList(one.item for one in held.in_order()))
        return self._shown[1]

    @items.setter
    def items(self, items: Iterable[ContextItem]) -> None:
        self._set(SetItems(tuple(incoming_of(item, self._counter) for item in items)))

    @property
    def births(self) -> list[str]:
        """The name of each item's birth, `stream@version`, in order: by it `evict` and `restore` know the item."""
        return [f"{self.stream}@{held.version}" for held in self._state.held.in_order()]

    def get(self, key: str) -> ContextItem | None:
        """Return the last item with a key, or None."""
        items = self._state.with_key(key)
        return items[-1].item if items else None

    def build(self) -> str:
        """Return the text for the prompt: a section for each item, a higher priority first (SPEC A2.8 to A2.10)."""
        in_order = sorted(self.items, key=lambda item: item.priority, reverse=True)
        return "\n\n".join(map(section_of, in_order))

    def estimated_tokens(self) -> int:
        """Return the estimated tokens of all items, a running total (SPEC A2.5, A2.17)."""
        return self._state.tokens

    @staticmethod
    def _estimate_item_tokens(item: ContextItem) -> int:
        """Return the seed's estimate of one item (SPEC A2.4)."""
        return quarters_of(item, None) // QUARTERS_PER_TOKEN

    def dropped(self) -> list[DroppedItem]:
        """Return the items that were not let in, and are not in now, each with why."""
        return self._departures().dropped()

    def evicted(self) -> list[EvictedItem]:
        """Return the items that left and are not back, in the order in which they left, each with how and why."""
        return self._departures().evicted()

    def _departures(self) -> Departures:
        self.flush()
        return Departures(self._journal.log, self.stream, self.version)

    def _set(self, command: Command) -> None:
        raise NotImplementedError

    def _forget_shown(self) -> None:
        self._shown = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShownWindow):
            return NotImplemented
        return (self.max_tokens, self.items) == (other.max_tokens, other.items)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_tokens={self.max_tokens}, items={self.items})"

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and not isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        super().__setattr__(name, value)
