"""A log as it must be: a dict of lists. Knows nothing of the code that it is compared with."""

from typing import NamedTuple

Fact = tuple[str, int]


class Wanted(NamedTuple):
    """What is to be appended to one stream: on which version it was decided, the texts, and a key perhaps."""

    stream: str
    expected: int | None
    texts: tuple[str, ...]
    key: str | None = None


class LogModel:
    """Streams of texts, what was done under which key, and how far each stream was at every moment."""

    def __init__(self) -> None:
        self.streams: dict[str, list[str]] = {}
        self.keys: dict[tuple[str, str], tuple[int, int]] = {}
        self.order: list[Fact] = []

    def head(self, stream: str) -> int:
        """Return how many texts a stream has."""
        return len(self.streams.get(stream, []))

    def knows_key(self, batch: list[Wanted]) -> bool:
        """Return whether something was done under one of the keys."""
        return any((one.stream, one.key) in self.keys for one in batch)

    def refuses(self, batch: list[Wanted]) -> Wanted | None:
        """Return the first part that was decided on another version, if any."""
        return next((one for one in batch if one.expected not in (None, self.head(one.stream))), None)

    def append(self, batch: list[Wanted]) -> list[list[str]]:
        """Do what is wanted, or, where a key is known, nothing; return what each part answers with."""
        if self.knows_key(batch):
            return [self._done(one) for one in batch]
        for one in batch:
            before = self.head(one.stream)
            self.streams.setdefault(one.stream, []).extend(one.texts)
            self.order += [(one.stream, before + number) for number in range(1, len(one.texts) + 1)]
            if one.key is not None:
                self.keys[one.stream, one.key] = (before, before + len(one.texts))
        return [list(one.texts) for one in batch]

    def _done(self, one: Wanted) -> list[str]:
        if one.key is None or (one.stream, one.key) not in self.keys:
            return []
        start, stop = self.keys[one.stream, one.key]
        return self.streams[one.stream][start:stop]

    def sizes(self) -> dict[str, int]:
        """Return how far each stream is."""
        return {stream: len(texts) for stream, texts in self.streams.items()}
