"""The nine silent edits at rest of `agmi-check`: all are refused when the store is read."""

import pytest

pytest.importorskip("agmi", reason="agent-memory-integrity is not installed")

from agmi.check import run  # it is optional

from .agmi_adapter import RefoldAdapter


def test_nine_of_nine() -> None:
    """Each edit landed, and was refused for what it is."""
    found = {row["attack"]: (row["verdict"], row["detail"]) for row in run(RefoldAdapter())}

    assert {name: verdict for name, (verdict, _) in found.items()} == dict.fromkeys(found, "REJECTED"), found
    assert len(found) == 9
    assert all("TamperedError" in detail for _, detail in found.values()), found
