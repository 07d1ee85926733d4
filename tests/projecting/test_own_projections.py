"""Projections that users write: added in a line, kept like the store's own, and refused where they cannot be kept."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import msgspec
import pytest

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.concurrency.threads import in_thread
from refold.domain.errors import DamagedError, InvalidInputError, NotFoundError, ProjectionError
from refold.domain.log.envelope import RecordedEvent
from refold.infrastructure.projecting.folding import KEY_BYTES_MAX, require_keys, require_storable
from refold.infrastructure.projecting.shape import require_projection
from refold.infrastructure.store import Store
from tests.verifying.damaging import sql

from .counts import Count, Counts
from .histories import projections_of, something_of_everything, talk_at_length
from .test_faults import standing


def test_ten_lines(store: refold.Store) -> None:
    """A class with a row, the keys of an event and what becomes of a row: it is kept up to date from then on."""

    class Said(msgspec.Struct, frozen=True):
        key: str
        times: int

    class Words:
        name, version, row = "words", 1, Said

        def keys(self, event: RecordedEvent) -> Sequence[str]:
            return [word for text in getattr(event.event, "content", ()) for word in text.split()]

        def evolve(self, key: str, row: Said | None, event: RecordedEvent) -> Said:
            return Said(key, 1 + (row.times if row else 0))

    store.chat("a").add_message("user", "so it goes")
    store.add_projection(Words())
    assert store.rows("words") == [Said("goes", 1), Said("it", 1), Said("so", 1)]
    store.chat("b").add_message("user", "so what")
    assert store.rows("words", under="s") == [Said("so", 2)]


def test_rows_under_a_prefix(store: refold.Store) -> None:
    """Those whose keys begin with it, in order; none where nothing does; all where nothing is asked for."""
    store.add_projection(Counts())
    for context_id in ("a", "a/2", "a/10", "b"):
        talk_at_length(store, 1, context_id)
    store.queue("a")

    everything = store.rows("counts")

    assert store.rows("counts", under="chat:a/") == [Count("chat:a/10", 2), Count("chat:a/2", 2)]
    assert store.rows("counts", under="queue:") == [Count("queue:a", 1)]
    assert store.rows("counts", under="pool:") == []
    assert store.rows("counts", under="") == everything
    assert [row.key for row in everything] == ["chat:a", "chat:a/10", "chat:a/2", "chat:b", "queue:a"]


def test_rows_under_any_prefix(store: refold.Store) -> None:
    """It may end in any character, also in one behind which there is no other."""
    last = chr(0x10FFFF)
    keys = ["aé1", "b\ud7ff1", "b\ue0001", f"b{last}1", f"b{last}{last}", "c", f"{last}1", last * 625]
    counts: Any = Counts()
    counts.keys = lambda event: keys
    store.add_projection(counts)
    store.chat("a")

    for prefix in ("aé", "b", "b\ud7ff", f"b{last}", f"b{last}{last}", last, last * 2, "d"):
        found: list[Any] = store.rows("counts", under=prefix)
        assert [row.key for row in found] == [key for key in keys if key.startswith(prefix)]


def test_a_long_name_with_a_long_version(store: refold.Store) -> None:
    """The names of all its tables fit, also while it is rebuilt; where they would not, it is refused."""
    counts: Any = Counts()
    counts.name, counts.version = "n" * 34, 20_300_101
    store.add_projection(counts)
    store.chat("a")
    assert store.rows(counts.name) == [Count("chat:a", 1)]
    assert store.rebuild(counts.name).is_done
    assert store.rows(counts.name) == [Count("chat:a", 1)]

    longer: Any = Counts()
    longer.name, longer.version = "n" * 35, 20_300_101
    with pytest.raises(InvalidInputError, match="more than 42 characters together: take a shorter name"):
        store.add_projection(longer)


def test_a_key_that_comes_twice(store: refold.Store) -> None:
    """It is one row, which changes once."""
    counts: Any = Counts()
    counts.keys = lambda event: [event.stream, "all", event.stream]
    store.add_projection(counts)
    talk_at_length(store, 2)

    every: list[Any] = store.rows("counts")
    assert len({row.events for row in every}) == 1


def test_it_is_one_among_the_others(store: refold.Store) -> None:
    """It has a standing, can be checked, rebuilt and worked on by name."""
    store.add_projection(Counts())
    something_of_everything(store)
    rows = store.rows("counts")

    [standing] = [one for one in store.projections() if one.name == "counts"]
    assert (standing.version, standing.rows, standing.behind, standing.error) == (1, len(rows), 0, None)
    assert (store.check("counts").differing, store.rebuild("counts").rows) == (0, len(rows))
    assert store.rows("counts") == rows
    assert store.verify().problems == ()
    with store.start_projections(["counts"]):
        pass


def test_a_name_that_is_taken(store: refold.Store) -> None:
    """Neither by the store's own nor by one that was added; the one that is there stays."""
    counts = Counts()
    store.add_projection(counts)

    for name in ("counts", "catalogue"):
        taken = Counts()
        taken.name = name
        with pytest.raises(InvalidInputError, match=f"a projection '{name}' already: give it another name"):
            store.add_projection(taken)
    assert store._runner.projections["counts"] is counts


def test_no_such_projection(store: refold.Store) -> None:
    """Every way of asking for one that is not there says which there are."""
    for ask in (store.rows, store.rebuild, store.check, lambda name: store.start_projections([name])):
        with pytest.raises(NotFoundError, match="no projection 'cuonts': there are catalogue, "):
            ask("cuonts")


def test_opened_again(place: str) -> None:
    """Rows are kept; the next process adds the projection again, and goes on where the last one was."""
    with refold.open(place) as store:
        store.add_projection(Counts())
        talk_at_length(store, 3)
        store.rows("counts")
    with refold.open(place) as store:
        talk_at_length(store, 2)
        store.add_projection(Counts())
        assert [one.behind for one in store.projections() if one.name == "counts"] == [2]
        assert store.rows("counts") == [Count("chat:long", 6)]


class Doubled(Counts):
    """It counts otherwise: rows of its first version mean something else."""

    version = 2

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count two more."""
        return Count(key, (row.events if row else 0) + 2)


def test_a_newer_version(store: refold.Store) -> None:
    """Its rows are made from the beginning, and those of the older one count for nothing."""
    newer = Store(store.log, store._projections)
    store.add_projection(Counts())
    talk_at_length(store, 3)
    assert store.rows("counts") == [Count("chat:long", 4)]

    newer.add_projection(Doubled())
    assert [one.rows for one in newer.projections() if one.name == "counts"] == [0]
    assert newer.rows("counts") == [Count("chat:long", 8)]
    assert newer.rebuild("counts").is_done
    assert newer.rows("counts") == [Count("chat:long", 8)]


def _row(**fields: Any) -> Any:
    return msgspec.defstruct("Row", list(fields.items()))


def test_keys_and_numbers_that_cannot_be_looked_up() -> None:
    """A key may have so many bytes and no more; a number that is not itself comes back from no database."""
    require_keys(["ü" * (KEY_BYTES_MAX // 2)])
    with pytest.raises(ValueError, match="has more than KEY_BYTES_MAX"):
        require_keys(["ü" * (KEY_BYTES_MAX // 2) + "x"])

    numbers: Any = SimpleNamespace(row=_row(key=str, cost=float))
    require_storable(numbers, {"a": numbers.row("a", -(2**53))})
    with pytest.raises(TypeError, match="cost of the row 'a' is 9007199254740993: Expected `int` <= 9007199254740992"):
        require_storable(numbers, {"a": numbers.row("a", 2**53 + 1)})
    require_storable(numbers, {"a": numbers.row("a", 1.5)})
    with pytest.raises(ValueError, match="a number of the row 'a' is NaN"):
        require_storable(numbers, {"a": numbers.row("a", float("nan"))})


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (_row(), "no key"),
        (_row(value=int, key=str), "no key: let `key: str` be the first field"),
        (_row(key=int), "no key"),
        (_row(key=str, tags=list[str]), r"tags of the rows of counts is of the type list\[str\]: take str, int"),
        (_row(key=str, done=bool), "done of the rows of counts"),
        (_row(key=str | None), "no key"),
        (_row(key=str, cost=int | float), r"cost of the rows of counts is of the type int \| float: take str, int"),
        (_row(key=str, cost=float | list[str] | None), "cost of the rows of counts"),
        (_row(key=str, never=None), "never of the rows of counts is of the type None"),
        (
            dict[str, int],
            r"the rows of counts are dict\[str, int\]: let them be of a class derived from msgspec.Struct",
        ),
        (_row(key=str, slice=int), "cannot have a field 'slice': call it otherwise"),
        (_row(key=str, xmin=int), "cannot have a field 'xmin': call it otherwise"),
        (_row(key=str, Key=int), "cannot have a field 'Key': call it otherwise"),
        (_row(key=str, cost=int, Cost=int), "cannot have a field 'Cost': call it otherwise"),
        (_row(key=str, **{"c" * 64: int}), "cannot have a field 'ccc"),
    ],
)
def test_rows_that_no_table_can_have(row: Any, reason: str) -> None:
    """They are refused when the projection is added, and not when the first event comes."""
    counts: Any = Counts()
    counts.row = row

    with refold.open(":memory:") as store:
        with pytest.raises(InvalidInputError, match=reason):
            store.add_projection(counts)
        assert "counts" not in projections_of(store)


class Unknown(msgspec.Struct):
    """A row with a type that is nowhere."""

    key: str
    what: Whatever  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("member", "value", "reason"),
    [
        ("name", 5, "5 cannot name a projection"),
        ("name", "Counts", "'Counts' cannot name a projection"),
        ("name", "search_words_data", "'search_words_data' cannot name a projection"),
        ("version", "1", "the version of counts is '1': take a whole number"),
        ("version", -1, "the version of counts is -1"),
        ("row", Unknown, "a field of the rows of counts has a type that is not known: name 'Whatever'"),
        ("row", Count("a", 1), "let them be of a class derived from msgspec.Struct"),
        ("on_fault", "ignore", "on_fault of counts is 'ignore': take 'set_aside' or 'stop'"),
        ("keys", 5, "keys of counts is 5: take a function"),
        ("evolve", in_thread, "evolve of counts is .*: take a function that is not async"),
        ("events", (MessageAdded,), "events of counts is .*: take a frozenset of classes of events"),
        ("events", frozenset(("chat.message_added",)), "events of counts is 'chat.message_added'"),
    ],
)
def test_members_that_are_not_of_the_contract(member: str, value: Any, reason: str) -> None:
    """They are refused when the projection is added, too."""
    counts = Counts()
    setattr(counts, member, value)

    with refold.open(":memory:") as store, pytest.raises(InvalidInputError, match=reason):
        store.add_projection(counts)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (Counts, r"Counts is a class: add an object of it, Counts\(\)"),
        (Count("a", 1), "Count is no projection: it has no name, version, row, keys, evolve"),
        (None, "NoneType is no projection"),
    ],
)
def test_what_is_no_projection(wrong: Any, reason: str) -> None:
    """The message says what it lacks."""
    with refold.open(":memory:") as store, pytest.raises(InvalidInputError, match=reason):
        store.add_projection(wrong)


def test_rows_that_every_table_can_have(store: refold.Store) -> None:
    """All the store's own, and such with every type."""
    for projection in projections_of(store).values():
        require_projection(projection)
    counts: Any = Counts()
    counts.row = _row(key=str, text=str, number_of=int, share=float, raw=bytes)
    counts.evolve = lambda key, row, event: counts.row(key, "ü\n", -(2**63), 0.1 + event.version, b"\0\xff")

    store.add_projection(counts)
    store.chat("a").add_message("user", "hello")
    assert store.rows("counts") == [counts.row("chat:a", "ü\n", -(2**63), 2.1, b"\0\xff")]
    assert store.check("counts").differing == 0


class Maybe(msgspec.Struct, frozen=True):
    """A row whose fields may all be missing, but for its key."""

    key: str
    text: str | None = None
    number_of: int | None = None
    share: Optional[float] = None  # noqa: UP045 - the older way to write it is a type, too
    raw: bytes | None = None


class Halves(Counts):
    """Every second event of a context fills its row, and the others empty it."""

    row: Any = Maybe

    def evolve(self, key: str, row: Any, event: RecordedEvent) -> Any:
        """Return a row with all fields, or with none; a whole number is a float, too."""
        return Maybe(key) if event.version % 2 else Maybe(key, "", 0, 1, b"")


def test_fields_that_may_be_none(store: refold.Store) -> None:
    """None is stored as such, and is no empty text and no 0; also in a rebuild, a check and for the next event."""
    store.add_projection(Halves())
    store.chat("a").add_message("user", "hello")
    store.chat("b")
    filled, emptied = Maybe("chat:a", "", 0, 1.0, b""), Maybe("chat:b")

    assert store.rows("counts") == [filled, emptied]
    assert (store.check("counts").differing, store.rebuild("counts").rows) == (0, 2)
    store.chat("a").add_message("user", "again")
    assert store.rows("counts") == [Maybe("chat:a"), emptied]


@pytest.mark.parametrize(("field", "value"), [("raw", "QUJD"), ("share", Decimal("1.5"))])
def test_a_value_that_is_only_like_its_field(store: refold.Store, field: str, value: Any) -> None:
    """A text for bytes, or a decimal number for a float: the event is set aside, whatever holds the rows."""
    wrong: Any = Counts()
    wrong.row, wrong.on_fault = Maybe, "set_aside"
    wrong.evolve = lambda key, row, event: Maybe(key, **{field: value if event.version == 2 else None})
    store.add_projection(wrong)
    store.chat("a").add_message("user", "hello")

    assert store.rows("counts") == [Maybe("chat:a")]
    ((event, error),) = standing(store).set_aside
    assert (event, f"{field} of the row 'chat:a' is {value!r}" in error) == ("chat:a@2", True)
    assert store.check("counts").differing == 0


def test_a_value_of_another_type_where_none_may_be(tmp_path: Path) -> None:
    """SQLite lets it be: the error names the value and its column, and not one that is empty."""
    place = str(tmp_path / "store.db")
    with refold.open(place) as store:
        store.add_projection(Halves())
        store.chat("a")
        assert store.rows("counts") == [Maybe("chat:a")]
    sql(place, "UPDATE view_counts SET number_of = 'many'")

    with refold.open(place) as store:
        store.add_projection(Halves())
        with pytest.raises(DamagedError, match="the table of counts is damaged: 'many' is in its column number_of"):
            store.rows("counts")


class OneKey(Counts):
    """It returns a text where a list of texts is expected."""

    def keys(self, event: RecordedEvent) -> Any:
        """Return the context."""
        return event.stream


def test_a_text_is_one_key(store: refold.Store) -> None:
    """It is not taken for its characters."""
    store.add_projection(OneKey())
    talk_at_length(store, 2)

    assert store.rows("counts") == [Count("chat:long", 3)]


class Seen(Counts):
    """Its rows have a key and nothing else."""

    row: Any = _row(key=str)

    def evolve(self, key: str, row: Any, event: RecordedEvent) -> Any:
        """Return the row of a key."""
        return self.row(key)


def test_rows_of_a_key_alone(store: refold.Store) -> None:
    """They say that something is there; the same key again changes nothing, and a check and a rebuild find them."""
    store.add_projection(Seen())
    talk_at_length(store, 2)
    assert [row.key for row in store.rows("counts")] == ["chat:long"]
    store.chat("long").add_message("user", "again")

    assert [row.key for row in store.rows("counts")] == ["chat:long"]
    assert (store.check("counts").differing, store.rebuild("counts").rows) == (0, 1)


def test_a_key_that_is_no_text(store: refold.Store) -> None:
    """The reason names the key, or says that there is no list of them."""
    counts: Any = Counts()
    store.add_projection(counts)
    store.chat("a")

    for keys, reason in (
        ([5], "`keys` returned the key 5, and keys are texts"),
        (None, "`keys` returned None: return"),
    ):
        counts.keys = lambda event, keys=keys: keys
        with pytest.raises(ProjectionError, match=reason):
            store.rows("counts")


CHANGED: dict[str, tuple[Any, str]] = {
    "renamed": (_row(key=str, events_of=int), "events_of is new; events is gone"),
    "retyped": (_row(key=str, events=str), "events was int and is str"),
    "optional": (_row(key=str, events=int | None), r"events was int and is int \| None"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_rows_that_changed_under_the_old_version(store: refold.Store, name: str) -> None:
    """They are refused with the change and the way out; the rows that are there stay, and a newer version is taken."""
    row, change = CHANGED[name]
    store.add_projection(Counts())
    talk_at_length(store, 2)
    before = store.rows("counts")
    changed: Any = Counts()
    changed.row = row
    changed.evolve = lambda key, row, event: changed.row(key, None if name == "optional" else "1")

    newer = Store(store.log, store._projections)
    with pytest.raises(InvalidInputError, match=f"changed, but not its version: {change}; raise `version` from 1 to 2"):
        newer.add_projection(changed)
    assert store.rows("counts") == before
    changed.version = 2
    newer.add_projection(changed)
    assert [one.version for one in newer.projections() if one.name == "counts"] == [2]


def test_a_column_that_went_meanwhile(tmp_path: Path) -> None:
    """On SQLite, too, that is damage, and the name of the column is never taken for its value."""
    place = str(tmp_path / "store.db")
    counts: Any = Counts()
    counts.row = _row(key=str, text=str)
    counts.evolve = lambda key, row, event: counts.row(key, "hello")
    with refold.open(place) as store:
        store.add_projection(counts)
        store.chat("a")
        store.rows("counts")
        sql(place, "ALTER TABLE view_counts RENAME COLUMN text TO words")

        with pytest.raises(DamagedError, match="the table of counts"):
            store.rows("counts")


class Fixed(msgspec.Struct, frozen=True):
    """A projection that cannot be changed, and has no room for anything else."""

    name: str = "fixed"
    version: int = 1
    row: Any = Count

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return one key for all."""
        return ["all"]

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count one more."""
        return Count(key, (row.events if row else 0) + 1)


def test_one_that_cannot_be_changed(store: refold.Store) -> None:
    """Its double for a rebuild or a check is made without touching it."""
    store.add_projection(Fixed())
    talk_at_length(store, 3)

    assert store.rows("fixed") == [Count("all", 4)]
    assert (store.check("fixed").differing, store.rebuild("fixed").rows) == (0, 1)
    assert store.rows("fixed") == [Count("all", 4)]
