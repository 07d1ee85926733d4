"""Processes of tests that start with their modules loaded: loading them takes longer than most of their work."""

import multiprocessing
from typing import Any

_FORKING = multiprocessing.get_context("forkserver")
_LOADED: set[str] = {"refold.infrastructure.log.postgres.log", "refold.infrastructure.log.sqlite.log"}


def loaded_processes(*modules: str) -> Any:
    """
    Return a context of multiprocessing whose processes have these modules loaded.

    Another process loads the modules and forks; it has no threads and no open stores. It serves the whole test process,
    and starts with the first fork. So modules call this function when they are imported.
    """
    _LOADED.update(modules)
    _FORKING.set_forkserver_preload(sorted(_LOADED))
    return _FORKING
