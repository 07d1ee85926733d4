"""What a queue and a pool are, in plain lists: who is told what, who leaves, who comes back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Told = tuple[Any, ...]


class Refused(Exception):
    """A hook said no."""


class Row(NamedTuple):
    """An item: what it holds, which no other item does, and in a pool its id."""

    content: str
    id: str | None = None


class Gone(NamedTuple):
    """An item that left."""

    row: Row
    how: str
    reason: str | None


class Veto(NamedTuple):
    """Which hooks say no: those of a kind, to every fourth item; of no kind, none."""

    kind: str = ""
    remainder: int = 0

    def __call__(self, kind: str, told: Sequence[Any]) -> bool:
        """Return whether a hook that is told this says no."""
        items = told[-1] if kind != "before_append" else told[1]
        numbers = [int(content[1:]) for content in ([items] if isinstance(items, str) else items)]
        return kind == self.kind and any(number % 4 == self.remainder for number in numbers)


@dataclass
class ContainerModel:
    """A queue or a pool at one version; `told` is what its hooks were told since somebody last looked."""

    is_pool: bool
    limit: int | None
    tags: frozenset[str] = frozenset()
    rows: list[Row] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)

    def copy(self) -> "ContainerModel":
        """Return one that goes its own way."""
        return ContainerModel(self.is_pool, self.limit, self.tags, list(self.rows), list(self.gone))

    def branched(self, limit: int | None) -> "ContainerModel":
        """Return what a branch begins as."""
        cut = 0 if limit is None else max(0, len(self.rows) - limit)
        gone = [Gone(row, "evict", "limit") for row in self.rows[:cut]]
        return ContainerModel(self.is_pool, limit, self.tags, self.rows[cut:], gone)

    def shown(self) -> list[str]:
        """Return the contents."""
        return [row.content for row in self.rows]

    def ever(self) -> list[str]:
        """Return the contents of everything that was ever in it."""
        return sorted([*self.shown(), *(one.row.content for one in self.gone)])

    def find(self, item_id: str | None) -> int | None:
        """Return the place of the item of a pool that has this id."""
        places = [place for place, row in enumerate(self.rows) if self.is_pool and row.id == item_id]
        return places[0] if places else None

    def leave(self, row: Row, how: str, reason: str | None) -> None:
        """Take an item out."""
        self.rows.remove(row)
        self.gone.append(Gone(row, how, reason))

    def place(self, row: Row) -> None:
        """Put an item at the end, or in the place of the one that has its id."""
        self.gone = [one for one in self.gone if one.row != row]
        place = self.find(row.id)
        if place is None:
            self.rows.append(row)
            return
        self.gone.append(Gone(self.rows[place], "replace", None))
        self.rows[place] = row

    # Changes: each is tried on a copy, which takes the place of this one if no hook says no

    def change(self, veto: Veto, trial: Callable[["ContainerModel", Callable[..., None]], list[Told]]) -> None:
        """
        Do what `trial` does to a copy, and tell what it says is to be told afterwards.

        Raises:
            Refused: a hook said no; nothing is changed, save what was told.
        """
        changed = self.copy()

        def tell(kind: str, *told: Any) -> None:
            self.told.append((kind, *told))
            if veto(kind, told):
                raise Refused

        after = trial(changed, tell)
        self.limit, self.tags, self.rows, self.gone = changed.limit, changed.tags, changed.rows, changed.gone
        self.told += after

    def put(self, rows: Sequence[Row], veto: Veto) -> None:
        """Put items in; the oldest make room."""

        def trial(new: ContainerModel, tell: Callable[..., None]) -> list[Told]:
            names = [row.content for row in rows]
            if not self.is_pool:
                tell("before_append", new.shown(), names, new.shown())
            for row in rows:
                if new.limit == len(new.rows) and new.find(row.id) is None:
                    tell("on_evict", new.shown(), new.rows[0].content)
                    new.leave(new.rows[0], "evict", "limit")
                if self.is_pool:
                    tell("before_add", new.shown(), row.content)
                new.place(row)
            if self.is_pool:
                return [("after_add", new.shown(), name) for name in names]
            return [("after_append", names, new.shown())]

        self.change(veto, trial)

    def evict(self, rows: Sequence[Row], reason: str, veto: Veto) -> None:
        """Have items leave."""

        def trial(new: ContainerModel, tell: Callable[..., None]) -> list[Told]:
            for row in rows:
                tell("on_evict", new.shown(), row.content)
                new.leave(row, "evict", reason)
            return []

        self.change(veto, trial)

    def remove(self, row: Row, veto: Veto) -> None:
        """Take an item out of a pool."""

        def trial(new: ContainerModel, tell: Callable[..., None]) -> list[Told]:
            tell("before_remove", new.shown(), row.content)
            new.leave(row, "remove", None)
            return [("after_remove", new.shown(), row.content)]

        self.change(veto, trial)

    def clear(self, veto: Veto) -> None:
        """Have all leave."""

        def trial(new: ContainerModel, tell: Callable[..., None]) -> list[Told]:
            tell("before_clear", new.shown(), new.shown())
            for row in self.rows:
                new.leave(row, "clear", None)
            return [("after_clear", [])]

        self.change(veto, trial)

    def set_up(self, limit: int | None, tags: frozenset[str], veto: Veto) -> None:
        """Set limit and tags."""

        def trial(new: ContainerModel, tell: Callable[..., None]) -> list[Told]:
            while limit is not None and len(new.rows) > limit:
                tell("on_evict", new.shown(), new.rows[0].content)
                new.leave(new.rows[0], "evict", "limit")
            new.limit, new.tags = limit, tags
            return []

        self.change(veto, trial)

    def refill(self, rows: Sequence[Row]) -> None:
        """Have all leave and put others in; nobody is told."""
        for row in list(self.rows):
            self.leave(row, "clear", None)
        self.rows = list(rows)[-(self.limit or 0) :]
