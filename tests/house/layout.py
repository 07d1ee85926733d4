"""
Figures about the layout of the code, which `scripts/layout` prints.

They are files and lines, the share of imports, modules with one importer, circles of imports, and the number of modules
that five common calls pass. The tests of this folder keep some of these figures within limits.
"""

import ast
import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import networkx

import refold
from refold.infrastructure.cli import main as command_line

from ..support.project import PACKAGES, ROOT, files, modules, parsed

# The list that `every_file` returns follows this heading of ARCHITECTURE.md.
EVERY_FILE = "\n## Every file\n"
# A module with fewer lines than this and one importer is a part of that importer.
SMALL_LINES = 80


class Imports(NamedTuple):
    """Which modules of Refold's a module imports: when it is imported, and at any time."""

    first: dict[str, set[str]]
    ever: dict[str, set[str]]


@cache
def sources() -> dict[str, Path]:
    """Return the modules of Refold's with their files."""
    return {name: path for package in PACKAGES for name, path in modules(package)}


@cache
def imports() -> Imports:
    """
    Return what imports what.

    The graph of import-linter does not distinguish imports at the top of modules from imports in functions.
    """
    first = {name: set(_imported(name, path, ast.iter_child_nodes)) for name, path in sources().items()}
    return Imports(first, {name: set(_imported(name, path, ast.walk)) for name, path in sources().items()})


def _imported(name: str, path: Path, nodes: Callable[[ast.AST], Iterator[ast.AST]]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes(parsed(path)):
        if not isinstance(node, ast.ImportFrom):
            continue
        parts = package.split(".")[: len(package.split(".")) - max(0, node.level - 1)] if node.level else []
        origin = ".".join([*parts, *([node.module] if node.module else [])])
        for alias in node.names:
            for found in (f"{origin}.{alias.name}", origin):
                if found in sources() and found != name:
                    yield found
                    break


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the groups of modules that import each other."""
    drawn = networkx.DiGraph([(name, other) for name, others in graph.items() for other in others])
    return [found for found in networkx.strongly_connected_components(drawn) if len(found) > 1]


def importers() -> dict[str, set[str]]:
    """Return who imports each module."""
    found: dict[str, set[str]] = {name: set() for name in sources()}
    for name, others in imports().ever.items():
        for other in others:
            found[other].add(name)
    return found


def lines_of(path: Path) -> int:
    """Return how many lines a file has."""
    return path.read_text(encoding="utf-8").count("\n")


def only_for_one(*, lines_max: int = sys.maxsize) -> list[str]:
    """Return the modules, packages' faces aside, that one other module imports."""
    return [
        name
        for name, users in importers().items()
        if len(users) == 1 and sources()[name].name != "__init__.py" and lines_of(sources()[name]) < lines_max
    ]


def passed(call: Callable[[], Any]) -> set[str]:
    """Return the modules of Refold that a call passes."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found & sources().keys()


def passed_again(call: Callable[[], Any]) -> int:
    """Return how many modules a call passes when it is made again: the first call also imports modules."""
    call()
    return len(passed(call))


def grow_old(folder: str) -> None:
    """Give a folder an old time: if the folder changed just now, a store looks at its file once more."""
    os.utime(folder, (0, 0))


def passed_by_common_calls() -> dict[str, int]:
    """Return how many modules each of five common calls passes."""
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder, "layout.db"))
        with refold.open(place) as store:
            chat, run = store.chat("a"), store.run("u", "s")
            query = run.register_query("where to?")
            calls: dict[str, Callable[[], Any]] = {
                "add_message": lambda: chat.add_message("user", "hello"),
                "contexts": store.contexts,
                "at": lambda: chat.at(2).items,
                "register_node": lambda: run.register_node("State", "", [query], state="on its way"),
            }
            grow_old(folder)
            counts = {name: passed_again(call) for name, call in calls.items()}
        grow_old(folder)
        with contextlib.redirect_stdout(io.StringIO()):
            counts["refold show"] = passed_again(lambda: command_line(["--db", place, "show", "a"]))
    return counts


def every_file() -> str:
    """Return the list of all files of the code, folders of tests, and scripts, each with its first sentence."""
    text = ""
    for package in PACKAGES.values():
        by_folder: dict[Path, list[Path]] = {}
        for path in files(package):
            by_folder.setdefault(path.parent, []).append(path)
        for folder, paths in sorted(by_folder.items()):
            text += _listed(folder, [path for path in paths if path.name != "__init__.py"])
    text += _listed(ROOT / "tests", [path for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists()])
    return text + _listed(ROOT / "scripts", [path for path in (ROOT / "scripts").iterdir() if not path.suffix])


def _listed(folder: Path, paths: Iterable[Path]) -> str:
    """Return a folder as a part of the list, with its files and folders that have a first sentence."""
    about = first_sentence(folder)
    lines = [
        f"- `{path.name}{'/' * path.is_dir()}`: {sentence}\n"
        for path in sorted(paths)
        if (sentence := first_sentence(path))
    ]
    return f"\n### `{folder.relative_to(ROOT)}/`\n\n" + (f"{about}\n\n" if about else "") + "".join(lines)


def first_sentence(path: Path) -> str:
    """Return the first sentence about a file or a folder, from its docstring or its first comment; "" without one."""
    path = path / "__init__.py" if path.is_dir() else path
    if path.suffix not in ("", ".py", ".js", ".sql") or not path.exists():
        return ""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        about = ast.get_docstring(parsed(path)) or ""
    else:
        found = re.match(r"/\*\*(.*?)\*/|-- (.*?)\n|#!.*?\n((?:# .*?\n)+)", text, re.DOTALL)
        about = re.sub(r"\n (?=\*)|\n(?=#)|[*#] ", " ", found[1] or found[2] or found[3]) if found else ""
    return re.split(r"(?<=\.) ", " ".join(about.split("\n\n")[0].split()))[0]


def write_every_file() -> None:
    """Write the list of all files into ARCHITECTURE.md."""
    path = ROOT / "ARCHITECTURE.md"
    before, heading, _ = path.read_text(encoding="utf-8").partition(EVERY_FILE)
    path.write_text(before + heading + every_file(), encoding="utf-8")


def main() -> None:
    """Print the figures; with `--write`, write the list of all files instead."""
    if sys.argv[1:] == ["--write"]:
        write_every_file()
        return
    texts = [path.read_text(encoding="utf-8").splitlines() for path in sources().values()]
    code = [line for text in texts for line in text if line.strip() and not line.lstrip().startswith("#")]
    imported = sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in sources().values()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    figures = {
        "files": len(texts),
        "lines": sum(map(len, texts)),
        "lines without blanks and comments": len(code),
        "lines of imports": imported,
        "modules with one importer": len(only_for_one()),
        f"of these, below {SMALL_LINES} lines": len(only_for_one(lines_max=SMALL_LINES)),
        "circles when imported": len(circles(imports().first)),
        "circles, imports in functions included": len(circles(imports().ever)),
    }
    for name, value in figures.items():
        print(f"{name:45}{value:>8,}")
    for name, value in passed_by_common_calls().items():
        print(f"{'modules passed by ' + name:45}{value:>8,}")


if __name__ == "__main__":
    main()
