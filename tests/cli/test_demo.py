"""`refold demo`: made-up histories that have everything a screen can show, the same each time."""

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

import refold as package
from refold.domain.clock import REAL_SYSTEM
from refold.domain.errors import DecisionRefusedError
from refold.domain.kinds import KINDS
from refold.infrastructure import demo
from refold.infrastructure.demo.simulation import Simulation
from refold.infrastructure.projecting.leases import Lease
from refold.projections.rollup import counts_by_type
from tests.cli.running import refold
from tests.support.project import ROOT

UNTIL = 1_795_000_000.0
# An answer that comes too late is a matter of chance, and nothing was copied, held or erased.
LEFT_OUT = {"chat.state_saved.v1", "run.portrait_discarded.v1", "store.copied.v1"} | {
    f"store.{name}.v1"
    for name in ("erased", "erasure_finished", "held", "released", "retention_ended", "retention_set", "unarchived")
}
BUDGET = 128_000
# Without it, a test writes it, and fails.
HISTORIES = ROOT / "tests" / "golden" / "demo.json"
FEWER = {"tickets": 3, "leases": 1, "checks": 101, "nodes": 300}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, int]]]:
    """A store with the large histories, but fewer of each, and the progress of making them."""
    place = tmp_path_factory.mktemp("demo") / "large.db"
    told: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(demo.SIZES, "large", demo.SIZES["large"]._replace(**FEWER))
        demo.fill_store(str(place), size="large", until=UNTIL, progress=lambda done, total: told.append((done, total)))
    return place, told


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the small histories."""
    place = tmp_path_factory.mktemp("demo") / "demo.db"
    demo.fill_store(str(place), size="small", until=UNTIL)
    return place


def digests(place: Path) -> list[tuple[str, int, bytes]]:
    """Return all events of a store, each by its digest, which covers its content, time and envelope."""
    with package.open(str(place), read_only=True) as store:
        return [
            (event.stream, event.version, event.digest)
            for event in store.log.read_all(after=package.Moment(()), limit=9_999).events
        ]


def test_it_says_what_was_made(tmp_path: Path) -> None:
    """How much, and how to look at it."""
    place = tmp_path / "demo.db"
    ended = refold("demo", db=place)

    assert (ended.code, ended.err) == (0, f"look at them on a page: refold ui --db {place}\n")
    assert re.fullmatch(rf"{place} holds 4\d contexts with 1,0\d\d events of 9 days, all of them made up\n", ended.out)
    assert refold("verify", db=place).code == 0


def test_it_says_how_to_look_at_an_encrypted_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the file of its keys; who leaves it out is told how to name it."""
    monkeypatch.setattr("refold.infrastructure.cli.demo.fill_store", _opened)
    keys, place = tmp_path / "its keys", tmp_path / "demo.db"
    refold("keys", "new", keys)

    ended = refold("--keys", keys, "demo", db=place)

    assert ended.err == f"look at them on a page: refold --keys '{keys}' ui --db {place}\n"
    assert refold("ui", "--no-open", db=place).fault.endswith("made with (--keys or REFOLD_KEY_FILE names their file)")


def _opened(location: str, *, keys: package.KeyFile, **_: object) -> demo.Made:
    package.open(location, keys=keys).close()
    return demo.Made(0, 0, 0)


def test_a_store_with_something_in_it_is_refused(tmp_path: Path) -> None:
    """Nothing is written into it."""
    place = tmp_path / "mine.db"
    with package.open(str(place)) as store:
        store.chat("mine").add_message("user", "Hello.")
    before = digests(place)

    assert refold("demo", db=place).fault == (
        "the store is not empty, it has chat:mine: give the name of a new file with --db"
    )
    with pytest.raises(DecisionRefusedError):
        demo.fill_store(str(place), size="small", until=UNTIL)
    assert digests(place) == before


def test_one_of_two_at_once_fills_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one waits until the first one has begun, and is refused."""
    place = tmp_path / "demo.db"
    with package.open(place) as store:
        assert Lease(store._projections, "demo", REAL_SYSTEM).hold()
        monkeypatch.setattr(demo, "time", SimpleNamespace(sleep=lambda _: store.chat("begun")))

        with pytest.raises(DecisionRefusedError, match="the store is not empty, it has chat:begun"):
            demo.fill_store(str(place), size="small", until=UNTIL)


def test_it_has_every_kind_of_event(filled: Path) -> None:
    """Of all that Refold records, so that no screen is empty; and every kind of context."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "domain").rglob("*.py")]
    tags = {tag for text in sources for tag in re.findall(r'tag="([a-z._]+\.v1)"', text)}
    with package.open(str(filled), read_only=True) as store:
        made = {tag for row in store.rollup() for tag in counts_by_type(row)}
        kinds = {row.kind for row in store.contexts()}

    assert tags - made == LEFT_OUT, "infrastructure/demo/ should make one of them, or it is LEFT_OUT for a reason"
    assert kinds == set(KINDS)


def test_what_people_look_for_is_there(filled: Path) -> None:
    """Calls that wait and every decision on others, costs, a context over its budget, failures, broken answers."""
    with package.open(str(filled), read_only=True) as store:
        approvals = [store.chat("refund-7Q2KLM", create=False).approvals.of(call.call_id) for call in calls_of(store)]
        [waiting] = store.pending_approvals()
        lease = store.chat("lease-review", create=False)
        most = max(lease.at(version).estimated_tokens() for version in range(1, lease.version + 1, 9))
        models = {row.model for row in store.usage(by=["model"]) if row.cost > 0}
        moments = list(store.moments())
        broken = [item for item in store.chat("flaky-test", create=False).messages() if item.interrupted]

    assert {one.state for one in approvals if one} == {"requested", "approved", "changed", "rejected"}
    assert waiting.call.name == "send_voucher"
    assert most > BUDGET
    assert models == {"north-large", "north-small"}
    assert moments == ["report-sent"]
    assert len(broken) == 1


def calls_of(store: package.Store) -> list[package.FunctionCall]:
    """Return the calls of the refund."""
    return [item for item in store.chat("refund-7Q2KLM", create=False).items if isinstance(item, package.FunctionCall)]


def test_times_are_those_of_people(filled: Path) -> None:
    """Spread over nine days up to the end, in the order of the log, with jobs side by side."""
    with package.open(str(filled), read_only=True) as store:
        events = store.log.read_all(after=package.Moment(()), limit=9_999).events
    times = [event.recorded_at / 1e6 for event in events]
    changes = sum(one.stream != other.stream for one, other in pairwise(events))

    assert times == sorted(times)
    assert UNTIL - 9 * 86_400 <= times[0] < UNTIL - 8 * 86_400
    assert UNTIL - 86_400 < times[-1] <= UNTIL
    assert len({int(at // 86_400) for at in times}) >= 9
    assert changes > 100


def test_the_same_call_makes_the_same_events(filled: Path, tmp_path: Path) -> None:
    """Byte for byte, with ids and times."""
    again = tmp_path / "again.db"
    demo.fill_store(str(again), size="small", until=UNTIL)

    assert digests(again) == digests(filled)


def test_everybody_sees_the_same_histories(filled: Path, many: tuple[Path, list[tuple[int, int]]]) -> None:
    """On every machine: how long each context is, and the digest of its last event, which covers those before."""
    made = {size: ends(place) for size, place in (("small", filled), ("large", many[0]))}
    if not HISTORIES.exists():
        HISTORIES.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        pytest.fail(f"{HISTORIES.name} was not there, and is now: run the test again")

    assert made == json.loads(HISTORIES.read_text(encoding="utf-8"))


def ends(place: Path) -> dict[str, str]:
    """Return the end of each stream of a store."""
    return {stream: f"{version} {digest.hex()[:16]}" for stream, version, digest in digests(place)}


def test_the_large_histories(many: tuple[Path, list[tuple[int, int]]]) -> None:
    """They have a crawl and a check without an end; here with fewer of each."""
    place, told = many
    with package.open(str(place), read_only=True) as store:
        nodes = store.run("ops", "crawl", 0, create=False).nodes()
        turns = store.chat("night-watch", create=False).turn_count()
    assert 300 <= len(nodes) < 312
    assert 0 < turns < 101
    assert told == sorted(told)
    assert told[-1][0] <= told[-1][1] == 45 * 86_400


def test_a_job_that_fails_ends_the_simulation() -> None:
    """Its error is seen, and the others are not waited for without an end."""
    simulation = Simulation(0.0)
    steps: list[float] = []

    async def fails() -> None:
        await simulation.wait(2)
        raise OSError("no room")

    async def goes_on() -> None:
        for _ in range(3):
            await simulation.wait(3)
            steps.append(simulation.now())

    with pytest.raises(OSError, match="no room"):
        asyncio.run(simulation.run([(0, fails), (1, goes_on)], lambda _: None))
    assert steps == [4, 7, 10]
