"""What is longer than the screen goes through a pager, at a terminal and nowhere else."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

import pytest

import refold as package
from tests.cli.running import PROGRAM, environment, spawned

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


def at_a_terminal(*arguments: object, pager: object, **variables: str) -> tuple[int, str, str]:
    """Run a command at a terminal of a few lines; return its exit code, what the screen shows, and stderr."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, 80, 0, 0))
    settings = environment(PAGER=str(pager), TERM="xterm", **variables)
    settings.pop("LINES", None)
    command = [*PROGRAM, *map(str, arguments)]
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE, env=settings) as process:
        os.close(terminal)
        shown = b""
        # The end of a terminal is an error of input on Linux.
        while True:
            try:
                part = os.read(screen, 65_536)
            except OSError:
                break
            if not part:
                break
            shown += part
        assert process.stderr is not None
        said = process.stderr.read()
        code = process.wait(60)
    os.close(screen)
    return code, shown.decode().replace("\r\n", "\n"), said.decode()


def test_a_long_answer_is_paged(long: Path, pager: Path) -> None:
    """Every line of it, in its colours; a short one is printed as it is."""
    code, shown, said = at_a_terminal("show", "long", "--db", long, pager=pager)
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
