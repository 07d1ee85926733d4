"""A scope of a memory as it must be: for each version what was remembered, in plain dicts."""

from typing import Any, NamedTuple


class Remembered(NamedTuple):
    """A value, the version that brought it, and what is said of it."""

    born: int
    value: Any
    kind: str
    tags: tuple[str, ...]


class ScopeModel:
    """The versions of one scope; each is a dict of what was remembered by key."""

    def __init__(self) -> None:
        self.shots: list[dict[str, Remembered]] = [{}]
        # What became of each key, oldest first: the version, how, before and after.
        self.changes: list[tuple[str, int, str, Any, Any]] = []
        self.forgotten: dict[str, Remembered] = {}

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.shots) - 1

    @property
    def now(self) -> dict[str, Remembered]:
        """What is remembered."""
        return self.shots[-1]

    def remember(self, key: str, value: Any, kind: str, tags: tuple[str, ...]) -> None:
        """Remember a value."""
        old = self.now.get(key)
        self.forgotten.pop(key, None)
        self.shots.append({**self.now, key: Remembered(self.version + 1, value, kind, tags)})
        self.changes.append((key, self.version, "remembered", old and old.value, value))

    def forget(self, key: str | None) -> int:
        """Forget a key or everything; nothing happens where nothing is."""
        gone = {name: one for name, one in self.now.items() if key in (None, name)}
        if gone:
            self.shots.append({name: one for name, one in self.now.items() if name not in gone})
            self.forgotten |= gone
            ranked = sorted(gone.items(), key=lambda pair: pair[1].born)
            self.changes += [(name, self.version, "forgotten", one.value, None) for name, one in ranked]
        return len(gone)

    def restore(self, key: str | None) -> int:
        """Take back what was forgotten under a key, or under all."""
        back = {name: one for name, one in self.forgotten.items() if key in (None, name)}
        if back:
            self.shots.append({**self.now, **back})
            self.changes += [(name, self.version, "restored", None, one.value) for name, one in back.items()]
            self.forgotten = {name: one for name, one in self.forgotten.items() if name not in back}
        return len(back)

    def found(self, version: int, *, kind: str | None, prefix: str, tag: str | None, limit: int) -> list[Any]:
        """Return what a search finds: key and value, the newest first."""
        passing = [
            (name, one)
            for name, one in self.shots[version].items()
            if kind in (None, one.kind) and name[: len(prefix)] == prefix and (tag is None or tag in one.tags)
        ]
        passing.sort(key=lambda pair: -pair[1].born)
        return [(name, one.value) for name, one in passing[:limit]]
