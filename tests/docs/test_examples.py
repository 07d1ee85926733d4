"""Every example in the documents does what the document says."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.examples import Reader, commands, needs_a_server
from tests.docs.markdown import Block, blocks, documents, name_of
from tests.support.project import ROOT

NewReader = Callable[[str, str | None], Reader]
LANGUAGES = {"console", "json", "pyi", "python", "text"}
RUN = [path for path in documents() if any(block.language in ("python", "console") for block in blocks(path))]
# They need the frameworks: scripts/test-frameworks follows them.
FRAMEWORKS = [path for path in RUN if path.parent == ROOT / "docs" / "how-to" / "frameworks"]
FOLLOWED = [path for path in RUN if path not in FRAMEWORKS]


@pytest.fixture
def reader_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewReader:
    """A function that puts a reader into an empty folder, before a terminal of 100 columns."""

    def construct(name: str, url: str | None) -> Reader:
        reader = Reader(tmp_path, name=name, url=url)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(sys.modules, reader.module.__name__, reader.module)
        monkeypatch.setenv("COLUMNS", "100")
        for variable in [one for one in os.environ if one.startswith(("REFOLD_", "SQLITE_", "POSTGRES_"))]:
            monkeypatch.delenv(variable)
        return reader

    return construct


@pytest.mark.parametrize("path", FOLLOWED, ids=name_of)
def test_the_examples_work(path: Path, reader_of: NewReader, request: pytest.FixtureRequest) -> None:
    """A reader who does everything in a document, in order, sees what it says."""
    found = blocks(path)
    url = request.getfixturevalue("pg_url") if any(map(needs_a_server, found)) else None
    reader = reader_of("example_" + re.sub(r"\W", "_", path.stem), url)

    for block in found:
        reader.follow(block, path)


README = [block for block in blocks(ROOT / "README.md") if block.language == "python"]


@pytest.mark.parametrize("block", README, ids=lambda block: f"line-{block.line}")
def test_each_block_of_the_readme_stands_alone(block: Block, reader_of: NewReader) -> None:
    """Whoever copies one of them into an empty file can run it."""
    reader_of(f"block_{block.line}", None).follow(block, ROOT / "README.md")


@pytest.mark.parametrize("path", documents(), ids=name_of)
def test_blocks_say_what_they_are(path: Path) -> None:
    """A block without a known language would be run by nobody."""
    unknown = [block.line for block in blocks(path) if block.language not in LANGUAGES]

    assert unknown == []


def test_a_wrong_output_is_found(reader_of: NewReader) -> None:
    """The test of the examples can fail: an output that differs, and a command that does."""
    reader = reader_of("example", None)
    wrong = Block(("console",), 1, "$ refold --version\nrefold 0.0.0\n")
    failing = Block(("console",), 1, "$ refold show nobody\n...\n")

    for block in (wrong, failing):
        with pytest.raises(AssertionError):
            reader.follow(block, Path("document.md"))


def test_the_command_is_what_the_examples_run() -> None:
    """`python -m refold` in a process of its own says what it says within this one."""
    command = [sys.executable, "-m", "refold", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("refold ")


def test_a_terminal_block_is_taken_apart() -> None:
    """A command may go over several lines; what follows up to the next is its output."""
    block = Block(("console",), 1, "$ refold show \\\n    a\none\ntwo\n$ refold log\n")

    assert commands(block) == [("refold show \\\n    a", "one\ntwo\n"), ("refold log", "")]
