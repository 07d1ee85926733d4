"""What lies in a log is not to be trusted: no byte of it may steer a terminal."""

import json
import unicodedata
from pathlib import Path

import pytest

from tests.cli.running import environment, refold, spawned
from tests.importing.shapes import answered, asked, call, said
from tests.importing.transcripts import run, written

HOSTILE = "".join(map(chr, (*range(32), *range(127, 160)))) + "\u202e\u2066\u200b\u2028\ufeff\U000e0041"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A database whose every text is hostile."""
    nasty = f"before{HOSTILE}after"
    messages = [said("user", nasty), asked(call(nasty, nasty, nasty)), answered(nasty, nasty)]
    path = written(tmp_path / "x.json", [run("x", *messages, info=nasty)])
    database = tmp_path / "hostile.db"
    assert refold("import", path, "--user", "\x1b[2J", "--prefix", "a", db=database).code == 0
    return database


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "a-x"],
        ["show", "a-x", "--json"],
        ["show", "a-x", "--as", "openai"],
        ["log"],
        ["log", "--json"],
        ["contexts"],
        ["contexts", "--json"],
        ["diff", "a-x@.."],
        ["diff", "a-x@..", "--json"],
        ["stats"],
    ],
)
def test_no_command_prints_a_control_character(hostile: Path, arguments: list[str]) -> None:
    """Nothing but line breaks gets through; everything else is shown by its number."""
    ended = refold(*arguments, db=hostile)

    assert ended.code == 0
    assert {char for char in ended.out if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")} <= {"\n"}


def test_what_is_hidden_from_a_terminal_is_still_there(hostile: Path) -> None:
    """JSON holds every character, written by its number."""
    (first, *_) = refold("show", "a-x", "--as", "openai", db=hostile).json

    assert first["content"] == f"before{HOSTILE}after"


def test_an_error_is_harmless_too(hostile: Path, tmp_path: Path) -> None:
    """File names, ids and keys end up in errors."""
    nasty = tmp_path / "a\x1b[2J\nb.json"
    for ended in (
        refold("import", nasty, db=hostile),
        refold("import", written(nasty, json.dumps({HOSTILE: 1})), db=hostile),
        refold("show", f"x{HOSTILE}", db=hostile),
        refold("show", f"a-x@x{HOSTILE}", db=hostile),
        refold("log", "--type", HOSTILE, db=hostile),
        refold("show", "a-x", "--as", HOSTILE, db=hostile),
    ):
        assert {char for char in ended.fault if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")} == set()


def test_a_terminal_of_another_encoding(hostile: Path, tmp_path: Path) -> None:
    """What it cannot show is written by its number, and JSON stays JSON."""
    messages = [said("user", "ä漢\U0001f600")]
    refold("import", written(tmp_path / "y.json", messages), db=hostile)
    latin = {"env": environment(PYTHONIOENCODING="latin-1", PYTHONUTF8="0"), "encoding": "latin-1"}
    text = spawned("show", "y-1", "--db", hostile, **latin)
    back = spawned("show", "y-1", "--as", "openai", "--db", hostile, **latin)

    assert "user       ä\\u6f22\\U0001f600" in text.out
    assert back.json == messages


def test_paths_in_a_locale_without_utf_8(hostile: Path) -> None:
    """Python finds no file by a text that it decoded itself: they are refused, and none is passed over."""
    ascii_only = environment(PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LC_ALL="C")
    for option in ("--db", "--witness", "--keys"):
        ended = spawned(option, "w\u00fc.jsonl", "contexts", env=ascii_only)
        assert (ended.code, "it is not ASCII text: set a locale with UTF-8" in ended.err) == (2, True), ended


def test_changes_print_no_control_character(hostile: Path) -> None:
    """Reasons, names and summaries of them are as little to be trusted."""
    named = ["--actor", HOSTILE.replace("\x00", ""), "--reason", "why\x1b[2J"]
    for arguments in (
        ["fork", "a-x", "b", "--brief", "do\x1b[2J", "--json"],
        ["evict", "a-x", "@2", *named],
        ["show", "a-x", "--evicted", "--ids"],
        ["log"],
        ["log", "--json"],
        ["merge", "b", "a-x"],
        ["pin", "a-x", "@3"],
        ["restore", "a-x", "--json"],
        ["show", "a-x", "--as", "anthropic"],
        ["show", "a-x", "--as", "google"],
    ):
        ended = refold(*arguments, db=hostile)
        assert ended.code == 0, ended
        said = ended.out + ended.err
        assert {char for char in said if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")} <= {"\n"}
