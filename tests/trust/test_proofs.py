"""Proofs, checked by somebody who has a checkpoint, and neither the store nor Refold's classes."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

import refold
from refold.domain.errors import InvalidInputError, NotFoundError, TamperedError
from refold.domain.ids import slice_of
from refold.infrastructure.open import accept_store
from refold.infrastructure.trust.checkpoints import Checkpoints
from refold.infrastructure.trust.merkle import GrowingTree, is_consistent, leaf_hash
from refold.infrastructure.trust.witness import FileWitness

from .forging import Place
from .inclusion import root_by_path


def filled(place: Place) -> None:
    """Write to several slices, more than a segment in one of them, with checkpoints on the way."""
    with place.open() as store:
        for name in ("a", "b", "c"):
            store.chat(name).add_message("user", f"Hello {name}.")
        store.flush()
        chat = store.chat("a")
        with store.transaction():
            for number in range(600):
                chat.add_message("user", f"text {number}")


def checkpoints(place: Place) -> list[dict[str, Any]]:
    """Return the checkpoints that the witness keeps."""
    lines = [json.loads(line) for line in place.witness.read_text().splitlines()]
    return [line for line in lines if line["kind"] == "checkpoint"]


def led_to(proof: dict[str, Any], start: bytes) -> str:
    """Return the root to which a proof leads."""
    for before, after in proof["steps"]:
        start = hashlib.sha256(bytes.fromhex(before) + start + bytes.fromhex(after)).digest()
    return start.hex()


@pytest.mark.parametrize("event", ["chat:a@1", "chat:a@512", "chat:a@602", "chat:b@2", "chat:c@1"])
def test_an_event_is_among_those_of_a_checkpoint(place: Place, event: str) -> None:
    """Its bytes lead to the root that the witness has, and other bytes lead elsewhere."""
    filled(place)
    stream, _, version = event.partition("@")
    with place.open() as store:
        proof = json.loads(json.dumps(store.prove(event)))
        (recorded,) = store.log.read(stream, after=int(version) - 1, until=int(version))
        seen = store._witnessed_by().known.seen.slices[recorded.position.slice]

    last, covered, tree = checkpoints(place)[-1], bytes.fromhex(proof.pop("covered")), proof.pop("tree")
    assert stream.encode() in covered
    assert led_to(proof, hashlib.blake2b(covered, digest_size=32).digest()) == last["root"]
    assert led_to(proof, hashlib.blake2b(covered[:-1] + b"?", digest_size=32).digest()) != last["root"]
    path = [bytes.fromhex(one) for one in tree.pop("path")]
    assert tree == {"index": recorded.position.number - 1, "size": seen.events}
    assert root_by_path(leaf_hash(recorded.digest), tree["index"], tree["size"], path) == seen.root
    del proof["steps"]
    assert proof == {
        "format": "refold.inclusion.v1",
        "store": last["lineage"],
        "event": event,
        "position": str(recorded.position),
        "digest": recorded.digest.hex(),
        "is_keyed": False,
        "checkpoint": {"events": last["events"], "root": last["root"], "time": last["time"]},
    }


def test_an_event_of_the_first_slice(place: Place) -> None:
    """It is proved together with the other slices, too."""
    filled(place)
    assert slice_of("order-2050") == 0
    with place.open() as store:
        store.chat("order-2050").add_message("user", "Where is it?")
        store.flush()
        proof = store.prove("chat:order-2050@2")

    covered = bytes.fromhex(proof["covered"])
    assert led_to(proof, hashlib.blake2b(covered, digest_size=32).digest()) == checkpoints(place)[-1]["root"]


def test_what_cannot_be_proved(place: Place) -> None:
    """No event, no reference, or no witness is an error that says so; hashes that were changed are noticed."""
    filled(place)
    with place.open() as store:
        with pytest.raises(NotFoundError, match="there is no event chat:a@999"):
            store.prove("chat:a@999")
        with pytest.raises(InvalidInputError):
            store.prove("chat:a")
        place.sql("UPDATE segment SET root = ?", bytes(32))
        with pytest.raises(TamperedError, match="does not lead to the root"):
            store.prove("chat:a@602")
    with refold.open(place.url) as store, pytest.raises(InvalidInputError, match="without its witness"):
        store.prove("chat:a@1")


def test_an_event_that_the_witness_has_not_seen(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing proves what no checkpoint has; the error says why."""
    filled(place)
    monkeypatch.setattr(Checkpoints, "write", lambda _: None)
    with place.open() as store:
        store.chat("new").add_message("user", "hello")
        with pytest.raises(InvalidInputError, match=r"nothing proves chat:new@2 yet.*: it has no checkpoint with this"):
            store.prove("chat:new@2")


def test_a_checkpoint_continues_an_earlier_one(place: Place) -> None:
    """Each slice of the earlier one is the beginning of the later one, and both have the roots that the witness has."""
    filled(place)
    first, *_, last = checkpoints(place)
    with place.open() as store:
        proof = json.loads(json.dumps(store.prove_consistency(first["events"])))
        with pytest.raises(NotFoundError, match="no checkpoint with 7 events"):
            store.prove_consistency(7)

    ends = [{"events": one["events"], "root": one["root"]} for one in (first, last)]
    assert [proof["earlier"], proof["later"]] == ends
    assert (proof["format"], proof["store"]) == ("refold.consistency.v1", last["lineage"])
    assert _root_over([(tree["slice"], *tree["earlier"]) for tree in proof["trees"]]) == first["root"]
    later = [(int(number), *one) for number, one in proof["later_slices"].items()]
    # A log with one sequence has a single tree.
    assert _root_over(later or [(-1, *proof["trees"][0]["later"])]) == last["root"]
    for tree in proof["trees"]:
        old, new = ((count, bytes.fromhex(root)) for count, root in (tree["earlier"], tree["later"]))
        path = [bytes.fromhex(one) for one in tree["path"]]
        assert is_consistent(old, new, path)
        assert not is_consistent(old, (new[0], bytes(32)), path)


def test_an_event_beside_other_writers(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer knows what it wrote; what was seen of all is proved by the last checkpoint of which that is the root."""
    with place.open() as one, place.open() as other:
        for _ in range(2):
            for store, name in ((one, "a"), (other, "b")):
                store.chat(name).add_message("user", "hello")
                store.flush()
        # A third one knows what both wrote.
        with place.open() as third:
            third.chat("c").add_message("user", "hello")
        one.chat("a").add_message("user", "last")
        one.flush()
        with place.open(read_only=True) as auditor:
            for event in ("chat:a@3", "chat:b@3", "chat:c@2"):
                proof = auditor.prove(event)
                start = hashlib.blake2b(bytes.fromhex(proof["covered"]), digest_size=32).digest()
                assert led_to(proof, start) == proof["checkpoint"]["root"]
                assert proof["checkpoint"]["root"] in [line["root"] for line in checkpoints(place)]
            if place.is_file:
                assert auditor.prove("chat:a@4")["checkpoint"]["events"] == 9
            else:
                with pytest.raises(InvalidInputError, match=r"nothing proves chat:a@4 yet.*when it closes it$"):
                    auditor.prove("chat:a@4")
        # Whoever may write hands over a checkpoint that proves it.
        with place.open() as fourth:
            assert fourth.prove("chat:a@4")["checkpoint"]["events"] == 9
        # Now and then a writer looks what others wrote.
        monkeypatch.setattr("refold.infrastructure.trust.checkpoints.LOOK_SECONDS", 0.0)
        other.chat("b").add_message("user", "last")
        other.flush()
        with place.open(read_only=True) as auditor:
            for event in ("chat:a@4", "chat:b@4"):
                assert auditor.prove(event)["checkpoint"]["events"] == 10
        monkeypatch.undo()
        for store, name in ((one, "a"), (other, "b")):
            store.chat(name).add_message("user", "the very last")
            store.flush()
    # The last one that closes the store looks, too.
    with place.open(read_only=True) as auditor:
        for event in ("chat:a@5", "chat:b@5"):
            assert auditor.prove(event)["checkpoint"]["events"] == 12


class Slow:
    """A witness that takes a checkpoint when it is let."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.is_asked, self.is_let = threading.Event(), threading.Event()
        self.is_let.set()

    def add(self, entry: str) -> None:
        if '"kind":"checkpoint"' in entry:
            self.is_asked.set()
            self.is_let.wait(10)
        self.kept.append(entry)

    def entries(self) -> list[str]:
        return self.kept


def test_a_flush_waits_for_a_checkpoint_on_its_way(tmp_path: Path) -> None:
    """The background took what was committed; a flush returns when the witness has it, and so does a proof."""
    slow = Slow()
    with refold.open(tmp_path / "a.db", witness=slow) as store:
        chat = store.chat("a")
        store.flush()
        slow.is_asked.clear()
        slow.is_let.clear()
        chat.add_message("user", "hello")
        assert slow.is_asked.wait(10)
        threading.Timer(0.05, slow.is_let.set).start()

        store.flush()

        assert '"events":2' in slow.kept[-1]


def test_checkpoints_that_do_not_go_on(place: Place) -> None:
    """Hashes that were changed in the database are noticed before somebody gets them."""
    filled(place)
    *_, last = checkpoints(place)
    with place.open() as store:
        store.chat("a").add_message("user", "one more")
        assert store.prove_consistency(last["events"])["earlier"]["root"] == last["root"]
        place.sql("UPDATE segment SET root = ?", bytes(32))
        with pytest.raises(TamperedError, match="they do not lead from the checkpoint of"):
            store.prove_consistency(last["events"])


def test_a_checkpoint_from_before_the_witness_began_anew(place: Place) -> None:
    """It counts no more: nothing has to go on from it."""
    filled(place)
    first, *_ = checkpoints(place)
    accept_store(place.url, witness=place.witness, keys=None, encrypt=None, actor="tom", reason="a test")

    with place.open() as store, pytest.raises(NotFoundError, match=f"no checkpoint with {first['events']} events"):
        store.prove_consistency(first["events"])


def test_a_checkpoint_far_before_the_end_of_a_long_file(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole file is looked through for it, though a store is opened with the end of it."""
    monkeypatch.setattr("refold.infrastructure.trust.witness.TAIL_BYTES", 10)
    monkeypatch.setattr("refold.infrastructure.trust.checkpoints.FULL_EVERY", 2)
    filled(place)
    first, *_ = checkpoints(place)
    with place.open() as store:
        for number in range(3):
            store.chat("a").add_message("user", f"more {number}")
            store.flush()
    assert text_line(first) not in FileWitness(place.witness).entries()

    with place.open() as store:
        assert store.prove_consistency(first["events"])["earlier"]["root"] == first["root"]


def text_line(line: dict[str, Any]) -> str:
    """Return the line of a checkpoint."""
    return json.dumps(line, separators=(",", ":"))


def _root_over(slices: list[tuple[int, int, str]]) -> str:
    if slices[0][0] < 0:
        return slices[0][2]
    tree = GrowingTree()
    for number, count, root in slices:
        tree.add(leaf_hash(number.to_bytes(2, "big") + count.to_bytes(8, "big") + bytes.fromhex(root)))
    return tree.root().hex()


class Endpoint(BaseHTTPRequestHandler):
    """A witness over HTTP in its few lines."""

    kept: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        """Keep an entry."""
        self.kept.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self._answer("")

    def do_GET(self) -> None:
        """Answer with all of them."""
        self._answer("\n".join(self.kept))

    def _answer(self, text: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    """The address of such a witness."""
    Endpoint.kept = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/store"
        server.shutdown()


def test_a_witness_at_an_endpoint(place: Place, endpoint: str) -> None:
    """It keeps what a file keeps, and refuses what a file refuses."""
    with refold.open(place.url, witness=endpoint) as store:
        store.chat("b").add_message("user", "one")
        store.chat("b").add_message("user", "two")
    assert [json.loads(line)["kind"] for line in (Endpoint.kept[0], *Endpoint.kept[-2:])] == [
        "opened",
        "checkpoint",
        "closed",
    ]

    place.remove(place.rows("chat:b")[-1])
    with pytest.raises(TamperedError, match="the log ends before it"):
        refold.open(place.url, witness=endpoint)


def test_a_long_file_is_read_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far back as the last entry that names all slices."""
    witness = FileWitness(tmp_path / "witness.log")
    full, other = '{"full":true}', '{"full":false,"n":"' + "x" * 30 + '"}'
    for entry in (other, full, *[other] * 20):
        witness.add(entry)
    monkeypatch.setattr("refold.infrastructure.trust.witness.TAIL_BYTES", 100)

    assert [*witness.entries()][-21:] == [full, *[other] * 20]
