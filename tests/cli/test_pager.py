"""What is longer than the screen goes through a pager, at a terminal and nowhere else."""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import refold as package
from refold.infrastructure.cli import main
from tests.cli.running import PROGRAM, environment, spawned
from tests.support.processes import loaded_processes

PROCESSES = loaded_processes("refold.infrastructure.cli", "pytest")
LINES = 12
MARK = "PAGED "


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A database with a chat of more messages than a screen has lines, and one of two."""
    path = tmp_path / "long.db"
    with package.open(path, synchronous="NORMAL") as store:
        for name, count in (("long", 40), ("short", 2)):
            for number in range(count):
                store.chat(name).add_message("user", f"{name} {number}")
    return path


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A pager that marks each of its lines."""
    path = tmp_path / "pager"
    path.write_text(f"#!/bin/sh\nexec sed 's/^/{MARK}/'\n")
    path.chmod(0o755)
    return path


def at_a_terminal(
    *arguments: object, pager: object, is_program: bool = False, **variables: str
) -> tuple[int, str, str]:
    """
    Run a command at a terminal of a few lines; return its exit code, what the screen shows, and stderr.

    It is a process that has Refold loaded, or the program itself, which takes several times as long.
    """
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, 80, 0, 0))
    settings = environment(PAGER=str(pager), TERM="xterm", **variables)
    settings.pop("LINES", None)
    faults, complaints = os.pipe()
    command = [*map(str, arguments)]
    process: Any
    if is_program:
        process = subprocess.Popen([*PROGRAM, *command], stdout=terminal, stderr=complaints, env=settings)
        os.close(terminal)
        os.close(complaints)
    else:
        with Connection(terminal) as out, Connection(complaints, readable=False) as err:
            process = PROCESSES.Process(target=_run, args=(command, settings, out, err))
            process.start()
    shown = _all_of(screen)
    said = _all_of(faults)
    if is_program:
        return process.wait(60), shown.replace("\r\n", "\n"), said
    process.join(60)
    return process.exitcode, shown.replace("\r\n", "\n"), said


def _all_of(file: int) -> str:
    """Return all that comes; the end of a terminal is an error of input on Linux."""
    found = b""
    while True:
        try:
            part = os.read(file, 65_536)
        except OSError:
            break
        if not part:
            break
        found += part
    os.close(file)
    return found.decode()


def _run(command: list[str], settings: dict[str, str], out: Connection, err: Connection) -> None:
    """Run a command in this process as the program does."""
    os.environ.clear()
    os.environ.update(settings)
    for number, name, given in ((1, "stdout", out), (2, "stderr", err)):
        os.dup2(given.fileno(), number)
        given.close()
        setattr(sys, name, io.TextIOWrapper(io.FileIO(number, "w", closefd=False), encoding="utf-8"))
    sys.exit(main(command))


def test_a_long_answer_is_paged(long: Path, pager: Path) -> None:
    """Every line of it, in its colours; a short one is printed as it is."""
    code, shown, said = at_a_terminal("show", "long", "--db", long, pager=pager, is_program=True)
    assert (code, said) == (0, "")
    assert {line[: len(MARK)] for line in shown.splitlines()} == {MARK}
    assert "long 0" in shown
    assert "long 39" in shown
    assert "\x1b[" in shown

    code, shown, _ = at_a_terminal("show", "short", "--db", long, pager=pager)
    assert code == 0
    assert "short 1" in shown
    assert MARK not in shown


MUCH = (["log"], ["audit", "long"], ["diff", "long@1.."], ["search", "long", "--limit", "30"], ["log", "--jsonl"])


@pytest.mark.parametrize("arguments", MUCH, ids=" ".join)
def test_commands_that_print_much_are_paged(long: Path, pager: Path, arguments: list[str]) -> None:
    """Every line of what they print; it is the same as without."""
    _, shown, _ = at_a_terminal(*arguments, "--db", long, pager=pager, NO_COLOR="1")

    assert {line[: len(MARK)] for line in shown.splitlines()} == {MARK}
    if arguments == ["log"]:
        plain = at_a_terminal(*arguments, "--db", long, pager="cat", NO_COLOR="1")[1]
        assert shown.replace(MARK, "") == plain


def test_a_pager_that_is_missing_or_not_wanted(long: Path, pager: Path) -> None:
    """Then all is printed, as it is where stdout is no terminal."""
    for none in ("", "cat", "/no/such/pager", 'less "-R'):
        code, shown, said = at_a_terminal("log", "long", "--db", long, pager=none)
        assert (code, said) == (0, "")
        assert "long 39" in shown
    assert MARK not in spawned("log", "long", "--db", long, env=environment(PAGER=str(pager))).out


def test_a_reader_may_leave(long: Path) -> None:
    """Whoever leaves the pager before the end has seen enough: it is no failure."""
    assert at_a_terminal("log", "--db", long, pager="true") == (0, "", "")


def test_a_failure_is_one_line(long: Path, pager: Path) -> None:
    """It is on stderr, and no pager is started for it."""
    code, shown, said = at_a_terminal("show", "nobody", "--db", long, pager=pager)

    assert (code, shown) == (1, "")
    assert said.startswith("refold: there is no context 'nobody'")
