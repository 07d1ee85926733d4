"""The original's recorded answers about messages come out equal, or as a repair computes them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from refold.domain.messages import clean_messages, message_from_dict, message_of, message_to_dict
from tests.support.deviations.messages import recorded, text_of_orphans_kept
from tests.support.parity.messages import verdict
from tests.support.parity.verdicts import cases
from tests.support.project import ROOT

COMMITTED = ROOT / "tests" / "golden" / "messages_fuzz.jsonl"
WHOLE = ROOT.parent / "shared" / "golden" / "messages_fuzz.jsonl"


@pytest.fixture(params=[COMMITTED, WHOLE], ids=["committed", "whole"])
def corpus(request: pytest.FixtureRequest) -> Path:
    """A file of recorded answers."""
    path: Path = request.param
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this clone")
    return path


def comes_back(record: dict[str, Any]) -> bool:
    """Return whether a record, read and written, is the same record."""
    message = message_from_dict(record)
    return message is not None and list(message_to_dict(message).items()) == list(record.items())


def test_every_answer_is_equal_or_explained(corpus: Path) -> None:
    """D12.6 to D12.13; D12.9 is repaired, and only where the original loses a text."""
    found = cases(corpus.read_text(encoding="utf-8"))
    verdicts = Counter(map(verdict, found))

    assert len(found) >= 20
    assert verdicts.keys() == {"equal", "D12.9"}
    assert verdicts["D12.9"] == sum(text_of_orphans_kept(case) != recorded(case) for case in found)


def test_records_come_back(corpus: Path) -> None:
    """D12.2: what is read of a record is written as that record, keys in their order."""
    for case in cases(corpus.read_text(encoding="utf-8")):
        assert [record for record in case["records"] if not comes_back(record)] == []


def test_cleaning_again_changes_nothing(corpus: Path) -> None:
    """What was cleaned is clean."""
    for case in cases(corpus.read_text(encoding="utf-8")):
        once = clean_messages(map(message_of, case["records"]))
        assert clean_messages(once) == once


def test_a_wrong_answer_is_noticed() -> None:
    """The replay can fail: neither a wrong place nor a wrong text passes."""
    case = cases(COMMITTED.read_text(encoding="utf-8"))[0]

    assert verdict({**case, "kept": case["kept"][1:]}) == "unexplained"
    assert verdict({**case, "context": case["context"] + "!"}) == "unexplained"
