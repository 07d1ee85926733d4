"""Random histories of one context, of every event that edits, and a list that says what they lead to."""

from typing import Any

from hypothesis import strategies as st

from refold.domain.chat.events import Cleared, ItemInserted, ItemsEvicted, ItemsPinned, ItemsRestored, ItemsUnpinned
from refold.domain.spans import Ref, Span, spans_of
from refold.domain.totals import Totals

from .chat_events import OPENED, said

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "insert", "insert", "evict", "restore", "pin", "unpin", "clear"]),
              st.integers(0, 1_000)),
    max_size=25,
)  # fmt: skip


class Line:
    """A history under way: its events, and the ids in order with what is gone and pinned."""

    def __init__(self) -> None:
        self.events: list[Any] = [OPENED]
        self.ids: list[str] = []
        self.born: dict[str, int] = {}
        self.gone: set[str] = set()
        self.pinned: set[str] = set()

    def shown(self) -> list[str]:
        """Return the ids that can be seen."""
        return [item_id for item_id in self.ids if item_id not in self.gone]

    def take(self, step: tuple[str, int]) -> None:
        """Add an event of a kind; the number chooses the items."""
        kind, number = step
        chosen = [item_id for place, item_id in enumerate(self.ids) if (number >> place % 10) & 1]
        spans: tuple[Span, ...] = spans_of(sorted((Ref(self.born[one]) for one in chosen), key=lambda ref: ref.version))
        match kind:
            case "evict":
                self.gone |= set(chosen)
                self.events.append(ItemsEvicted(items=spans, change=Totals()))
            case "restore":
                self.gone -= set(chosen)
                self.events.append(ItemsRestored(items=spans, change=Totals()))
            case "pin":
                self.pinned |= set(chosen)
                self.events.append(ItemsPinned(items=spans))
            case "unpin":
                self.pinned -= set(chosen)
                self.events.append(ItemsUnpinned(items=spans))
            case "clear":
                self.gone |= set(self.ids)
                self.events.append(Cleared(change=Totals()))
            case _:
                self._put(number if kind == "insert" and self.ids else None)

    def _put(self, number: int | None) -> None:
        version = len(self.events) + 1
        role, time = "user" if version % 3 else "assistant", float(version * 7 % 11)
        item = said(f"i{version}", "x" * version, role=role, created_at=time)
        place = len(self.ids) if number is None else number % len(self.ids)
        anchor = None if number is None else Ref(self.born[self.ids[place]])
        self.events.append(item if anchor is None else ItemInserted(item=item, before=anchor))
        self.ids.insert(place, item.id)
        self.born[item.id] = version


def line_of(steps: list[tuple[str, int]]) -> Line:
    """Return the history that steps make."""
    line = Line()
    for step in steps:
        line.take(step)
    return line
