"""Throws things at writers, prints what they left: `python -m tests.crash --kills 10000 [--kind KIND] [--seed N]`."""

import argparse
import random
import sys
from collections.abc import Sequence

from .endings import EACH, ENDINGS
from .kill import Result, play_often

HEADS = ("kind", "database", "thrown", "acknowledged", "lost", "doubled", "out of order", "verify failures", "seconds")


def row(results: Sequence[Result]) -> str:
    """Return a row of the table: all results of one kind on one database."""
    founds = [result.found for result in results]
    counts = [
        sum(len(getattr(found, name)) for found in founds) for name in ("lost", "doubled", "disordered", "damaged")
    ]
    totals = [sum(result.thrown for result in results), sum(found.acknowledged for found in founds), *counts]
    seconds = sum(result.seconds for result in results)
    return " | ".join(
        ["", results[0].kind, results[0].database, *[f"{one:,}" for one in totals], f"{seconds:,.0f}", ""]
    )


def main() -> None:
    """Throw, and print what was found; the first broken promise ends it with what to run again."""
    parser = argparse.ArgumentParser(prog="scripts/crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many things are thrown, of all kinds together")
    parser.add_argument("--database", choices=EACH, action="append", help="by default each")
    parser.add_argument("--kind", choices=ENDINGS, action="append", help="by default each")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed} (--seed {options.seed} draws the same victims again)", flush=True)
    databases, kinds = options.database or EACH, options.kind or (*ENDINGS,)
    results: dict[tuple[str, str], list[Result]] = {}
    failed = False
    for seed, result in play_often(options.kills, seed=options.seed, databases=databases, kinds=kinds):
        results.setdefault((result.kind, result.database), []).append(result)
        print(".", end="", file=sys.stderr, flush=True)
        if result.found.problems:
            failed = True
            print(
                f"\n--kind {result.kind} --database {result.database} --seed {seed}:", *result.found.problems, sep="\n"
            )
    print(" | ".join(["", *HEADS, ""]), " | ".join(["", *["---"] * len(HEADS), ""]), sep="\n")
    print(*[row(of_one) for of_one in results.values()], sep="\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
