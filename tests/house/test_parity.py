"""Parity never claims what it did not check."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.deviations.switches import UNEXPLAINED
from tests.support.parity.forms import FORM_OF_KEYS, recognized
from tests.support.parity.replayers import REPLAYERS
from tests.support.parity.replaying import Replayer, main
from tests.support.parity.verdicts import EQUAL, Question, Verdict, verdict_of, weighed
from tests.support.project import ROOT

FORM = "trajectory rounds"
ROUND = '{"seed": 1, "rounds": []}\n'
GOLDEN = ROOT / "tests" / "golden"
CORPORA = (
    "videosdk_fuzz.jsonl",
    "videosdk_converters.json",
    "messages_fuzz.jsonl",
    "agenticapi_fuzz.jsonl",
    "pygents_fuzz.jsonl",
    "dataagent_fuzz.jsonl",
)


def replaying(verdicts: Sequence[Verdict]) -> Mapping[str, Replayer]:
    """Return replayers that know the verdicts beforehand."""
    return {FORM: lambda _: verdicts}


def run(*names: object) -> subprocess.CompletedProcess[str]:
    """Run the script as it is run by hand, from elsewhere."""
    script = [sys.executable, str(ROOT / "scripts" / "parity.py"), *map(str, names)]
    return subprocess.run(script, capture_output=True, text=True, cwd="/", check=False)


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """The name of a file with one recorded case."""
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
    """Documents and texts also have forms. A file that fits no form, or fits one only in part, has no form."""
    assert recognized(text) == form


def test_committed_corpora_have_replayers() -> None:
    """The forms of what is committed are known, and can be replayed."""
    forms = {recognized((GOLDEN / name).read_text(encoding="utf-8")) for name in CORPORA}

    assert forms <= REPLAYERS.keys()


def test_without_a_replayer_nothing_is_equal(recorded: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A form that nothing replays yet is named, and the exit code is an error."""
    assert main([recorded], replayers={}) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(f"not replayed: its form is '{FORM}', and no replayer exists for that yet\n")


@pytest.mark.parametrize(("outcomes", "code"), [([EQUAL, "D7.1 V2.8"], 0), ([EQUAL, UNEXPLAINED], 1), ([], 2)])
def test_verdicts_decide(recorded: str, outcomes: list[str], code: int) -> None:
    """Equal and explained cases pass. An unexplained case fails, and so does a replay without cases."""
    verdicts = [Verdict(str(number), outcome) for number, outcome in enumerate(outcomes)]

    assert main([recorded], replayers=replaying(verdicts)) == code


def test_what_is_printed(recorded: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each case, and a tally beside them."""
    verdicts = [Verdict("a", EQUAL), Verdict("b", "V2.8 V6.5", "truncate: V2.8 V6.5"), Verdict("c", "V2.8", "x: V2.8")]
    main([recorded], replayers=replaying(verdicts))

    out, err = capsys.readouterr()
    assert out == "".join(
        f"{recorded}\t{line}\n" for line in ("a\tequal", "b\tV2.8 V6.5\ttruncate: V2.8 V6.5", "c\tV2.8\tx: V2.8")
    )
    assert err == f"{recorded}: 3 cases: 1 equal, 2 explained (V2.8 in 2, V6.5 in 1), 0 unexplained\n"


def test_a_failure_is_not_hidden(recorded: str) -> None:
    """One file that cannot be replayed spoils the whole run, wherever it stands."""
    equal = replaying([Verdict("0", EQUAL)])

    assert main([recorded, "no such file"], replayers=equal) == 2
    assert main([], replayers=equal) == 2


def test_a_case_is_what_its_answers_are() -> None:
    """All equal, or every deviation met, in the order of the list; one that is unexplained is what counts."""
    assert verdict_of("c", {"a": [], "b": []}) == Verdict("c", EQUAL)
    assert verdict_of("c", {"a": ["V2.22", "V10.1"], "b": ["V2.8"], "c": []}) == Verdict(
        "c", "V2.8 V2.22 V10.1", "a: V2.22 V10.1; b: V2.8"
    )
    assert verdict_of("c", {"a": ["V2.8"], "b": [UNEXPLAINED]}).outcome == UNEXPLAINED


def test_failing_is_an_answer() -> None:
    """An error in a replay is compared with the recorded error, and does not end the replay."""

    def ask() -> object:
        raise ValueError("no")

    failed = Question("q", {"__error__": "ValueError", "msg": "no"}, ask, lambda _recorded, _ours: [UNEXPLAINED])
    assert weighed(failed) == []
    assert weighed(failed._replace(recorded="yes")) == [UNEXPLAINED]


@pytest.mark.long
def test_the_script_explains_what_is_committed() -> None:
    """Run as it is run by hand, from anywhere, it ends well, with a line for each case."""
    done = run(*(GOLDEN / name for name in CORPORA))

    assert (done.returncode, len(done.stdout.splitlines())) == (0, 20 * len(CORPORA)), done.stderr


def test_the_script_finds_a_wrong_answer(tmp_path: Path) -> None:
    """One answer that was changed in one case of a corpus: exit code 1, and the case is named."""
    spoiled = tmp_path / "spoiled.jsonl"
    shutil.copy(GOLDEN / "messages_fuzz.jsonl", spoiled)
    lines = [json.loads(line) for line in spoiled.read_text(encoding="utf-8").splitlines()]
    lines[3]["context"] += "!"
    spoiled.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    done = run(spoiled)

    assert done.returncode == 1
    assert f"{spoiled}\t{lines[3]['seed']}\tunexplained\tanswer: unexplained" in done.stdout.splitlines()
