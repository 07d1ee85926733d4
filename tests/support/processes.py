"""Processes of tests that begin with what they need loaded: to load it takes longer than most of what they do."""

import multiprocessing
from typing import Any

_FORKING = multiprocessing.get_context("forkserver")
_LOADED: set[str] = {"refold.infrastructure.log.postgres.log", "refold.infrastructure.log.sqlite.log"}


def loaded_processes(*modules: str) -> Any:
    """
    Return a context of multiprocessing whose processes have these modules loaded.

    Another process has loaded them, neither threads nor open stores, and forks. It serves the whole test process and
    starts with the first that is forked, so modules ask when they are imported.
    """
    _LOADED.update(modules)
    _FORKING.set_forkserver_preload(sorted(_LOADED))
    return _FORKING
