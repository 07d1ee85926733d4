"""The example of a research assistant does what it says."""

import subprocess
import sys
from pathlib import Path

from refold import open as open_store
from tests.support.project import ROOT

EXAMPLE = ROOT / "examples" / "research_assistant.py"


def ask(*arguments: str) -> list[str]:
    """Run the example in a process of its own, and return the lines that it prints."""
    command = [sys.executable, str(EXAMPLE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()


def test_the_assistant_answers_and_remembers(tmp_path: Path) -> None:
    """From the note that fits; the second time it has all notes, and knows what was asked."""
    place = str(tmp_path / "assistant.db")

    first, second = ask("Where do herons winter?", place), ask("What do foxes say?", place)

    assert first == [
        "Herons that breed in the north winter around the Mediterranean.",
        "(3 notes, 0 questions before)",
    ]
    assert second == ["There is no note about that.", "(3 notes, 1 questions before)"]
    with open_store(place) as store:
        assert [item.content for item in store.queue("agent-assistant")] == [
            "Where do herons winter?",
            "What do foxes say?",
        ]
        assert store.pool("agent-assistant").version == 4
