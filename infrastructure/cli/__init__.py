"""The command line: `refold`. The module of a command is imported when that command is used."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `refold` with these arguments, by default those of the process, and return its exit code."""
    try:
        # It takes a while until all is imported, and Ctrl-C ends the program then as it does later.
        from .program import run
    except KeyboardInterrupt:
        # INTERRUPTED of `program`, which is not there yet.
        return 130
    return run(arguments)
