"""Sizes of pages and caches, bounds and waits are chosen, most of them by measuring: see tests/golden/told/numbers."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from tests.support.project import parsed
from tests.support.written_down import FOLDER, assert_as_written

LAYERS = ("domain", "projections", "infrastructure")
# Adapters need a framework that is not installed here.
FRAMEWORKS = "refold.infrastructure.frameworks."
WRITTEN = FOLDER / "numbers.txt"
# Depends on the machine.
VARYING = {"THREADS"}


def modules() -> Iterator[ModuleType]:
    """Yield all modules of the product."""
    for layer in LAYERS:
        package = import_module(f"refold.{layer}")
        for found in walk_packages(package.__path__, f"refold.{layer}.", onerror=lambda _: None):
            if not found.name.startswith(FRAMEWORKS):
                yield import_module(found.name)


def names_of(module: ModuleType) -> Iterator[str]:
    """Yield the names that a module itself gives to values."""
    for node in parsed(Path(str(module.__file__))).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
            yield from (name for name in found if name.isupper() and name not in VARYING)


def is_number(value: Any) -> bool:
    """Return whether it is a number, or holds nothing but numbers and texts, and at least one number."""
    if isinstance(value, tuple | list):
        return any(map(is_number, value)) and all(isinstance(one, str) or is_number(one) for one in value)
    if isinstance(value, dict):
        return is_number(list(value.values()))
    return type(value) in (int, float, bool)


def test_numbers_are_as_they_were_chosen() -> None:
    """A change of one is seen, and is meant: then remove the file, and run it again, as well as for new ones."""
    numbers = {
        f"{module.__name__.removeprefix('refold.')}.{name}": repr(vars(module)[name])
        for module in modules()
        for name in names_of(module)
        if is_number(vars(module).get(name))
    }
    lines = {name: f"{name} = {value}" for name, value in sorted(numbers.items())}
    if WRITTEN.exists():
        written = WRITTEN.read_text(encoding="utf-8").splitlines()
        # A new one is none that was changed.
        assert [lines.get(line.partition(" = ")[0]) for line in written] == written
    else:
        assert_as_written(WRITTEN.stem, "".join(f"{line}\n" for line in lines.values()))
