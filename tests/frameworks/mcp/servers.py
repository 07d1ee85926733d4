"""`refold mcp` as a program, for tests: over HTTP at a port that is free."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import refold
from tests.support.project import ROOT

SUPPORT = "support"


def environment() -> dict[str, str]:
    """Return the variables with which the program finds this Refold."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def command(database: Path, *options: str) -> list[str]:
    """Return the command that serves a database."""
    return [sys.executable, "-m", "refold", "mcp", "--db", str(database), *options]


def filled(database: Path) -> Path:
    """Return the database, with a chat in it."""
    with refold.open(str(database)) as store:
        store.chat(SUPPORT).add_message("user", "Where is order 7?")
    return database


@contextmanager
def served(database: Path, *options: str) -> Iterator[str]:
    """Serve a database over HTTP, and return the address."""
    arguments = command(database, "--http", "--port", "0", *options)
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        address = line.partition("served at ")[2].partition(";")[0].strip()
        assert address.endswith("/mcp"), line + process.stderr.read()
        yield address
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()
