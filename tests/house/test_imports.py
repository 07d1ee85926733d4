"""The rules about imports between layers that import-linter cannot express."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.project import PACKAGES, PURE, ROOT, modules, parsed

ALWAYS_ALLOWED = sys.stdlib_module_names | {"msgspec", "pydantic", "pydantic_core", "typing_extensions"}
CLOCKS_AND_CHANCE = {"random", "secrets", "time", "uuid"}
ONLY_READER_OF_THE_CLOCK = "refold.domain.clock"
ADAPTERS = "refold.infrastructure.frameworks."
# All else that an adapter imports belongs to its framework.
NO_FRAMEWORKS = ALWAYS_ALLOWED | {"refold", "starlette"}
HEAVY = ("click", "rich", "eventsourcing.system", "psycopg", "starlette")


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    """List the top packages that are imported absolutely, each with its statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0], node


def module_of(statement: ast.stmt) -> str:
    """Return the first two names of the module of an import: packages may share the first one."""
    named = statement.module if isinstance(statement, ast.ImportFrom) else ast.unparse(statement).split()[1]
    return ".".join((named or "").split(".")[:2])


@cache
def frameworks() -> dict[str, dict[str, str]]:
    """Return the packages that adapters import: who imports each, an adapter or other code of Refold's, and where."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for package in PACKAGES:
        for name, path in modules(package):
            who = name.removeprefix(ADAPTERS).partition(".")[0]
            for top, statement in imports(parsed(path)):
                if top not in NO_FRAMEWORKS:
                    found[module_of(statement) if top == "google" else top][who] = f"{path}:{statement.lineno}"
    return {package: who for package, who in found.items() if who.keys() - {"refold"}}


def inside_functions(tree: ast.AST) -> set[ast.AST]:
    """List all nodes that run only when some function is called."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {inner for function in functions for inner in ast.walk(function)}


def pure_modules() -> list[tuple[str, Path]]:
    """List the modules of domain and projections."""
    return [found for package in PURE for found in modules(package)]


def test_layers_import_each_other_relatively() -> None:
    """No layer imports `refold` absolutely: this could import another copy, or the facade."""
    layers = [package for package in PACKAGES if package != "refold"]
    found = [
        f"{path}:{statement.lineno}"
        for layer in layers
        for _, path in modules(layer)
        for top, statement in imports(parsed(path))
        if top in {"refold", "domain", "projections", "infrastructure"}
    ]

    assert found == []


def test_pure_layers_import_little() -> None:
    """On import, domain and projections need the standard library, msgspec and pydantic alone."""
    found = []
    for _, path in pure_modules():
        later = inside_functions(parsed(path))
        found += [
            f"{path}:{statement.lineno}: {top}"
            for top, statement in imports(parsed(path))
            if top not in ALWAYS_ALLOWED and statement not in later
        ]

    assert found == []


def test_each_optional_package_has_one_place() -> None:
    """
    If a function of domain or projections imports another package, no other module of these layers imports that
    package.
    """
    places = defaultdict(set)
    for _, path in pure_modules():
        for top, _ in imports(parsed(path)):
            if top not in ALWAYS_ALLOWED:
                places[top].add(path)

    assert {top: paths for top, paths in places.items() if len(paths) > 1} == {}


# The class of ids that a user's content has; it makes none by itself.
TYPES_ALONE = ("from uuid import UUID",)


def test_only_one_module_reads_the_clock() -> None:
    """Neither by import nor by `datetime.now()`, save in the system's implementation of the port."""
    found = []
    for name, path in pure_modules():
        if name == ONLY_READER_OF_THE_CLOCK:
            continue
        found += [
            f"{path}:{at.lineno}"
            for top, at in imports(parsed(path))
            if top in CLOCKS_AND_CHANCE and ast.unparse(at) not in TYPES_ALONE
        ]
        found += [
            f"{path}:{node.lineno}"
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Attribute)
            and node.attr in {"now", "utcnow", "today"}
            and ast.unparse(node.value) in {"date", "datetime", "datetime.date", "datetime.datetime"}
        ]

    assert found == []


def test_adapters_alone_import_their_frameworks() -> None:
    """Only one folder or file imports each framework: nothing else needs it, and nobody has to install it."""
    assert len(frameworks()) >= 11
    assert {package: who for package, who in frameworks().items() if len(who) > 1} == {}


def test_an_adapter_without_its_framework_names_the_extra() -> None:
    """Each of those that `refold[frameworks]` installs; the message is the command to run."""
    extras = re.search(r'frameworks = \["refold\[(.*)\]"\]', (ROOT / "pyproject.toml").read_text())
    assert extras
    for extra in extras[1].split(","):
        missing = dict.fromkeys(frameworks())
        code = f"import sys; sys.modules.update({missing}); import refold.{extra.replace('-', '_')}"
        done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
        assert f'pip install "refold[{extra}]"' in done.stderr.splitlines()[-1]


def test_all_names_are_there_without_the_page() -> None:
    """`from refold import *` and `help(refold)` need no extra; the page names its own when it is called."""
    code = (
        "import sys; sys.modules['starlette'] = None\n"
        "from refold import *\n"
        "import pydoc, refold; assert 'inspector' in pydoc.render_doc(refold)\n"
        "refold.inspector(refold.open(':memory:'))"
    )

    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.stderr.splitlines()[-1] == 'ImportError: the page needs two more packages: pip install "refold[ui]"'


def test_a_missing_module_of_the_page_itself_is_named() -> None:
    """No extra would install it."""
    code = "import sys; sys.modules['refold.infrastructure.inspector.live'] = None; import refold; refold.inspector"

    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.stderr.splitlines()[-1].startswith(
        "ModuleNotFoundError: import of refold.infrastructure.inspector.live"
    )


@pytest.mark.parametrize("module", HEAVY)
def test_the_facade_is_light(module: str) -> None:
    """`import refold` does not bring in what only a server, a terminal or a page needs."""
    code = f"import refold, sys; sys.exit({module!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
