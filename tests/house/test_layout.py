"""The limits that keep the code easy to see whole; `scripts/layout` prints the figures."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import refold
from tests.support.project import ROOT, parsed

from .layout import (
    EVERY_FILE,
    SMALL_LINES,
    circles,
    every_file,
    importers,
    imports,
    only_for_one,
    passed_by_common_calls,
    sources,
)

# A module for one importer, below SMALL_LINES, each for a reason of its own.
SMALL_ALLOWED = {
    "refold.domain.hooks.loop_lock": "imports asyncio, a third of the time of `import refold`",
    "refold.infrastructure.message_files": "its functions are for users; `refold.trajectory` only names them",
}
MODULES_PASSED_MAX = {"add_message": 23, "contexts": 12, "at": 27, "register_node": 23, "refold show": 66}


def test_no_circles_of_imports() -> None:
    """No modules import each other, be it inside functions or for type checkers."""
    assert circles(imports().first) == []
    assert circles(imports().ever) == []


def test_the_architecture_lists_every_file() -> None:
    """With its first sentence, as it is now: `scripts/layout --write` writes the list."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

    is_same = text.partition(EVERY_FILE)[2] == every_file()
    assert is_same, "call `scripts/layout --write`, and read what it changed"


def test_small_modules_serve_several() -> None:
    """A small module that only one other module imports is moved into that module."""
    small = only_for_one(lines_max=SMALL_LINES)
    found = {name: user for name in small if name not in SMALL_ALLOWED for user in importers()[name]}

    assert found == {}, "join each with the module that alone imports it, or give a reason in SMALL_ALLOWED"
    assert set(SMALL_ALLOWED) <= set(small), "remove from SMALL_ALLOWED what is no longer small, or has more importers"


def test_common_calls_go_through_few_modules() -> None:
    """A person who follows a call in a debugger sees no more files than these."""
    passed = passed_by_common_calls()

    assert {name: count for name, count in passed.items() if count > MODULES_PASSED_MAX[name]} == {}


@pytest.mark.parametrize(
    "packed_in", ["chat.state.packed", "memory.state", "pool.state", "trajectory.packed", "window.state"]
)
def test_a_snapshot_belongs_to_all_code_of_its_fold(packed_in: str) -> None:
    """A state that other code folded does not count, in whichever module of its kind of context that code is."""
    kind, packing = packed_in.partition(".")[0], importlib.import_module(f"refold.domain.{packed_in}").PACKING
    needed, waiting = set[str](), [f"refold.domain.{packed_in}"]
    while waiting:
        name = waiting.pop()
        if name not in needed and name.startswith(f"refold.domain.{kind}."):
            needed.add(name)
            waiting += imports().first[name]

    assert needed - set(packing.modules) == set()


def test_only_faces_list_their_names() -> None:
    """A module offers what has no underscore; a package's face says what it is for."""
    found = [
        path.relative_to(ROOT)
        for path in sources().values()
        if path.name != "__init__.py" and "src" not in path.relative_to(ROOT).parts
        for node in parsed(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]

    assert found == []


def test_names_are_those_of_type_checkers() -> None:
    """`refold` imports a name when it is first used, from the module where type checkers look for it."""
    face = parsed(sources()["refold"])
    checked = next(node for node in face.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    places = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert sorted(places) == sorted(refold.__all__)
    for name, place in places.items():
        module, original = place.split(":")
        assert getattr(refold, name) is getattr(importlib.import_module(module), original)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = refold.nothing  # type: ignore[attr-defined]
    assert set(refold.__all__) <= set(dir(refold))


# A chat needs nothing of these: other contexts, the questions about runs, all projections, and services.
NOT_FOR_CHATS = (
    *(
        "refold.domain.pool.pool",
        "refold.domain.pool.state",
        "refold.domain.window.window",
        "refold.domain.memory.memory",
    ),
    *("refold.domain.trajectory.describe", "refold.domain.trajectory.events", "refold.domain.trajectory.graph"),
    *("refold.domain.trajectory.history", "refold.domain.trajectory.nodes", "refold.domain.trajectory.run"),
    *("refold.domain.agent", "refold.domain.formats", "refold.domain.hooks", "refold.domain.llm"),
    *("refold.domain.messages", "refold.domain.words"),
    *("refold.projections.catalogue", "refold.projections.search", "refold.projections.trajectory_tables"),
    *("refold.infrastructure.inspector", "refold.infrastructure.models", "refold.infrastructure.verifying"),
    *("refold.infrastructure.projecting.builtin", "refold.infrastructure.projecting.rebuild"),
    *("refold.infrastructure.queries.audit", "refold.infrastructure.queries.search"),
    *("refold.infrastructure.log.postgres", "psycopg", "eventsourcing", "rich", "concurrent.futures"),
)
# An event loop would wait while the store is loaded.
CHATTED = """
import sys, refold
refold.aopen(":memory:")
assert "refold.infrastructure.store" not in sys.modules
with refold.open(":memory:") as store: store.chat("a").add_message("user", "hello")
"""
SHOWN = """
import sys
from refold.infrastructure.cli import main
assert main(["--db", sys.argv[1], "show", "a"]) == 0
"""


@pytest.mark.parametrize(
    ("program", "unneeded"),
    [
        ("import refold", ("refold.", "msgspec", "pydantic", "sqlite3")),
        (CHATTED, NOT_FOR_CHATS),
        (SHOWN, (*NOT_FOR_CHATS, "pydantic")),
    ],
    ids=["import refold", "a chat", "refold show"],
)
def test_programs_load_what_they_need(program: str, unneeded: tuple[str, ...], tmp_path: Path) -> None:
    """
    A program that has chats alone loads no other contexts, and no formats before it converts; one that makes no items
    does without pydantic.
    """
    with refold.open(tmp_path / "chats.db") as store:
        store.chat("a").add_message("user", "hello")
    listing = "\nimport sys; print(*sys.modules)"

    command = [sys.executable, "-c", program + listing, str(tmp_path / "chats.db")]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True)

    assert [name for name in loaded.stdout.splitlines()[-1].split() if name.startswith(unneeded)] == []
