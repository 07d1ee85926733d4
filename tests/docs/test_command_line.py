"""The command line's reference: its facts are made from the commands, and every command has a section."""

import importlib.util
import re
from collections.abc import Callable
from typing import Any

import click
import pytest

from refold.infrastructure.cli.program import refold
from tests.docs.markdown import documents, prose, section
from tests.support.project import PACKAGES, ROOT, files

DOCUMENT = ROOT / "docs" / "reference" / "command-line.md"
CONTEXT = click.Context(refold)
COMMANDS = {name: refold.get_command(CONTEXT, name) for name in refold.list_commands(CONTEXT)}


@pytest.fixture(scope="module")
def page() -> Callable[[str], str]:
    """What `scripts/commands` makes of a page."""
    spec = importlib.util.spec_from_file_location("commands", ROOT / "scripts" / "commands.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Callable[[str], str] = module.page
    return made


def test_the_commands_are_the_documented_ones() -> None:
    """Each command has a section of its own, in the order of the help."""
    titles = re.findall(r"^## refold (.+)$", prose(DOCUMENT), re.MULTILINE)

    assert titles == list(COMMANDS), f"the sections of {DOCUMENT.name} are in the order of `COMMANDS`, each there once"


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_the_facts_are_in_the_section_of_the_command(name: str) -> None:
    """The part that is made from a command stands under its title."""
    title = f"refold {name}".rstrip()

    assert f"<!-- facts: {title} -->" in section(DOCUMENT, title)


def test_the_facts_are_those_of_the_commands(page: Callable[[str], str]) -> None:
    """Usage, arguments, options, defaults, ranges and choices: `scripts/commands` would change nothing."""
    written = DOCUMENT.read_text(encoding="utf-8")

    assert page(written) == written, "run scripts/commands"


def test_a_page_that_is_behind_is_found(page: Callable[[str], str]) -> None:
    """A changed fact is made right again, what was written by hand stays, and no part may be missing."""
    written = DOCUMENT.read_text(encoding="utf-8")
    behind = written.replace("| `--tail N` | Only the last N", "| `--tail N` | At most N", 1)

    assert behind != written
    assert page(behind) == written
    assert page(written.replace("List the contexts", "All contexts")) == written.replace(
        "List the contexts", "All contexts"
    )
    with pytest.raises(SystemExit, match="refold stats"):
        page(written.replace("<!-- facts: refold stats -->", ""))
    with pytest.raises(SystemExit, match="refold nothing"):
        page(written.replace("<!-- facts: refold stats -->", "<!-- facts: refold nothing -->"))


def test_the_kinds_of_problems_are_documented() -> None:
    """What `refold verify` calls a problem stands in its section."""
    sources = [path.read_text(encoding="utf-8") for path in files(PACKAGES["refold.infrastructure"], suffix=".py")]
    kinds = {kind for text in sources for kind in re.findall(r"\bProblem\(\s*\"(\w+)\"", text)}
    (entry,) = re.findall(r"`kind` is .*?checked\.", section(DOCUMENT, "refold verify"), re.DOTALL)

    assert kinds == set(re.findall(r"`(\w+)`", entry)) - {"kind"}


def test_every_variable_is_documented() -> None:
    """Each variable of the environment that the program reads stands in a document."""
    sources = [path.read_text(encoding="utf-8") for path in files(PACKAGES["refold.infrastructure"], suffix=".py")]
    named = {name for text in sources for name in re.findall(r"\bREFOLD_[A-Z_]+", text)}
    known = {name for path in documents() for name in re.findall(r"\bREFOLD_[A-Z_]+", path.read_text(encoding="utf-8"))}

    assert named - known == set()
