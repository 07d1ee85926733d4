"""Which conversations a file holds, and what their contexts are called."""

from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.importing import import_file
from refold.infrastructure.importing.formats import Format, conversations_in, read_document, safe_id
from tests.importing.shapes import said
from tests.importing.transcripts import HELLO, TALK, as_lines, kept, run, written


@pytest.mark.parametrize(
    ("content", "contexts"),
    [
        (TALK, {"x-1": TALK}),
        ({"messages": TALK}, {"x-1": TALK}),
        ({"messages": TALK, "id": "abc"}, {"x-abc": TALK}),
        ({"messages": TALK, "id": 7}, {"x-7": TALK}),
        ({"messages": TALK, "id": ""}, {"x-1": TALK}),
        ({"messages": TALK, "id": None}, {"x-1": TALK}),
        ({"messages": []}, {"x-1": []}),
        (HELLO, {"x-1": [HELLO]}),
        ([{"messages": TALK}, {"messages": [HELLO]}], {"x-1": TALK, "x-2": [HELLO]}),
        ([TALK, [HELLO]], {"x-1": TALK, "x-2": [HELLO]}),
        (as_lines(TALK, [HELLO]), {"x-1": TALK, "x-2": [HELLO]}),
        (as_lines({"messages": TALK}, [HELLO]), {"x-1": TALK, "x-2": [HELLO]}),
        (as_lines(*TALK), {"x-1": TALK}),
        (as_lines(TALK), {"x-1": TALK}),
        ("\n" + as_lines(TALK) + "\n\r\n" + as_lines([HELLO]), {"x-1": TALK, "x-2": [HELLO]}),
        ("\ufeff" + as_lines(HELLO), {"x-1": [HELLO]}),
        (as_lines({"id": "a", "messages": TALK}, {"id": "b", "messages": []}), {"x-a": TALK, "x-b": []}),
        (as_lines({"id": "a", "messages": TALK}, {"id": "a", "messages": []}), {"x-1": TALK, "x-2": []}),
        (as_lines({"id": "a", "messages": TALK}, {"messages": []}), {"x-1": TALK, "x-2": []}),
        ([run(5, *TALK)], {"x-5": TALK}),
        (run(5, *TALK), {"x-5": TALK}),
        (as_lines(run(5, *TALK), run(6)), {"x-5": TALK, "x-6": []}),
        ([run(0, *TALK), run(0, HELLO, trial=1)], {"x-0.0": TALK, "x-0.1": [HELLO]}),
        ([run(0, *TALK), run(0, trial=1), run(1, HELLO)], {"x-0.0": TALK, "x-0.1": [], "x-1": [HELLO]}),
        ([run("a b/c", *TALK)], {"x-a-b-c": TALK}),
        ([run(None, *TALK), run(True)], {"x-1": TALK, "x-2": []}),
        ([run(0, *TALK), run(0)], {"x-1": TALK, "x-2": []}),
        ([run(0, *TALK, trial=None), run(0)], {"x-1": TALK, "x-2": []}),
    ],
)
def test_a_file_is_known_by_what_lies_in_it(
    store: refold.Store, tmp_path: Path, content: Any, contexts: dict[str, Any]
) -> None:
    """Lists, objects, JSON Lines, one message a line, runs: each gives the contexts it should."""
    import_file(store, written(tmp_path / "x.any", content))

    assert kept(store) == contexts


def test_line_separators_within_a_text_end_no_line(store: refold.Store, tmp_path: Path) -> None:
    """U+2028 and its like stand in JSON texts as they are."""
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"role": "user", "content": "a\u2028b\x85c"}\n{"role": "user", "content": "d"}\n', encoding="utf-8"
    )
    import_file(store, path)

    assert kept(store) == {"x-1": [said("user", "a\u2028b\x85c"), said("user", "d")]}


@pytest.mark.parametrize(
    ("name", "prefix", "context"),
    [
        ("airline.json", None, "airline-1"),
        ("my runs (2).json", None, "my-runs-2-1"),
        ("a@b..c.json", None, "a-b.c-1"),
        ("Gespräche.json", None, "Gespräche-1"),
        ("@.json", None, "context-1"),
        ("airline.json", "support", "support-1"),
        ("airline.json", "a:b c", "a:b c-1"),
    ],
)
def test_contexts_are_named_after_the_file(
    store: refold.Store, tmp_path: Path, name: str, prefix: str | None, context: str
) -> None:
    """What an id cannot hold becomes a dash; a prefix is taken as it is."""
    import_file(store, written(tmp_path / name, [HELLO]), prefix=prefix)

    assert list(kept(store)) == [context]


@pytest.mark.parametrize("text", ["", "-", "...", "a..b", "a@b", "a\x00b", "日本", "a b", "-rf", "über/alles"])
def test_a_safe_id_can_be_typed(text: str) -> None:
    """No character needs quotes, and none has a meaning in an address."""
    safe = safe_id(text)

    assert safe
    assert not safe.startswith("-")
    assert ".." not in safe
    assert not set(safe) & set("@ \x00/")


def test_the_format_can_be_demanded(store: refold.Store, tmp_path: Path) -> None:
    """Then a file of the other form is an error that says what was found."""
    runs, talk = written(tmp_path / "runs.json", [run(0, *TALK)]), written(tmp_path / "talk.json", TALK)
    import_file(store, runs, format="tau")
    import_file(store, talk, format="openai")

    with pytest.raises(InvalidInputError, match=r"expected OpenAI messages.*'traj'"):
        import_file(store, runs, format="openai")
    with pytest.raises(InvalidInputError, match=r"expected runs: objects with traj, found .* keys 'role', 'content'"):
        import_file(store, talk, format="tau")


USED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}


@pytest.mark.parametrize(
    ("content", "wanted", "dialects"),
    [
        ([HELLO], "auto", ["openai"]),
        ([HELLO], "openai", ["openai"]),
        ([HELLO], "anthropic", ["anthropic"]),
        ([[HELLO], [USED]], "auto", ["anthropic", "anthropic"]),
        ([[HELLO], [USED]], "openai", ["openai", "openai"]),
        ([run(0, USED)], "auto", ["openai"]),
        ([run(0, USED)], "tau", ["openai"]),
    ],
)
def test_the_dialect_is_found_or_demanded(tmp_path: Path, content: Any, wanted: Format, dialects: list[str]) -> None:
    """It is looked for where nothing is demanded, and not in runs, which are in OpenAI's."""
    document = read_document(written(tmp_path / "x.json", content))

    assert [one.dialect for one in conversations_in(document, wanted)] == dialects


def test_what_lies_beside_the_messages_is_kept(store: refold.Store, tmp_path: Path) -> None:
    """It is what the context was opened with, beside the file's name and the user."""
    import_file(store, written(tmp_path / "x.json", [run(3, *TALK, info={"a": [1.5, None]})]), user="mia")
    (recorded,) = store.chat("x-3", create=False).history(until=1)

    assert recorded.event.attributes == b'{"info":{"a":[1.5,null]},"reward":1.0,"task_id":3,"trial":0}'
    assert (recorded.event.source, recorded.event.user) == ("x.json", "mia")
    assert recorded.meta.actor == "import"
