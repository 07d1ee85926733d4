"""Old shapes are brought to the newest before the domain sees them; history stays as it was written."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refold.domain.errors import DamagedError
from refold.domain.log.envelope import Meta, Undecodable, encode_payload
from refold.domain.log.ports import ANY_VERSION, NewEvents
from refold.domain.positions import BEGINNING
from refold.infrastructure.log.codec import Codec, Upcaster
from refold.infrastructure.log.sqlite.log import SqliteLog

from .ages import IGNORANT, NEWEST, OLD, OLDEST, Closed, Note, NoteV1, NoteV2

STREAM = "note:a"
# More than a sealed run of 64 holds, so that the first are in one.
SEALED = 70
OpenLog = Callable[[Codec], SqliteLog]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[OpenLog]:
    """Opens the same file again and again, each time as a Refold that knows the events of a codec."""
    opened: list[SqliteLog] = []

    def open_with(codec: Codec) -> SqliteLog:
        opened.append(SqliteLog(tmp_path / "log.db", codec=codec))
        return opened[-1]

    yield open_with
    for log in opened:
        log.close()


def write(log: SqliteLog, *events: Any) -> None:
    """Append events one by one, as they come in life."""
    for event in events:
        new = NewEvents(stream=STREAM, expected_version=ANY_VERSION, events=(event,), metas=(Meta(),))
        log.append([new]).result()


def everything(log: SqliteLog) -> list[list[Any]]:
    """Read all events in every way there is."""
    return [
        [recorded.event for recorded in log.read(STREAM)],
        [recorded.event for recorded in log.read_all(after=BEGINNING, limit=1_000).events],
        log.read_events(STREAM),
    ]


@pytest.mark.parametrize(
    "old",
    [
        NoteV1(text="mia: hello there"),
        NoteV2(author="mia", words="hello there"),
        Note(author="mia", words=("hello", "there"), source=b"upcast"),
    ],
)
def test_every_shape_becomes_the_newest(old: Any) -> None:
    """From v1 by way of v2, from v2 at once, and v3 as it is."""
    assert NEWEST.decode(encode_payload(old), "it") == Note(author="mia", words=("hello", "there"), source=b"upcast")


def test_many_at_once() -> None:
    """Each becomes what it becomes alone; of those that are damaged the first is named."""
    stored = [encode_payload(one) for one in (Closed(reason="done"), NoteV1(text="mia: hello"), Closed(reason="again"))]

    assert NEWEST.decode_many(stored, str) == [NEWEST.decode(one, "it") for one in stored]
    with pytest.raises(DamagedError, match="number 3"):
        NEWEST.decode_many([*stored, b"\xc1", b""], lambda place: f"number {place}")


def test_what_never_changed_is_not_touched() -> None:
    """Another type of event beside the old ones."""
    assert NEWEST.decode(encode_payload(Closed(reason="done")), "it") == Closed(reason="done")


@pytest.mark.parametrize("count", [1, SEALED, 2 * SEALED])
def test_a_log_of_three_ages(open_log: OpenLog, count: int) -> None:
    """Written by three Refolds, read by the newest: all of it, in rows and in sealed runs."""
    write(open_log(OLDEST), *(NoteV1(text=f"mia: {number} old") for number in range(count)))
    write(open_log(OLD), *(NoteV2(author="noah", words=f"{number} middle") for number in range(count)), Closed())
    write(open_log(NEWEST), *(Note(author="ada", words=(f"{number}", "new")) for number in range(count)))

    ages = [("mia", "old", b"upcast"), ("noah", "middle", b"upcast"), None, ("ada", "new", b"")]
    wanted: list[Any] = []
    for age in ages:
        if age is None:
            wanted.append(Closed())
            continue
        author, word, source = age
        wanted += [Note(author=author, words=(str(n), word), source=source) for n in range(count)]
    assert everything(open_log(NEWEST)) == [wanted] * 3


def test_upcasting_changes_nothing_that_is_stored(open_log: OpenLog) -> None:
    """The digests are those of the bytes as they were first written, and the old Refold reads them still."""
    events = [NoteV1(text=f"mia: {number}") for number in range(SEALED)]
    write(open_log(OLDEST), *events)
    before = [recorded.digest for recorded in open_log(OLDEST).read(STREAM)]

    newest = open_log(NEWEST)

    assert [recorded.digest for recorded in newest.read(STREAM)] == before
    assert everything(open_log(OLDEST)) == [events] * 3


def test_an_old_event_with_a_large_text(open_log: OpenLog) -> None:
    """The text is put in its place before the event is upcast, sealed or not."""
    large = "x" * 10_000
    write(open_log(OLDEST), *(NoteV1(text=f"mia: {large}") for _ in range(SEALED)))

    note = Note(author="mia", words=(large,), source=b"upcast")
    assert everything(open_log(NEWEST)) == [[note] * SEALED] * 3


@pytest.mark.parametrize("count", [1, SEALED])
def test_a_tag_that_nobody_knows(open_log: OpenLog, count: int) -> None:
    """The error names the event, its tag, and the likely reason; nothing is left out silently."""
    write(open_log(NEWEST), *(Note(author="mia", words=("hello",)) for _ in range(count)))
    ignorant = open_log(IGNORANT)

    for read in (
        lambda: ignorant.read(STREAM),
        lambda: ignorant.read_all(after=BEGINNING, limit=10),
        lambda: ignorant.read_events(STREAM),
    ):
        with pytest.raises(DamagedError, match=r"event note:a@1 .*test\.noted\.v3.*newer Refold"):
            read()


def test_a_known_tag_with_the_wrong_fields() -> None:
    """Bytes of the right tag that lack a field are damaged, not an old shape."""
    with pytest.raises(DamagedError, match=r"it is damaged: its tag is 'test\.noted\.v3'.*author"):
        NEWEST.decode(b"\x81\xa1t\xadtest.noted.v3", "it")


def test_upcasters_that_go_in_circles() -> None:
    """The chain has an end, and the end is an error."""
    codec = Codec(Closed, {"a": Upcaster("b", dict), "b": Upcaster("a", dict)})

    with pytest.raises(DamagedError, match="its tag is"):
        codec.decode(b"\x81\xa1t\xa1a", "it")


def test_an_upcaster_that_fails_is_marked() -> None:
    """A reader of the whole log goes on, and learns why one event cannot be read; a second attempt may succeed."""
    tried: list[object] = []

    def fail(fields: dict[str, Any]) -> dict[str, Any]:
        tried.append(fields)
        raise KeyError("author")

    def fail_once(fields: dict[str, Any]) -> dict[str, Any]:
        tried.append(fields)
        return {"reason": "x"} if len(tried) > 1 else fail(fields)

    marking = Codec(Closed, {"old": Upcaster("test.closed.v1", fail)}).marking()
    assert marking.decode(b"\x81\xa1t\xa3old", "it") == Undecodable("it cannot be upcast: KeyError('author')")
    tried.clear()
    marking = Codec(Closed, {"old": Upcaster("test.closed.v1", fail_once)}).marking()
    assert marking.decode(b"\x81\xa1t\xa3old", "it") == Closed(reason="x")


def test_an_upcaster_sees_no_tag() -> None:
    """It is given the fields alone, and cannot change what it was given in the caller's hands."""
    seen: list[dict[str, Any]] = []
    plain = {"t": "old", "reason": "x"}

    def step(fields: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(fields))
        fields.clear()
        return {"reason": "y"}

    event = Codec(Closed, {"old": Upcaster("test.closed.v1", step)}).decode_plain(plain, "it")

    assert (seen, event, plain) == ([{"reason": "x"}], Closed(reason="y"), {"t": "old", "reason": "x"})


def test_other_events_are_imported_with_the_first_of_them() -> None:
    """Not before, once only, and for every way to decode; an old shape of theirs is upcast as well."""
    asked: list[str] = []

    def others() -> Any:
        asked.append("others")
        return Note

    note, old = Note(author="Ann", words=("hello",)), NoteV1(text="Ann: hello")
    first, second = encode_payload(Closed(reason="x")), encode_payload(note)
    codec = Codec(Closed, NEWEST._upcasters, others=others)
    assert codec.decode_many([first] * 3, str) == [Closed(reason="x")] * 3
    assert asked == []
    assert codec.decode_many([first, second, first], str) == [Closed(reason="x"), note, Closed(reason="x")]
    assert (codec.decode(second, "it"), asked) == (note, ["others"])

    upcast = Codec(Closed, NEWEST._upcasters, others=others).decode(encode_payload(old), "it")
    assert upcast == Note(author="Ann", words=("hello",), source=b"upcast")
    marking = Codec(Closed, others=others).marking()
    assert (marking.decode(second, "it"), len(asked)) == (note, 3)
    assert isinstance(marking.decode(encode_payload(old), "it"), Undecodable)
    assert Codec(Closed, others=others).events == Closed | Note
