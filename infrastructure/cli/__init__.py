"""The command line: `refold`, one module for each command, imported when that command is used."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `refold` with these arguments, by default those of the process, and return its exit code."""
    from .program import run

    return run(arguments)
