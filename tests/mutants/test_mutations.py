"""The defects that scripts/mutants draws from: each is put into one place, and the rest of the text stays."""

import ast
import json
import os
import sys
from pathlib import Path

import pytest
from coverage import CoverageData

from tests.support.project import ROOT

from .equivalent import EQUIVALENT
from .forking import Forks
from .mutations import mutants_of
from .records import ASKING, PYTEST, Records
from .sample import changed, places

KINDS = [
    ("a < b", "comparison flipped", "(a <= b)"),
    ("a and b", "and, or", "(a or b)"),
    ("a + b", "plus, minus", "(a - b)"),
    ("x = 1", "constant changed", "x = 2"),
    ("x = True", "constant changed", "x = False"),
    ("if a: b()", "condition negated", "if (not a): b()"),
    ("def f(): return a", "return value replaced", "def f(): return None"),
    ("self.x = a", "statement removed", "pass"),
    ("f(a)", "statement removed", "pass"),
    ("with lock: a", "lock removed", "if True:\n    a"),
    ("x = locked(lock, f, a)", "lock removed", "x = (f(a))"),
    ("@synchronized\ndef f(): pass", "lock removed", "@(lambda method: method)\ndef f(): pass"),
]


@pytest.mark.parametrize(("source", "kind", "changed"), KINDS, ids=lambda one: str(one)[:12])
def test_each_kind(source: str, kind: str, changed: str) -> None:
    """It says what stands there instead, behind a text that takes more bytes than characters too."""
    before = "'ü'; " if "\n" not in source and source[0] in "axsf" else ""
    found = [one.text(before + source) for one in mutants_of(before + source) if one.kind == kind]

    assert before + changed in found


def test_all_are_python() -> None:
    """Each of a module can be read, and is another module than the one it was put into."""
    file = "domain/ordered_map.py"
    source = (ROOT / file).read_text()
    found = [place.mutant.text(source) for place in places(file)]

    assert len(found) > 50
    assert ast.dump(ast.parse(source)) not in {ast.dump(ast.parse(text)) for text in found}


def test_types_are_left_alone() -> None:
    """What only a type checker reads is no place for a defect."""
    assert mutants_of("def f(a: Literal[1]) -> Literal[2]: ...") == []
    assert mutants_of("if TYPE_CHECKING:\n    f(1)") == []
    assert mutants_of("@overload\ndef f(a: bool = False) -> int: ...") == []


def test_what_cannot_matter_is_left_alone() -> None:
    """What is never reached, a None for a False, lengths that are compared beside, memory, and versions of rows."""
    assert mutants_of("raise AssertionError('never')") == mutants_of("raise NotImplementedError") == []
    assert [one.kind for one in mutants_of("def f(): return False")] == ["constant changed"]
    assert mutants_of("x = zip(a, b, strict=True)") == mutants_of("T = TypeVar('T', covariant=True)") == []
    assert mutants_of("x = defstruct('x', y, gc=False)") == mutants_of("@dataclass(slots=True)\nclass X: ...") == []
    assert mutants_of("class Rows:\n    version = 1") == []
    assert mutants_of("with block: pass") == []


def test_equivalent_defects_can_be_put_in() -> None:
    """None is listed of which the code is gone, and each says why no test can notice it."""
    found = {
        (place.file, changed(place, source)[1])
        for file in {file for file, _ in EQUIVALENT}
        for source in [(ROOT / file).read_text()]
        for place in places(file)
    }

    assert set(EQUIVALENT) - found == set()
    assert all(EQUIVALENT.values())


def test_records_follow_lines_that_moved(tmp_path: Path) -> None:
    """A record made before lines were added still says for each line which tests ran it."""
    file, test, other = "domain/ordered_map.py", "tests/domain/test_a.py::test_b", "tests/domain/test_a.py::test_c"
    source = (ROOT / file).read_text()
    place = next(one for one in places(file) if one.mutant.kind == "return value replaced")
    before = source.splitlines(keepends=True)
    del before[3:5], before[place.mutant.line - 1 - 2]
    recorded = tmp_path / "0000" / "sources" / file
    recorded.parent.mkdir(parents=True)
    recorded.write_text("".join(before))
    (tmp_path / "0000" / "times.json").write_text(json.dumps({test: 0.5, other: 0.1}))
    _note(tmp_path, file, {test: [place.mutant.line - 3], other: [1]})

    assert Records(tmp_path).tests_of(place, source) == [ASKING, test]


def _note(folder: Path, file: str, ran: dict[str, list[int]]) -> None:
    data = CoverageData(str(folder / "0000" / "lines"))
    for test, lines in ran.items():
        data.set_context(test)
        data.add_lines({file: lines})
    data.write()


def test_a_constant_is_tried_by_those_who_use_it(tmp_path: Path) -> None:
    """The line itself runs when its module is loaded, for whichever test comes first."""
    file, using, other = "domain/spans.py", "tests/domain/test_a.py::test_b", "tests/domain/test_a.py::test_c"
    source = (ROOT / file).read_text()
    defined, used = (
        next(number for number, line in enumerate(source.splitlines(), 1) if text in line)
        for text in ("NUMBER_BITS_MAX = ", "> NUMBER_BITS_MAX")
    )
    recorded = tmp_path / "0000" / "sources" / file
    recorded.parent.mkdir(parents=True)
    recorded.write_text(source)
    (tmp_path / "0000" / "times.json").write_text(json.dumps({using: 0.5, other: 0.1}))
    _note(tmp_path, file, {using: [used], other: [used - 3]})

    place = next(one for one in places(file) if one.mutant.line == defined)
    chosen = Records(tmp_path).tests_of(place, source)
    assert (using in chosen, other in chosen) == (True, False)
    records = Records(tmp_path)
    few = {one.mutant.line for one in places(file) if records.is_run_by_few(one, 0)}
    most = {one.mutant.line for one in places(file) if records.is_run_by_few(one, 1)}
    # A line that runs when its module is loaded is run by whichever test comes first, and counts as none of few.
    assert defined not in most
    assert (used in few, used in most) == (False, True)


def test_what_is_set_is_tried_by_those_who_read_it(tmp_path: Path) -> None:
    """Of all who run the line they come first, however slow they are."""
    file, reading, other = (
        "domain/chat/item_list.py",
        "tests/domain/test_a.py::test_b",
        "tests/domain/test_a.py::test_c",
    )
    source = (ROOT / file).read_text()
    lines = source.splitlines()
    is_set, read = (
        next(number for number, line in enumerate(lines, 1) if text in line)
        for text in ("self._seen_in = ", "self._seen_in()")
    )
    recorded = tmp_path / "0000" / "sources" / file
    recorded.parent.mkdir(parents=True)
    recorded.write_text(source)
    (tmp_path / "0000" / "times.json").write_text(json.dumps({reading: 10.0, other: 0.1}))
    _note(tmp_path, file, {reading: [is_set, read], other: [is_set]})

    place = next(one for one in places(file) if one.mutant.line == is_set)
    assert Records(tmp_path).tests_of(place, source, seconds_max=40) == [ASKING, reading, other]


def test_a_fork_runs_tests_with_a_defect(tmp_path: Path) -> None:
    """The functions that are loaded change in the fork alone; where they cannot, it says so."""
    module, test = tmp_path / "module.py", tmp_path / "test_module.py"
    source = "class One:\n    @staticmethod\n    def two():\n        return [number for number in (1, 2)]\n"
    module.write_text(source)
    test.write_text("from module import One\ndef test_two(): assert One.two() == [1, 2]\ndef test_one(): pass\n")
    forks = Forks([sys.executable, "-m", *PYTEST, "test_module.py"], tmp_path, {**os.environ, "PYTHONPATH": str(ROOT)})
    changed, ordered = source.replace("(1, 2)", "(1, 3)"), ["test_module.py::test_one", "test_module.py::test_two"]
    ended = source.replace("return [", "import os; os._exit(0); return [")
    slow = source.replace("return [", "import time; time.sleep(60); return [")
    other = source.replace("def two", "def three")
    try:
        assert forks.tests == {*ordered}
        assert forks.run(ordered, 60) == (0, ())
        assert forks.run(["test_module.py"], 60, defect=(str(module), source, changed)) == (1, (ordered[1],))
        assert forks.run(ordered, 60, defect=(str(module), source, ended)) == (3, ())
        assert forks.run(ordered, 0.5, defect=(str(module), source, slow)) == (None, ())
        assert forks.run(ordered, 60, defect=(str(module), source, other)) is None
        assert forks.run(ordered, 60) == (0, ())
    finally:
        forks.close()
