"""Replay the original systems' recorded answers and say, case by case, where ours differ.

A file's form is told by its content. Each form has a replayer, which yields a verdict per case: equal,
the number of a deviation that computes the same answer, or unexplained. What was not replayed is said
to be so, and is never counted as equal.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

EQUAL = "equal"
UNEXPLAINED = "unexplained"

FORM_OF_KEYS = {
    frozenset({"seed", "max_tokens", "ops", "build", "tokens", "keys"}): "window operations",
    frozenset({"seed", "kind", "limit", "ops", "log", "final"}): "queue and pool operations",
    frozenset({"seed", "ctx", "other", "answers"}): "chat answers",
    frozenset({"seed", "records", "kept", "context", "context_of_kept"}): "message records",
    frozenset({"seed", "rounds"}): "trajectory rounds",
}
CONVERSIONS = "chat conversions"
CONVERSION_KEYS = frozenset({"input", "openai", "anthropic", "google"})
SECTIONS = "sections"
SECTION = re.compile(r"={5} \S")
PROBES = "probes"
PROBE = re.compile(r"\S.* +-> ")


class Verdict(NamedTuple):
    """What became of one case: equal, a deviation's number, or unexplained."""

    case: str
    outcome: str


Replayer = Callable[[str], Iterable[Verdict]]
# By form; none is written yet.
REPLAYERS: Mapping[str, Replayer] = {}


def recognized(text: str) -> str | None:
    """
    Name the form of a file's text, or None where it has none of them.
    """
    if text.startswith("{"):
        return _form_of_lines(text) or _form_of_document(text)
    first = text.partition("\n")[0]
    if SECTION.match(first):
        return SECTIONS
    return PROBES if PROBE.match(first) else None


def _form_of_lines(text: str) -> str | None:
    # Not splitlines: JSON strings may hold what Unicode calls a line's end.
    forms = {FORM_OF_KEYS.get(frozenset(_object(line))) for line in text.rstrip("\n").split("\n")}
    return forms.pop() if len(forms) == 1 else None


def _form_of_document(text: str) -> str | None:
    cases = _object(text).values()
    fit = [isinstance(case, dict) and case.keys() >= CONVERSION_KEYS for case in cases]
    return CONVERSIONS if fit and all(fit) else None


def _object(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def replayed(path: Path, *, replayers: Mapping[str, Replayer]) -> int:
    """
    Replay one file, print its verdicts, and return the exit code that it alone would give.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as e:
        return _refused(path, f"cannot be read: {e}")
    form = recognized(text)
    if form is None:
        return _refused(path, "not replayed: its form is none of those known")
    if form not in replayers:
        return _refused(path, f"not replayed: its form is '{form}', and no replayer exists for that yet")
    outcomes: Counter[str] = Counter()
    for verdict in replayers[form](text):
        outcomes[verdict.outcome] += 1
        print(f"{path}\t{verdict.case}\t{verdict.outcome}")
    if not outcomes:
        return _refused(path, f"not replayed: it holds no case of the form '{form}'")
    tally = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    print(f"{path}: {tally}", file=sys.stderr)
    return 1 if outcomes[UNEXPLAINED] else 0


def _refused(path: Path, why: str) -> int:
    print(f"{path}: {why}", file=sys.stderr)
    return 2


def main(names: Sequence[str], *, replayers: Mapping[str, Replayer] = REPLAYERS) -> int:
    """
    Replay files: 0 where all is explained, 1 where something is not, 2 where something was not replayed.
    """
    if not names:
        print("usage: scripts/parity FILE...", file=sys.stderr)
        return 2
    codes = [replayed(Path(name), replayers=replayers) for name in names]
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
