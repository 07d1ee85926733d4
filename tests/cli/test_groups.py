"""`refold queue`, `pool` and `memory` as groups: their help, and their likeness."""

import subprocess
import sys

import pytest

from refold.infrastructure.cli.program import COMMANDS
from tests.cli.running import refold

KINDS = ("queue", "pool", "memory")
VERBS = ["show", "add", "remove", "restore", "search"]


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


def test_every_help_is_whole() -> None:
    """No line about a command is cut, the brackets of an argument are closed, and no type is called as click does."""
    for command in COMMANDS:
        text = refold(command, "--help").out
        arguments = text.partition("Positional arguments:\n")[2].partition("Options:\n")[0]
        assert not [line for line in text.partition("Commands:\n")[2].splitlines() if line.endswith("...")], command
        assert not [line for line in arguments.splitlines() if line.split()[:1] and line.count("[") != line.count("]")]
        assert " RANGE" not in text, command


def test_help_imports_no_group() -> None:
    """The list of commands is there without them."""
    code = "import sys; from refold.infrastructure.cli import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())

    assert "refold.infrastructure.cli.program" in loaded
    assert not {f"refold.infrastructure.cli.{kind}" for kind in KINDS} & loaded
