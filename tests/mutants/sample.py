"""
Puts defects into Refold, one at a time, and looks which of them no test notices.

`python -m tests.mutants.sample --record` notes once which tests run which lines, and how long they take; behind it may
stand paths of new tests, which alone are run. Then
`python -m tests.mutants.sample --count 200 [--seed N] [--in domain/context/journal.py]` draws defects, and runs for
each of them, in a copy of the project, tests that run its line: those named like its module, and from every file or
class of tests the fastest first.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

from ..support.project import ROOT
from .equivalent import EQUIVALENT
from .mutations import Mutant, mutants_of

CODE = ("domain", "projections", "infrastructure")
# Those that look at the source, trace it themselves, kill processes or run other tools: they do not say what they run.
RECORDED_NOT = {"benchmarks", "crash", "demo", "docs", "house", "interrupts", "mutants", "parity", "support"}
KEPT = ROOT / ".mutants"
COMMANDS = "infrastructure/cli/"
# Not recorded, but quick: they compare limits and options with the documents.
DOCUMENTED = "tests/docs/test_reference.py::test_limits_have_the_documented_values"
DOCUMENTED_COMMANDS = "tests/docs/test_command_line.py"
# Reads the source, and is in no record.
GUARDED = "tests/house/test_guarded_fields.py::test_guarded_fields_are_used_under_the_lock"
STARTS_PROCESSES = re.compile("(Forks|Exits)::")
TESTS_SECONDS_MAX = 30.0
TEST_SECONDS_MAX = 60
TIMEOUT_SECONDS = 300
TOO_LONG = -1
OUTCOMES = {0: "survived", 1: "noticed"}
# With 2 or 4 pytest ran no test, as a file of theirs could not be imported: because of the defect, if it can without.
NOT_IMPORTED = {2, 4}


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
            data = CoverageData(str(one.parent / "coverage"))
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
        at_import = _runs_at_import(source, place.mutant.line)
        # The record of a line that runs while its module is loaded names only the test that happened to load it.
        tests = set() if at_import else set(lines.get(place.mutant.line, ())) & self._seconds.keys()
        is_elsewhere = not (tests or at_import)
        if not tests:
            tests = set(chain.from_iterable(lines.values())) & self._seconds.keys()
        # Many tests of commands start the program as a process of its own, where no line is recorded.
        is_command = place.file.startswith(COMMANDS)
        others = {one for one in self._seconds if is_command and one.startswith("tests/cli/")}
        # The values that a test is given may be made before it runs, and run lines that are not recorded for it.
        others |= {one for one in self._seconds if f"/test_{Path(place.file).stem}.py::" in one}
        others -= tests
        # Those whose file or class is named most like the module know it best, and may take half the time.
        likeness = {test: len(_words(place.file) & _words(_group(test))) for test in tests | others}
        most = max(likeness.values(), default=0)
        named = [test for test, like in likeness.items() if like == most]
        if is_elsewhere:
            # No test runs the line itself; a process that one starts may, as it forks, ends or is killed.
            tests |= {test for test in self._seconds if STARTS_PROCESSES.search(test)}
            named = [test for test in tests if STARTS_PROCESSES.search(test)] + named
        chosen = self._within(seconds_max / 2, self._fastest(named))
        chosen = self._within(seconds_max, dict.fromkeys([*chosen, *self._fastest(tests), *self._fastest(others)]))
        # A server takes seconds to start: where its own code is not meant, tests that need none come first.
        chosen.sort(key=lambda test: "postgres" in test and "postgres" not in place.file)
        documented = [DOCUMENTED, *([DOCUMENTED_COMMANDS] if is_command else [])]
        beside = [GUARDED] if place.mutant.kind == "lock removed" else documented if at_import else []
        return [*beside, *chosen]

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
        groups: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda one: (self._seconds[one], one)):
            groups[_group(test)].append(test)
        return (test for test in chain.from_iterable(zip_longest(*groups.values())) if test is not None)


def _runs_at_import(source: str, line: int) -> bool:
    functions = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return not any(one.body[0].lineno <= line <= (one.end_lineno or line) for one in functions)


def _group(test: str) -> str:
    """Return the file of a test, and its class if it has one."""
    return test.partition("[")[0].rpartition("::")[0]


def _words(path: str) -> set[str]:
    return {word.lower() for word in re.findall("[A-Z]?[a-z]+", path)} - {"test", "tests", "py"}


def record(folder: Path, only: Sequence[str]) -> None:
    """Run the tests, a folder at a time, and note what each of them runs; `only` some beside what is known."""
    if not only:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix=f"{len(list(folder.iterdir())):04}-", dir=folder))
    for code in CODE:
        shutil.copytree(ROOT / code, own / "sources" / code, ignore=shutil.ignore_patterns("__pycache__"))
    settings = own / "settings"
    settings.write_text(f"[run]\ndata_file = {own / 'coverage'}\nsource_pkgs = refold\nrelative_files = True\n")
    environment = {**_environment(ROOT), "REFOLD_MUTANTS_TIMES": str(own / "times.json")}
    folders = sorted(path for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists())
    for tests in only or [str(path) for path in folders if path.name not in RECORDED_NOT]:
        words = ["coverage", "run", f"--rcfile={settings}", "--append", "-m", *_pytest(), tests]
        subprocess.run([sys.executable, "-m", *words, "-p", "tests.mutants.recording"], env=environment, cwd=ROOT)


def places(only: str) -> list[Place]:
    """Return all defects that can be put into Refold, or into the modules whose path begins so."""
    files = [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]
    named = [(str(path.relative_to(ROOT)), path.read_text()) for path in files]
    return [Place(name, one) for name, source in named if name.startswith(only) for one in mutants_of(source)]


def outcome_of(place: Place, tests: Sequence[str], copy: Path) -> str:
    """Put a defect into the copy, run tests, take it out again, and return what became of it."""
    if not tests:
        return "not run"
    file = copy / place.file
    source = file.read_text()
    file.write_text(place.mutant.text(source))
    try:
        ended = _run(copy, "-x", *tests)
    finally:
        file.write_text(source)
    if ended == TOO_LONG:
        # On a busy machine it may be the tests that take so long; else the defect does.
        return "noticed" if _run(copy, "-x", *tests) == 0 else "too slow to say"
    if ended in NOT_IMPORTED and _run(copy, "--collect-only", *tests) == 0:
        return "noticed"
    return OUTCOMES.get(ended, f"pytest ended with {ended}")


def _run(copy: Path, *words: str) -> int:
    """Run tests of the copy; return what pytest ended with, or TOO_LONG."""
    command = [sys.executable, "-m", *_pytest(), f"--timeout={TEST_SECONDS_MAX}", *words]
    try:
        ran = subprocess.run(
            command, env=_environment(copy), cwd=copy, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return TOO_LONG
    return TOO_LONG if ran.returncode and "Timeout (>" in ran.stdout else ran.returncode


def compiled(copy: Path) -> set[str]:
    """Compile the copy, so that no start of pytest has to, and return its tests."""
    environment = _environment(copy)
    del environment["PYTHONDONTWRITEBYTECODE"]
    command = [sys.executable, "-m", *_pytest(), "--collect-only"]
    ran = subprocess.run(command, env=environment, cwd=copy, capture_output=True, text=True, check=True)
    return {line for line in ran.stdout.splitlines() if "::" in line}


def _pytest() -> list[str]:
    return ["pytest", "-q", "-p", "no:cacheprovider"]


def _environment(root: Path) -> dict[str, str]:
    # Few examples: a defect that takes a thousand to be found counts as one that is not.
    examples = os.environ.get("REFOLD_PROPERTY_EXAMPLES", "10")
    own = {"PYTHONPATH": str(root / "src"), "CI": "true", "REFOLD_PROPERTY_EXAMPLES": examples}
    return {**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1"}


def changed(place: Place, source: str) -> tuple[str, str]:
    """Return the line of a defect, without it and with it."""
    line = place.mutant.line - 1
    return source.splitlines()[line].strip(), place.mutant.text(source).splitlines()[line].strip()


def shown(place: Place, source: str) -> str:
    """Return where a defect is, and what stands there with it."""
    before, after = changed(place, source)
    return f"{place.file}:{place.mutant.line}: {place.mutant.kind}\n    {before}\n  > {after}"


def main(arguments: Sequence[str]) -> int:
    """Record, or run a sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", nargs="*", metavar="TESTS")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in", dest="only", default="")
    parser.add_argument("--kind", default="")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seconds", type=float, default=TESTS_SECONDS_MAX)
    parser.add_argument("--records", type=Path, default=KEPT)
    given = parser.parse_args(arguments)
    if given.record is not None:
        record(given.records, given.record)
        return 0
    records, end = Records(given.records), time.monotonic() + 60 * given.minutes
    wanted = [place for place in places(given.only) if place.mutant.kind.startswith(given.kind)]
    drawn = random.Random(given.seed).sample(wanted, min(given.count, len(wanted)))
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="refold-mutants-") as folder:
        copy = Path(folder) / "refold"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        existing = compiled(copy)
        for place in drawn:
            if time.monotonic() > end:
                break
            source = (copy / place.file).read_text()
            chosen = records.tests_of(place, source, given.seconds)
            tests = [one for one in chosen if one in existing or one.startswith("tests/docs/")]
            outcome = outcome_of(place, tests, copy)
            if outcome == "survived" and (reason := EQUIVALENT.get((place.file, changed(place, source)[1]))):
                outcome = f"equivalent, {reason}"
            counted[outcome.partition(",")[0]] += 1
            if outcome != "noticed":
                print(f"{outcome}: {shown(place, source)}", flush=True)
    tried = counted.total() - counted["equivalent"]
    noticed, equivalent = counted["noticed"], counted["equivalent"]
    rate = f"{noticed / max(tried, 1):.1%}"
    print(f"{noticed} of {tried} noticed ({rate}), seed {given.seed}; no test can notice {equivalent} more")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
