"""The table of frameworks says what the tests install."""

import re

from tests.support.project import ROOT

ROW = re.compile(r"^\| .* \| \[.*\]\((.*)\) \| `(.*)` \| (.*) \| (.*) \|$", re.MULTILINE)


def test_the_table_names_each_page_extra_and_pinned_version() -> None:
    """A version that is pinned anew changes the table."""
    folder = ROOT / "docs/how-to/frameworks"
    pins = (ROOT / "tests/frameworks/constraints.txt").read_text().splitlines()
    project = (ROOT / "pyproject.toml").read_text()
    rows = ROW.findall((folder / "versions.md").read_text())

    # Not the adapter of spans, which keeps no conversation.
    (extras,) = re.findall(r'^frameworks = \["refold\[(.*)\]"\]$', project, re.MULTILINE)
    assert {row[1] for row in rows} == set(extras.split(",")) - {"otel"}, "each adapter has a row in versions.md"
    for page, extra, package, version in rows:
        assert (folder / page).exists(), f"write the page {page}"
        assert f"{package}=={version}" in pins
        assert f"\n{extra} = [" in project
