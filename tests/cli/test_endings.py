"""How a command ends when its reader goes away, its output has no room, or its user has had enough."""

import io
import shlex
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import refold as package
from refold.domain.errors import NotFoundError
from refold.infrastructure.cli import main, program
from tests.cli.running import PROGRAM, environment, refold, started


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A database that prints more than a pipe holds."""
    with package.open(tmp_path / "long.db", durability="enqueue") as store:
        chat = store.chat("long")
        for number in range(400):
            chat.add_message("user", f"{number} " + "word " * 200)
    return tmp_path / "long.db"


@pytest.mark.parametrize(
    "arguments", [["log"], ["log", "--json"], ["show", "long"], ["show", "long", "--json"], ["diff", "long@.."]]
)
def test_a_reader_that_goes_away_is_no_fault(long: Path, arguments: list[str]) -> None:
    """`| head` ends the command quietly."""
    process = started(*arguments, "--db", long)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()

    assert process.wait(timeout=30) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("arguments", [["log"], ["stats", "--json"], ["--version"]])
def test_no_room_for_the_output(database: Path, arguments: list[str]) -> None:
    """A full disk behind a redirection is one line."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    command = [*PROGRAM, "--db", str(database), *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, encoding="utf-8", env=environment())

    assert (done.returncode, done.stderr) == (1, "refold: the output failed: No space left on device\n")


def test_no_room_for_the_output_of_a_command_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own fault is told, and what was printed before is given up."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")

    def fail(*_: object) -> None:
        print("some of the answer")
        raise NotFoundError("there is nothing")

    monkeypatch.setattr(program, "_invoke", fail)
    err = io.StringIO()
    with open("/dev/full", "w") as full, redirect_stdout(full), redirect_stderr(err):
        assert main([]) == 1

    assert err.getvalue() == "refold: there is nothing\n"


@pytest.mark.long
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", [["contexts"], ["verify"], ["import", "-"], ["backup"]])
def test_streams_that_are_closed(database: Path, tmp_path: Path, arguments: list[str], closed: str) -> None:
    """What there is to say is lost, and nothing else: no file of the command's takes a closed stream's place."""
    backup = tmp_path / "a.backup"
    files = [str(backup)] if arguments == ["backup"] else []
    command = shlex.join([*PROGRAM, "--db", str(database), *arguments, *files])
    done = subprocess.run(f"{command} {closed}", shell=True, capture_output=True, encoding="utf-8", env=environment())

    assert done.returncode == (1 if arguments[0] == "import" else 0)
    assert "Traceback" not in done.stderr
    assert not files or refold("backup", backup, "--check").code == 0


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, and no traceback."""

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(program, "_invoke", fail)

    assert refold("contexts").fault == "there is too little memory: give the command more"


def test_ctrl_c_is_quiet(database: Path) -> None:
    """130, as shells have it, and not a word."""
    process = started("log", "--follow", "--limit", "99", "--db", database)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert (process.returncode, err) == (130, "")


class _Pressed:
    """Somebody who presses Ctrl-C while the commands are imported."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.endswith("cli.program"):
            raise KeyboardInterrupt


def test_ctrl_c_is_quiet_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a part of a second until the program is imported."""
    monkeypatch.delitem(sys.modules, program.__name__)
    monkeypatch.setattr(sys, "meta_path", [_Pressed(), *sys.meta_path])

    assert refold("contexts") == (130, "", "")
