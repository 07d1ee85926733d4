"""The limits that keep the code easy to see whole; `scripts/layout` prints the figures."""

import ast

from tests.support.project import ROOT, parsed

from .layout import SMALL_LINES, circles, imports, only_for_one, passed_by_common_calls, sources

# A module for one importer, below SMALL_LINES, each for a reason of its own.
SMALL_ALLOWED = {
    "refold.domain.hooks.loop_lock": "imports asyncio, a third of the time of `import refold`",
    "refold.infrastructure.log.sqlite.open_files": "connection.py would be longer than a file may be",
    "refold.infrastructure.queries.search": "a question has a file of its own",
}
# Groups that import each other inside functions or for type checkers alone, by one of theirs.
CIRCLES_ALLOWED = {
    "refold.domain.chat.summarising": "a summary is asked for with a context, and contexts ask for summaries",
}
MODULES_PASSED_MAX = {"add_message": 24, "contexts": 12, "at": 23, "register_node": 24, "refold show": 61}


def test_no_module_needs_itself_to_be_imported() -> None:
    """No circle of imports at the top of modules."""
    assert circles(imports().first) == []


def test_no_other_circles() -> None:
    """Imports in functions and for type checkers make no circles but the known ones, which are still there."""
    found = circles(imports().ever)
    named = [{name for name in CIRCLES_ALLOWED if name in group} for group in found]

    assert sorted(name for names in named for name in names) == sorted(CIRCLES_ALLOWED)
    assert [group for group, names in zip(found, named, strict=True) if len(names) != 1] == []


def test_small_modules_serve_several() -> None:
    """A small module that one other imports is a part of that one."""
    assert set(only_for_one(lines_max=SMALL_LINES)) == set(SMALL_ALLOWED)


def test_common_calls_go_through_few_modules() -> None:
    """Whoever follows a call in a debugger sees no more files than these."""
    passed = passed_by_common_calls()

    assert {name: count for name, count in passed.items() if count > MODULES_PASSED_MAX[name]} == {}


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
