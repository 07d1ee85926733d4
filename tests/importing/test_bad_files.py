"""Whatever is wrong with a file, one sentence says what and where, and nothing is imported."""

import os
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.importing import formats, import_file
from tests.importing.shapes import asked, call, said
from tests.importing.transcripts import HELLO, as_lines, kept, run, written

EXPECTED = (
    "expected OpenAI messages (objects with a role) or Anthropic ones, objects with messages, runs with traj, or the "
    "lines of a Claude Code session"
)


def fault_of(store: refold.Store, path: Path, **options: Any) -> str:
    """Import a file that cannot be; return the error without the path, once it is certain that nothing was written."""
    before = store.now()
    with pytest.raises(InvalidInputError) as caught:
        import_file(store, path, **options)
    assert store.now() == before
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message.replace(str(path), "FILE")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "FILE is empty: expected JSON or JSON Lines"),
        (" \n\n", "FILE is empty: expected JSON or JSON Lines"),
        ('[{"role": }]', "FILE is not JSON: expecting value at line 1, column 11"),
        ('[\n {"role": "user"]\n]', "FILE is not JSON: expecting ',' delimiter at line 2, column 17"),
        ('[{"role": "user"}', "FILE is not JSON: expecting ',' delimiter at line 1, column 18"),
        ('{"role": "user"}\n{"role" "user"}', "FILE is not JSON Lines: expecting ':' delimiter at line 2, column 9"),
        ("hello", "FILE is not JSON: expecting value at line 1, column 1"),
        ("[NaN]", "FILE: NaN is no JSON value: write null, or a number"),
        ('[{"role": "user", "role": "tool"}]', "FILE: an object has the key 'role' twice: rename one"),
        ('{"role": "user"}\n[-Infinity]', "FILE, line 2: -Infinity is no JSON value: write null, or a number"),
        ("[" * 100_000 + "]" * 100_000, "FILE: its values are nested too deeply"),
        ("[]", f"FILE: {EXPECTED}, found an empty list"),
        ("7", f"FILE: {EXPECTED}, found a number"),
        ('"hello"', f"FILE: {EXPECTED}, found text"),
        ("null", f"FILE: {EXPECTED}, found null"),
        ("[1, 2]", f"FILE: {EXPECTED}, found a number as the first of 2 entries"),
        ("{}", f"FILE: {EXPECTED}, found an object with the keys none"),
        ('{"a": 1, "b": 2}', f"FILE: {EXPECTED}, found an object with the keys 'a', 'b'"),
        ([{"text": "hi"}], f"FILE: {EXPECTED}, found an object with the keys 'text' as the first of 1 entries"),
        ({"messages": {}}, "FILE: run 1, field messages: found an object, expected a list of messages"),
        ([run(0), {"task_id": 1}], "FILE: run 2, field traj: missing, expected a list of messages"),
        ([run(0), 7], "FILE: run 2: found a number, expected an object with traj"),
        ([run(0, HELLO), run(1, HELLO, HELLO, {})], "FILE, run 2, messages[2].role: missing"),
        ([HELLO, {"content": "x"}], "FILE, run 1, messages[1].role: missing"),
        ([HELLO, "x"], "FILE, run 1, messages[1]: found text, expected an object"),
        (as_lines(HELLO, said("robot")), "FILE, run 1, messages[1].role: 'robot' is no role"),
        ([{"contents": []}, 7], "FILE: run 2: found a number, expected a document of gemini"),
        ([{"contents": []}, {"x": 1}], "FILE: run 2: found an object, expected a document of gemini"),
        ('[{"role": "user", "content": "", "x": 1e999}]', "FILE, run 1, messages[0] cannot be stored as JSON"),
        ('{"messages": [], "x": 1e999}', "FILE, run 1, what lies beside the messages cannot be stored as JSON"),
    ],
)
def test_a_file_that_cannot_be(store: refold.Store, tmp_path: Path, content: Any, fault: str) -> None:
    """The message begins with what is wrong where."""
    path = written(tmp_path / "x.json", content)

    assert fault_of(store, path).startswith(fault)
    assert kept(store) == {}


@pytest.mark.parametrize(
    ("message", "field", "index"),
    [
        (said("user", "ab\ud800"), "content", 2),
        (said("user", [{"type": "text", "text": "\udc00"}]), "content[0].text", 0),
        (asked(call("a", arguments="{\udfff}")), "tool_calls[0].function.arguments", 1),
        (said("user", name={"\ud800": 1}), "name.(a key)", 0),
    ],
)
def test_a_lone_surrogate_is_named(
    store: refold.Store, tmp_path: Path, message: dict[str, Any], field: str, index: int
) -> None:
    """The error says in which message, in which field, at which index, and how to go on."""
    path = written(tmp_path / "x.json", [HELLO, message])

    fault = fault_of(store, path)
    assert fault.startswith(f"FILE, run 1, messages[1].{field}: a lone surrogate (U+D")
    assert f"at index {index}, " in fault
    assert "--replace-surrogates" in fault


def test_a_lone_surrogate_beside_the_messages_is_named(store: refold.Store, tmp_path: Path) -> None:
    """Attributes are checked like messages."""
    fault = fault_of(store, written(tmp_path / "x.json", [run(0, HELLO, info=["a\ud800"])]))

    assert fault.startswith("FILE, run 1, field info[0]: a lone surrogate (U+D800) at index 1")


def test_lone_surrogates_can_be_replaced(store: refold.Store, tmp_path: Path) -> None:
    """On demand U+FFFD takes their place, in messages and beside them."""
    path = written(tmp_path / "x.json", [run(0, said("user", "a\ud800b\U0001f600", **{"k\udc00": 1}), info="\udfff")])
    import_file(store, path, replace_surrogates=True)

    assert kept(store) == {"x-0": [said("user", "a\ufffdb\U0001f600", **{"k\ufffd": 1})]}
    assert b"\xef\xbf\xbd" in store.chat("x-0", create=False).history()[0].event.attributes
    assert import_file(store, path, replace_surrogates=True).unchanged == 1


def test_a_pair_of_surrogates_is_a_character(store: refold.Store, tmp_path: Path) -> None:
    """JSON may write a character as two halves."""
    path = written(tmp_path / "x.json", '[{"role": "user", "content": "\\ud83d\\ude00"}]')
    import_file(store, path)

    assert kept(store) == {"x-1": [said("user", "\U0001f600")]}


def test_what_is_no_file_of_text(store: refold.Store, tmp_path: Path) -> None:
    """Missing, a folder, not UTF-8: each has its sentence."""
    (tmp_path / "binary.json").write_bytes(b'["\xff"]')
    (tmp_path / "wide.json").write_bytes("[]".encode("utf-16"))

    assert fault_of(store, tmp_path / "no.json") == "there is no file FILE: check the name"
    assert fault_of(store, tmp_path) == "FILE is a folder: name a file in it"
    assert fault_of(store, tmp_path / "binary.json").startswith("FILE is not UTF-8 text (byte 2 is 0xff)")
    assert fault_of(store, tmp_path / "wide.json").startswith("FILE is not UTF-8 text (byte 0 is 0x")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_a_file_that_may_not_be_read(store: refold.Store, tmp_path: Path) -> None:
    """Its rights are what to look at."""
    path = written(tmp_path / "x.json", [HELLO])
    path.chmod(0)

    assert fault_of(store, path) == "FILE may not be read: check its rights"


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (PermissionError(13, "Permission denied"), "FILE may not be read: check its rights"),
        (OSError(5, "Input/output error"), "FILE cannot be read: Input/output error"),
        (ValueError("embedded null byte"), "FILE cannot be read: embedded null byte"),
    ],
)
def test_a_disk_that_refuses(
    store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, fault: str
) -> None:
    """Its reason is told."""

    def fail(_: Path) -> bytes:
        raise error

    monkeypatch.setattr(formats, "read_bounded", fail)

    assert fault_of(store, tmp_path / "x.json") == fault


@pytest.mark.parametrize("prefix", ["", "-x", "a@b", "a..b", "a\x1bb", "x" * 300])
def test_a_prefix_that_no_id_can_have(store: refold.Store, tmp_path: Path, prefix: str) -> None:
    """It is refused before anything is written."""
    path = written(tmp_path / "x.json", [HELLO])

    with pytest.raises(InvalidInputError):
        import_file(store, path, prefix=prefix)
    assert kept(store) == {}


def test_a_name_that_is_no_text(store: refold.Store, tmp_path: Path) -> None:
    """A file's name can be any bytes; the context's is text all the same."""
    path = tmp_path / os.fsdecode(b"a\xffb.json")
    import_file(store, written(path, [HELLO]))

    assert list(kept(store)) == ["a-b-1"]
