"""How locks are taken: so that an exception between two lines leaves none of them locked."""

import ast
import re

from tests.support.project import PACKAGES, ROOT, files, parsed

TAKES_LOCKS = "domain/concurrency/locks.py"
LOCK = re.compile(r"(^|[._])(lock|guard|turn|starting|writing)$")
# Their own methods are Python, in which an interrupt can come between the lock and its release.
LEAKY = {"Condition", "Semaphore", "BoundedSemaphore", "Barrier"}
MODULES = [path for folder in PACKAGES.values() for path in files(folder, suffix=".py")]


def test_a_lock_is_taken_and_released_within_one_line() -> None:
    """By `locked` or `synchronized`; a generator that lends something in a `with` block cannot."""
    found = []
    for path in MODULES:
        tree = parsed(path)
        lending = {
            inner
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef) and any(isinstance(node, ast.Yield) for node in ast.walk(function))
            for inner in ast.walk(function)
        }
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.With)
            and node not in lending
            and any(LOCK.search(ast.unparse(item.context_expr)) for item in node.items)
        ]

    assert [place for place in found if not place.startswith(TAKES_LOCKS)] == []
    assert len(found) == 2


def test_nobody_waits_with_a_lock_that_an_interrupt_can_keep() -> None:
    """`News` and `Promise` wait without."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in LEAKY and ast.unparse(node.value) == "threading"
    ]

    assert found == []
