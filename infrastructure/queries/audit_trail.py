"""The trail of an audit: the changes of a context's items, one after the other, each with its event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...domain.log.envelope import RecordedEvent
from ...domain.spans import Ref
from .origins import Item, full_ref, id_of


class Change(NamedTuple):
    """
    One change: the event that made it, what was changed and what it was before and is now.

    That is an item, `ref` its birth and `name` its id or key; with `attribute` something of it, or of the context where
    there is no item. `old` and `new` are items or plain data; None is nothing.
    """

    recorded: RecordedEvent
    ref: Ref | None = None
    name: str | None = None
    attribute: str | None = None
    old: Any = None
    new: Any = None
    reason: str | None = None

    @property
    def birth(self) -> str | None:
        """`stream@version` of the event that brought the item into the world."""
        if self.ref is None:
            return None
        ref = full_ref(self.ref, self.recorded.stream)
        return f"{ref.stream}@{ref.version}"


class Trail:
    """
    The items of a context while its events are gone through: those that are there, and all that were ever met.

    `read` finds items that came into the world elsewhere, or before.
    """

    def __init__(
        self, stream: str, read: Callable[[Sequence[Ref]], Mapping[Ref, Item]], there: Mapping[Ref, Item]
    ) -> None:
        self.stream, self._read = stream, read
        self._there, self._known = dict(there), dict(there)
        self._attributes: dict[str, Any] = {}

    def come(
        self,
        recorded: RecordedEvent,
        refs: Iterable[Ref],
        *,
        instead: Mapping[str | None, Ref] | None = None,
        reason: str | None = None,
    ) -> Iterator[Change]:
        """Yield that items came in; `instead` has, by name, those that they took the place of."""
        for ref, item in self._items(refs):
            self._there[ref] = item
            old = self._gone((instead or {}).get(id_of(item)))
            yield Change(recorded, ref, id_of(item), old=old, new=item, reason=reason)

    def leave(self, recorded: RecordedEvent, refs: Iterable[Ref], *, reason: str | None = None) -> Iterator[Change]:
        """Yield that items left."""
        for ref, item in self._items(refs):
            self._there.pop(ref, None)
            yield Change(recorded, ref, id_of(item), old=item, reason=reason)

    def clear(self, recorded: RecordedEvent, *, reason: str | None = None) -> Iterator[Change]:
        """Yield that all items left."""
        return self.leave(recorded, list(self._there), reason=reason)

    def mark(
        self, recorded: RecordedEvent, refs: Iterable[Ref], attribute: str, *, is_so: bool, reason: str | None = None
    ) -> Iterator[Change]:
        """Yield that something is so now, or not any more, of items."""
        for ref, item in self._items(refs):
            yield Change(recorded, ref, id_of(item), attribute, not is_so, is_so, reason)

    def keep_out(self, recorded: RecordedEvent, item: Item, *, reason: str) -> Iterator[Change]:
        """Yield that an item was brought and not let in."""
        ref = Ref(recorded.version, self.stream)
        self._known[ref] = item
        yield Change(recorded, ref, id_of(item), "dropped", new=item, reason=reason)

    def begin(self, recorded: RecordedEvent, opened: dict[str, Any], **attributes: Any) -> Iterator[Change]:
        """Yield that the context came to be; with these `attributes`, which may change later."""
        self._attributes.update(attributes)
        yield Change(recorded, attribute="opened", new=opened)

    def set(self, recorded: RecordedEvent, attribute: str, value: Any) -> Iterator[Change]:
        """Yield that something of the context is another now, if it is."""
        old = self._attributes.get(attribute)
        if old != value:
            self._attributes[attribute] = value
            yield Change(recorded, attribute=attribute, old=old, new=value)

    def by_name(self) -> dict[str | None, Ref]:
        """Return the items that are there by their ids or keys."""
        return {id_of(item): ref for ref, item in self._there.items()}

    def _gone(self, ref: Ref | None) -> Item | None:
        return None if ref is None else self._there.pop(full_ref(ref, self.stream), None)

    def _items(self, refs: Iterable[Ref]) -> list[tuple[Ref, Item]]:
        wanted = [full_ref(ref, self.stream) for ref in refs]
        missing = [ref for ref in wanted if ref not in self._known]
        if missing:
            self._known.update(self._read(missing))
        # The fold passes over what was never here, and so does this.
        return [(ref, self._known[ref]) for ref in wanted if ref in self._known]
