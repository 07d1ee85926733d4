"""Every command prints a store whose every field is hostile, to a terminal and a pipe, and none of it gets through."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import refold
from refold.domain.ids import encoded_id
from refold.infrastructure.cli.program import COMMANDS
from tests.cli.running import environment
from tests.cli.running import refold as command

# Clears the screen, sets the title, makes a link and rings; turns the line around; hides and joins what is seen.
EVIL = "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil\x1b\\x\u202e\u2066\u200b\u2060\u2028\ufeff\x9b31m\U000e0041"
TEXT = f"a{EVIL}z"
# A name holds no control character. What is left can still turn a line around.
NAME = "n\u202e\u2066\u200b"


async def _filled(store: refold.Store) -> None:
    with refold.acting(actor=TEXT, correlation_id=TEXT):
        chat = store.chat(NAME, user=TEXT, session=TEXT, agent=TEXT, source=TEXT, attributes={TEXT: TEXT})
        chat.add_message("system", TEXT, message_id=TEXT + "0")
        chat.add_message("user", TEXT, message_id=TEXT, created_at=sys.float_info.max)
        chat.add_function_call(TEXT, json.dumps({TEXT: TEXT}), TEXT)
        chat.approvals.request(TEXT, by=TEXT, because=TEXT)
        chat.add_function_call(TEXT, json.dumps({TEXT: TEXT}), TEXT + "2")
        chat.add_function_output(TEXT, TEXT, TEXT + "2")
        chat.add_handoff(TEXT)
        chat.add_config_update(TEXT, [TEXT])
        chat.add_message("assistant", TEXT, message_id=TEXT + "9")
        chat.evict([TEXT + "9"], reason=TEXT)
        chat.saved_states.save(TEXT, {TEXT: {TEXT: TEXT}})
        fork = chat.fork(NAME + "f", agent=TEXT)
        fork.add_message("user", TEXT)
        await chat.merge(fork)
        queue, pool = store.queue(NAME, tags=[TEXT], agent=TEXT), store.pool(NAME, agent=TEXT)
        await queue.append(refold.PoolItem(TEXT, TEXT))
        await pool.add(refold.PoolItem({TEXT: TEXT}, TEXT, TEXT))
        window = store.window(NAME)
        window.add(refold.BudgetItem(TEXT, TEXT, TEXT, 1))
        await store.memory().put(refold.MemoryRecord(scope=TEXT, key=TEXT, value={TEXT: TEXT}, tags=[TEXT]))
        run = store.run(TEXT, TEXT, agent=TEXT)
        query = run.register_query(TEXT)
        run.modify_node(
            run.register_node("Table", TEXT, [query], "reads", "orders", path=TEXT), {"description": TEXT + "!"}
        )
        run.append_todo(TEXT)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of every kind of context."""
    path = tmp_path_factory.mktemp("hostile") / "store.db"
    with refold.open(path) as store:
        asyncio.run(_filled(store))
    return path


# Other contexts have the same name.
CHAT = f"chat:{NAME}"
SHOWN = [
    ["contexts"], ["show", CHAT], ["show", CHAT, "--ids"], ["show", CHAT, "--evicted"], ["log"], ["log", CHAT],
    ["log", "--graph"], ["audit", CHAT], ["audit", f"pool:{NAME}"], ["audit", CHAT, "--item", TEXT],
    ["search", "owned"], ["diff", f"{CHAT}@1", f"{CHAT}@8"], ["approvals"], ["show", f"window:{NAME}"],
    ["queue", "show", NAME], ["pool", "show", NAME], ["memory", "show", encoded_id(TEXT, "a scope")],
    ["memory", "search", TEXT], ["moments"], ["changes", "pos:1"], ["replay", NAME, "--policy", "items:2"],
    ["projections"], ["verify"], ["usage"], ["stats"],
    ["graph", TEXT, "--user", TEXT], ["rebuild", "--all", "--check"], ["show", CHAT, "--as", "openai"],
    ["show", CHAT, "--as", "anthropic"], ["show", CHAT, "--as", "google"], ["show", CHAT, "--as", "openai-responses"],
]  # fmt: skip
REFUSED = [
    ["show", NAME], ["show", "no such" + EVIL], ["fork", CHAT, CHAT], ["merge", "nothing" + EVIL, NAME],
    ["evict", NAME, TEXT + "7"], ["pin", NAME, TEXT + "7"], ["unpin", NAME, TEXT + "7"], ["restore", NAME, TEXT + "7"],
    ["summarize", NAME, "--model", TEXT], ["export", "-o", "/no such folder/" + EVIL], ["import", "/nothing" + EVIL],
    ["seal"], ["copy", "/no such folder/" + EVIL], ["run", "--app", TEXT],
]  # fmt: skip
# These print none of the store's texts by themselves.
ELSEWHERE = {
    "init": "it prints the location", "demo": "it needs an empty store", "ui": "it serves, see tests/inspector",
    "mcp": "it serves JSON, see tests/frameworks", "completion": "it prints a script",
}  # fmt: skip
WITH_JSON = {"contexts", "show", "log", "audit", "search", "diff", "approvals", "moments", "changes", "replay", "usage"}


def unsafe(text: str) -> set[str]:
    """Return the characters of a text that steer a terminal, or that nobody sees; joiners are part of some words."""
    return {
        char
        for char in text
        if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs") and char not in "\n\u200c\u200d"
    }


# A command that is not in the lists gets at least a hostile argument.
NAMED = {*ELSEWHERE, *(one[0] for one in SHOWN + REFUSED)}
REFUSED += [[name, TEXT] for name in COMMANDS if name not in NAMED]


@pytest.mark.parametrize("arguments", SHOWN + REFUSED, ids=lambda arguments: arguments[0])
def test_a_pipe_gets_no_control_character(arguments: list[str], place: Path) -> None:
    """Neither on stdout nor on stderr, and JSON has each character as an escape."""
    ended = command(*arguments, db=place)

    assert ended.out + ended.err
    assert (ended.code == 0) == (arguments in SHOWN), ended.fault
    assert unsafe(ended.out + ended.err) == set()
    if arguments[0] in WITH_JSON and "--as" not in arguments and ended.code == 0:
        found = command(*arguments, "--json", db=place)
        assert (found.code, unsafe(found.out)) == (0, set())
        assert json.loads(found.out) is not None


SCRIPT = """
import json, sys
from refold.infrastructure.cli import main
for arguments in json.loads(sys.stdin.read()):
    main(["--db", sys.argv[1], *arguments])
"""
# Colours, and what draws a progress bar: a cursor that hides and goes up, a line that is begun anew.
OWN = re.compile(r"\x1b\[(?:[\d;]*m|\?25[lh]|2K|\d*A)")


def test_a_terminal_gets_only_colours(place: Path) -> None:
    """The escape sequences that reach it are Refold's own, and none of the store's."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(place)],
        stdin=subprocess.PIPE, stdout=slave, stderr=slave, env=environment(PAGER="cat", TERM="xterm"),
    )  # fmt: skip
    os.close(slave)
    assert process.stdin is not None
    process.stdin.write(json.dumps(SHOWN + REFUSED).encode())
    process.stdin.close()
    printed = b""
    try:
        while piece := os.read(master, 65_536):
            printed += piece
    except OSError:
        # Linux says so where the other end is closed.
        pass
    os.close(master)
    assert process.wait() == 0
    text = printed.decode()
    plain = OWN.sub("", text).replace("\r", "")

    assert OWN.search(text)
    assert "\\x1b[2J" in plain
    assert unsafe(plain) == set()
