"""mypy accepts every example in strict mode, as for users who check their own code with it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import blocks, documents, name_of
from tests.support.project import ROOT, files

# The frameworks are not installed here, so their names have the type Any: imported, as base classes, as decorators, and
# in what their functions return.
OPTIONS = [
    "--strict", "--ignore-missing-imports", "--allow-subclassing-any", "--allow-untyped-decorators",
    "--no-warn-return-any", "--no-error-summary", "--hide-error-context",
]  # fmt: skip


def _code_of(path: Path) -> str:
    """Return the Python of a document, each line with the number that it has there."""
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8")
    lines: list[str] = []
    for block in blocks(path):
        if block.language == "python":
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "\n".join([*lines, ""])


def _refused(codes: dict[str, str], folder: Path) -> list[str]:
    """Return what mypy says against the code of documents, by name: the document, the line and the error."""
    places = {re.sub(r"\W", "_", name): name for name in codes}
    for module, name in places.items():
        (folder / f"{module}.py").write_text(codes[name], encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={folder / 'cache'}", *OPTIONS]
    done = subprocess.run(
        [*command, *(f"{module}.py" for module in places)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = (line.partition(".py:") for line in done.stdout.splitlines())
    return [f"{places.get(module, module)}:{rest}" for module, _, rest in found]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_examples_are_typed(tmp_path: Path) -> None:
    """Each line that mypy refuses is named; the last two documents here are such that it has to refuse."""
    paths = [*documents(), *files(ROOT / "examples", suffix=".py")]
    codes = {name_of(path): code for path in paths if (code := _code_of(path)).strip()}
    wrong = "import refold\n\nrefold.ChatContext().items[0].contents\n"
    node = "from refold.trajectory import RunFactory\n\nfound = RunFactory().run('mia', 's').node('Table(t)')\n"
    wrong_node = f"{node}print(found.path.name, found.from_table)\nfound.pth\n"

    refused = _refused({**codes, "wrong.md": wrong, "node.md": wrong_node}, tmp_path)
    assert len(codes) > 40
    about_nodes = [line for line in refused if line.startswith("node.md:")]
    assert [line for line in refused if not line.startswith(("wrong.md:3: error: ", "node.md:5: error: "))] == []
    assert len(refused) - len(about_nodes) == 5  # a kind of item each
    assert len(about_nodes) == 1
