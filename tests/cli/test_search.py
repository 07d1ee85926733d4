"""`refold search`: where something was said."""

import json
import unicodedata
from pathlib import Path

import pytest

import refold as package
from tests.cli.running import environment, refold, spawned


def test_a_line_for_each_hit(talking: Path) -> None:
    """Where it was added, as it can be typed, and the text around it."""
    ended = refold("search", "order", db=talking)

    assert sorted(ended.out.splitlines()) == [
        'support@3  Where is order 7?',
        'support@4  lookup {"order": 7}',
        'support@7  And order 8?',
    ]  # fmt: skip
    assert (ended.code, ended.err) == (0, "")


def test_the_shape_of_the_json(talking: Path) -> None:
    """An array; the best comes first."""
    [hit] = refold("search", '"on its way"', "--json", db=talking).json
    rank = hit.pop("rank")

    assert hit == {
        "kind": "chat", "context": "support", "version": 6, "item": "answer", "snippet": "It is on its way.",
    }  # fmt: skip
    assert isinstance(rank, float)


def test_what_left_the_view(talking: Path) -> None:
    """It is found all the same."""
    assert refold("evict", "support", "@3", db=talking).code == 0

    assert refold("search", "where", db=talking).out == "support@3  Where is order 7?\n"


def test_in_one_context(talking: Path) -> None:
    """Named with its kind or without; a fork is searched with what it goes on from."""
    assert refold("fork", "support@3", "branch", db=talking).code == 0
    with package.open(talking) as store:
        store.chat("branch").add_message("user", "order 9")
        store.chat("other").add_message("user", "order 10")

    def places(*options: str) -> list[str]:
        return sorted(line.split()[0] for line in refold("search", "ord*", *options, db=talking).out.splitlines())

    assert places("--context", "branch") == places("--context", "chat:branch") == ["branch@2", "support@3"]
    assert places("--context", "other", "--kind", "chat") == ["other@2"]
    assert places("--kind", "chat") == ["branch@2", "other@2", "support@3", "support@4", "support@7"]
    fault = refold("search", "order", "--context", "supp", db=talking).fault
    assert fault.startswith("there is no context 'supp': did you mean support? `refold contexts`")
    assert refold("hold", "supp", "--why", "a case", db=talking).fault == fault


def test_more_than_the_limit(talking: Path) -> None:
    """The best are shown, and a note that there may be more; not so in JSON."""
    ended = refold("search", "order", "--limit", "2", db=talking)

    assert len(ended.out.splitlines()) == 2
    assert ended.err == "these are the best 2: --limit N shows more\n"
    assert refold("search", "order", "--limit", "2", "--json", db=talking).err == ""


def test_nothing_is_found(talking: Path) -> None:
    """A note on stderr, and an empty array where JSON is asked for."""
    assert refold("search", "unheard", db=talking) == (0, "", "nothing was found\n")
    assert refold("search", "unheard", "--json", db=talking) == (0, "[]\n", "")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["?!"], "the query '?!' has no word: give letters or digits to look for"),
        ([""], "it is empty"),
        (["w " * 65], "QUERY_WORDS_MAX is 64, and this would take 65"),
        (["order", "--kind", "chart"], "'chart' is none of chat, queue, pool, window, memory"),
        (["order", "--limit", "0"], "0 is not in the range x>=1"),
        (["\udcff"], "it is not UTF-8 text"),
        (["order", "8"], "unexpected extra argument (8)"),
    ],
)
def test_used_wrongly(talking: Path, arguments: list[str], fault: str) -> None:
    """It ends with 2, and says what was wrong with which argument."""
    ended = refold("search", *arguments, db=talking)

    assert ended.code == 2
    assert fault in ended.fault


def test_a_missing_database(tmp_path: Path) -> None:
    """To search makes none."""
    assert "there is no database" in refold("search", "order", db=tmp_path / "none.db").fault
    assert list(tmp_path.iterdir()) == []


def test_text_that_would_steer_a_terminal(tmp_path: Path) -> None:
    """It is shown by its number, and JSON has it whole but for a NUL."""
    hostile = "".join(map(chr, (*range(32), *range(127, 160)))) + "\u202e\u2066\u200b\u2028\ufeff"
    with package.open(tmp_path / "x.db") as store:
        store.chat("a\u202eb").add_message("user", f"before{hostile}after")
    plain, as_json = (refold("search", "after", *options, db=tmp_path / "x.db") for options in ([], ["--json"]))

    for ended in (plain, as_json):
        assert {char for char in ended.out if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")} == {"\n"}
    assert plain.out.startswith("a\\u202eb@2  before")
    assert "\x1b" in json.loads(as_json.out)[0]["snippet"]


def test_lines_fit_the_terminal(tmp_path: Path) -> None:
    """Where there is one, they end at its edge."""
    with package.open(tmp_path / "x.db") as store:
        store.chat("long").add_message("user", "words and " * 20)
        store.chat("b").add_message("user", "words")
    ended = spawned("search", "words", "--db", tmp_path / "x.db", env=environment(COLUMNS="60"))

    assert sorted(map(len, ended.out.splitlines())) == [len("b@2     words"), 60]
