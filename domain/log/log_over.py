"""A log over another one, as a gate or an encrypted log is: what the log below answers alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..concurrency.locks import News
from ..errors import DamagedError
from ..positions import Moment
from .ports import LiveLog, StreamEnd


class LogOver:
    """A log over `below`, which alone gives versions, positions, news, the names of files, and the faults in them."""

    def __init__(self, below: LiveLog) -> None:
        self.below = below

    @property
    def news(self) -> News:
        return self.below.news

    @property
    def has_slices(self) -> bool:
        return self.below.has_slices

    def head(self, stream: str) -> int:
        return self.below.head(stream)

    def end(self, stream: str) -> StreamEnd:
        return self.below.end(stream)

    def version_at(self, stream: str, moment: Moment | int) -> int:
        return self.below.version_at(stream, moment)

    def now(self) -> Moment:
        return self.below.now()

    def wait_for_news(self, seen: Moment, *, timeout_seconds: float) -> None:
        self.below.wait_for_news(seen, timeout_seconds=timeout_seconds)

    def files(self) -> Sequence[str]:
        return self.below.files()

    def damaged_files(self) -> Iterable[DamagedError]:
        return self.below.damaged_files()

    def damaged_texts(self) -> Iterable[DamagedError]:
        return self.below.damaged_texts()

    def damaged_rows(self) -> Iterable[DamagedError]:
        return self.below.damaged_rows()

    def forget(self) -> None:
        self.below.forget()

    def close(self) -> None:
        self.below.close()
