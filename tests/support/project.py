"""The places of the project's source, and functions that read it."""

import ast
import functools
import gc
import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Each folder is one import package; src/refold holds links to the other three.
PACKAGES = {
    "refold": ROOT / "src" / "refold",
    "refold.domain": ROOT / "domain",
    "refold.projections": ROOT / "projections",
    "refold.infrastructure": ROOT / "infrastructure",
}
PURE = ("refold.domain", "refold.projections")


def files(folder: Path, *, suffix: str = "") -> Iterator[Path]:
    """List the files below a folder, sorted, links to folders not followed."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(parent, name) for name in sorted(names) if name.endswith(suffix))


def modules(package: str) -> Iterator[tuple[str, Path]]:
    """List the modules that lie in a package's folder, each with its full name."""
    for path in files(PACKAGES[package], suffix=".py"):
        parts = path.relative_to(PACKAGES[package]).with_suffix("").parts
        yield ".".join((package, *parts)).removesuffix(".__init__"), path


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Read a module's syntax tree."""
    was_enabled = gc.isenabled()
    # It would look at all trees that there are, again and again: that takes longer than to make them.
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    finally:
        if was_enabled:
            gc.enable()
