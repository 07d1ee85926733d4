"""No link in the documents leads nowhere, and no document is out of reach."""

import re
from pathlib import Path

import pytest

from tests.docs.markdown import anchors, documents, links, name_of
from tests.support.project import ROOT

OUTSIDE = re.compile(r"[a-z]+:")


@pytest.mark.parametrize("path", documents(), ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    """Each relative link names a file that is there, and a heading in it."""
    broken = []
    for link in links(path):
        if OUTSIDE.match(link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(link)

    assert broken == []


def test_every_document_is_linked_to() -> None:
    """From the README one gets to all of them."""
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached or path.suffix != ".md" or not path.exists():
            continue
        reached.add(path)
        inside = [link.partition("#")[0] for link in links(path) if not OUTSIDE.match(link)]
        waiting.extend((path.parent / link).resolve() for link in inside if link)

    assert set(documents()) - reached == set()
