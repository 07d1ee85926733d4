"""Processes of tests that start with their modules loaded: loading them takes longer than most of their work."""

import io
import multiprocessing
import os
import subprocess
import sys
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, Self

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


class Program:
    """
    A module of the tests whose `main` is run in processes of their own, which have it loaded.

    Such a process costs a tenth of one that loads Python and Refold. It ends without `atexit`, so it is not for tests
    of how processes end by themselves.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        loaded_processes(module)

    def start(self, *arguments: object) -> "Running":
        """Start one with these arguments."""
        return Running(self._module, arguments)


class Running:
    """A process that runs the `main` of a module; it is used as `subprocess.Popen` is."""

    def __init__(self, module: str, arguments: tuple[object, ...]) -> None:
        printed, printing = _FORKING.Pipe(duplex=False)
        # A test that fails leaves nobody behind for whom its process would wait.
        self._process = _FORKING.Process(target=_run, args=(module, arguments, printing), daemon=True)
        self._process.start()
        printing.close()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self.stdout = os.fdopen(os.dup(printed.fileno()))
        printed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.wait()

    @property
    def returncode(self) -> int | None:
        """The exit code, negative after a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait for its end, and return what it printed and was not read."""
        # These programs print less than a pipe holds, but for one that waits until it is read.
        with self.stdout:
            printed = self.stdout.read()
        self.wait(timeout)
        return printed, None

    def kill(self) -> None:
        """Kill it with -9."""
        self._process.kill()


def _run(module: str, arguments: tuple[object, ...], printing: Connection) -> None:
    os.dup2(printing.fileno(), 1)
    printing.close()
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False))
    import_module(module).main(*arguments)
