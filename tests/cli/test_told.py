"""What each command says about the made-up histories of `refold demo`, to the letter: see tests/golden/told."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from refold.infrastructure import demo
from tests.cli.running import refold
from tests.support.written_down import UNTIL, assert_as_written, stop_clock

READING = """
contexts
contexts --jsonl
contexts --at pos:500
contexts --at report-sent --json
show refund-7Q2KLM
show refund-7Q2KLM --ids --tail 5
show refund-7Q2KLM@happened:2026-11-17T06:21:00Z
show refund-7Q2KLM@-9 --json
show refund-7Q2KLM --jsonl --tail 4
show refund-7Q2KLM --evicted
show refund-7Q2KLM --evicted --json
show refund-7Q2KLM --as openai
show refund-7Q2KLM --as openai --valid
show refund-7Q2KLM --as openai --pending omit --tail 3
show refund-7Q2KLM --as openai --pending refuse
show refund-7Q2KLM --as openai-responses
show refund-7Q2KLM --as anthropic
show refund-7Q2KLM --as anthropic --valid
show refund-7Q2KLM --as google
show flaky-test --tail 6
show flaky-test@51 --evicted
show heron-report --ids
show heron-report-short --tail 2
show lease-review@40 --tail 2
show policies
show policies --evicted
show pool:policies --json
show desk
show desk --evicted
show queue:desk-night --ids --json
show heron-draft
show heron-draft --evicted
show window:heron-draft@12 --json
show user:ada.brink
show user:ada.brink@5 --json
show user:ada.brink --evicted
show mia.frey/late-orders/2/0
show mia.frey/late-orders/2/2 --json
show nobody
log refund-7Q2KLM
log refund-7Q2KLM@9 --json
log flaky-test@24
log heron-report
log heron-draft
log policies
log desk
log user:ada.brink
log mia.frey/late-orders/1/0
log mia.frey/late-orders/2/2 --jsonl
log --limit 2
log --after 1040
log --type run.edge_added --type chat.merged
log --type chat.opened --json --limit 3
log --type nothing
log --graph
log --graph --json
log heron-report --graph
log policies-draft --graph
audit refund-7Q2KLM
audit refund-7Q2KLM-softer --json
audit refund-7Q2KLM@20 --who noor.vasquez
audit refund-7Q2KLM --item @17
audit flaky-test-two-models
audit heron-report
audit heron-report-short
audit heron-draft
audit policies-draft --attribute limit
audit heron-draft --item "note 3" --json
audit policies
audit policies-draft --json
audit policies --attribute limit
audit desk
audit user:ada.brink
audit user:ada.brink --item seat --json
audit mia.frey/late-orders/2/2
audit mia.frey/late-orders/2/2 --json
audit "Table(orders)"
audit "Table(orders)#1" --attribute description --json
audit "Table(staff)" --round 0
audit "Table(nowhere)"
graph late-orders
graph late-orders --active
graph late-orders --identities --round 1
graph late-orders --round 1 --as mermaid
graph late-orders --round 0 --as dot
graph mia.frey/late-orders/2/2
graph mia.frey/late-orders/0/0@20 --as json
graph late-orders --at planned --user mia.frey
graph nothing
search voucher
search "ada brink" --json
search '"fare and bag*"' --kind chat
search orders --kind run --limit 4
search hotel --context policies
search hotel --context policies-draft --jsonl
search pairs --limit 2
search xyzzy
queue show desk
queue show desk@20 --json
queue show desk --tail 2
queue show desk --evicted
queue search cello
queue search delay --json
pool show policies
pool show policies@5 bags --json
pool show heron-sources
pool show heron-sources --evicted
pool search hotel
pool search heron --context heron-sources --json
memory show user:ada.brink
memory show user:ada.brink seat
memory show user:ada.brink --json
memory show user:ada.brink --evicted
memory show user:ada.brink --kind semantic
memory show user:ada.brink --tag refund --json
memory show user:ada.brink --prefix to
memory search window
memory search case --json
diff refund-7Q2KLM@10..30
diff refund-7Q2KLM@17..20 --json
diff refund-7Q2KLM refund-7Q2KLM-softer
diff refund-7Q2KLM@37 refund-7Q2KLM-softer --stat
diff flaky-test flaky-test-longer-wait --stat --json
diff heron-report-short@1..
diff heron-report@6..8 --exit-code
diff policies@5..
diff policies policies-draft --json
diff desk@17..
diff desk desk-night --stat
diff heron-draft@8..20
diff heron-draft@8..20 --json
diff user:ada.brink@2..5
diff user:ada.brink@..5 --json
diff mia.frey/late-orders/0/0@20..
diff mia.frey/late-orders/0/0@20.. --stat --json
diff mia.frey/late-orders/0/0 mia.frey/late-orders/1/0
diff mia.frey/late-orders/2/0 mia.frey/late-orders/2/2
diff policies desk
approvals
approvals --json
moments
moments --json
changes pos:400 pos:700
changes report-sent --json
changes report-sent pos:610 --jsonl
replay flaky-test --policy items:20
replay flaky-test --policy tokens:900 --json
replay flaky-test --policy tokens:900 --seen 61
replay flaky-test --policy items:12 --seen 61 --json
replay refund-7Q2KLM --policy all
replay refund-7Q2KLM --policy items:6 --jsonl
usage
usage --by day,model
usage --by agent --json
usage --by context,model --since 2026-11-16
usage --by model --until 2026-11-10 --jsonl
verify
verify --json
export heron-draft user:ada.brink -o -
export mia.frey/late-orders/2/2 -o -
export refund-7Q2KLM-softer --as atif -o -
export flaky-test-two-models --as sharegpt -o -
export heron-report-short --as otel -o -
"""
NARROW = """
contexts
show refund-7Q2KLM --ids --tail 12
show flaky-test@51 --evicted
show heron-report-short --tail 2
show heron-draft
show policies
show desk --tail 3
show user:ada.brink
log refund-7Q2KLM@9
log --limit 5
log --type run.edge_added --limit 3
log policies-draft --graph
audit refund-7Q2KLM@9
audit policies-draft
audit "Table(orders)"
graph late-orders --round 1
graph mia.frey/late-orders/2/2
search pairs --limit 2
search hotel --context policies
queue search cello
pool show policies@5 bags
memory search window
diff refund-7Q2KLM@17..20
diff policies@5..
diff flaky-test flaky-test-longer-wait --stat
diff mia.frey/late-orders/0/0@20..
approvals
moments
changes pos:400 pos:700
replay flaky-test --policy items:20
usage --by day,model
"""
CHANGING = """
fork refund-7Q2KLM@20 second
fork refund-7Q2KLM brief --brief "Be short." --task "Where is the bag?" --agent scout --json
fork flaky-test late --turns 1 --actor ines.rocha
fork policies@5 old-policies
fork user:ada.brink@4 other-ada --json
fork mia.frey/late-orders/1/0@30 anything
evict second refund-7Q2KLM@4 refund-7Q2KLM@5 --reason "it is answered"
evict second refund-7Q2KLM@7 --actor ines.rocha --json
restore second refund-7Q2KLM@4
restore second --json
pin second refund-7Q2KLM@4 refund-7Q2KLM@7 --reason "the request"
pin second refund-7Q2KLM@2 --json
evict second refund-7Q2KLM@4
unpin second refund-7Q2KLM@4 --json
unpin second refund-7Q2KLM@7
evict second refund-7Q2KLM@40
evict second refund-7Q2KLM@2 --reason first
approvals approve refund-7Q2KLM call_98b25f29765a --by noor.vasquez --reason "just this once"
approvals reject refund-7Q2KLM call_98b25f29765a --by noor.vasquez
approvals
merge second brief
merge second brief --how result --agent-id triage --json
merge late flaky-test --instructions --on-conflict theirs
merge old-policies policies --on-conflict newest --json
merge desk-night desk --json
summarize flaky-test --undo
summarize heron-report --undo --json
queue add desk "A bag was left." --description "a bag"
queue add desk '{"ticket": 7}' --parse --json
queue add night "Call back." --create --limit 2 --json
queue remove desk @22
queue restore desk @22 --json
pool add policies pets "Small pets come along." --description "pets"
pool add policies pets "No pets at all." --description "no pets" --json
pool add drafts one '[1, 2]' --parse --description list --create --limit 3
pool remove policies pets --reason "double"
pool restore policies pets --json
memory add user:ada.brink seat aisle --tag profile --kind semantic
memory add user:ada.brink miles 7 --parse --json
memory remove user:ada.brink seat --reason "asked for" --json
memory remove user:ada.brink --all
memory restore user:ada.brink seat
memory restore user:ada.brink --all --json
moments checked
moments before 300
moments checked 20
moments
changes report-sent
contexts
log --after 1062
log second --json
audit brief
verify
rebuild usage catalogue --check
rebuild usage --no-swap --json
rebuild usage --discard
rebuild approvals
projections --json"""


# How long a rebuild took.
TAKEN = re.compile(r"(?<=\"seconds\": )[\d.]+|(?<=events in )[\d.]+ \w+")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the small histories, of which nothing was asked."""
    place = tmp_path_factory.mktemp("told") / "untouched.db"
    demo.fill_store(str(place), size="small", until=UNTIL)
    return place


@pytest.fixture(scope="module")
def made(untouched: Path) -> Path:
    """A copy of it, which questions may add rows of projections to."""
    return Path(shutil.copy(untouched, untouched.with_name("demo.db")))


def named(line: str) -> str:
    """Return the name of a command's file."""
    return re.sub(r"[^\w.@-]+", "_", line).strip("_")


def said(line: str, db: Path, *, at_terminal: bool = False) -> str:
    """Return all that a command says, and how it ends if it fails."""
    ended = refold(*shlex.split(line), db=db, at_terminal=at_terminal)
    code = f"[ends with {ended.code}]\n" if ended.code else ""
    told = f"$ refold {line}\n{ended.out}{ended.err}{code}".replace(str(db.parent), "FOLDER")
    return TAKEN.sub("SECONDS", told)


@pytest.mark.parametrize("line", READING.strip().splitlines())
def test_what_is_asked(line: str, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one store, an hour after its last event."""
    stop_clock(monkeypatch)

    assert_as_written(f"asked/{named(line)}", said(line, made))


def test_a_narrow_terminal(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are cut, wrapped or divided to its width, in colours."""
    stop_clock(monkeypatch)
    for name, value in {"COLUMNS": "60", "TERM": "xterm", "PAGER": "cat"}.items():
        monkeypatch.setenv(name, value)

    told = "\n".join(said(line, made, at_terminal=True) for line in NARROW.strip().splitlines())
    assert_as_written("narrow", told.replace("\x1b[", "ESC["))


def test_what_is_changed(untouched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command after the other, each on what those before have left; then what the log says of it."""
    stop_clock(monkeypatch)
    place = tmp_path / "demo.db"
    shutil.copy(untouched, place)

    assert_as_written("changed", "\n".join(said(line, place) for line in CHANGING.strip().splitlines()))
