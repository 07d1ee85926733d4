"""
Syncs that take a millisecond, whatever the disk, for every contestant alike.

A library of a few lines, compiled here, replaces `fdatasync` and `fsync` of the C library, which SQLite and PostgreSQL
call: it waits and returns. The files are in memory if there is enough, so the wait is the whole sync. Like the sync of
a disk, it takes no processor time. Unlike the sync of a disk, it always takes the same time, and two syncs do not wait
for each other. (This makes no difference here, because both databases sync one write-ahead log at a time.)
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.postgres import MEMORY, running_server

from .bench import Bench

SECONDS = 0.001
VARIABLE = "LD_PRELOAD"
SOURCE = f"""
#include <time.h>
static int take_time(void) {{
    struct timespec left = {{0, {round(SECONDS * 1e9)}}};
    while (nanosleep(&left, &left) != 0) {{}}
    return 0;
}}
int fdatasync(int file) {{ return take_time(); }}
int fsync(int file) {{ return take_time(); }}
"""


@contextmanager
def slowly(bench: Bench, database: str) -> Iterator[Bench | None]:
    """
    Yield the same bench with a server, or processes that are started meanwhile, whose syncs take a millisecond.

    Yield None if there is no C compiler, or if the system cannot load a library before others.
    """
    compiler = shutil.which("cc")
    if compiler is None or not os.path.isdir(MEMORY):
        yield None
        return
    with TemporaryDirectory(prefix="refold-bench-", dir=MEMORY) as folder:
        library = Path(folder, "slow_sync.so")
        command = [compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=SOURCE.encode(), check=True)
        there = Path(folder, "databases")
        there.mkdir()
        if database == "postgres":
            with running_server(sync=library) as server:
                yield replace(bench, folder=there, server=server)
            return
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(library)
        try:
            yield replace(bench, folder=there)
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
