"""`refold import`: transcripts become contexts, or nothing happens at all."""

import hashlib
import json
import sys
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import refold as package
from refold.infrastructure import frameworks
from refold.infrastructure.cli.progress import progress_bar
from tests.cli.running import environment, refold, spawned
from tests.importing.shapes import asked, call, said
from tests.importing.transcripts import HELLO, TALK, as_lines, run, written
from tests.support.project import ROOT

REAL = ROOT.parent / "shared" / "data" / "tau_airline_100.json"
HAS_REAL = pytest.mark.skipif(not REAL.exists(), reason="shared/data is not beside this checkout")


def contents(database: Path) -> tuple[str, list[str]]:
    """Return a digest of the database's bytes, and of every event in it."""
    with package.open(database, read_only=True) as store:
        events = [recorded.digest.hex() for row in store.contexts() for recorded in store.chat(row.id).history()]
    return hashlib.sha256(database.read_bytes()).hexdigest(), events


def test_what_was_done_is_said(transcript: Path) -> None:
    """In one line on stdout, nothing on stderr."""
    assert refold("import", transcript) == (
        0, "refold.db: 3 contexts: 3 added; 9 messages as 11 items in air-0.0, air-0.1, air-1\n", ""
    )  # fmt: skip
    assert refold("import", transcript) == (0, "refold.db: 3 contexts: 3 unchanged\n", "")
    written(transcript, [*json.loads(transcript.read_text()), run(2, HELLO)])
    assert refold("import", transcript).out == (
        "refold.db: 4 contexts: 1 added, 3 unchanged; 1 message as 1 item in air-2\n"
    )


def test_several_files(tmp_path: Path) -> None:
    """Each has its own prefix, or all have one."""
    files = [written(tmp_path / "a.json", TALK), written(tmp_path / "b.jsonl", as_lines(run(0, HELLO), run(1)))]
    assert refold("import", *files, "--user", "mia").code == 0
    assert refold("import", files[0], "--prefix", "c").code == 0

    listed = refold("contexts", "--json").json
    assert [(row["id"], row["user"]) for row in listed] == [
        ("a-1", "mia"), ("b-0", "mia"), ("b-1", "mia"), ("c-1", None),
    ]  # fmt: skip


def test_what_changed_beside_the_messages_is_noted(transcript: Path) -> None:
    """On stderr, and the import goes on."""
    refold("import", transcript)
    written(transcript, [{**one, "reward": 0} for one in json.loads(transcript.read_text())])
    ended = refold("import", transcript)

    assert (ended.code, ended.out) == (0, "refold.db: 3 contexts: 3 unchanged\n")
    assert len(ended.err.splitlines()) == 3
    assert ended.err.startswith("note: ")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "x.json is empty: expected JSON or JSON Lines"),
        ("[{]", "x.json is not JSON: expecting property name enclosed in double quotes at line 1, column 3"),
        ('{"role":"user"}\n{', "x.json is not JSON Lines: expecting property name"),
        ("[1]", "x.json: expected OpenAI messages"),
        ([HELLO, {"content": "x"}], "x.json, run 1, messages[1].role: missing, expected one of"),
        ([run(0, HELLO), run(1, said("robot"))], "x.json, run 2, messages[0].role: 'robot' is no role"),
        ([said("user", 3)], "x.json, run 1, messages[0].content: found a number, expected text, a list"),
        (
            [said("assistant", None, tool_calls="x")],
            "x.json, run 1, messages[0].tool_calls: found text, expected a list",
        ),
        (
            [asked(call("a", arguments=3))],  # type: ignore[arg-type]
            "x.json, run 1, messages[0].tool_calls[0].function.arguments: found a number, expected text",
        ),
        (
            [{"role": "tool", "content": "x"}],
            "x.json, run 1, messages[0].tool_call_id: missing, expected text",
        ),
        (
            [said("user", "x\ud800")],
            "x.json, run 1, messages[0].content: a lone surrogate (U+D800) at index 1",
        ),
    ],
)
def test_a_bad_file_changes_nothing(database: Path, content: Any, fault: str) -> None:
    """One line, exit code 1, no byte of the database different; without a database none is made."""
    good, bad = written(Path("a.json"), TALK), written(Path("x.json"), content)
    before = contents(database)

    assert refold("import", bad, db=database).fault.startswith(fault)
    assert refold("import", good, bad, db=database).fault.startswith(fault)
    assert refold("import", good, bad).code == 1
    assert contents(database) == before
    assert not Path("refold.db").exists()


def test_a_changed_file_changes_nothing(database: Path, transcript: Path) -> None:
    """Not even for its runs that have not changed, or are new."""
    before = contents(database)
    runs = json.loads(transcript.read_text())
    runs[1]["traj"][2]["content"] = "lost"
    written(transcript, [run(9, HELLO), *runs])

    fault = refold("import", transcript, db=database).fault
    assert "run 3, messages[2] differs from that of the context 'air-0.1'" in fault
    assert contents(database) == before


def test_what_is_no_file(tmp_path: Path) -> None:
    """Missing files and folders, as the shell hands them over."""
    assert refold("import", "none.json").fault == "there is no file none.json: check the name"
    assert refold("import", tmp_path).fault == f"{tmp_path} is a folder: name a file in it"
    assert refold("import", "").fault == ". is a folder: name a file in it"
    Path("broken.json").write_bytes(b"\xff\xfe")
    assert refold("import", "broken.json").fault.startswith("broken.json is not UTF-8 text")
    assert not Path("refold.db").exists()


def test_surrogates_can_be_replaced() -> None:
    """On demand, as the error says."""
    written(Path("x.json"), [said("user", "x\ud800")])

    assert refold("import", "x.json", "--replace-surrogates").code == 0
    assert refold("show", "x-1", "--as", "openai").json == [said("user", "x\ufffd")]


def test_a_bar_is_drawn_where_it_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr, if that is a terminal; it is gone when the work is done."""
    screen = StringIO()
    monkeypatch.setattr(sys, "stderr", _Terminal(screen))
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("importing") as told:
        assert told is not None
        told(1, 3)

    assert "importing" in screen.getvalue()
    assert "33%" in screen.getvalue()


class _Terminal:
    """A stream that says it is a terminal."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        """Say yes."""
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Put these reports in the place of an import from LangGraph, whose package is not installed."""
    found: list[Any] = []

    def import_threads(store: package.Store, source: str, **options: Any) -> list[Any]:
        store.chat("t").add_message("user", f"{source} {options['prefix']} {options['allowed']} {options['dry_run']}")
        return found

    module: Any = ModuleType("migration")
    module.import_threads, module.require_threads = import_threads, lambda source, allowed: None
    monkeypatch.setitem(sys.modules, f"{frameworks.__name__}.langgraph", ModuleType("langgraph"))
    monkeypatch.setitem(sys.modules, f"{frameworks.__name__}.langgraph.migration", module)
    return found


def test_threads_of_langgraph(threads: list[Any], tmp_path: Path) -> None:
    """Outcomes are counted, one that was refused is an exit code, and a dry run makes no database."""
    target = tmp_path / "x.db"
    outcomes = [("a", "added", 3), ("b", "unchanged", 0), ("c", "added", 1)]
    threads += [SimpleNamespace(thread=name, outcome=said, checkpoints=n, reason="") for name, said, n in outcomes]
    options = ("--from-langgraph", "old.db", "--db", target)

    tried = refold("import", *options, "--dry-run")
    assert (tried.code, target.exists()) == (0, False)
    assert tried.err == "note: nothing is copied yet: leave --dry-run out\n"
    assert tried.out == f"{target}: 3 threads: 2 added, 1 unchanged; 4 checkpoints\n"

    threads.append(SimpleNamespace(thread="d", outcome="refused", checkpoints=0, reason="it has a lock"))
    done = refold("import", *options, "--prefix", "p", "--allow", "x.Y")
    assert done.code == 1
    assert done.out == f"{target}: 4 threads: 2 added, 1 unchanged, 1 refused; 4 checkpoints\n"
    assert done.err == "note: thread d: it has a lock\n"
    with package.open(target) as store:
        assert [message.text for message in store.chat("t").messages()] == ["old.db p ('x.Y',) False"]


@HAS_REAL
def test_a_hundred_real_runs() -> None:
    """All of them come out of `refold show --as openai` as they went in."""
    assert refold("import", REAL, "--prefix", "airline").out.endswith(" and 95 more\n")
    runs = json.loads(REAL.read_bytes())

    for one in runs:
        name = f"airline-{one['task_id']}.{one['trial']}"
        assert refold("show", name, "--as", "openai").json == one["traj"]


@pytest.mark.long
@HAS_REAL
def test_real_runs_by_processes_of_their_own() -> None:
    """The program itself, from an import to a few of the contexts."""
    assert spawned("import", REAL, "--prefix", "airline").code == 0
    runs = json.loads(REAL.read_bytes())

    for one in runs[::40]:
        name = f"airline-{one['task_id']}.{one['trial']}"
        shown = spawned("show", name, "--as", "openai", env=environment(REFOLD_DB="refold.db"))
        assert shown.json == one["traj"]
