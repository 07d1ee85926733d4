"""The built archives contain the one package that the folders describe, and nothing else."""

import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.support.project import PACKAGES, ROOT, files

SDIST_BESIDE_SOURCE = {"PKG-INFO", "pyproject.toml", "LICENSE", ".gitignore"} | {
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
}
# The files from which the site of the documents is built.
SITE = {"ARCHITECTURE.md", "mkdocs.yml", "scripts/docs", "scripts/docs.py"}
# Puts a folder on the path as an installation does, imports all modules, and prints the file of each.
IMPORT_ALL = """
import importlib, os, pkgutil, site, sys
site.addsitedir(sys.argv[1])
sys.path.sort(key=lambda folder: folder != sys.argv[1])
import refold
for found in pkgutil.walk_packages(refold.__path__, "refold."):
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as missing:
        if missing.name.startswith("refold"):
            raise
for name, module in sys.modules.items():
    if getattr(module, "__file__", None) and name != "__main__":
        print(name, os.path.realpath(module.__file__), sep="\\t")
"""

# Requests the page of an installed package as a browser does, and each file that another file names, and prints them.
ASK_FOR_THE_PAGE = """
import re, site, sys
site.addsitedir(sys.argv[1])
sys.path.sort(key=lambda folder: folder != sys.argv[1])
import refold
from starlette.testclient import TestClient
assert refold.__file__.startswith(sys.argv[1])
client = TestClient(refold.inspector(refold.open(":memory:")), base_url="http://127.0.0.1")
left, seen = re.findall(r'(?:href|src)="(/static/[^"]+)"', client.get("/").text), set()
while left:
    path = left.pop()
    if path in seen:
        continue
    seen.add(path)
    answer = client.get(path)
    assert answer.status_code == 200, path
    named = re.findall(r'"\\./([a-z_]+\\.js)"', answer.text)
    left += [path.rpartition("/")[0] + "/" + name for name in named]
assert client.get("/api/meta").json()["events"] == 0
print(*(path.rpartition("/")[2] for path in seen), sep="\\n")
"""


def python(code: str, *arguments: str | Path) -> str:
    """Run code in a process that sees the installed packages but not this folder, and return what it prints."""
    command = [sys.executable, "-I", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist, and the wheel built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Iterator[zipfile.ZipFile]:
    """The wheel, opened."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def source_files() -> dict[str, Path]:
    """List the files of the package, by their path in an installation."""
    return {
        f"{package.replace('.', '/')}/{path.relative_to(folder).as_posix()}": path
        for package, folder in PACKAGES.items()
        for path in files(folder)
    }


def modules_seen(folder: Path) -> list[tuple[str, Path]]:
    """Import everything from an installation and list all modules then loaded, with their files."""
    lines = python(IMPORT_ALL, folder).splitlines()
    return [(name, Path(path)) for name, path in (line.split("\t") for line in lines)]


def test_the_wheel_is_the_folders(wheel: zipfile.ZipFile) -> None:
    """Each source file is there once, under its import name, and nothing else: no link, no test."""
    shipped = {info for info in wheel.infolist() if ".dist-info/" not in info.filename}
    links = [info.filename for info in shipped if stat.S_ISLNK(info.external_attr >> 16)]

    assert {info.filename for info in shipped} == set(source_files())
    assert links == []
    assert "refold/py.typed" in {info.filename for info in shipped}


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    """`refold` is the one command, and nothing from this machine is in the metadata."""
    (name,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    scripts = ConfigParser()
    scripts.read_string(wheel.read(name).decode())

    assert {group: dict(scripts[group]) for group in scripts.sections()} == {
        "console_scripts": {"refold": "refold.infrastructure.cli:main"}
    }


def test_the_sdist_is_the_folders(built: Path) -> None:
    """The source archive holds the real folders at their places, and no link and no test."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    shipped = {member.name.partition("/")[2] for member in members if not member.isdir()}
    source = {path.relative_to(ROOT).as_posix() for path in source_files().values()}

    assert [member.name for member in members if member.issym() or member.islnk()] == []
    assert source <= shipped
    site = SITE | {path.relative_to(ROOT).as_posix() for name in ("docs", "examples") for path in files(ROOT / name)}
    assert site <= shipped
    assert shipped - source - site <= SDIST_BESIDE_SOURCE


def test_an_installed_wheel_imports(built: Path, tmp_path: Path) -> None:
    """Every module of the wheel imports from where it was installed, and from nowhere else."""
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(tmp_path), str(wheel)], check=True)

    seen = [(name, path) for name, path in modules_seen(tmp_path) if name.split(".")[0] == "refold"]
    assert set(PACKAGES) <= {name for name, _ in seen}
    assert [name for name, path in seen if not path.is_relative_to(tmp_path)] == []


def test_an_installed_wheel_has_the_whole_page(built: Path, tmp_path: Path) -> None:
    """Each file of the page is named by another one, and is served from where the wheel was installed."""
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(tmp_path), str(wheel)], check=True)
    static = ROOT / "infrastructure" / "inspector" / "static"

    asked = python(ASK_FOR_THE_PAGE, tmp_path).split()
    assert set(asked) == {path.name for path in static.iterdir()} - {"index.html"}


def test_an_editable_install_is_one_package(tmp_path: Path) -> None:
    """Through the links each file is one module below `refold`, and there is no second copy under another name."""
    build = "import os, sys, hatchling.build as b; os.chdir(sys.argv[1]); b.build_editable(sys.argv[2])"
    python(build, ROOT, tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)

    source = set(source_files().values())
    seen = [(name, path) for name, path in modules_seen(tmp_path) if path in source]
    names, paths = {name for name, _ in seen}, {path for _, path in seen}
    assert set(PACKAGES) <= names
    assert {name.split(".")[0] for name in names} == {"refold"}
    assert len(paths) == len(seen)
