"""The command line's reference knows every command and option, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from refold.infrastructure.cli.program import refold
from tests.docs.markdown import prose, section, table_rows
from tests.support.project import ROOT

DOCUMENT = ROOT / "docs" / "reference" / "command-line.md"
CONTEXT = click.Context(refold)
FORMS = Path(__file__).with_name("commands.txt")
# Of what click knows about a parameter or its type; nothing else changes what is typed.
FIELDS = ("metavar", "default", "required", "multiple", "is_flag", "is_eager", "show_default", "hidden", "envvar")
TYPE_FIELDS = (
    "choices",
    "min",
    "max",
    "min_open",
    "max_open",
    "clamp",
    "exists",
    "file_okay",
    "dir_okay",
    "allow_dash",
)
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


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and those below it."""
    yield name, command
    if isinstance(command, click.Group):
        for below in command.list_commands(CONTEXT):
            found = command.get_command(CONTEXT, below)
            assert found is not None
            yield from commands(found, f"{name} {below}")


def form(parameter: click.Parameter) -> str:
    """Return one line that says how a parameter is given: its names, its type, and all that is not usual about it."""

    def unusual(thing: Any, fields: tuple[str, ...]) -> list[str]:
        given = ((field, getattr(thing, field, None)) for field in fields)
        return [f"{field}={value!r}" for field, value in given if isinstance(value, int | str | list | tuple) and value]

    nargs = [] if parameter.nargs == 1 else [f"nargs={parameter.nargs}"]
    kept = [*nargs, *unusual(parameter, FIELDS), parameter.type.name, *unusual(parameter.type, TYPE_FIELDS)]
    return " ".join(["   ", *parameter.opts, *kept])


def test_the_forms_of_all_commands() -> None:
    """Flags, defaults, ranges and shown defaults are promises to scripts: what changes is written down on purpose."""
    said = [
        line
        for name, command in commands(refold, "refold")
        for line in (name, *(form(parameter) for parameter in command.params))
    ]

    assert said == FORMS.read_text(encoding="utf-8").splitlines()
