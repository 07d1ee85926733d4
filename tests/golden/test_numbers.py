"""Sizes of pages and caches, bounds and waits are chosen, most of them by measuring: see tests/golden/told/numbers."""

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import msgspec
from pydantic import BaseModel

from tests.support import project
from tests.support.written_down import FOLDER, assert_as_written

LAYERS = ("domain", "projections", "infrastructure")
# Adapters need a framework that is not installed here.
FRAMEWORKS = "refold.infrastructure.frameworks."
# Depends on the machine.
VARYING = {"THREADS"}


def modules() -> Iterator[ModuleType]:
    """Yield all modules of the product."""
    for layer in LAYERS:
        package = import_module(f"refold.{layer}")
        for found in walk_packages(package.__path__, f"refold.{layer}.", onerror=lambda _: None):
            if not found.name.startswith(FRAMEWORKS):
                yield import_module(found.name)


def assigned(path: Path) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a module itself gives to values, each with what its source says of the value."""
    for node in project.parsed(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
            yield from ((name, node.value) for name in found if name.isupper() and name not in VARYING)


def numbers_of_adapters() -> Iterator[tuple[str, str]]:
    """Yield the names of numbers in modules that cannot be imported here, and what their source says of them."""
    for module, path in project.modules("refold.infrastructure"):
        for name, value in assigned(path) if module.startswith(FRAMEWORKS) else ():
            parts = [] if value is None else [*ast.walk(value)]
            is_known = not any(isinstance(one, ast.Name | ast.Call) for one in parts)
            if value and is_known and any(isinstance(one, ast.Constant) and is_number(one.value) for one in parts):
                yield f"{module.removeprefix('refold.')}.{name}", ast.unparse(value)


def is_number(value: Any) -> bool:
    """Return whether it is a number, or holds nothing but numbers and texts, and at least one number."""
    if isinstance(value, tuple | list):
        return any(map(is_number, value)) and all(isinstance(one, str) or is_number(one) for one in value)
    if isinstance(value, dict):
        return is_number(list(value.values()))
    return type(value) in (int, float, bool)


def classes() -> Iterator[tuple[str, type]]:
    """Yield the classes of the product, with their names."""
    for module in modules():
        for name, one in vars(module).items():
            if isinstance(one, type) and one.__module__ == module.__name__ and one.__qualname__ == name:
                yield f"{module.__name__.removeprefix('refold.')}.{name}", one


def fields_of(one: type) -> dict[str, Any]:
    """Return the fields of a class that have a default, with it."""
    if issubclass(one, msgspec.Struct):
        return {field.name: field.default for field in msgspec.structs.fields(one)}
    if issubclass(one, BaseModel):
        return {name: field.default for name, field in one.model_fields.items()}
    if is_dataclass(one):
        return {field.name: field.default for field in fields(one)}
    found: dict[str, Any] = getattr(one, "_field_defaults", {})
    return found


def flags_of(one: type) -> str:
    """Return how a class behaves as a value: whether it is frozen, compared by what is in it, or ordered."""
    if issubclass(one, BaseModel):
        return "frozen" if one.model_config.get("frozen") else "open"
    given: Any = getattr(one, "__struct_config__", None) or vars(one)["__dataclass_params__"]
    flags = ["frozen" if given.frozen else "open", "compared" if given.eq else "not compared"]
    return ", ".join([*flags, *(name for name in ("order", "omit_defaults") if getattr(given, name, False))])


def test_numbers_are_as_they_were_chosen() -> None:
    """A change of one is seen, and is meant: then remove the file, and run it again, as well as for new ones."""
    assert_unchanged("numbers", {
        f"{module.__name__.removeprefix('refold.')}.{name}": repr(vars(module)[name])
        for module in modules()
        for name, _ in assigned(Path(str(module.__file__)))
        if is_number(vars(module).get(name))
    } | dict(numbers_of_adapters()))  # fmt: skip


def test_values_are_as_they_were_chosen() -> None:
    """The same for the defaults of fields, and for what is frozen, compared and ordered."""
    found: dict[str, str] = {}
    for name, one in classes():
        defaults = fields_of(one)
        found |= {f"{name}.{field}": repr(default) for field, default in defaults.items() if is_number(default)}
        if issubclass(one, msgspec.Struct | BaseModel) or "__dataclass_params__" in vars(one):
            found[name] = flags_of(one)
    assert_unchanged("values", found)


def assert_unchanged(name: str, found: dict[str, str]) -> None:
    """Compare with the file of this name; a line that is not in it is none that was changed."""
    lines = {one: f"{one} = {value}" for one, value in sorted(found.items())}
    file = FOLDER / f"{name}.txt"
    if file.exists():
        written = file.read_text(encoding="utf-8").splitlines()
        assert [lines.get(line.partition(" = ")[0]) for line in written] == written
    else:
        assert_as_written(name, "".join(f"{line}\n" for line in lines.values()))
