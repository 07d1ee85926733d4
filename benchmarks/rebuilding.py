"""
Rebuild in a process of its own, to see how much memory that takes: `python -m benchmarks.rebuilding ours|raw LOCATION`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .bench import make_subject

KIB_PER_MIB = 1_024


def memory_of(name: str, location: str) -> float:
    """Return the most memory that a contestant's rebuild takes, in MiB, for the whole process."""
    command = [sys.executable, "-m", "benchmarks.rebuilding", name, location]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def main(name: str, location: str) -> None:
    """Rebuild, and print the most memory that was used."""
    subject = make_subject(name, location)
    subject.open()
    subject.rebuild()
    subject.close()
    print(_most_memory())


def _most_memory() -> float:
    """The count of the kernel, because `getrusage` begins with the value of the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [most] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(most) / KIB_PER_MIB


if __name__ == "__main__":
    main(*sys.argv[1:])
