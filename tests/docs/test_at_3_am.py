"""What to do at 3 a.m. names the errors, their messages and the kinds of problems as the program has them."""

import re

from refold.domain import errors
from refold.infrastructure.verifying import Problem
from tests.docs.markdown import section, table_rows
from tests.support.project import ROOT, files

PAGE = ROOT / "docs" / "how-to" / "at-3-am.md"
FILES = [path for folder in ("domain", "infrastructure") for path in files(ROOT / folder, suffix=".py")]
SOURCES = "".join(path.read_text(encoding="utf-8") for path in FILES)


def test_errors_and_their_messages_are_those_of_the_program() -> None:
    """A reader finds the class, or the words of the message."""
    causes = [row[0] for row in table_rows(section(PAGE, "What to do at 3 a.m.").partition("\n## ")[0])]
    names = re.findall(r"`(\w+)`", " ".join(causes))
    quoted = re.findall(r'"(.+?)"', " ".join(causes))

    assert [name for name in names if name != "rebuild" and not hasattr(errors, name)] == []
    assert len(quoted) > 5
    assert [text for text in quoted if text not in SOURCES] == []


def test_each_kind_of_problem_has_a_remedy() -> None:
    """Those of a store, and the one of the command."""
    listed = {re.findall(r"`(\w+)`", row[0])[0] for row in table_rows(section(PAGE, "Verify"))}
    kinds = re.search(r"`kind` is (.+?)\.", Problem.__doc__ or "", re.DOTALL)

    assert kinds is not None
    assert {*re.findall(r"`(\w+)`", kinds[1]), "database"} == listed
