"""Running a document's blocks: Python, `refold` in a terminal, and files that are to be saved."""

import doctest
import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType

from refold.infrastructure.cli import main
from tests.docs.markdown import Block

# What stands in the documents for the reader's own server.
EXAMPLE_URL = "postgresql://localhost/agents"
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
# The output of a command that fails: an error, or a number of problems at its end.
FAILING = re.compile(r"\A(refold: |Usage:)|\d problems?\n\Z")
OPTIONS = doctest.ELLIPSIS | doctest.DONT_ACCEPT_BLANKLINE
MATCHES = doctest.OutputChecker().check_output
# What is another one each time: the documents show one that was, and only its form is compared.
CHANGING = {
    "<time>": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z( \([^)]*\))?"),
    "<clock>": re.compile(r"\b\d\d:\d\d:\d\dZ"),
    "<day>": re.compile(r"^\d{4}-\d\d-\d\d$", re.MULTILINE),
    "<id>": re.compile(r"\b[a-z]+_[0-9a-f]{12}\b"),
    "<digest>": re.compile(r"\b[0-9a-f]{64}\b"),
    "<created>": re.compile(r"(?<=\"created_at\": )\d+\.\d+"),
}


COLUMN_GAP = re.compile(r"(?<=\S) {2,}")


class Reader:
    """
    Somebody who does what a document says, in a folder of their own, with `url` for the example's server.

    `name` is that of the module they write: libraries look classes up by it, so each document has its own.
    """

    def __init__(self, folder: Path, *, name: str, url: str | None) -> None:
        self.folder, self.url = folder, url
        self.module = ModuleType(name)

    def follow(self, block: Block, path: Path) -> None:
        """Do what one block says; anything that does not come out as written is an AssertionError."""
        if block.language == "python":
            # Empty lines before it, so that a traceback shows the document's own line.
            source = "\n" * (block.line - 1) + self._with_url(block.text)
            exec(compile(source, path, "exec", dont_inherit=True), self.module.__dict__)
        elif block.language == "console":
            for command, expected in commands(block):
                if command.split()[0] == "refold":
                    self._run(command, expected, f"{path}:{block.line}")
        elif len(block.info) == 2:
            (self.folder / block.info[1]).write_text(self._with_url(block.text), encoding="utf-8")

    def _run(self, command: str, expected: str, where: str) -> None:
        words = shlex.split(self._with_url(command).replace("\\\n", " "))
        # One stream for both, as in a terminal.
        screen = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with redirect_stdout(screen), redirect_stderr(screen):
            code = main(words[1:])
        screen.seek(0)
        got = "".join(f"{line.rstrip()}\n" for line in screen.read().splitlines())
        difference = f"{where}\n$ {command}\nexpected:\n{expected}\ngot:\n{got}"
        assert MATCHES(_steady(expected), _steady(got), OPTIONS), difference
        fails = FAILING.search(expected) is not None
        assert (code != 0) == fails, f"{where}\n$ {command}\nended with {code}"

    def _with_url(self, text: str) -> str:
        return text.replace(EXAMPLE_URL, self.url) if self.url else text


def _steady(text: str) -> str:
    for name, pattern in CHANGING.items():
        text = pattern.sub(name, text)
    # "5 seconds ago" is wider than "just now", and the columns behind it follow.
    return COLUMN_GAP.sub("  ", text) if "<time>" in text else text


def commands(block: Block) -> list[tuple[str, str]]:
    """Return the commands of a terminal block, each with what it prints."""
    pieces = COMMAND.split(block.text)
    return list(zip(pieces[1::2], pieces[2::2], strict=True))


def needs_a_server(block: Block) -> bool:
    """Return whether a block cannot be followed without PostgreSQL."""
    return EXAMPLE_URL in block.text and block.language in ("python", "console")
