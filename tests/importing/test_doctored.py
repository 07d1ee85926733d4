"""Transcripts that somebody changed with care, or a disk without any: refused whole, or every answer works."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure import files as foreign_json
from refold.infrastructure.importing import as_transcripts, formats, import_as_runs, import_runs, read_runs
from tests.importing.anthropic_requests import REQUEST
from tests.importing.sessions import Writing, result, use
from tests.importing.shapes import answered, asked, call, said
from tests.importing.transcripts import TALK, as_lines, run, written
from tests.support.doctored import doctored, every_answer

PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
OPENAI = [
    said("developer", "Be kind."),
    said("user", [{"type": "text", "text": "Where?"}, PICTURE, {"type": "input_audio", "n": 1.5}], name="mia"),
    asked(call("a", arguments='{"id": 7}'), call("b", extra={"x": [1, None]}), content="One moment.", refusal=None),
    answered("a", '{"rows": [1, 2.5, null], "at": "2026-11-21"}'),
    answered("b", [{"type": "text", "text": "found"}], name="look_up"),
    {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
    {"role": "function", "name": "old", "content": '{"error": "none"}'},
    said("assistant", "There."),
    said("user", "thanks"),
]


def session() -> str:
    """Return the file of a session with a branch and pieces of a message."""
    writing = Writing()
    first = writing.user(None, "Where?")
    piece = writing.assistant(first, "One moment.", message_id="m1")
    asking = writing.assistant(piece, use("c1"), message_id="m1")
    found = writing.user(asking, [result("c1", [{"type": "text", "text": "found"}])], toolUseResult={"n": [1]})
    writing.talk(writing.assistant(found, "There."), "thanks", "welcome")
    writing.user(first, "no, elsewhere")
    writing.lines.append({"type": "summary", "summary": "About a place", "leafUuid": "l5"})
    return as_lines(*writing.lines)


SOURCES: dict[str, str] = {
    "openai": json.dumps(OPENAI),
    "lines": as_lines({"id": "one", "messages": OPENAI, "tools": [{"function": {"name": "f"}}]}, {"messages": TALK}),
    "tau": json.dumps([run(0, *TALK, info={"kind": [1]}), run(0, *TALK[:2], trial=1), run("x", *OPENAI)]),
    "anthropic": json.dumps(REQUEST),
    "session": session(),
}


def imported(store: refold.Store, path: Path, *, as_runs: bool, mend: bool = False) -> None:
    """Import a file as contexts, or as runs."""
    found = read_runs([path], mend_surrogates=mend)
    if as_runs:
        import_as_runs(store, as_transcripts(found))
    else:
        import_runs(store, found)


def refusal(path: Path, seed: int, folder: Path, *, as_runs: bool) -> str:
    """Return why a file is refused, or nothing once every answer about it works."""
    with refold.open(":memory:") as store:
        try:
            imported(store, path, as_runs=as_runs, mend=seed % 2 == 0)
        except InvalidInputError as error:
            assert store.now().heads == (), seed
            return str(error)
        every_answer(store, folder)
    return ""


@pytest.mark.long
@pytest.mark.parametrize("as_runs", [False, True], ids=["contexts", "runs"])
@pytest.mark.parametrize("name", SOURCES)
def test_by_chance(tmp_path: Path, name: str, as_runs: bool) -> None:
    """Whatever was changed: the file is refused by its name and leaves nothing, or every answer works on it."""
    path, said = tmp_path / "doctored.json", []
    for seed in range(60):
        path.write_bytes(doctored(SOURCES[name].encode(), seed))
        said.append(refusal(path, seed, tmp_path, as_runs=as_runs))

    assert all(str(path) in fault for fault in said if fault)
    assert 0 < sum(map(bool, said)) < len(said)


DEEP = "[" * 900 + "]" * 900
CAREFULLY: dict[str, tuple[str, str]] = {
    "nested": (json.dumps([said("user", "x", extra=None)]).replace("null", DEEP), "nested too deeply: JSON_DEPTH_MAX"),
    "a nested line": (as_lines(said("user", "x")) + DEEP + "\n", "line 2: its values are nested too deeply"),
    "nested within": (
        json.dumps([said("user", "x", extra=None)]).replace("null", "[" * 98 + "]" * 98),
        "run 1, an event .* cannot be stored: .*JSON_DEPTH_MAX",
    ),
    "no calls": (json.dumps([said("user", "x"), said("assistant", "y", tool_calls=0)]), r"messages\[1\]\.tool_calls"),
    "a time": (as_lines({**Writing().user(None, "x"), "timestamp": "10000-01-01"}), "line 1, field timestamp"),
    "a time without a zone": (as_lines({**Writing().user(None, "x"), "timestamp": "1e300"}), "field timestamp"),
}


@pytest.mark.parametrize("as_runs", [False, True], ids=["contexts", "runs"])
@pytest.mark.parametrize("name", CAREFULLY)
def test_with_care(tmp_path: Path, name: str, as_runs: bool) -> None:
    """Each is refused with the file and what is wrong, and nothing of it is there."""
    text, reason = CAREFULLY[name]
    path = written(tmp_path / "x.json", text)

    fault = refusal(path, 1, tmp_path, as_runs=as_runs)

    assert str(path) in fault
    assert re.search(reason, fault), fault


def test_a_file_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of it is read than a file may have."""
    monkeypatch.setattr(foreign_json, "FILE_BYTES_MAX", 10_000)

    with pytest.raises(InvalidInputError, match="/dev/zero is over FILE_BYTES_MAX, 10,000"):
        read_runs(["/dev/zero"])


class Key(str):
    """A key that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        type(self).compared += 1
        return str.__eq__(self, str(other))

    __hash__ = str.__hash__


def test_a_key_twice_among_many() -> None:
    """To find it takes a look at each key, and not at each for each."""
    keys: list[str] = [*(Key(f"key {number}") for number in range(2_000)), Key("key 1999")]

    with pytest.raises(ValueError, match="key 1999"):
        formats._object([(key, None) for key in keys])

    assert Key.compared < 3 * len(keys)


def test_tools_that_are_no_list(tmp_path: Path) -> None:
    """They lie beside the messages, as whatever else does."""
    path = written(tmp_path / "x.json", json.dumps({"tools": 7, "messages": [said("user", "x")]}))

    with refold.open(":memory:") as store:
        imported(store, path, as_runs=True)
        every_answer(store, tmp_path)
        assert store.run("import", "x-1").nodes() == ["Query(query00000)"]
