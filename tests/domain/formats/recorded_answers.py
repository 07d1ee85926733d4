"""The recorded answers of the seed's conversions, where they lie beside this checkout."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.project import ROOT

GOLDEN = ROOT.parent / "shared" / "golden"
CASES, FUZZ = GOLDEN / "videosdk_converters.json", GOLDEN / "videosdk_fuzz.jsonl"
HAS_GOLDEN = pytest.mark.skipif(
    not (CASES.exists() and FUZZ.exists()), reason="shared/golden is not beside this checkout"
)


def conversions() -> Iterator[tuple[str, list[dict[str, Any]], dict[str, Any]]]:
    """Yield the name, the items and the answers of every recorded case."""
    for name, case in json.loads(CASES.read_text(encoding="utf-8")).items():
        yield name, case["input"]["items"], case
    for line in FUZZ.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        yield f"seed {case['seed']}", case["ctx"]["items"], case["answers"]
