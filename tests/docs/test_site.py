"""The pages of the site: all documents are in its navigation, and all public names have a place."""

import re
from pathlib import Path

import pytest

import refold
from scripts.docs import MODULES, adapters, faults_of, lay_out
from tests.docs.markdown import documents
from tests.support.project import ROOT


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, before the site is built."""
    target = tmp_path_factory.mktemp("site")
    lay_out(target)
    return target


def test_each_document_is_in_the_navigation_once(laid_out: Path) -> None:
    """In the order of docs/README.md; nothing is named that is not there."""
    listed = re.findall(r"- (\S+\.md)$", (laid_out / "mkdocs.yml").read_text(), re.MULTILINE)
    in_docs = {str(path.relative_to(ROOT)) for path in documents() if path.is_relative_to(ROOT / "docs")}

    assert len(listed) == len(set(listed))
    assert in_docs <= set(listed)
    assert all((laid_out / "pages" / name).is_file() for name in listed)


def test_each_public_name_has_a_place(laid_out: Path) -> None:
    """Either its docstring, or a link to where that is."""
    names = laid_out / "pages/docs/reference/names"
    page = (names / "refold.md").read_text()

    assert {path.stem for path in names.glob("*.md")} == {*MODULES, *adapters()}
    assert [name for name in refold.__all__ if name not in page] == []
    for module in adapters():
        assert "::: refold.infrastructure" in (names / f"{module}.md").read_text(), module


@pytest.mark.parametrize(
    "loads",
    [
        '<script src="https://x.org/a.js"></script>',
        '<link rel="stylesheet" href="https://x.org/a.css">',
        "<style>@import 'a.css'</style>",
        '<img src="//x.org/a.png">',
    ],
)
def test_a_page_that_loads_something_from_elsewhere_is_a_fault(tmp_path: Path, loads: str) -> None:
    """A link that a reader may follow is none."""
    (tmp_path / "search").mkdir()
    (tmp_path / "search/search_index.json").write_text("{}")
    (tmp_path / "good.html").write_text('<a href="https://x.org">x</a><script src="a.js"></script>')
    assert faults_of(tmp_path) == []

    (tmp_path / "bad.html").write_text(loads)
    assert faults_of(tmp_path) == ["bad.html loads something from elsewhere"]
