"""The program around the commands: help, versions, which database, exit codes."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import refold as package
from refold.domain.errors import ConcurrencyError
from refold.infrastructure.cli import program
from tests.cli.running import environment, refold, spawned

ADAPTERS = "refold.infrastructure.frameworks"
SERIALIZATION = "cryptography.hazmat.primitives.serialization"
COMMANDS = ["import", "contexts", "show", "log", "diff", "stats"]


def test_the_help_names_every_command() -> None:
    """With one line about each."""
    ended = refold("--help")

    assert ended.code == 0
    assert [
        line.split()[0] for line in ended.out.splitlines() if line.startswith("  ") and line.split()[0] in COMMANDS
    ] == (COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    """-h and --help say the same."""
    ended = refold(command, "--help")

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"Usage: refold {command} ")
    assert refold(command, "-h") == ended


@pytest.mark.parametrize("command", COMMANDS)
def test_reading_commands_can_print_json(command: str) -> None:
    """All but the one that writes; those that can print JSON Lines, too."""
    said = refold(command, "--help").out

    assert ("--json " in said) == (command != "import")
    assert ("--jsonl " in said) == (command != "import")


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Have each command raise an error."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(program, "_invoke", fail)


@pytest.mark.parametrize("error", [sqlite3.OperationalError("no such table: x"), psycopg.DataError("no such table: x")])
def test_what_a_driver_raises_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Should an error of a database ever not be one of Refold's."""
    failing(monkeypatch, error)

    assert refold("contexts").fault == "the database failed: no such table: x; was it made by this version of Refold?"


def test_another_writer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do, where a change came too late."""
    failing(monkeypatch, ConcurrencyError("chat:a", expected=3, actual=4))

    assert refold("contexts").fault == "another program wrote to chat:a at the same time: run the command again"


def test_a_fault_is_shown_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no database and no file raises is an error of ours."""
    failing(monkeypatch, KeyError("x"))

    with pytest.raises(KeyError):
        refold("contexts")


def test_the_version_is_the_packages() -> None:
    """As the facade has it."""
    assert refold("--version") == (0, f"refold {package.__version__}\n", "")


def test_help_imports_little() -> None:
    """No command, no drawing of bars, no server's driver: `refold --help` answers at once."""
    code = (
        "import sys; from refold.infrastructure.cli import main; main(['--help']);"
        "print(*sys.modules, file=sys.stderr, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    imported = set(done.stderr.split())
    assert not imported & {"rich", "psycopg", "psycopg_pool", "eventsourcing", "sqlite3", "zstandard"}
    assert not imported & {f"refold.infrastructure.cli.{name}" for name in ("show", "log", "diff", "import_files")}


def test_commands_need_no_bar(database: Path) -> None:
    """rich is imported where a bar is drawn on a terminal, and there only."""
    code = (
        "import sys; from refold.infrastructure.cli import main;"
        "[main(['--db', sys.argv[1], *words.split()]) for words in ('import air.json', 'show air-1', 'contexts')];"
        "sys.exit('rich' in sys.modules or 'psycopg' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(database)]
    assert subprocess.run(command, capture_output=True, env=environment()).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["nonsense"], "No such command 'nonsense' (see `refold --help`)"),
        (["cntexts"], "No such command 'cntexts': did you mean contexts? (see `refold --help`)"),
        # click says the rest in its own way, which has changed.
        (["--nonsense"], "No such option"),
        (["show", "-home-mia/0a1b"], "No such option"),
        (["show"], "Missing argument 'CTX[@V]' (see `refold show --help`)"),
        (["import"], "Missing argument 'FILE...' (see `refold import --help`)"),
        (
            ["import", "a", "--allow", "x"],
            "--allow and --dry-run go with --from-langgraph (see `refold import --help`)",
        ),
        (["import", "a", "--dry-run"], "--allow and --dry-run go with --from-langgraph (see `refold import --help`)"),
        *(
            (
                ["import", "--from-langgraph", "x.db", *options],
                "with --from-langgraph only --prefix, --allow, --dry-run",
            )
            for options in (["a"], ["--user", "u"], ["--as-runs"], ["--replace-surrogates"], ["--format", "openai"])
        ),
        (["seal"], "a file packs its events by itself: give postgresql://... (see `refold seal --help`)"),
        (["contexts", "a"], "Got unexpected extra argument (a) (see `refold contexts --help`)"),
        (["show", "a", "--as", "pdf"], "Invalid value for '--as': 'pdf' is not one of"),
        (["show", "a", "--tail", "x"], "Invalid value for '--tail': 'x' is not a whole number (see "),
        (["copy", "a", "b", "--lag", "x"], "Invalid value for '--lag': 'x' is not a number (see "),
        (["show", "a", "--tail", "0"], "Invalid value for '--tail': 0 is not in the range"),
        (["import", "a", "--format", "pdf"], "Invalid value for '--format': 'pdf' is not one of"),
        (
            ["--redact", "keys,x", "contexts"],
            "Invalid value for '--redact': there is no group 'x': take all, or some of ",
        ),
        (
            ["keys", "rotate", "--keys", "k"],
            "--keys stands before the command: refold --keys FILE keys rotate (see `refold keys rotate --help`)",
        ),
        (["--db", "", "contexts"], "Invalid value for '--db': it is empty"),
        (["contexts", "--db", "a\udcff"], "Invalid value for '--db': it is not UTF-8 text"),
        (["import", "a", "--user", "\udcff"], "Invalid value for '--user': it is not UTF-8 text"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], fault: str) -> None:
    """And the exit code 2; nothing is made."""
    ended = refold(*arguments)

    assert ended.code == 2
    assert ended.fault.startswith(fault)
    is_id = arguments[-1].startswith("-home")
    assert ("a context whose id begins with - has its kind in front: " in ended.fault) == is_id
    assert list(Path().glob("*.db")) == []


def test_nothing_asked_shows_the_help() -> None:
    """On stderr, as wrong use does."""
    ended = refold()

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Usage: refold ")


def test_the_database_is_named_before_or_behind_the_command(database: Path) -> None:
    """The command's own wins over the program's, which wins over REFOLD_DB."""
    expected = refold("contexts", db=database).out

    assert "air-0.0" in expected
    assert refold("contexts", "--db", database).out == expected
    assert refold("contexts", "--db", database, db=Path("none.db")).out == expected


def test_the_database_is_named_by_the_environment(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """REFOLD_DB is used where no option is; an empty one counts as none."""
    monkeypatch.setenv("REFOLD_DB", str(database))
    assert "air-0.0" in refold("contexts").out

    monkeypatch.setenv("REFOLD_DB", "")
    assert "there is no database refold.db" in refold("contexts").fault


def test_the_database_is_here_by_default(transcript: Path) -> None:
    """./refold.db is made by the import and found by the rest."""
    assert refold("import", transcript).code == 0
    assert Path("refold.db").exists()
    assert "air-0.0" in refold("contexts").out


def test_as_a_process(database: Path) -> None:
    """`python -m refold` is the same program."""
    assert spawned("show", "air-1", "--json", "--db", database) == refold("show", "air-1", "--json", db=database)
    assert spawned("show", "none", "--db", database).code == 1
    assert spawned("show", "--db", database).code == 2


def test_a_name_is_completed() -> None:
    """Shells ask with an environment variable."""
    asking = environment(_REFOLD_COMPLETE="bash_complete", COMP_WORDS="refold cont", COMP_CWORD="1")
    ended = spawned(env=asking)

    assert (ended.code, ended.out.split()) == (0, ["plain,contexts"])


LISTS = (
    ["contexts"], ["log"], ["log", "air-1"], ["audit", "air-1"], ["search", "the"], ["moments"], ["changes", "pos:3"],
    ["projections"], ["usage"], ["approvals"], ["log", "--graph"], ["show", "air-1", "--as", "openai"],
)  # fmt: skip
VALUES = (["show", "air-1"], ["diff", "air-1@1.."], ["stats"], ["replay", "air-1", "--policy", "all"], ["verify"])


@pytest.mark.parametrize("arguments", LISTS, ids=" ".join)
def test_a_list_as_json_lines(database: Path, arguments: list[str]) -> None:
    """Each entry is a line; no line is a bracket or ends with a comma."""
    assert refold("moments", "now", db=database).code == 0
    whole = refold(*arguments, "--json", db=database).json
    lines = refold(*arguments, "--jsonl", db=database)

    assert (lines.code, lines.err) == (0, "")
    assert [json.loads(line) for line in lines.out.splitlines()] == whole
    assert refold(*arguments, "--jsonl", "--json", db=database) == lines


@pytest.mark.parametrize("arguments", VALUES, ids=" ".join)
def test_a_value_as_json_lines(database: Path, arguments: list[str]) -> None:
    """It is on one line, and the same."""
    whole = refold(*arguments, "--json", db=database).json
    (line,) = refold(*arguments, "--jsonl", db=database).out.splitlines()

    assert json.loads(line) == whole


def test_an_empty_list_is_no_line(database: Path) -> None:
    """As JSON it is an empty array."""
    assert refold("approvals", "--json", db=database).out == "[]\n"
    assert refold("approvals", "--jsonl", db=database).out == ""


@pytest.mark.parametrize(
    ("arguments", "absent", "package_named"),
    [
        (["ui"], "uvicorn", "refold[ui]"),
        (["rebuild", "--all", "--dask", "tcp://127.0.0.1:1"], "distributed", "refold[dask]"),
        (["import", "--from-langgraph", "x.db"], f"{ADAPTERS}.langgraph.migration", "refold[langgraph]"),
        (["mcp"], f"{ADAPTERS}.mcp.server", "refold[mcp]"),
        (["export", "--parquet", "-o", "x.parquet"], "pyarrow", "refold[parquet]"),
        (
            ["erase", "--user", "mia", "--why", "asked", "--for-good", "--sign", "key.pem"],
            SERIALIZATION,
            "refold[keys]",
        ),
    ],
)
def test_a_package_that_is_missing(
    database: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], absent: str, package_named: str
) -> None:
    """One line says what is to be installed; the command was used rightly, so the exit code is 1."""
    monkeypatch.setitem(sys.modules, absent, None)

    ended = refold(*arguments, db=database)
    assert package_named in ended.fault
    assert ended.code == 1


def test_a_locale_without_utf8(tmp_path: Path) -> None:
    """Python has other bytes than those of ASCII as surrogates then: they are text all the same."""
    with package.open(tmp_path / "s.db") as store:
        chat = store.chat("käse")
        chat.add_message("user", "hällo")
        chat.name_version("ä")
        store.name_moment("ä")
    in_ascii = {text: text.encode().decode("ascii", "surrogateescape") for text in ("käse", "hällo", "ä")}

    shown = refold("show", f"{in_ascii['käse']}@{in_ascii['ä']}", db=tmp_path / "s.db")
    found = refold("search", in_ascii["hällo"], "--context", in_ascii["käse"], db=tmp_path / "s.db")
    changed = refold("log", in_ascii["käse"], "--after", in_ascii["ä"], db=tmp_path / "s.db")

    assert (shown.code, found.code, changed.code) == (0, 0, 0)
    assert "hällo" in shown.out
    assert "hällo" in found.out
