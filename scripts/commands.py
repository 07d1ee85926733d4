"""
The parts of the command line's reference that are facts: usage, arguments and options, and the exit codes.

Each part is between two comments, `<!-- facts: refold show -->` and `<!-- end -->`. The rest of the page is written by
hand. A command without such a part is an error, so no command is forgotten.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from refold.infrastructure.cli.program import EXIT_CODES, refold

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "command-line.md"
PART = re.compile(r"(<!-- facts: (?P<name>[a-z -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
EXIT = "exit codes"
# A default that depends on something else is written into the help, as click writes the others.
DEFAULT_IN_HELP = re.compile(r"\s*\[default: (.+?)\]\.?$")
# An option in a help text, if it is not marked as code.
BARE_OPTION = re.compile(r"(?<![`\w-])(--[a-z][a-z-]*)(?![^`]*`[^`]*(?:`[^`]*`)*[^`]*$)")


def page(text: str) -> str:
    """
    Return the page with its parts as the commands are now.

    Raises:
        SystemExit: a command has no part, or a part no command.
    """
    parts = {EXIT: _exit_codes(), **{f"refold {name}".rstrip(): _facts(name) for name in ("", *_names())}}
    there = [found["name"] for found in PART.finditer(text)]
    if sorted(there) != sorted(parts):
        raise SystemExit("; ".join(_faults(there, list(parts))))
    return PART.sub(lambda found: f"{found[1]}\n{parts[found['name']]}\n{found[3]}", text)


def _faults(there: list[str], wanted: list[str]) -> Iterator[str]:
    """Yield for each part that is missing or too many what is to be done."""
    for name in wanted:
        if name not in there:
            facts = f"`<!-- facts: {name} -->` and `<!-- end -->`"
            yield f"write a section `## {name}` into {PAGE.name}, in the order of the help, with the lines {facts}"
    for name in sorted(set(there)):
        if there.count(name) > (name in wanted):
            yield f"remove the part of {name!r} from {PAGE.name}: no command needs it"


def _names() -> list[str]:
    return refold.list_commands(_root())


def _root() -> click.Context:
    return click.Context(refold, info_name="refold", **refold.context_settings)


def _exit_codes() -> str:
    rows = (f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    return "\n".join(["| exit code | meaning |", "|---|---|", *rows, ""])


def _facts(name: str) -> str:
    """Return the facts of a command and of those below it."""
    root = _root()
    command = refold.get_command(root, name) if name else refold
    assert command is not None
    context = click.Context(command, info_name=name, parent=root) if name else root
    return "\n".join(_forms(command, context, is_whole=bool(name)))


def _forms(command: click.Command, context: click.Context, *, is_whole: bool) -> Iterator[str]:
    below = isinstance(command, click.Group) and is_whole
    if not below or command.params:
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        yield f"```text\n{usage}\n```\n"
        yield _table(command, context)
    if isinstance(command, click.Group) and is_whole:
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _forms(found, click.Context(found, info_name=name, parent=context), is_whole=True)


def _table(command: click.Command, context: click.Context) -> str:
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    arguments = [one for one in shown if isinstance(one, click.Argument)]
    options = [one for one in shown if isinstance(one, click.Option)]
    rows = [*(_argument(one, context) for one in arguments), *(_option(one, context) for one in options)]
    if context.parent is None:
        rows.append("| `-h`, `--help` | Print the help and exit; every command has it. |")
    return "\n".join(["| argument or option | meaning |", "|---|---|", *rows, ""])


def _argument(argument: click.Argument, context: click.Context) -> str:
    name = argument.make_metavar(context)
    if isinstance(argument.type, click.Choice):
        name = str(argument.name).upper()
    # The brackets around an argument that may be left out belong to the usage.
    name = name[1:] if name.startswith("[") else name
    while name.count("]") > name.count("["):
        name = name[:-1]
    return _row([name.removesuffix("...")], argument)


def _option(option: click.Option, context: click.Context) -> str:
    value = "" if option.is_flag else f" {option.metavar or str(option.name).upper()}"
    if isinstance(option.type, click.Choice):
        value = ""
    return _row([f"{name}{value}" for name in option.opts], option)


def _row(names: list[str], parameter: Any) -> str:
    if not parameter.help:
        raise SystemExit(f"{parameter.name} has no help")
    shown = ", ".join(f"`{name}`" for name in names)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (shown, " ".join(_meaning(parameter)))) + " |"


def _meaning(parameter: Any) -> Iterator[str]:
    """Yield what is known about a parameter, each a sentence."""
    text = str(parameter.help)
    written = DEFAULT_IN_HELP.search(text)
    said = BARE_OPTION.sub(r"`\1`", DEFAULT_IN_HELP.sub("", text)).rstrip()
    yield said if said.endswith(".") else f"{said}."
    if isinstance(parameter.type, click.Choice):
        yield f"One of {', '.join(f'`{choice}`' for choice in parameter.type.choices)}."
    if isinstance(parameter.type, click.IntRange | click.FloatRange):
        yield from _range(parameter.type)
    if parameter.multiple:
        yield "May be given several times."
    if isinstance(parameter, click.Option) and parameter.required:
        yield "Required."
    if written:
        yield f"Default: {written[1]}."
    elif isinstance(parameter, click.Option) and parameter.show_default:
        yield f"Default: `{parameter.default}`."


def _range(kind: Any) -> Iterator[str]:
    if kind.min is not None and kind.max is not None:
        yield f"From {kind.min} to {kind.max}."
    elif kind.min is not None:
        yield f"At least {kind.min}."


if __name__ == "__main__":
    written = PAGE.read_text(encoding="utf-8")
    made = page(written)
    if "--check" in sys.argv[1:]:
        if made != written:
            sys.exit(f"{PAGE.relative_to(Path.cwd())} is behind the commands: run scripts/commands")
    else:
        PAGE.write_text(made, encoding="utf-8")
