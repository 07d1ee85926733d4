"""A window as it must be: for each version what was in it, what had left and what had been dropped, in plain lists."""

from typing import NamedTuple

# What an item says: its key, value, source and priority.
Said = tuple[str, str, str, int]


class Item(NamedTuple):
    """An item and the version that brought it."""

    born: int
    said: Said

    @property
    def size(self) -> int:
        """The characters that it counts."""
        return sum(map(len, self.said[:3])) + 20


class Shot(NamedTuple):
    """What a window is at one version."""

    items: tuple[Item, ...] = ()
    left: tuple[Item, ...] = ()
    dropped: tuple[Item, ...] = ()
    max_tokens: int = 0

    @property
    def tokens(self) -> int:
        """The estimate."""
        return sum(item.size for item in self.items) // 4

    def build(self) -> str:
        """Return the text."""
        ranked = sorted(enumerate(self.items), key=lambda pair: (-pair[1].said[3], pair[0]))
        return "\n\n".join(f"[{key} (source: {source})]\n{value}" for _, (_, (key, value, source, _)) in ranked)


class WindowModel:
    """The versions of one window, in order; less important items make room where `makes_room`."""

    def __init__(self, max_tokens: int, *, makes_room: bool) -> None:
        self.shots = [Shot(), Shot(max_tokens=max_tokens)]
        self.makes_room = makes_room

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.shots) - 1

    @property
    def now(self) -> Shot:
        """What the window is."""
        return self.shots[-1]

    def arrive(self, said: Said, *, instead: bool) -> bool:
        """Let an item in, in the place of those with its key where it comes `instead` of them."""
        now = self.now
        old = [item for item in now.items if instead and item.said[0] == said[0]]
        if instead and [item.said for item in old] == [said]:
            return True
        leaving = self._making_room(said, old)
        if leaving is None:
            self._next(dropped=(*now.dropped, Item(self.version + 1, said)))
            return False
        if leaving:
            self.take_out(leaving)
        now, item = self.now, Item(self.version + 1, said)
        place = now.items.index(old[0]) if old else len(now.items)
        items = [one for one in (*now.items[:place], item, *now.items[place:]) if one not in old]
        self._next(items=tuple(items), left=(*now.left, *old))
        return True

    def _making_room(self, said: Said, old: list[Item]) -> list[Item] | None:
        rest = [item for item in self.now.items if item not in old]
        lower = [item for item in rest if item.said[3] < said[3]] if self.makes_room else []
        # What stands last in the text goes first.
        lower.sort(key=lambda item: (item.said[3], -self.now.items.index(item)))
        leaving: list[Item] = []
        new_size = Item(0, said).size
        while (sum(item.size for item in rest) + new_size) // 4 > self.now.max_tokens:
            if not lower:
                return None
            leaving.append(lower.pop(0))
            rest.remove(leaving[-1])
        return leaving

    def take_out(self, leaving: list[Item]) -> None:
        """Have items leave."""
        items = tuple(item for item in self.now.items if item not in leaving)
        self._next(items=items, left=(*self.now.left, *leaving))

    def take_back(self, coming: list[Item]) -> None:
        """Have items come back, or come in."""
        self._next(
            items=(*self.now.items, *coming),
            left=tuple(item for item in self.now.left if item not in coming),
            dropped=tuple(item for item in self.now.dropped if item not in coming),
        )

    def set_budget(self, max_tokens: int) -> None:
        """Set another budget."""
        if max_tokens != self.now.max_tokens:
            self._next(max_tokens=max_tokens)

    def _next(self, **changes: object) -> None:
        self.shots.append(self.now._replace(**changes))  # type: ignore[arg-type]
