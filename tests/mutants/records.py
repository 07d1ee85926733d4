"""Which tests run a line, and how long each takes: recorded once, and chosen from for each defect."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from difflib import SequenceMatcher
from functools import cache, partial
from itertools import chain, count, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from coverage import CoverageData
from coverage.exceptions import DataError

from ..support.project import ROOT
from .mutations import Mutant
from .recording import TEST

CODE = ("domain", "projections", "infrastructure")
# Those that look at the source, trace it themselves, measure time or kill processes: they do not say what they run.
RECORDED_NOT = {"benchmarks", "crash", "house", "interrupts", "mutants", "support"}
COMMANDS = "infrastructure/cli/"
# The adapters of frameworks have tests of their own, which need another Python (scripts/test-frameworks).
FRAMEWORKS = "infrastructure/frameworks/"
FRAMEWORKS_TESTS = "tests/frameworks"
# Not recorded, but quick: they compare limits, signatures and options with the documents.
DOCUMENTED = "tests/docs/test_reference.py"
DOCUMENTED_COMMANDS = "tests/docs/test_command_line.py"
NUMBERS = "tests/golden/test_numbers.py"
# They read the source, and are in no record.
GUARDED = "tests/house/test_guarded_fields.py::test_guarded_fields_are_used_under_the_lock"
ENDING = "tests/house/test_guarded_fields.py::test_no_thread_keeps_a_program_alive"
RENEWED = "tests/house/test_guarded_fields.py::test_what_is_renewed_in_a_child_says_so"
# Quick, and about every call of every class.
ASKING = "tests/trust/test_every_call_asks.py"
STARTS_PROCESSES = re.compile("(Forks|Exits)::")
TESTS_SECONDS_MAX = 60.0
PYTEST = ("pytest", "-q", "-p", "no:cacheprovider")


class Place(NamedTuple):
    """A defect, and the file in which it is."""

    file: str
    mutant: Mutant


class Records:
    """Which tests run a line, and how long each of them takes."""

    def __init__(self, folder: Path) -> None:
        self._seconds: dict[str, float] = {}
        self._lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for one in sorted(folder.glob("*/times.json")):
            self._seconds |= json.loads(one.read_text())
            data = CoverageData(str(one.parent / "lines"))
            data.read()
            for file in data.measured_files():
                recorded = one.parent / "sources" / file
                if recorded.exists() and (ROOT / file).exists():
                    self._add(file, recorded, data.contexts_by_lineno(file))

    def _add(self, file: str, recorded: Path, ran: Mapping[int, Sequence[str]]) -> None:
        """Take tests over to the lines as they are now: a changed or new one gets those of the place it came to."""
        before, now = (path.read_text().splitlines() for path in (recorded, ROOT / file))
        steps = SequenceMatcher(None, before, now, autojunk=False).get_opcodes()
        for kind, first, last, now_first, now_last in steps:
            for line in range(now_first, now_last):
                place = line - now_first + first
                old = [place] if kind == "equal" else range(min(first, last - 1), last)
                self._lines[file][line + 1].update(chain.from_iterable(ran.get(one + 1, ()) for one in old))

    def tests_of(self, place: Place, source: str, seconds_max: float = TESTS_SECONDS_MAX) -> list[str]:
        """Return tests that may notice a defect: those that run its line first, as many as their time allows."""
        lines = self._lines.get(place.file, {})
        inside = _inside(source)
        at_import = place.mutant.line not in inside
        # The record of a line that runs while its module is loaded names only the test that happened to load it.
        defined = _defined_at(place.mutant.line, source) if at_import else ""
        tests = self._using(place, defined) if at_import else set(lines.get(place.mutant.line, ()))
        is_elsewhere = not (tests or at_import)
        tests = tests or set(chain.from_iterable(lines.get(line, ()) for line in inside))
        tests = self._known(place, tests or set(chain.from_iterable(lines.values())))
        # The values that a test is given may be made before it runs, and run lines that are not recorded for it.
        beside = (test for test in self._seconds if f"/test_{Path(place.file).stem}.py::" in test)
        others = self._known(place, beside) - tests
        # Those whose file or class is named most like the module know it best, and may take half the time.
        likeness = {test: len(_words(place.file) & _words(_group(test))) for test in tests | others}
        most = max(likeness.values(), default=0)
        named = [test for test, like in likeness.items() if like == most]
        if is_elsewhere:
            # No test runs the line itself; a process that one starts and kills may.
            tests |= (starting := {test for test in self._seconds if STARTS_PROCESSES.search(test)})
            named = [*starting, *named]
        ways = self._ways(place, source)
        # First one test for each way through the function: what is rarely taken must not wait for what always is.
        first = [group[0] for group in self._grouped(tests, lambda test: ways.get(test, ())).values()]
        # What a line sets is noticed where it is read.
        reading = self._using(place, _attribute_set_at(place.mutant.line, source)) & tests
        chosen = self._within(seconds_max / 4, self._fastest(reading))
        first.sort(key=self._seconds.__getitem__)
        chosen = self._within(seconds_max / 2, dict.fromkeys([*chosen, *first]))
        chosen = self._within(seconds_max * 3 / 4, dict.fromkeys([*chosen, *self._fastest(named)]))
        chosen = self._within(seconds_max, dict.fromkeys([*chosen, *self._fastest(tests), *self._fastest(others)]))
        # A server takes seconds to start: where its own code is not meant, tests that need none come first.
        chosen.sort(key=lambda test: "postgres" in test and "postgres" not in place.file)
        return [*_unrecorded(place, at_import=at_import), *chosen]

    def runs_at_import(self, place: Place, source: str) -> bool:
        """Return whether a line runs while its module is loaded, before any test."""
        line = place.mutant.line
        return line not in _inside(source) or "" in self._lines[place.file][line]

    def is_run_by_few(self, place: Place, tests_max: int) -> bool:
        """Return whether at most so many tests run the line of a defect, which is within a function."""
        inside = _inside((ROOT / place.file).read_text())
        return place.mutant.line in inside and len(self._lines[place.file][place.mutant.line]) <= tests_max

    def _using(self, place: Place, name: str) -> set[str]:
        """Return the tests that run another line with a name, if there is one."""
        tests = set[str]()
        for file, lines in self._lines.items() if name else ():
            texts = (ROOT / file).read_text().splitlines()
            for number in lines if name in " ".join(texts) else ():
                if number != place.mutant.line and re.search(rf"\b{name}\b", texts[number - 1]):
                    tests |= lines[number]
        return tests

    def _known(self, place: Place, tests: Iterable[str]) -> set[str]:
        is_adapter = place.file.startswith(FRAMEWORKS)
        return {test for test in tests if test in self._seconds and (test.startswith(FRAMEWORKS_TESTS) == is_adapter)}

    def _within(self, seconds_max: float, tests: Iterable[str]) -> list[str]:
        """Return those of the tests that fit into the time; the first have the first right."""
        chosen, seconds = [], 0.0
        for test in tests:
            if seconds + self._seconds[test] <= seconds_max:
                chosen.append(test)
                seconds += self._seconds[test]
        return chosen

    def _fastest(self, tests: Iterable[str]) -> Iterator[str]:
        """Yield the fastest test of every file or class, then the second of every one, and so on."""
        groups = self._grouped(tests, _group).values()
        return (test for test in chain.from_iterable(zip_longest(*groups)) if test is not None)

    def _grouped(self, tests: Iterable[str], group: Callable[[str], Any]) -> dict[Any, list[str]]:
        """Return tests by their group, in each the fastest first."""
        groups: dict[Any, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda one: (self._seconds[one], one)):
            groups[group(test)].append(test)
        return groups

    def _ways(self, place: Place, source: str) -> dict[str, tuple[int, ...]]:
        """Return the lines that each test runs of the innermost function around a defect."""
        around = [lines for lines in map(_lines, _functions(source)) if place.mutant.line in lines]
        found: dict[str, tuple[int, ...]] = defaultdict(tuple)
        for line in min(around, key=len, default=range(0)):
            for test in self._lines.get(place.file, {}).get(line, ()):
                found[test] += (line,)
        return found


def _unrecorded(place: Place, *, at_import: bool) -> list[str]:
    """Return quick tests that are in no record, and look at what is defect here."""
    if place.file.startswith(FRAMEWORKS):
        return [NUMBERS] if at_import else []
    guarding = [GUARDED] if place.mutant.kind == "lock removed" else []
    # An argument that is a truth, as whether a thread is a daemon.
    ending = [ENDING] if isinstance(getattr(place.mutant.instead, "value", None), bool) else []
    renewed = [RENEWED] if "renew_in_child" in ast.unparse(place.mutant.node) else []
    commands = [DOCUMENTED_COMMANDS] if place.file.startswith(COMMANDS) else []
    return [ASKING, *guarding, *ending, *renewed, *([DOCUMENTED, NUMBERS, *commands] if at_import else [])]


def _defined_at(line: int, source: str) -> str:
    """Return the name of the innermost constant, field, function or class around a line."""
    found = ""
    # The outer nodes come first.
    for node in ast.walk(ast.parse(source)):
        if line in range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", None) or 0) + 1):
            match node:
                case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
                    found = name
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    found = name
    return found


def _attribute_set_at(line: int, source: str) -> str:
    """Return the name of the attribute that a statement at a line sets; empty if none does."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.lineno == line:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Attribute):
                    return target.attr
    return ""


def _functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def _inside(source: str) -> set[int]:
    """Return the lines of a module that are within a function."""
    return set(chain.from_iterable(map(_lines, _functions(source))))


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    """Return the lines that run when a function is called."""
    return range(function.body[0].lineno, (function.end_lineno or function.lineno) + 1)


def _group(test: str) -> str:
    """Return the file of a test, and its class if it has one."""
    return test.partition("[")[0].rpartition("::")[0]


def _words(path: str) -> set[str]:
    return {word.lower() for word in re.findall("[A-Z]?[a-z]+", path)} - {"test", "tests", "py"}


def record(folder: Path, only: Sequence[str]) -> None:
    """Run the tests, two folders at a time, and note what each of them runs; `only` some beside what is known."""
    if not only:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    folders = sorted(path for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists())
    parts = only or [f"tests/{path.name}" for path in folders if path.name not in RECORDED_NOT]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(_record, folder), count(len(list(folder.iterdir()))), parts))


def _record(folder: Path, number: int, tests: str) -> None:
    own = Path(tempfile.mkdtemp(prefix=f"{number:04}-", dir=folder))
    for code in CODE:
        shutil.copytree(ROOT / code, own / "sources" / code, ignore=shutil.ignore_patterns("__pycache__"))
    data = f"[run]\ndata_file = {own / 'coverage'}\nsource_pkgs = refold\nparallel = True\npatch = fork, _exit\n"
    (own / "tests").write_text(data)
    (own / "programs").write_text(data + f"context = ${{{TEST}}}\n")
    python = python_of(tests)
    variables = environment(ROOT, python) | {"REFOLD_MUTANTS_RECORD": str(own)}
    words = ["coverage", "run", f"--rcfile={own / 'tests'}", "-m", *PYTEST, tests, "-p", "tests.mutants.recording"]
    with (own / "output").open("w") as output:
        subprocess.run([python, "-m", *words], env=variables, cwd=ROOT, stdout=output)
    _put_together(own)


def _put_together(folder: Path) -> None:
    """Make one file of those that the processes of a run wrote."""
    together = CoverageData(str(folder / "lines"))
    for file in sorted(folder.glob("coverage.*")):
        part = CoverageData(str(file))
        # A process that was killed leaves half a file, and one that still runs may take its file away.
        with suppress(DataError, OSError):
            part.read()
            together.update(part, map_path=lambda path: os.path.relpath(path, ROOT))
            file.unlink()


def python_of(path: str) -> str:
    """Return the Python that runs tests, or the tests of a module."""
    python = ROOT / ".venv" / "frameworks" / "bin" / "python"
    is_adapter = path.startswith((FRAMEWORKS, FRAMEWORKS_TESTS)) and python.exists()
    return str(python) if is_adapter else sys.executable


def environment(root: Path, python: str = sys.executable) -> dict[str, str]:
    """Return what a run of tests finds in its environment."""
    own = {"PYTHONPATH": str(root / "src"), "CI": "true"}
    frameworks = {} if python == sys.executable else {"REFOLD_TEST_FRAMEWORKS": "1"}
    return {**os.environ, **own, **frameworks, "PYTHONDONTWRITEBYTECODE": "1"}
