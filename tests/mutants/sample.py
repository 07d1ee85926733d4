"""
Puts defects into Refold, one at a time, and looks which of them no test notices.

`python -m tests.mutants.sample --record` notes once which tests run which lines, and how long they take; behind it may
stand paths of new tests, which alone are run. Then
`python -m tests.mutants.sample --count 200 [--seed N] [--in domain/context/journal.py]` draws defects, and runs for
each of them, in a copy of the project, tests that run its line: those named like its module, and from every file or
class of tests the fastest first. `--again FILE` tries those once more that an earlier sample printed into a file.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Self

from ..support.project import ROOT
from .equivalent import EQUIVALENT
from .forking import Forks, Ran
from .mutations import mutants_of
from .records import CODE, FRAMEWORKS_TESTS, PYTEST, TESTS_SECONDS_MAX, Place, Records, environment, python_of, record

KEPT = ROOT / ".mutants"
TEST_SECONDS_MAX = 60
TIMEOUT_SECONDS = 900
MORE = 8
PASSED = 0
TOO_LONG = "too long"
FAILED_TEST = re.compile("^(?:FAILED|ERROR) (tests/.*)$", re.MULTILINE)
PRINTED = re.compile(r"^[\w -]+: ([\w/]+\.py):\d+: ([\w, ]+)\n    (.*)\n  > (.*)$", re.MULTILINE)


class Ended:
    """How a run of tests ended."""

    def __init__(self, code: int | None, output: str = "") -> None:
        # None is a run that took too long, also one of whose tests did.
        self.code = None if code and "Timeout (>" in output else code
        self._named = FAILED_TEST.findall(output)

    @classmethod
    def in_fork(cls, ran: Ran) -> Self:
        """Return the same of tests that ran in a fork."""
        ended = cls(ran.code)
        ended._named = [*ran.failed]
        return ended

    def failed_of(self, tests: Sequence[str]) -> list[str]:
        """Return those of the tests that failed, with all of a file that could not be imported."""
        named = [(line, line.partition(" - ")[0]) for line in self._named]
        return [one for one in tests if any(line.startswith(one) or one.startswith(name) for line, name in named)]


class Copy:
    """A copy of the project, into which defects are put."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT, root, symlinks=True, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        self._forks = {python_of(tests): self._started(tests) for tests in (FRAMEWORKS_TESTS, "tests")}
        self._existing = set[str]().union(*(forks.tests for forks in self._forks.values()))
        # They passed here without a defect.
        self._sound: set[str] = set()

    def _started(self, tests: str) -> Forks:
        """Return a process that runs tests in forks, which compiles the copy on the way: no start of pytest has to."""
        python = python_of(tests)
        variables = environment(self.root, python)
        del variables["PYTHONDONTWRITEBYTECODE"]
        forks = Forks([python, "-m", *PYTEST, f"--timeout={TEST_SECONDS_MAX}", tests], self.root, variables)
        # A framework that is not installed takes its own tests away.
        if not forks.tests and tests != FRAMEWORKS_TESTS:
            raise SystemExit("the tests cannot be collected: see `pytest --collect-only`")
        return forks

    def close(self) -> None:
        """End the processes that run tests."""
        for forks in self._forks.values():
            forks.close()

    def outcome_of(self, place: Place, tests: Sequence[str], *, at_import: bool) -> str:
        """Put a defect in, run tests, take it out again, and return what became of it."""
        tests = [one for one in tests if one in self._existing or one.endswith(".py")]
        while tests:
            with_it = self._run_with(place, tests, at_import)
            if with_it.code == PASSED:
                return "survived"
            # What fails without the defect as well, on a busy machine for one, notices nothing.
            failing = with_it.failed_of(tests)
            if failing and with_it.code is not None and self._sound.issuperset(failing):
                return "noticed"
            without = self._run(place.file, failing or tests, at_import)
            if without.code == PASSED:
                self._sound.update(failing)
                return "noticed"
            if not (failed := without.failed_of(tests)):
                return f"pytest ended with {with_it.code}, without it with {without.code}"
            tests = [one for one in tests if one not in failed]
        return "not run"

    def _run_with(self, place: Place, tests: Sequence[str], at_import: bool) -> Ended:
        file = self.root / place.file
        source, before = file.read_text(), file.stat()
        text = place.mutant.text(source)
        # Also where functions are changed in memory: tests start programs, and load modules late.
        file.write_text(text)
        try:
            return self._run(place.file, tests, at_import, str(file), source, text)
        finally:
            file.write_text(source)
            # So that what was compiled of it stays of use.
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    def _run(self, path: str, tests: Sequence[str], at_import: bool, *defect: str) -> Ended:
        python = python_of(path)
        if not at_import and (ran := self._forks[python].run(tests, TIMEOUT_SECONDS, defect=defect)):
            return Ended.in_fork(ran)
        command = [python, "-m", *PYTEST, f"--timeout={TEST_SECONDS_MAX}", "-x", *tests]
        variables = environment(self.root, python)
        try:
            done = subprocess.run(
                command, env=variables, cwd=self.root, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired:
            return Ended(None)
        return Ended(done.returncode, done.stdout)


def places(only: str) -> list[Place]:
    """Return all defects that can be put into Refold, or into the modules whose path begins so."""
    files = [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]
    named = {name: path for path in files if (name := str(path.relative_to(ROOT))).startswith(only)}
    return [Place(name, one) for name, path in named.items() for one in mutants_of(path.read_text())]


def printed_in(text: str) -> list[Place]:
    """Return the defects that an earlier sample printed, as far as their lines are still there."""
    wanted = set(PRINTED.findall(text))
    sources = {file: (ROOT / file).read_text() for file, *_ in wanted if (ROOT / file).exists()}
    found = {
        (place.file, place.mutant.kind, *changed(place, source)): place
        for file, source in sources.items()
        for place in places(file)
    }
    return [place for key, place in found.items() if key in wanted]


def changed(place: Place, source: str) -> tuple[str, str]:
    """Return the line of a defect, without it and with it."""
    line = place.mutant.line - 1
    before, after = (text.splitlines()[line].strip() for text in (source, place.mutant.text(source)))
    return before, f"pass  # not {before}" if after == "pass" else after


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
    parser.add_argument("--again", type=Path, metavar="FILE")
    parser.add_argument("--in", dest="only", default="")
    parser.add_argument("--not-in", dest="spared", action="append", default=[])
    parser.add_argument("--kind", default="")
    parser.add_argument("--few", type=int, metavar="TESTS")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seconds", type=float, default=TESTS_SECONDS_MAX)
    parser.add_argument("--records", type=Path, default=KEPT)
    given = parser.parse_args(arguments)
    if given.record is not None:
        record(given.records, given.record)
        return 0
    spared = tuple(given.spared)
    wanted = [
        place
        for place in places(given.only)
        if place.mutant.kind.startswith(given.kind) and not place.file.startswith(spared)
    ]
    records = Records(given.records)
    if given.few is not None:
        wanted = [place for place in wanted if records.is_run_by_few(place, given.few)]
    drawn = random.Random(given.seed).sample(wanted, min(given.count, len(wanted)))
    if given.again:
        drawn = printed_in(given.again.read_text())
    counted = tried(drawn, records, given.seconds, time.monotonic() + 60 * given.minutes)
    noticed, equivalent = counted["noticed"], counted["equivalent"]
    total = counted.total() - equivalent
    rate = f"{noticed / max(total, 1):.1%}"
    print(f"{noticed} of {total} noticed ({rate}), seed {given.seed}; no test can notice {equivalent} more")
    return 0


def tried(drawn: Sequence[Place], records: Records, seconds: float, end: float) -> Counter[str]:
    """Try defects one by one, print those that are not noticed, and count what became of them."""
    counted: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="refold-mutants-") as folder,
        closing(Copy(Path(folder) / "refold")) as copy,
    ):
        for place in drawn:
            if time.monotonic() > end:
                break
            source = (copy.root / place.file).read_text()
            at_import = records.runs_at_import(place, source)
            outcome, ran = "not run", set[str]()
            for allowed in (seconds, seconds * MORE):
                # What a few tests do not notice, one that runs the line in passing may.
                tests = [one for one in records.tests_of(place, source, allowed) if one not in ran]
                if ran and not tests:
                    break
                ran.update(tests)
                outcome = copy.outcome_of(place, tests, at_import=at_import)
                if outcome != "survived":
                    break
            if outcome == "survived" and (reason := EQUIVALENT.get((place.file, changed(place, source)[1]))):
                outcome = f"equivalent, {reason}"
            counted[outcome.partition(",")[0]] += 1
            if outcome != "noticed":
                print(f"{outcome}: {shown(place, source)}", flush=True)
    return counted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
