"""All that a case needs to run: the scale, the places, and fresh stores of every contestant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tests.support.postgres import Server

from .ours import Ours
from .raw_postgres import RawPostgres
from .raw_sqlite import RawSqlite, RawSqliteUnordered
from .stock import Stock, StockStore
from .subject import Subject
from .workload import Item

CONTEXT = "context"
ALL = ("ours", "raw", "stock", "stock put")


@dataclass(frozen=True)
class Scale:
    """The numbers of items and runs; a block of 64 appends contains exactly one sealing."""

    lengths: tuple[int, ...]
    loaded: int
    long: int
    single_appends: int
    contexts: int
    context_items: int
    runs: int
    blocks: int
    openings: int
    logged: int
    stored: int
    writers: int = 8
    writer_appends: int = 64
    processes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    process_appends: int = 1_024
    subscribers: int = 4
    many: int = 500
    batch: int = 100
    tail: int = 50
    deltas: int = 10_000


FULL = Scale(
    lengths=(10, 100, 1_000, 10_000, 100_000),
    loaded=10_000,
    long=100_000,
    single_appends=10_000,
    contexts=200,
    context_items=500,
    runs=64,
    blocks=4,
    openings=3,
    logged=1_000_000,
    stored=2_000_000,
)
QUICK = Scale(
    lengths=(10, 200),
    loaded=400,
    long=800,
    single_appends=400,
    contexts=8,
    context_items=50,
    runs=8,
    blocks=2,
    openings=1,
    logged=2_000,
    stored=1_000,
    writers=4,
    writer_appends=8,
    processes=(1, 2),
    process_appends=16,
    subscribers=1,
    many=3,
    batch=20,
    deltas=500,
)


class Subjects(dict[str, Subject]):
    """Open contestants, by name."""

    @property
    def ours(self) -> Ours:
        """The contestant of Refold, which also has a store."""
        return cast(Ours, self["ours"])


@dataclass(frozen=True)
class Bench:
    """A folder to work in, a server where PostgreSQL is measured, and the scale."""

    folder: Path
    scale: Scale
    server: Server | None = None

    @contextmanager
    def subjects(self, database: str, names: Sequence[str] = ALL, base: Sequence[Item] = ()) -> Iterator[Subjects]:
        """
        Yield fresh, open contestants, each in a database of its own; they are gone afterwards.

        With `base`, their context CONTEXT has these items.
        """
        with ExitStack() as stack:
            opened = Subjects()
            for name in names:
                subject = make_subject(name, stack.enter_context(self.location(database)))
                subject.open()
                stack.callback(subject.close)
                opened[name] = subject
            for subject in opened.values() if base else ():
                subject.build(CONTEXT, base)
            yield opened

    @contextmanager
    def location(self, database: str) -> Iterator[str]:
        """Yield the place of a fresh database, or of one that can be made; it is removed afterwards."""
        if database == "postgres":
            assert self.server is not None
            with self.server.database() as url:
                yield url
            return
        path = self.folder / f"{len(list(self.folder.iterdir()))}.db"
        path.touch()
        try:
            yield str(path)
        finally:
            for left in self.folder.glob(path.name + "*"):
                if left != path:
                    left.unlink()
            path.write_bytes(b"")


def make_subject(name: str, location: str) -> Subject:
    """Return the contestant of a name, not yet open."""
    is_postgres = "://" in location
    match name:
        case "ours":
            return Ours(location)
        case "raw":
            return RawPostgres(location) if is_postgres else RawSqlite(location)
        case "raw waiting":
            return RawSqliteUnordered(location)
        case "stock":
            return Stock(location)
        case "stock put":
            return StockStore(location)
        case _:
            raise ValueError(f"no contestant {name!r}")


def reopen(subject: Subject) -> None:
    """Close a contestant and open it again."""
    subject.close()
    subject.open()
