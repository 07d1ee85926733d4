"""
The suite that the protocol publishes, beside the program itself.

Of its scenarios for servers these need nothing but a server. The others call tools, prompts and resources of a server
made for the suite, such as `test_simple_text`, or try what Refold does not offer: prompts, completion, log levels,
subscriptions, and streams of a session.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .servers import filled, served

# scripts/test-frameworks puts it there where npm is.
SUITE = Path(sys.prefix) / "npm" / "node_modules"
SCENARIOS = {
    "server-initialize": 1, "ping": 1, "tools-list": 1, "resources-list": 1, "dns-rebinding-protection": 2,
}  # fmt: skip


def suite() -> list[str]:
    """Return the command of the suite; skip the test where it is not."""
    program = SUITE / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    if not program.exists():
        pytest.skip(f"there is no {program}: scripts/test-frameworks installs it where npm is")
    node = shutil.which("node", path=str(SUITE / ".bin")) or shutil.which("node")
    assert node is not None
    return [node, str(program), "server"]


def test_scenarios_pass(tmp_path: Path) -> None:
    """Every check of every scenario that applies succeeds, none with a warning."""
    asked = suite()
    with served(filled(tmp_path / "s.db"), "--write") as address:
        for scenario, checks in SCENARIOS.items():
            done = subprocess.run(
                [*asked, "--url", address, "--scenario", scenario], cwd=tmp_path, capture_output=True, text=True,
                check=False, env={**os.environ, "NO_COLOR": "1"},
            )  # fmt: skip
            assert f"Passed: {checks}/{checks}, 0 failed, 0 warnings" in done.stdout, done.stdout + done.stderr
