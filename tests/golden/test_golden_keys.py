"""What a store with keys, an erasure and a witness keep, as they were first written: later versions read the same."""

import json
from typing import Any

import msgspec
import pytest

from refold.domain.chat.events import MessageAdded
from refold.domain.erasure.events import seal_of, subject_hash
from refold.domain.log.envelope import NO_META, Chain, Meta, RecordedEvent, encode_payload
from refold.domain.log.memory_log import MemoryLog
from refold.domain.positions import Position
from refold.infrastructure.log.evidence import SegmentRow
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.trust.key_ring import KeyRing
from refold.infrastructure.trust.keys import KEY_BYTES, MasterKeys
from refold.infrastructure.trust.sealed_log import SEALED_CODEC, SealedLog
from refold.infrastructure.trust.sealed_rows import Page, SealedProjectionStore, StoredRows
from refold.infrastructure.trust.slices import contents_hash, sealed_by, stream_key
from refold.infrastructure.trust.tables import ADD_KEY, MemoryTables, Statement
from refold.infrastructure.trust.witness import SliceSeen, root_over

from .files import FOLDER
from .known import ENVELOPES

# Nonces are random, so nothing writes this file again: what is new gets a line of its own.
KEPT = json.loads((FOLDER / "keys.json").read_text(encoding="utf-8"))
MASTERS = MasterKeys({"m1": bytes(range(KEY_BYTES))})
PLACE, SUBJECT = "chat:a@2", "mia"
META = Meta("mia", "trace-1", "chat:b@3", "key-1", fingerprint=bytes(range(16)))
SHORT = MessageAdded(id="i1", created_at=1_795_000_000.25, role="user", content="Hello, Müller.")
# One that is compressed before it is encrypted.
LONG = msgspec.structs.replace(SHORT, content="Hello, Müller. " * 400)
OTHER = msgspec.structs.replace(SHORT, content="Hello, Mia.")
PAGE = Page(
    dropped=["usage"],
    rows=[StoredRows("catalogue", 4, "17", "s1", [("chat:a", 2)], [], {"key": "str", "version": "int"})],
    notes={"moment": "17"},
)
SEGMENT_ROW = SegmentRow(0, bytes(range(32)), bytes(range(32, 64)), bytes(range(20)))
SLICES = {3: SliceSeen(2, bytes(range(32)), bytes(32)), 700: SliceSeen(70_000, bytes(range(32, 64)), bytes(32))}


@pytest.fixture(scope="module")
def log() -> SealedLog:
    """An encrypted log with the data keys of the file."""
    tables = MemoryTables()
    tables.make()
    rows = [(*row[:4], bytes.fromhex(row[4])) for row in KEPT["data_key"]]
    tables.change(*(Statement(ADD_KEY, row) for row in rows))
    return SealedLog(MemoryLog(), KeyRing(tables, MASTERS))


def computed(log: SealedLog) -> dict[str, str]:
    """Return what follows from keys and events alone, each time the same."""
    chain, envelope = Chain(), ENVELOPES[1]
    chain.use(log.ring.chain_key())
    place = ("chat:a", 2, Position(1023, 7))
    outer = log._outer("chat:a", "key-1", bytes(range(32)))
    return {
        "the key of digests": log.ring.chain_key().hex(),
        "a keyed digest": chain.digest(**envelope).hex(),
        "the code of a snapshot": chain.snapshot_code("chat:a", b"packed").hex(),
        "a user as a subject": log.user_subject(SUBJECT),
        "a root as a subject": log._subject_of_first(SHORT, "chat:a"),
        "an idempotency key": str(outer.idempotency_key),
        "a fingerprint": (outer.fingerprint or b"").hex(),
        "an event that a copy renames": log.payload_with(OTHER, bytes.fromhex(KEPT["events"]["short"]), PLACE).hex(),
        "a seal": seal_of(bytes(32), bytes(range(32)), place, 1_795_000_000_250_000, META, b"payload").hex(),
        "a user in an erasure": subject_hash(SUBJECT, bytes(range(16))).hex(),
        "the contents of a segment": contents_hash([bytes([2]) * 32, bytes([1]) * 32]).hex(),
        "the short form of a stream": stream_key("chat:über").hex(),
        "a hash of segments": sealed_by(SEGMENT_ROW, bytes(32)).hex(),
        "a root over slices": root_over(SLICES).hex(),
    }


@pytest.mark.parametrize("name", KEPT["computed"])
def test_what_is_computed_is_as_ever(log: SealedLog, name: str) -> None:
    """The same keys and events give the same bytes, which databases, witnesses and receipts have."""
    assert computed(log)[name] == KEPT["computed"][name]


def test_nothing_that_is_computed_is_left_out(log: SealedLog) -> None:
    """The file holds what is known, no more and no less."""
    assert computed(log).keys() == KEPT["computed"].keys()


def test_data_keys_are_unwrapped(log: SealedLog) -> None:
    """Those that are bound to their row, and those of earlier versions, which are not."""
    assert {row[0]: log.ring.key(row[0]).secret.hex() for row in KEPT["data_key"]} == KEPT["secrets"]


@pytest.mark.parametrize(("name", "event"), [("short", SHORT), ("long", LONG)])
def test_events_open(log: SealedLog, name: str, event: MessageAdded) -> None:
    """With the meta that is encrypted beside them."""
    sealed: Any = SEALED_CODEC.decode(bytes.fromhex(KEPT["events"][name]), PLACE)
    stored = RecordedEvent("chat:a", 2, Position(-1, 2), 0, sealed, NO_META, bytes(32))

    (opened,) = log._recorded([stored])

    assert opened.event == event
    assert opened.meta == msgspec.structs.replace(META, key_id=sealed.k)
    assert encode_payload(sealed).hex() == KEPT["events"][name]


def test_a_snapshot_opens(log: SealedLog) -> None:
    """It is bound to its stream."""
    below: Any = log.below
    below._snapshots |= dict.fromkeys(("chat:a", "chat:b"), bytes.fromhex(KEPT["snapshot"]))

    assert (log.snapshot("chat:a"), log.snapshot("chat:b")) == (b"packed", None)


def test_pages_and_notes_open(log: SealedLog) -> None:
    """The rows of projections, and the names of moments."""
    rows = SealedProjectionStore(log, log.ring._tables, log.ring, MemoryProjectionStore())

    assert rows._opened(7, bytes.fromhex(KEPT["page"])) == PAGE
    assert rows._opened_note("moment", KEPT["note"]) == "17"
