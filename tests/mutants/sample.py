"""
Puts defects into Refold, one at a time, and looks which of them no test notices.

`python -m tests.mutants.sample --record` notes once which tests run which lines, and how long they take. Then
`python -m tests.mutants.sample --count 200 [--seed N] [--in domain/context/journal.py]` draws defects, and runs for
each of them, in a copy of the project, tests that run its line: from every file of tests the fastest first.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

from ..support.project import ROOT
from .mutations import Mutant, mutants_of

CODE = ("domain", "projections", "infrastructure")
# Those that look at the source, trace it themselves, kill processes or run other tools: they do not say what they run.
RECORDED_NOT = {"benchmarks", "crash", "demo", "docs", "house", "interrupts", "mutants", "parity", "support"}
KEPT = ROOT / ".mutants"
TESTS_SECONDS_MAX = 20.0
TIMEOUT_SECONDS = 180
OUTCOMES = {0: "survived", 1: "noticed"}
# With 2 or 4 pytest ran no test: a file of theirs could not be imported. That notices a defect if `import` does too.
NOT_IMPORTED = {2, 4}


class Place(NamedTuple):
    """A defect, and the file in which it is."""

    file: str
    mutant: Mutant


class Records:
    """Which tests run a line, and how long each of them takes."""

    def __init__(self, folder: Path) -> None:
        self._seconds: dict[str, float] = json.loads((folder / "times.json").read_text())
        data = CoverageData(str(folder / "coverage"))
        data.read()
        self._lines = {
            str(Path(file).resolve().relative_to(ROOT)): data.contexts_by_lineno(file) for file in data.measured_files()
        }

    def tests_of(self, place: Place) -> list[str]:
        """Return tests that run the line of a defect, or one near by where it runs while modules are loaded."""
        lines = self._lines.get(place.file, {})
        tests = set(lines.get(place.mutant.line, ())) & self._seconds.keys()
        if not tests:
            tests = set(chain.from_iterable(lines.values())) & self._seconds.keys()
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda one: (self._seconds[one], one)):
            by_file[test.partition("::")[0]].append(test)
        chosen, seconds = [], 0.0
        for test in chain.from_iterable(zip_longest(*by_file.values())):
            if test is not None and seconds + self._seconds[test] <= TESTS_SECONDS_MAX:
                chosen.append(test)
                seconds += self._seconds[test]
        return chosen


def record(folder: Path) -> None:
    """Run the tests, a folder at a time, and note what each of them runs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "settings").write_text(f"[run]\ndata_file = {folder / 'coverage'}\nsource_pkgs = refold\n")
    environment = {**_environment(ROOT), "REFOLD_MUTANTS_TIMES": str(folder / "times.json")}
    for tests in sorted(path for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists()):
        if tests.name not in RECORDED_NOT:
            words = ["coverage", "run", f"--rcfile={folder / 'settings'}", "--append", "-m", *_pytest(), str(tests)]
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
    words = [sys.executable, "-m", *_pytest(), "-x", "--timeout=60", *tests]
    try:
        ran = subprocess.run(words, env=_environment(copy), cwd=copy, capture_output=True, timeout=TIMEOUT_SECONDS)
        if ran.returncode in NOT_IMPORTED and not _imports(place, copy):
            return "noticed"
    except subprocess.TimeoutExpired:
        return "noticed"
    finally:
        file.write_text(source)
    return OUTCOMES.get(ran.returncode, f"pytest ended with {ran.returncode}")


def _imports(place: Place, copy: Path) -> bool:
    module = place.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    words = [sys.executable, "-c", f"import refold, refold.{module}"]
    return subprocess.run(words, env=_environment(copy), cwd=copy, capture_output=True).returncode == 0


def _pytest() -> list[str]:
    return ["pytest", "-q", "-p", "no:cacheprovider"]


def _environment(root: Path) -> dict[str, str]:
    # Few examples: a defect that takes a thousand to be found counts as one that is not.
    examples = os.environ.get("REFOLD_PROPERTY_EXAMPLES", "10")
    own = {"PYTHONPATH": str(root / "src"), "CI": "true", "REFOLD_PROPERTY_EXAMPLES": examples}
    return {**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1"}


def shown(place: Place, source: str) -> str:
    """Return where a defect is, and what stands there with it."""
    line = place.mutant.line - 1
    now = place.mutant.text(source).splitlines()
    before, after = source.splitlines()[line].strip(), now[line].strip()
    return f"{place.file}:{line + 1}: {place.mutant.kind}\n    {before}\n  > {after}"


def main(arguments: Sequence[str]) -> int:
    """Record, or run a sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in", dest="only", default="")
    parser.add_argument("--kind", default="")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--records", type=Path, default=KEPT)
    given = parser.parse_args(arguments)
    if given.record:
        record(given.records)
        return 0
    records, end = Records(given.records), time.monotonic() + 60 * given.minutes
    wanted = [place for place in places(given.only) if place.mutant.kind.startswith(given.kind)]
    drawn = random.Random(given.seed).sample(wanted, min(given.count, len(wanted)))
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="refold-mutants-") as folder:
        copy = Path(folder) / "refold"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        for place in drawn:
            if time.monotonic() > end:
                break
            outcome = outcome_of(place, records.tests_of(place), copy)
            counted[outcome] += 1
            if outcome != "noticed":
                print(f"{outcome}: {shown(place, (ROOT / place.file).read_text())}", flush=True)
    tried = sum(counted.values())
    print(f"{counted['noticed']} of {tried} noticed ({counted['noticed'] / max(tried, 1):.1%}), seed {given.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
