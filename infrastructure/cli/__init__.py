"""The command line: `refold`. The module of a command is imported when that command is used."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `refold` with these arguments, by default those of the process, and return its exit code."""
    try:
        # The imports take a while, and Ctrl-C ends the program meanwhile as it does later.
        from .program import run
    except KeyboardInterrupt:
        # The value of INTERRUPTED in `program`, which is not imported yet.
        return 130
    return run(arguments)
