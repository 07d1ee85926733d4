"""
A plugin of pytest's that records which lines each test runs, and how long it takes: `-p tests.mutants.recording`.

It runs under `coverage run`; the times go into the file that REFOLD_MUTANTS_TIMES names.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

_SECONDS: dict[str, float] = {}
_FAILED: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let what runs from now on count for a test."""
    recorder = coverage.Coverage.current()
    assert recorder is not None, "run it under `coverage run`"
    recorder.switch_context(item.nodeid)
    result = yield
    recorder.switch_context("")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how long it took, with what it set up."""
    _SECONDS[report.nodeid] = _SECONDS.get(report.nodeid, 0.0) + report.duration
    if not report.passed:
        _FAILED.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write down which passed, behind those of other runs: one that fails by itself would notice everything."""
    file = Path(os.environ["REFOLD_MUTANTS_TIMES"])
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | {test: taken for test, taken in _SECONDS.items() if test not in _FAILED}))
