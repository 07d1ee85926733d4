"""The example of two frameworks works."""

import runpy

import pytest

from tests.support.project import ROOT


def test_two_frameworks(capsys: pytest.CaptureFixture[str]) -> None:
    """The agent reads what the graph said, and the graph goes on behind it."""
    runpy.run_path(str(ROOT / "examples/two_frameworks.py"), run_name="__main__")

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * (4 + 2)
    assert lines[5] == "assistant: I have read 5 entries."
    assert lines[11] == "assistant: I have read 11 entries."
