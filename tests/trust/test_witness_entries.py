"""What a witness saw, from its entries alone; and the places that can be one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from refold.domain.errors import InvalidInputError
from refold.infrastructure.trust.merkle import EMPTY_ROOT, root_of
from refold.infrastructure.trust.witness import (
    NOTHING_SEEN,
    Accepted,
    Checkpoint,
    Entry,
    FileWitness,
    HttpWitness,
    SliceSeen,
    WitnessHistory,
    WriterClosed,
    WriterOpened,
    root_over,
    text_of,
    witness_at,
)


def opened(writer: str, *, lineage: str = "a", time: str = "1") -> WriterOpened:
    """Return the entry of a writer that opened a store."""
    return WriterOpened(lineage=lineage, time=time, writer=writer, host="h", pid=7)


def checkpoint(counts: dict[int, int], **fields: Any) -> Checkpoint:
    """Return a checkpoint of slices with so many events."""
    told = {str(lane): (count, f"{count:064x}", f"{lane:064x}") for lane, count in counts.items()}
    return Checkpoint(**{"lineage": "a", "time": "5", "events": 0, "root": "", "slices": told, **fields})


def seen_of(*entries: Entry | str) -> WitnessHistory:
    """Return what a witness with these entries saw."""
    return WitnessHistory([one if isinstance(one, str) else text_of(one) for one in entries])


def test_slices_grow() -> None:
    """Of two checkpoints the one with more events of a slice counts, whichever comes first."""
    # The same number of events cannot be others.
    forged = checkpoint({}, slices={"1": (5, "f" * 64, "f" * 64)})
    entries = [checkpoint({1: 5, 2: 7}), checkpoint({1: 4, 3: 1}), forged, checkpoint({2: 8}, time="6")]

    seen = seen_of(*entries)

    assert {lane: one.events for lane, one in seen.slices.items()} == {1: 5, 2: 8, 3: 1}
    assert seen.slices[1] == SliceSeen(5, (5).to_bytes(32), (1).to_bytes(32))
    assert (seen.events, seen.last, seen.checkpoints, seen.lineage) == (14, entries[-1], entries, "a")
    assert (WitnessHistory().events, WitnessHistory().last, WitnessHistory().lineage) == (0, None, "")


def test_writers_that_have_not_closed_the_store() -> None:
    """Each is there as of its last word, also those that only a full checkpoint names."""
    named = [opened("v", time="0"), opened("w", time="3"), opened("x", time="4")]
    entries: list[Entry] = [
        opened("v"),
        opened("w"),
        opened("gone"),
        WriterClosed(lineage="a", time="2", writer="gone"),
        WriterClosed(lineage="a", time="2", writer="nobody"),
        checkpoint({}, writers=named, full=True),
        checkpoint({}, writer="x", time="9"),
        checkpoint({}, writer="stranger", time="9"),
    ]

    assert {name: one.time for name, one in seen_of(*entries).writers.items()} == {"v": "1", "w": "3", "x": "9"}


def test_entries_since_a_full_checkpoint() -> None:
    """All others are counted, whatever they are."""
    entries: list[Entry] = [opened("w"), checkpoint({}), checkpoint({}, full=True), checkpoint({}), opened("x")]

    assert [seen_of(*entries[:count]).since_full for count in range(6)] == [0, 1, 2, 0, 1, 2]


def test_lines_of_others_and_lines_that_are_none() -> None:
    """They are counted, and say nothing of the store; empty lines are no lines."""
    other = WriterClosed(lineage="b", time="1", writer="w")

    seen = seen_of("", opened("w"), " \n", "no entry", other, '{"kind":"opened"}', checkpoint({1: 2}, lineage="c"))

    assert (seen.unreadable, seen.others, [*seen.writers], seen.slices, seen.since_full) == (
        2,
        {"b", "c"},
        ["w"],
        {},
        1,
    )


def test_what_was_accepted_counts_no_more() -> None:
    """All entries before are as if they were not there, also those of another store."""
    accepted = Accepted(lineage="b", time="2", actor="tom", reason="moved")

    seen = seen_of(opened("w"), "no entry", checkpoint({1: 2}), opened("x", lineage="c"), accepted, checkpoint({4: 1}))

    assert (seen.lineage, seen.writers, seen.slices, seen.unreadable) == ("b", {}, {}, 0)
    assert (seen.others, seen.last, seen.since_full) == ({"a"}, None, 1)


def test_the_root_of_slices() -> None:
    """It is that of the one sequence, or of a tree of the slices with events, by their numbers."""
    one, other = SliceSeen(3, b"1" * 32, b""), SliceSeen(9, b"2" * 32, b"")
    leaves = [b"\0\x02" + bytes(7) + b"\x09" + other.root, b"\x01\0" + bytes(7) + b"\x03" + one.root]

    assert root_over({-1: one}) == one.root
    assert root_over({256: one, 5: NOTHING_SEEN, 2: other}) == root_of(leaves)
    assert root_over({}) == EMPTY_ROOT


def test_what_can_be_a_witness(tmp_path: Path) -> None:
    """A file that is there or not yet, an address, or an object of one's own."""
    (tmp_path / "there").touch()
    for path in (tmp_path / "there", tmp_path / "new", str(tmp_path / "new")):
        place = witness_at(path)
        assert (type(place), repr(place)) == (FileWitness, str(path))
    for url in ("http://host/a", "https://host/a"):
        place = witness_at(url)
        assert (type(place), repr(place)) == (HttpWitness, url)
    own = FileWitness(tmp_path / "own")
    assert witness_at(own) is own


@pytest.mark.parametrize("given", ["", " ", ".", "missing/witness", Path("missing/witness"), 7, None, object, b"a"])
def test_what_can_be_no_witness(given: object) -> None:
    """The error shows it."""
    shown = repr(str(given)) if isinstance(given, str | Path) else repr(given)
    with pytest.raises(InvalidInputError) as refused:
        witness_at(given)
    assert f"the witness {shown} is no file" in str(refused.value) or f"is {shown}: give a path" in str(refused.value)
