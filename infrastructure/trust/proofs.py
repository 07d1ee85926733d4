"""
Proofs for people who have a checkpoint from the witness, and neither the store nor Refold: that an event is among those
of the checkpoint, and that a checkpoint continues an earlier one. And the check of a whole store against its witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from ...domain.errors import DamagedError, InvalidInputError, NotFoundError, TamperedError
from ...domain.ids import require_reference
from ...domain.log.envelope import NO_DIGEST, RecordedEvent, covered, encode_payload
from ..log.evidence import SEGMENT, place
from .checkpoints import Checkpoints
from .known_events import READ_EVENTS, KnownEvents
from .merkle import GrowingTree, consistency_path, inclusion_path, is_consistent, leaf_hash, root_of
from .slices import HEIGHT, SliceEvidence
from .witness import (
    Checkpoint,
    FileWitness,
    SliceSeen,
    Witness,
    WitnessHistory,
    reaching,
    root_over,
    slice_leaves,
    slices_of,
)

LEAF, NODE = "00", "01"
Proof = dict[str, Any]


class WitnessState(NamedTuple):
    """
    The witness of a store as a process knows it: its place, the id of the store, how many events it saw, the root over
    them and when; `failure` says why it cannot be reached, and is empty if it can.
    """

    witness: str
    lineage: str
    events: int
    root: str
    time: str
    writers: int
    failure: str


def state_of(checkpoints: Checkpoints) -> WitnessState:
    """Return what is known of a witness."""
    seen, last = checkpoints.known.seen, checkpoints.known.seen.last
    return WitnessState(
        witness=repr(checkpoints.witness),
        lineage=seen.lineage,
        events=seen.events,
        root=last.root if last else "",
        time=last.time if last else "",
        writers=len(seen.writers),
        failure=checkpoints.failure,
    )


class _Roots:
    """The roots of ranges of events of one slice."""

    def __init__(self, known: KnownEvents, lane: int, events: int) -> None:
        self._known, self._lane = known, lane
        self._rows = known.table.segments(lane, events // SEGMENT)

    def __call__(self, start: int, end: int) -> bytes:
        tree = GrowingTree()
        while start < end:
            number = start // SEGMENT
            if start % SEGMENT == 0 and end - start >= SEGMENT and number < len(self._rows):
                tree.add(self._rows[number].root, HEIGHT)
                start += SEGMENT
            else:
                until = min(end, (number + 1) * SEGMENT)
                for recorded in self._known.events(self._lane, start, until):
                    tree.add(leaf_hash(recorded.digest))
                start = until
        return tree.root()


_NEXT = "; the next program that opens the store for writing hands one over, at the latest when it closes it"


def prove(checkpoints: Checkpoints, reference: str) -> Proof:
    """
    Return the proof that an event, `stream@version`, is among those of the last checkpoint.

    Raises:
        InvalidInputError: it is no reference, or the witness did not see the event yet.
        NotFoundError: there is no such event.
        TamperedError: the events are not those that the witness saw.
    """
    stream, _, version = require_reference(reference, "the event").rpartition("@")
    known = checkpoints.known
    checkpoints.write()
    found = known.log.read(stream, after=max(int(version) - 2, 0), until=int(version))
    if not found or found[-1].version != int(version):
        raise NotFoundError(f"there is no event {reference}: `refold log` lists them")
    recorded, before = found[-1], found[0].digest if len(found) > 1 else NO_DIGEST
    lane, number = recorded.position.slice, recorded.position.number
    last, slices = _newest_complete(checkpoints)
    seen = slices.get(lane)
    if seen is None or number > seen.events:
        checkpoints.look()
        last, slices = _newest_complete(checkpoints)
        seen = slices.get(lane)
    if checkpoints.failure or last is None or seen is None or number > seen.events:
        why = checkpoints.failure or f"it has no checkpoint with this event{_NEXT if known.read_only else ''}"
        raise InvalidInputError(f"nothing proves {reference} yet, as its witness did not see it: {why}")
    path = inclusion_path(_Roots(known, lane, seen.events), number - 1, seen.events)
    steps = [[LEAF, ""], *_steps(path, number - 1, seen.events)]
    proof = {
        "format": "refold.inclusion.v1",
        "store": known.seen.lineage,
        "event": reference,
        "position": place(lane, number),
        "digest": recorded.digest.hex(),
        "is_keyed": bool(known.log.chain.key),
        "covered": _covered(known, recorded, before).hex(),
        "checkpoint": {"events": last.events, "root": last.root, "time": last.time},
        "tree": {"index": number - 1, "size": seen.events, "path": [one.hex() for one in path]},
        "steps": steps + _steps_over_slices(slices, lane),
    }
    _require_proved(proof, recorded.digest)
    return proof


# A checkpoint, with all slices as they were seen until then.
_SeenAt = tuple[Checkpoint | None, Mapping[int, SliceSeen]]


def _newest_complete(checkpoints: Checkpoints) -> _SeenAt:
    """
    Return the newest checkpoint whose root is that of all slices that were seen until then; None if there is none.

    The root in a checkpoint is over the slices as its writer knew them. Other writers may have handed over checkpoints
    with newer slices before it: such a root proves nothing.
    """
    newest = checkpoints.newest()
    if _is_whole(*newest):
        return newest
    found: _SeenAt = (None, {})
    for last, slices in _checkpoints_in(checkpoints.witness):
        if last is None or _is_whole(last, slices):
            found = last, dict(slices)
    return found


def _whole_with(checkpoints: Checkpoints, events: int) -> _SeenAt:
    """Return the first checkpoint with so many events that is whole; None if there is none."""
    found: _SeenAt = (None, {})
    for one, slices in _checkpoints_in(checkpoints.witness):
        if one is None:
            found = None, {}
        elif found[0] is None and one.events == events and _is_whole(one, slices):
            found = one, dict(slices)
    return found


def _is_whole(last: Checkpoint | None, slices: Mapping[int, SliceSeen]) -> bool:
    return last is not None and root_over(slices).hex() == last.root


def _checkpoints_in(witness: Witness) -> Iterator[_SeenAt]:
    """Yield the checkpoints that a witness has; None where those before count no more."""
    seen = WitnessHistory()
    for line in _lines_of(witness):
        before = seen.last
        seen.add_line(line)
        if seen.last is not before:
            yield seen.last, seen.slices
            del seen.checkpoints[:-1]


def _lines_of(witness: Witness) -> Iterator[str]:
    with reaching(witness):
        yield from witness.all_entries() if isinstance(witness, FileWitness) else witness.entries()


def _covered(known: KnownEvents, recorded: RecordedEvent, before: bytes) -> bytes:
    """Return the bytes that the digest of an event covers; none if it was erased, or recorded in an older shape."""
    found = covered(
        before, recorded.stream, recorded.version, recorded.position, recorded.recorded_at, recorded.meta,
        encode_payload(recorded.event),
    )  # fmt: skip
    return found if known.log.chain.hashed(found) == recorded.digest else b""


def _steps(path: Sequence[bytes], index: int, size: int) -> list[list[str]]:
    """Return what stands before and after the hash that is known so far, for each hash of a path."""
    steps: list[list[str]] = []
    last = size - 1
    for other in path:
        if index & 1 or index == last:
            steps.append([NODE + other.hex(), ""])
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            steps.append([NODE, other.hex()])
        index, last = index >> 1, last >> 1
    return steps


def _steps_over_slices(slices: Mapping[int, SliceSeen], lane: int) -> list[list[str]]:
    if lane < 0:
        return []
    numbers = sorted(number for number, one in slices.items() if one.events)
    leaves, index = slice_leaves(slices), numbers.index(lane)
    place_of_slice = leaves[index][: -len(slices[lane].root)].hex()
    path = inclusion_path(lambda start, end: root_of(leaves[start:end]), index, len(leaves))
    return [[LEAF + place_of_slice, ""], *_steps(path, index, len(leaves))]


def _require_proved(proof: Proof, digest: bytes) -> None:
    """Require that a proof holds, as whoever gets it will do: its hashes come from the database."""
    for before, after in proof["steps"]:
        digest = sha256(bytes.fromhex(before) + digest + bytes.fromhex(after)).digest()
    if digest.hex() != proof["checkpoint"]["root"]:
        raise TamperedError(f"position {proof['position']}", "it does not lead to the root that its witness saw")


def prove_consistency(checkpoints: Checkpoints, earlier: int) -> Proof:
    """
    Return the proof that the last checkpoint continues an earlier one, given by its number of events.

    Raises:
        NotFoundError: the witness has no such checkpoint.
        TamperedError: it does not continue it.
    """
    checkpoints.write()
    known = checkpoints.known
    first, before = _whole_with(checkpoints, earlier)
    last, slices = _newest_complete(checkpoints)
    if first is None or last is None or last.events < earlier:
        what = f"no checkpoint with {earlier:,} events of all slices, which another one continues"
        raise NotFoundError(f"the witness has {what}: its lines say how many events each has")
    trees = []
    for lane, old in sorted(before.items()):
        new = slices[lane]
        path = consistency_path(_Roots(known, lane, new.events), old.events, new.events) if old.events else []
        if not is_consistent((old.events, old.root), (new.events, new.root), path):
            where = f"positions {place(lane, 1)} to {place(lane, new.events)}"
            raise TamperedError(where, f"they do not lead from the checkpoint of {first.time} to that of {last.time}")
        trees.append(
            {
                "slice": lane,
                "earlier": [old.events, old.root.hex()],
                "later": [new.events, new.root.hex()],
                "path": [one.hex() for one in path],
            }
        )
    return {
        "format": "refold.consistency.v1",
        "store": known.seen.lineage,
        "earlier": {"events": earlier, "root": first.root},
        "later": {"events": last.events, "root": last.root},
        "trees": trees,
        "later_slices": {str(lane): [one.events, one.root.hex()] for lane, one in sorted(slices.items()) if lane >= 0},
    }


# The check of a whole store

Fault = tuple[str, str]


def faults_of(checkpoints: Checkpoints, stop: Callable[[], bool] = lambda: False) -> list[Fault]:
    """
    Return where a store differs from any of the checkpoints that its witness has, and why, after reading all events.
    """
    if checkpoints.failure:
        return [("the witness", f"it cannot be reached ({checkpoints.failure}): nothing was compared with it")]
    with reaching(checkpoints.witness):
        seen = WitnessHistory(checkpoints.witness.entries())
    faults = [("the witness", f"{seen.unreadable:,} of its lines are no entries")] if seen.unreadable else []
    if seen.others:
        faults.append(("the witness", f"it has entries of other stores, {', '.join(sorted(seen.others))}"))
    for lane in sorted(seen.slices):
        wanted = _expected_slices(seen.checkpoints, lane)
        try:
            fault = _fault_of_slice(checkpoints.known, lane, wanted, stop)
        except DamagedError as error:
            fault = (error.what, error.reason)
        if fault is not None:
            faults.append(fault)
    return faults + [
        ("the witness", f"the root of its checkpoint of {one.time} does not follow from its slices")
        for one in seen.checkpoints
        if one.full and root_over(slices_of(one)).hex() != one.root
    ]


def _expected_slices(checkpoints: Sequence[Checkpoint], lane: int) -> dict[int, tuple[SliceSeen, str]]:
    """Return what a slice must be, by the number of its events, each with the time of the checkpoint."""
    found: dict[int, tuple[SliceSeen, str]] = {}
    for one in checkpoints:
        slices = slices_of(one)
        if lane in slices:
            found.setdefault(slices[lane].events, (slices[lane], one.time))
    return found


def _fault_of_slice(
    known: KnownEvents, lane: int, wanted: Mapping[int, tuple[SliceSeen, str]], stop: Callable[[], bool]
) -> Fault | None:
    state = SliceEvidence()
    for recorded in known.events(lane, 0, max(wanted, default=0)):
        state.add(recorded)
        seen, time = wanted.get(state.count, (None, ""))
        if seen is not None and state.seen() != seen:
            first = max((count for count in wanted if count < state.count), default=0) + 1
            where = f"positions {place(lane, first)} to {place(lane, state.count)}"
            return (where, f"they are not those that the witness saw at {time}")
        if state.count % READ_EVENTS == 0 and stop():
            return None
    if state.count < max(wanted, default=0):
        return (f"position {place(lane, state.count + 1)}", "there is no event at it, and the witness saw one")
    return None
