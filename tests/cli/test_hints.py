"""Every command and address that an error gives as a hint works when it is typed."""

import re
import shlex
from pathlib import Path

import pytest

import refold as package
from tests.cli.running import refold

# Of several kinds the same id, and ids with what a shell takes apart.
ODD = "a b's $c"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with contexts of several kinds under odd ids."""
    path = tmp_path_factory.mktemp("hints") / "odd.db"
    with package.open(path, synchronous="NORMAL") as store:
        chat = store.chat(ODD)
        chat.add_message("user", "Where?", message_id="my first")
        chat.add_function_call("look_up", "{}", call_id="c1")
        chat.add_function_output("look_up", "found", call_id="c1")
        chat.pin("my first")
        store.pool(ODD)
        store.queue(ODD)
    assert refold("memory", "add", f"memory:{ODD}", "key", "value", db=path).code == 0
    return path


@pytest.mark.parametrize(
    "failing",
    [
        ("show", "nobody"),
        ("evict", f"chat:{ODD}", "nope"),
        ("evict", f"chat:{ODD}", "my first"),
        ("audit", f"chat:{ODD}", "--item", "nope"),
        ("audit", f"chat:{ODD}", "--attribute", "nope"),
        ("pool", "show", ODD, "nope"),
        ("pool", "remove", ODD, "nope"),
        ("pool", "restore", ODD, "nope"),
        ("queue", "remove", ODD, "nope"),
        ("memory", "remove", ODD, "nope"),
        ("memory", "show", ODD, "nope"),
        ("queue", "show", f"chat:{ODD}"),
        ("queue", "show", f"pool:{ODD}"),
    ],
)
def test_a_command_in_a_hint_works(kept: Path, failing: tuple[str, ...]) -> None:
    """As it is printed, placeholders aside."""
    fault = refold(*failing, db=kept).fault
    hints = [shlex.split(hint) for hint in re.findall("`(refold [^`]*)`", fault)]

    assert hints, fault
    for program, *arguments in hints:
        assert program == "refold"
        assert refold(*arguments, db=kept).code == 0, (fault, arguments)


def test_a_command_that_brings_an_archived_context_back_works(tmp_path: Path) -> None:
    """It is in a note."""
    path = tmp_path / "odd.db"
    with package.open(path) as store:
        store.chat(ODD).add_message("user", "Where?")
    refold("archive", tmp_path / "cold", ODD, "--why", "x", db=path)

    _, hint, _ = refold("show", ODD, db=path).err.split("`")
    assert refold(*shlex.split(hint)[1:], db=path).code == 0


@pytest.mark.parametrize("wrong", ["@yesterday", "@2026-13-01", "@item:", "@_"])
def test_an_address_in_a_hint_works(kept: Path, wrong: str) -> None:
    """Each form that the error names is understood."""
    fault = refold("show", f"chat:{ODD}{wrong}", db=kept).fault
    given = fault.partition("give ")[2].replace("happened:TIME", "happened:2026-11-21").replace("pos:P", "pos:3")
    forms = re.findall(r"like ([^ ,]+)|or (-\d+)|(happened:[^ ,]+|pos:\d+)", given)

    assert len(forms) in (0, 6), fault
    for form in map("".join, forms):
        ended = refold("show", f"chat:{ODD}@{form}", db=kept)
        assert ended.code == 0 or "has no version" in ended.fault, (form, ended)


def test_a_time_gets_the_zone_that_the_error_asks_for(kept: Path) -> None:
    """With Z behind it, it is a time."""
    assert "add Z for UTC" in refold("show", f"chat:{ODD}@2026-11-21T10:00", db=kept).fault
    assert refold("show", f"chat:{ODD}@2026-11-21T10:00Z", db=kept).code == 0
