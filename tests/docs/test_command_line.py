"""The command line's reference knows every command and option, and no other."""

import re

import click
import pytest

from refold.infrastructure.cli.program import refold
from tests.docs.markdown import prose, section, table_rows
from tests.support.project import ROOT

DOCUMENT = ROOT / "docs" / "reference" / "command-line.md"
CONTEXT = click.Context(refold)
COMMANDS = {name: refold.get_command(CONTEXT, name) for name in refold.list_commands(CONTEXT)}


def documented(title: str) -> set[str]:
    """Return the options and arguments in the first table of a section."""
    rows = [cells for cells in table_rows(section(DOCUMENT, title)) if len(cells) == 2]
    return {name for cells in rows for name in re.findall(r"`([^`]+)`", cells[0])}


def existing(command: click.Command) -> set[str]:
    """Return the options and arguments of a command, as they are typed or named in its help."""
    names: set[str] = set()
    for parameter in command.params:
        names |= {str(parameter.name).upper()} if isinstance(parameter, click.Argument) else set(parameter.opts)
    return names


def test_the_commands_are_the_documented_ones() -> None:
    """Each command has a section of its own, in the order of the help."""
    titles = re.findall(r"^## refold (.+)$", prose(DOCUMENT), re.MULTILINE)

    assert titles == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_are_the_documented_ones(name: str) -> None:
    """What a command takes stands in its table, and nothing else does."""
    command = COMMANDS[name]
    assert command is not None

    assert documented(f"refold {name}") == existing(command)


def test_the_options_of_all_commands() -> None:
    """So it is with the program's own; the help is an option of each."""
    assert documented("refold") == existing(refold) | {"-h", "--help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_choices_are_explained(name: str) -> None:
    """Where an option takes one of a few words, the reference names them all."""
    text = section(DOCUMENT, f"refold {name}")
    command = COMMANDS[name]
    assert command is not None
    choices = [choice for parameter in command.params for choice in getattr(parameter.type, "choices", ())]

    assert [choice for choice in choices if f"`{choice}`" not in text] == []
