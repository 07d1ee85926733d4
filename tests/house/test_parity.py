"""Parity never claims what it did not check."""

import json
from pathlib import Path

import pytest

from scripts.parity import EQUAL, FORM_OF_KEYS, UNEXPLAINED, Verdict, main, recognized

FORM = "trajectory rounds"
ROUND = '{"seed": 1, "rounds": []}\n'


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """
    The name of a file with one recorded case.
    """
    path = tmp_path / "recorded.jsonl"
    path.write_text(ROUND)
    return str(path)


@pytest.mark.parametrize(("keys", "form"), FORM_OF_KEYS.items())
def test_forms_of_lines(keys: frozenset[str], form: str) -> None:
    """The fields of its cases tell what a file of JSON lines records."""
    case = json.dumps(dict.fromkeys(sorted(keys)))

    assert recognized(f"{case}\n{case}\n") == form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("===== text\n  openai: []\n", "sections"),
        ("two items      -> [1, 2]\n", "probes"),
        (json.dumps({"a": dict.fromkeys(["input", "openai", "anthropic", "google"])}), "chat conversions"),
        (json.dumps({"a": {"input": 1}}), None),
        (ROUND + '{"seed": 1}\n', None),
        (ROUND + "{torn", None),
        ("[]", None),
        ("", None),
    ],
)
def test_other_forms(text: str, form: str | None) -> None:
    """Documents and texts have their forms too; what fits none, or only in part, has none."""
    assert recognized(text) == form


def test_without_a_replayer_nothing_is_equal(recorded: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A form that nothing replays yet is named, and the exit code is an error."""
    assert main([recorded], replayers={}) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(f"not replayed: its form is '{FORM}', and no replayer exists for that yet\n")


@pytest.mark.parametrize(("outcomes", "code"), [([EQUAL, "D7"], 0), ([EQUAL, UNEXPLAINED], 1), ([], 2)])
def test_verdicts_decide(recorded: str, outcomes: list[str], code: int) -> None:
    """Equal and explained pass; unexplained fails; and so does a replay that looked at nothing."""
    verdicts = [Verdict(str(number), outcome) for number, outcome in enumerate(outcomes)]

    assert main([recorded], replayers={FORM: lambda _: verdicts}) == code


def test_a_failure_is_not_hidden(recorded: str) -> None:
    """One file that cannot be replayed spoils the whole run, wherever it stands."""
    equal = {FORM: lambda _: [Verdict("0", EQUAL)]}

    assert main([recorded, "no such file"], replayers=equal) == 2
    assert main([]) == 2
