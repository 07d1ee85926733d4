"""Small functions, small files, every module explained: the limits that keep this readable."""

import ast
import re
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import MISSED
from tests.support.project import PACKAGES, PURE, ROOT, files, modules, parsed

FUNCTION_LINES_MAX = 70
FUNCTION_LINES_P95_MAX = 35
FUNCTION_LINES_MEDIAN_MAX = 8
FILE_LINES_MAX = 500
# Files that hold one public class whole: most of their lines are keyword arguments, and what they mean.
WHOLE_CLASSES = {
    ROOT / "domain" / "chat" / "context.py",
    ROOT / "domain" / "chat" / "view.py",
    ROOT / "domain" / "context" / "journal.py",
    ROOT / "domain" / "trajectory" / "run.py",
    ROOT / "infrastructure" / "store.py",
    # The port of a log names its methods; each is a few lines.
    ROOT / "infrastructure" / "log" / "sqlite" / "log.py",
    ROOT / "infrastructure" / "trust" / "sealed_log.py",
    ROOT / "infrastructure" / "log" / "postgres" / "log.py",
    # Written by scripts/siblings: a line for each of their names.
    ROOT / "infrastructure" / "aio" / "siblings.py",
}
# The store has a method for each of its jobs, which calls the module that does it; so it grows by ten lines for a job.
CLASS_LINES_MAX = 1_300
SHIPPED = (*PACKAGES.values(), ROOT / "scripts", ROOT / "benchmarks")
OURS = (*SHIPPED, ROOT / "tests")
# Recorded data are what they are.
DATA = {".csv", ".json", ".jsonl", ".txt"}
TOP = {
    *("benchmarks", "docs", "domain", "examples", "infrastructure", "projections", "scripts", "src", "tests", ".ci"),
    *("ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md"),
    *("constraints.txt", "mkdocs.yml", "pyproject.toml", ".editorconfig", ".gitattributes", ".gitignore"),
}
VAGUE_NAMES = {"common", "helpers", "misc", "utils"}
CITED = re.compile(r"\bSPEC [A-Z]|\bDESIGN\.md")
# Written so that this file does not find itself.
UNFINISHED = re.compile(rf"\b({'TO'}DO|{'FIX'}ME|{'XX'}X)\b")


def python_files(*folders: Path) -> list[Path]:
    """List the modules below folders."""
    return [path for folder in folders for path in files(folder, suffix=".py")]


def text_files() -> Iterator[tuple[Path, str]]:
    """List all that people wrote, with what it says."""
    for path in (path for folder in OURS for path in files(folder)):
        content = path.read_bytes()
        if b"\0" not in content and path.suffix not in DATA:
            yield path, content.decode("utf-8", "replace")


class Shape(NamedTuple):
    """What is looked at in every module: its functions, each with its lines, and whether it says its idea."""

    functions: dict[str, int]
    says_its_idea: bool


@cache
def shape(path: Path) -> Shape:
    """Measure every function of a module, from its `def` to its last line."""
    # Nobody else looks at the trees of most modules, and to keep them takes as long as to make them.
    tree = parsed.__wrapped__(path)
    return Shape(
        {
            f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
            for node in functions_among(tree.body)
        },
        bool(ast.get_docstring(tree)),
    )


def functions_among(statements: Sequence[ast.AST]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """List the functions among these statements, at any depth; no expression has one."""
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for inner in ("body", "handlers", "cases", "orelse", "finalbody"):
            if isinstance(found := getattr(node, inner, None), list):
                yield from functions_among(found)


def functions(*folders: Path) -> dict[str, int]:
    """Measure every function below folders."""
    return {name: lines for path in python_files(*folders) for name, lines in shape(path).functions.items()}


def test_functions_are_short() -> None:
    """No function anywhere is longer than two screens."""
    long = {name: lines for name, lines in functions(*OURS).items() if lines > FUNCTION_LINES_MAX}

    assert long == {}


def test_most_functions_are_shorter() -> None:
    """The median and the 95th percentile of functions stay far below the limit; tests may be longer."""
    lines = list(functions(*SHIPPED).values())

    assert statistics.median(lines) <= FUNCTION_LINES_MEDIAN_MAX
    assert statistics.quantiles(lines, n=20)[-1] <= FUNCTION_LINES_P95_MAX


def test_files_are_short() -> None:
    """A file that grows further is two files."""
    limits = dict.fromkeys(WHOLE_CLASSES, CLASS_LINES_MAX)
    sizes = {path: text.count("\n") for path, text in text_files()}
    long = [f"{path}: {size}" for path, size in sizes.items() if size > limits.get(path, FILE_LINES_MAX)]

    assert long == [], f"a file has at most {FILE_LINES_MAX} lines: move what belongs together to a file of its own"


def test_nothing_lies_about_at_the_top() -> None:
    """A picture or a note that was made for a short time is not kept."""
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()

    assert {path.partition("/")[0] for path in kept} == TOP


def test_names_say_something() -> None:
    """A file's name, and its folder's, say what is in it."""
    paths = [path.relative_to(ROOT) for folder in OURS for path in files(folder)]
    vague = [path for path in paths if VAGUE_NAMES & {*path.with_suffix("").parts}]

    assert vague == []


def test_every_module_says_its_idea() -> None:
    """Each module starts with a docstring."""
    silent = [path for path in python_files(*OURS) if not shape(path).says_its_idea]

    assert silent == []


def test_nothing_is_left_for_later() -> None:
    """Work that is not done is an issue, and not a remark in the code."""
    found = [path for path, text in text_files() if UNFINISHED.search(text)]

    assert found == []


def test_nothing_cites_what_is_not_shipped() -> None:
    """Numbers of the founding systems' statements mean nothing to users; the document of deviations has them."""
    shown = [path for path in (ROOT / "docs").rglob("*.md") if path.name != "deviations.md"]
    found = [path for path in [*python_files(*PACKAGES.values()), *shown] if CITED.search(path.read_text("utf-8"))]

    assert found == []


def test_pure_layers_do_not_print() -> None:
    """Domain and projections answer by what they return."""
    found = [
        f"{path}:{node.lineno}"
        for package in PURE
        for _, path in modules(package)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
    ]

    assert found == []


def test_long_tests_are_in_files_that_say_so(request: pytest.FixtureRequest) -> None:
    """As `scripts/test --long` expects, which loads no other file; shown where all tests are collected."""
    assert request.config.stash[MISSED] == set()
