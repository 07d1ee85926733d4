"""The project names no particular machine: no path on it, and no source of its packages."""

import re
import subprocess
from pathlib import Path

from tests.support.project import ROOT

# Put together here, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(" + "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me")) + r")/")
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("crates", "io"),
        ("anaconda", "org"),
        ("proxy", "golang", "org"),
    )
]


def tracked_files() -> list[Path]:
    """List the files that git tracks, and those that it would with the next `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def found(pattern: re.Pattern[str]) -> list[str]:
    """Search all tracked files."""
    hits = []
    for path in tracked_files():
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            if pattern.search(line):
                hits.append(f"{path.relative_to(ROOT)}:{number}")
    return hits


def test_no_path_of_a_machine() -> None:
    """No file names a place that exists on one machine only."""
    assert found(MACHINE_PATH) == []


def test_no_package_registry() -> None:
    """Where packages come from is each machine's own setting."""
    assert found(re.compile("|".join(map(re.escape, REGISTRIES)))) == []
