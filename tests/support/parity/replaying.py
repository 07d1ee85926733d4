"""
Replays files: each verdict is printed, and the exit code says whether all differences are explained.

A case that was not replayed is reported, and never counts as equal.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ..deviations.switches import UNEXPLAINED
from .forms import recognized
from .verdicts import EQUAL, Verdict

Replayer = Callable[[str], Iterable[Verdict]]
FINE, DIFFERS, NOT_REPLAYED = 0, 1, 2


def main(names: Sequence[str], *, replayers: Mapping[str, Replayer]) -> int:
    """Replay files; return 0 if all is explained, 1 if a case is not, and 2 if a case was not replayed."""
    if not names:
        print("usage: scripts/parity FILE...", file=sys.stderr)
        return NOT_REPLAYED
    codes = [replayed(Path(name), replayers=replayers) for name in names]
    return DIFFERS if DIFFERS in codes else max(codes)


def replayed(path: Path, *, replayers: Mapping[str, Replayer]) -> int:
    """Replay one file, print its verdicts, and return the exit code that it alone would give."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as e:
        return _refused(path, f"cannot be read: {e}")
    form = recognized(text)
    if form is None:
        return _refused(path, "not replayed: its form is none of those known")
    if form not in replayers:
        return _refused(path, f"not replayed: its form is '{form}', and no replayer exists for that yet")
    verdicts = []
    for verdict in replayers[form](text):
        verdicts.append(verdict)
        print("\t".join(part for part in (str(path), *verdict) if part))
    if not verdicts:
        return _refused(path, f"not replayed: it holds no case of the form '{form}'")
    print(f"{path}: {_tally(verdicts)}", file=sys.stderr)
    return DIFFERS if any(verdict.outcome == UNEXPLAINED for verdict in verdicts) else FINE


def _tally(verdicts: Sequence[Verdict]) -> str:
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    equal, unexplained = outcomes.pop(EQUAL, 0), outcomes.pop(UNEXPLAINED, 0)
    met: Counter[str] = Counter()
    for outcome, count in outcomes.items():
        met.update(dict.fromkeys(outcome.split(), count))
    named = ", ".join(f"{number} in {count}" for number, count in met.most_common())
    explained = f"{outcomes.total()} explained" + (f" ({named})" if named else "")
    return f"{len(verdicts)} cases: {equal} equal, {explained}, {unexplained} unexplained"


def _refused(path: Path, why: str) -> int:
    print(f"{path}: {why}", file=sys.stderr)
    return NOT_REPLAYED
