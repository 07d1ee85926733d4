"""
A plugin of pytest's that records which lines each test runs, and how long it takes: `-p tests.mutants.recording`.

It runs under `coverage run`; what it writes goes into the folder that REFOLD_MUTANTS_RECORD names. Programs that a test
starts are recorded too: coverage starts with every Python that finds COVERAGE_PROCESS_START.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

# Names the test for which a process runs.
TEST = "REFOLD_MUTANTS_TEST"
_SECONDS: dict[str, float] = {}
_FAILED: set[str] = set()


def pytest_configure() -> None:
    """Let a child that a test forks count for it."""
    os.register_at_fork(after_in_child=lambda: _count_for(os.environ.get(TEST, "")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let what runs from now on count for a test."""
    folder = Path(os.environ["REFOLD_MUTANTS_RECORD"])
    os.environ |= {TEST: item.nodeid, "COVERAGE_PROCESS_START": str(folder / "programs")}
    _count_for(item.nodeid)
    result = yield
    _count_for("")
    return result


def _count_for(test: str) -> None:
    recorder = coverage.Coverage.current()
    assert recorder is not None, "run it under `coverage run`"
    recorder.switch_context(test)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how long it took, with what it set up."""
    _SECONDS[report.nodeid] = _SECONDS.get(report.nodeid, 0.0) + report.duration
    if not report.passed:
        _FAILED.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write down which passed: one that fails by itself would notice everything."""
    file = Path(os.environ["REFOLD_MUTANTS_RECORD"]) / "times.json"
    file.write_text(json.dumps({test: taken for test, taken in _SECONDS.items() if test not in _FAILED}))
