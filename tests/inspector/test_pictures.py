"""The list of pictures that `scripts/pictures` takes has each screen, and the pictures beside the tests are those."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.project import ROOT

FOLDER = Path(__file__).with_name("pictures")
PAGE = ROOT / "infrastructure" / "inspector" / "static" / "page.js"
BYTES_MAX = 3_000_000


def listed() -> list[tuple[str, str]]:
    """Return the screen and the file of each picture."""
    command = [sys.executable, str(ROOT / "scripts" / "pictures.py"), "--list"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    return [(screen, file) for screen, file in (line.split() for line in done.stdout.splitlines())]


def test_each_screen_has_pictures() -> None:
    """A screen that the page gets is looked at, too."""
    [table] = re.findall(r"^const SCREENS = \{(.*?)^\};", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    screens = set(re.findall(r"(\w+): \(\) => import", table))

    assert {screen for screen, _ in listed()} == screens


def test_the_pictures_are_those_of_the_list() -> None:
    """None is left from before, and all of them are small."""
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir()}

    assert set(sizes) == {file for _, file in listed()}
    assert sum(sizes.values()) < BYTES_MAX
