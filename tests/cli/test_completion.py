"""What a shell completes: commands, contexts, names and versions."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import refold as package
from refold.chat import ChatMessage, ChatRole
from refold.infrastructure.cli.completion import EVENTS_READ_MAX, OFFERED_MAX
from tests.cli.running import environment, refold


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A database with chats, `support-42` and `supper`, and a queue, `support-q`; a version has a name."""
    with package.open(tmp_path / "refold.db") as store:
        chat = store.chat("support-42")
        chat.add_message("user", "hi", message_id="m1")
        chat.name_version("before-refund")
        store.chat("supper")
        store.queue("support-q")
    return tmp_path / "refold.db"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Return what is offered for the end of a line, by the way that zsh asks."""

    def offered(line: str) -> list[str]:
        for name, value in (("COMP_WORDS", line), ("COMP_CWORD", str(line.count(" ")))):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("_REFOLD_COMPLETE", "zsh_complete")
        # Three lines for each: its type, the word, its help.
        return refold().out.splitlines()[1::3]

    return offered


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("refold show suppe", ["supper"]),
        ("refold evict support", ["support-42", "support-q"]),
        ("refold log chat:s", ["chat:supper", "chat:support-42"]),
        ("refold show support-42@be", ["support-42@before-refund"]),
        ("refold fork support-42@", ["support-42@before-refund", *(f"support-42@{number}" for number in (3, 2, 1))]),
        ("refold diff support-42@1..b", ["support-42@1..before-refund"]),
        ("refold show support-42@item:", ["support-42@item:m1"]),
        ("refold show support-42@it", ["support-42@item:m1"]),
        ("refold show support-42 --at item:", ["item:m1"]),
        ("refold show support-42@1 --at b", ["before-refund"]),
        ("refold audit support-42 --item ", ["m1"]),
        ("refold evict support-42 m", ["m1"]),
        ("refold approvals approve support-42 m", ["m1"]),
        ("refold evict nobody ", []),
        ("refold show nobody@", []),
        ("refold --db none.db show s", []),
    ],
)
def test_contexts_and_versions(named: Path, asked: Callable[[str], list[str]], line: str, offered: list[str]) -> None:
    """Ids of all kinds, with the kind or without; behind `@` names first, then versions, the newest first."""
    assert sorted(asked(line)) == sorted(offered)
    assert not Path("none.db").exists()


def test_a_long_context_is_read_from_its_end(tmp_path: Path, asked: Callable[[str], list[str]]) -> None:
    """Names and items are those of its newest events, and of many contexts the first are offered."""
    with package.open(tmp_path / "refold.db") as store:
        chat = store.chat("long", durability="enqueue")
        chat.add_message("user", "old", message_id="m-old")
        chat.name_version("old")
        chat.add_items([ChatMessage(id=f"m{n}", role=ChatRole.USER, content="x") for n in range(EVENTS_READ_MAX)])
        chat.add_function_call("look_up", "{}", "m-call")
        for number in range(OFFERED_MAX):
            store.chat(f"other-{number}", durability="enqueue")

    assert asked("refold show long@o") == []
    assert asked("refold evict long m-") == ["m-call"]
    assert len(asked("refold evict long m")) == OFFERED_MAX
    assert len(asked("refold show ")) == OFFERED_MAX


def test_bash(named: Path) -> None:
    """Bash divides a word at `:` and `@`, so it gets the part that it replaces: from the @ on, behind the colon."""
    script = """
        eval "$(refold completion bash)"
        for line in 'refold show support-42@be' 'refold show chat:suppo'; do
            COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
            _refold_completion refold
            echo "${COMPREPLY[*]}"
        done
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment(PATH=path), capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == ["@before-refund", "support-42"]


@pytest.mark.parametrize(
    ("line", "signs", "offered"),
    [
        ("refold show suppo", ":@", "support-42"),
        ("refold show support-42@b", ":@", "@before-refund"),
        ("refold show support-42@b", ":", "support-42@before-refund"),
        ("refold log chat:suppo", ":@", "support-42"),
        ("refold log chat:suppo", "@", "chat:support-42"),
    ],
)
def test_bash_keeps_what_stands_before_a_sign(
    named: Path, monkeypatch: pytest.MonkeyPatch, line: str, signs: str, offered: str
) -> None:
    """One at which it divides words; it puts what is offered behind that."""
    for name, value in (("COMP_LINE", line), ("COMP_WORDBREAKS", signs), ("_REFOLD_COMPLETE", "bash_complete")):
        monkeypatch.setenv(name, value)

    assert offered in [one.partition(",")[2] for one in refold().out.splitlines()]


def test_bash_is_offered_no_command(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs what stands in the line that it completed, and a name may come from a stranger."""
    with package.open(named) as store:
        for name in ("evil$(id)", "evil`id`", "evil;id", "evil x", "evil*", "evil\u202e", "evil-é:1"):
            store.chat(name, durability="enqueue")
        store.chat("talk").add_message("user", "hi", message_id="m\nplain,\x1b[2J$(id)")
    monkeypatch.setenv("_REFOLD_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDBREAKS", "")
    answers = []
    for line in ("refold show evil", "refold evict talk "):
        monkeypatch.setenv("COMP_LINE", line)
        answers.append(refold().out.strip())

    assert answers == ["plain,evil-é:1", ""]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell: str) -> None:
    """It asks `refold` with the variable that the program looks at."""
    assert f"_REFOLD_COMPLETE={shell}_complete" in refold("completion", shell).out


def test_another_shell() -> None:
    """It is named."""
    assert "'ksh' is not one of" in refold("completion", "ksh").fault


def test_a_program_of_ones_own_is_not_run(
    named: Path, asked: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key pressed in a shell imports nothing of it."""
    Path("mine.py").write_text("open('was-run', 'w').close()")
    monkeypatch.setenv("REFOLD_APP", "mine:ALL")

    assert "--app" in asked("refold projections --a")
    assert not Path("was-run").exists()
