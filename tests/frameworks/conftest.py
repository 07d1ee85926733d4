"""
The tests of adapters need the frameworks, which `scripts/test-frameworks` installs into an environment of their own.

Without them only the tests of the shared core, in this folder itself, are collected.
"""

import os
from pathlib import Path

FOLDERS = [path.name for path in Path(__file__).parent.iterdir() if path.is_dir() and (path / "__init__.py").exists()]
collect_ignore = [] if os.environ.get("REFOLD_TEST_FRAMEWORKS") else FOLDERS
