"""Arguments that are fixed when a hook or a tool is defined, and those that come with the call (SPEC P6.11)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any

logger = logging.getLogger(__name__)


def eval_args(args: Iterable[Any]) -> list[Any]:
    """Return the arguments; a function among them is called now, and what it returns stands for it."""
    return [value() if isinstance(value, FunctionType) else value for value in args]


def eval_kwargs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments, functions called as in `eval_args`."""
    return dict(zip(kwargs, eval_args(kwargs.values()), strict=True))


def merge_kwargs(fixed: Mapping[str, Any], given: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return fixed and given keyword arguments; a given one wins, and the log has a warning that names `label`."""
    for name in given:
        if name in fixed:
            logger.warning("Fixed kwarg %r is overridden in a call of %s.", name, label)
    return eval_kwargs({name: value for name, value in fixed.items() if name not in given}) | dict(given)
