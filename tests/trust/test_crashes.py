"""A crash between a commit and its witness never looks like a crime, at whatever step it comes."""

import json
import signal
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import TamperedError
from refold.infrastructure.trust import checkpoints
from tests.support.effort import IS_DEEP
from tests.support.processes import Program

from .forging import Place
from .killed_writer import STEPS
from .test_witness import forge_one, texts_of

WRITER = Program("tests.trust.killed_writer")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A new store in a file."""
    return Place(str(tmp_path / "store.db"), tmp_path / "witness.log")


def killed(place: Place, step: str, after: int) -> int:
    """Let a writer be killed before a step; return its exit code."""
    with WRITER.start(place.url, str(place.witness), step, str(after)) as writer:
        return writer.wait(60)


@pytest.mark.long
# Each step behind no event, or behind two; all of both in scripts/soak.
@pytest.mark.parametrize(
    ("step", "after"),
    [(step, after) for at, step in enumerate(STEPS) for after in (0, 2) if IS_DEEP or at % 2 == (after == 2)],
)
def test_no_false_alarm(place: Place, step: str, after: int) -> None:
    """After a kill at any step, twice, the store opens, goes on, and is what its witness saw; then nothing is taken."""
    codes = [killed(place, step, after) for _ in range(2)]

    assert codes in ([-signal.SIGKILL] * 2, [0, 0])
    with place.open():
        pass
    with place.open() as store:
        store.chat("b").add_message("user", "six")
    with place.open() as store:
        assert texts_of(store, "b") == ["six"]
        assert store.compare_with_witness() == []
        assert [problem for problem in store.verify().problems if problem.kind != "projection"] == []
    forge_one(place)
    with pytest.raises(TamperedError, match="no writer announced"):
        place.open()


class Unreachable:
    """A witness that can be reached now and then."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_up = False

    def __repr__(self) -> str:
        return "the test's"

    def add(self, entry: str) -> None:
        """Keep a line."""
        self._require_up()
        self.lines.append(entry)

    def entries(self) -> Iterable[str]:
        """Return the lines."""
        self._require_up()
        return [*self.lines]

    def _require_up(self) -> None:
        if not self.is_up:
            raise ConnectionError("nobody answers")


def opened(place: Place, witness: Unreachable) -> refold.Store:
    """Open a store with such a witness."""
    return refold.open(place.url, witness=witness)


def test_a_witness_out_of_reach_is_said(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Appends go on without it; a warning and `verify` say so; when it is back, it is told of everything."""
    witness = Unreachable()
    with pytest.warns(RuntimeWarning, match="the witness the test's cannot be reached"):
        store = opened(place, witness)
    assert ["the witness the test's cannot be reached" in one.getMessage() for one in caplog.records] == [True]
    with store:
        store.chat("a").add_message("user", "without")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store.flush()
        state = store.witnessed()
        assert state is not None
        assert state.failure == "ConnectionError: nobody answers"
        assert [problem.where for problem in store.verify().problems] == ["the witness"]
        witness.is_up = True
        store.chat("a").add_message("user", "with")
        store.flush()
        state = store.witnessed()
        assert state is not None
        assert (state.failure, state.events) == ("", 3)
        assert store.verify().problems == ()


def test_events_of_a_writer_without_its_witness(place: Place) -> None:
    """They are accepted by the next one, who says so; those of nobody are refused."""
    witness = Unreachable()
    witness.is_up = True
    with opened(place, witness) as store:
        store.chat("b").add_message("user", "six")
    witness.is_up = False
    with pytest.warns(RuntimeWarning, match="cannot be reached"):
        store = opened(place, witness)
    with store:
        store.chat("b").add_message("user", "seven")
    witness.is_up = True

    with pytest.warns(RuntimeWarning, match="they are taken for those of a writer of"), opened(place, witness) as store:
        assert texts_of(store, "b") == ["six", "seven"]
    assert "with events of a writer of" in witness.lines[-2]
    with opened(place, witness) as store:
        assert texts_of(store, "b") == ["six", "seven"]


def test_two_writers(place: Place) -> None:
    """They take turns, and each is told from the other; a reader beside them sees all."""
    with place.open() as one, place.open() as other, place.open(read_only=True) as reader:
        for number in range(20):
            for store in (one, other):
                store.chat("a").add_message("user", f"text {number}")
                if number % 5 == 0:
                    store.flush()
            assert len(texts_of(reader, "a")) == 2 * number + 2
    with place.open() as store:
        assert len(texts_of(store, "a")) == 40
        assert store.compare_with_witness() == []


def test_a_store_that_gets_a_witness_later(place: Place) -> None:
    """The events that are there are taken over in the background, and are compared from then on."""
    with refold.open(place.url) as store:
        chat = store.chat("a")
        with store.transaction():
            for number in range(5_000):
                chat.add_message("user", f"text {number}")
    with place.open() as store:
        store.chat("b").add_message("user", "six")

    with place.open() as store:
        state = store.witnessed()
        assert state is not None
        assert state.events == 5_003
        assert store.compare_with_witness() == []


class Choosy(Unreachable):
    """A witness that takes entries of some kinds only."""

    def __init__(self, *refused: str) -> None:
        super().__init__()
        self.is_up, self.refused = True, {*refused}

    def add(self, entry: str) -> None:
        """Keep a line, unless it is of a kind that is refused."""
        if json.loads(entry)["kind"] in self.refused:
            raise ConnectionError("the disk is full")
        super().add(entry)

    def kinds(self) -> list[str]:
        """Return the kinds of the lines."""
        return [json.loads(line)["kind"] for line in self.lines]


def test_a_checkpoint_that_is_not_taken_is_handed_over_later(place: Place) -> None:
    """Its events are in the next one."""
    witness = Choosy("checkpoint")
    with opened(place, witness) as store:
        store._witnessed_by()._work.close()
        store.chat("a").add_message("user", "one")
        with pytest.warns(RuntimeWarning, match=r"cannot be reached \(ConnectionError: the disk is full"):
            store.flush()
        assert witness.kinds() == ["opened"]
        witness.refused.clear()
        store.flush()
        state = store.witnessed()
        assert state is not None
        assert (state.failure, state.events) == ("", 2)
        assert store.compare_with_witness() == []


def test_an_end_that_is_not_taken(place: Place) -> None:
    """The store is closed, which is said; the next one opens it and goes on."""
    witness = Choosy("closed")
    store = opened(place, witness)
    store.chat("b").add_message("user", "six")
    with pytest.warns(RuntimeWarning, match=r"cannot be reached \(ConnectionError: the disk is full"):
        store.close()
    assert "closed" not in witness.kinds()
    witness.refused.clear()

    with opened(place, witness) as store:
        assert texts_of(store, "b") == ["six"]
        assert store.compare_with_witness() == []


def test_a_store_that_was_changed_before_its_witness_was_reached(place: Place) -> None:
    """Once it is, it gets no checkpoint, the error says what is missing, and closing the store leaves no thread."""
    witness = Choosy()
    with opened(place, witness) as store:
        store.chat("b").add_message("user", "six")
    place.remove(place.rows("chat:b")[-1])
    witness.is_up, before = False, len(witness.lines)
    with pytest.warns(RuntimeWarning, match="cannot be reached"):
        store = opened(place, witness)
    store.chat("a")
    witness.is_up = True

    with pytest.raises(TamperedError, match="an event among them is another one"):
        store.flush()
    with pytest.raises(TamperedError, match="an event among them is another one"):
        store.close()
    assert {*witness.kinds()[before:]} <= {"opened"}
    thread = store._witnessed_by()._work._thread
    assert thread is not None
    assert not thread.is_alive()


def test_a_process_that_was_forked_is_a_writer_of_its_own(place: Place) -> None:
    """It announces itself before its first checkpoint, which is under its own name."""
    witness = Choosy()
    with opened(place, witness) as store:
        store.chat("a").add_message("user", "one")
        store.flush()
        before = len(witness.lines)
        store._witnessed_by()._after_fork()
        store.chat("a").add_message("user", "two")
        store.flush()

    assert witness.kinds()[before :: len(witness.lines) - before - 1] == ["opened", "closed"]
    writers = [json.loads(line)["writer"] for line in witness.lines]
    assert len({json.loads(line)["lineage"] for line in witness.lines}) == 1
    assert [len({*some}) for some in (writers[:before], writers[before:], writers)] == [1, 1, 2]


def test_a_checkpoint_of_everything(ready_pg_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then one has all slices, also those that only others wrote to, and who is still writing."""
    monkeypatch.setattr(checkpoints, "FULL_EVERY", 4)
    witness = Choosy()
    other = refold.open(ready_pg_url, witness=witness)
    with refold.open(ready_pg_url, witness=witness) as store:
        store.chat("a").add_message("user", "one")
        store.flush()
        other.chat("b").add_message("user", "one")
        other.close()
        for number in range(5):
            store.chat("a").add_message("user", str(number))
            store.flush()
        full = [one for one in map(json.loads, witness.lines) if one.get("full")]
        mine = store._witnessed_by()._writer

    assert len(full) > 1
    assert len(full[-1]["slices"]) == 2
    assert sum(count for count, *_ in full[-1]["slices"].values()) == full[-1]["events"]
    assert [one["writer"] for one in full[-1]["writers"]] == [mine]


@pytest.mark.parametrize("given", ["", "no/such/folder/witness.log", 5, object()])
def test_what_is_no_witness(place: Place, given: Any) -> None:
    """It is refused before anything is opened for writing."""
    with pytest.raises(refold.InvalidInputError, match="the witness"):
        refold.open(place.url, witness=given)
    with pytest.raises(refold.InvalidInputError, match="a store in memory"):
        refold.open(":memory:", witness=place.witness)
