"""`python -m benchmarks [CASE...]`: measure Refold beside the bare database and the stock `eventsourcing` package."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from tests.support.postgres import MissingServerError, Server, running_server

from .bench import FULL, QUICK, Bench
from .cases import CASES, MissingBrowserError, MissingFrameworkError
from .machine import facts
from .rows import Row, Table
from .table import as_json, as_markdown, as_text
from .workload import SEED, compressibility, items

# Cases that are not about the database: they run on the first one only.
STUDIES = {"compression", "inspector"}
DATABASES = {"sqlite": ("sqlite",), "postgres": ("postgres",), "both": ("sqlite", "postgres")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen cases and print their tables; return 1 if one of them failed."""
    options = _parser().parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="refold-bench-", dir=options.folder) as folder,
        _server(options.database) as server,
    ):
        bench = Bench(Path(folder), QUICK if options.quick else FULL, server)
        known = facts(Path(folder), postgres_url=server.url() if server else None) | _workload_facts()
        databases = [name for name in DATABASES[options.database] if server or name != "postgres"]
        results, failed = _results(bench, options.cases or list(CASES), databases)
    print(as_text(known, results))
    if options.json:
        options.json.write_bytes(as_json(known, results))
    if options.markdown:
        options.markdown.write_text(as_markdown(known, results), encoding="utf-8")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "cases", nargs="*", type=_case, metavar="CASE", help=f"some of {', '.join(CASES)}; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="small numbers: to see that it runs")
    parser.add_argument("--database", choices=list(DATABASES), default="both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there")
    parser.add_argument("--folder", type=Path, help="where to put the SQLite files, on the disk to be measured")
    return parser


def _case(text: str) -> str:
    if text not in CASES:
        raise argparse.ArgumentTypeError(f"no case {text!r}: there are {', '.join(CASES)}")
    return text


@contextlib.contextmanager
def _server(database: str) -> Iterator[Server | None]:
    with contextlib.ExitStack() as stack:
        server = None
        if database != "sqlite":
            try:
                server = stack.enter_context(running_server())
            except MissingServerError as missing:
                if database == "postgres":
                    raise SystemExit(f"no PostgreSQL server: {missing}") from missing
                print(f"without PostgreSQL: {missing}", file=sys.stderr)
        yield server


def _workload_facts() -> dict[str, str]:
    ratio = compressibility(items(2_000))
    return {"workload": f"seed {SEED}, zstd-3 {ratio.single:.2f} singly and {ratio.blocks:.2f} by 64"}


def _results(
    bench: Bench, names: Sequence[str], databases: Sequence[str]
) -> tuple[list[Row | Table], list[tuple[str, str]]]:
    results: list[Row | Table] = []
    failed: list[tuple[str, str]] = []
    for name in names:
        for database in databases[:1] if name in STUDIES else databases:
            start = perf_counter()
            try:
                results += CASES[name](bench, database)
            except (MissingBrowserError, MissingFrameworkError) as missing:
                print(f"{name} is left out: {missing}", file=sys.stderr)
            except Exception:
                # If one case fails, the figures of an hour must not be lost.
                traceback.print_exc()
                failed.append((name, database))
            print(f"{name} on {database}: {perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return results, failed


if __name__ == "__main__":
    sys.exit(main())
