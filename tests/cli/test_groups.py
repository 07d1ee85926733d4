"""`refold queue`, `pool` and `memory` as groups: their help, their likeness, and their reference."""

import re
import subprocess
import sys

import click
import pytest

from refold.infrastructure.cli.program import refold as program
from tests.cli.running import refold
from tests.docs.markdown import section, table_rows
from tests.support.project import ROOT

DOCUMENT = ROOT / "docs" / "reference" / "command-line.md"
KINDS = ("queue", "pool", "memory")
VERBS = ["show", "add", "remove", "restore", "search"]


def group(kind: str) -> click.Group:
    """Return the commands of a kind."""
    found = program.get_command(click.Context(program), kind)
    assert isinstance(found, click.Group)
    return found


def existing(kind: str) -> set[tuple[str, str]]:
    """Return the commands of a kind, each with an argument or an option that it takes."""
    return {
        (verb, name)
        for verb, command in group(kind).commands.items()
        for parameter in command.params
        for name in ([str(parameter.name).upper()] if isinstance(parameter, click.Argument) else parameter.opts)
    }


def documented(kind: str) -> set[tuple[str, str]]:
    """Return what the reference says of it."""
    rows = [cells for cells in table_rows(section(DOCUMENT, f"refold {kind}")) if len(cells) == 3]
    return {(verb, cells[0].strip("`")) for cells in rows for verb in re.findall(r"`([^`]+)`", cells[1])}


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_knows_every_option(kind: str) -> None:
    """And no other; where one takes one of a few words, it names them."""
    text = section(DOCUMENT, f"refold {kind}")
    parameters = [parameter for command in group(kind).commands.values() for parameter in command.params]
    choices = {choice for parameter in parameters for choice in getattr(parameter.type, "choices", ())}

    assert documented(kind) == existing(kind)
    assert {choice for choice in choices if f"`{choice}`" not in text} == set()


@pytest.mark.parametrize("kind", KINDS)
def test_the_kinds_have_the_same_verbs(kind: str) -> None:
    """In the same order, each with a line of help and JSON; what changes something takes an actor."""
    lines = refold(kind, "--help").out.partition("Commands:\n")[2].splitlines()

    assert [line.split()[0] for line in lines] == VERBS
    assert not any(line.endswith("...") for line in lines)
    for verb in VERBS:
        ended = refold(kind, verb, "--help")
        assert ended.out.startswith(f"Usage: refold {kind} {verb} [OPTIONS]")
        assert "--json" in ended.out
        assert ("--actor" in ended.out) == (verb not in ("show", "search"))


def test_help_imports_no_group() -> None:
    """The list of commands is there without them."""
    code = "import sys; from refold.infrastructure.cli import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())

    assert "refold.infrastructure.cli.program" in loaded
    assert not {f"refold.infrastructure.cli.{kind}" for kind in KINDS} & loaded
