"""
The option `--app`: projections of the user's own, for the commands about projections.

Other commands answer from the store's own projections, so a fault of the user's program does not end them.
"""

from __future__ import annotations

import importlib
import os
import sys
import tomllib
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from ...projections.contract import Projection
from .args import optional_text

SETTINGS = "pyproject.toml"
Own = tuple[Projection, ...]


def _own(ctx: click.Context, param: click.Parameter, value: str | None) -> Own:
    if ctx.resilient_parsing:
        # No code of the user runs while a shell completes a word.
        return ()
    named, folder = optional_text(ctx, param, value), Path.cwd()
    if named is None:
        named, folder = _named_in_settings(folder)
    return () if named is None else _loaded(named, folder)


app = click.option(
    "--app",
    "own",
    metavar="MODULE:NAME",
    envvar="REFOLD_APP",
    callback=_own,
    help="Projections of your own.  [default: REFOLD_APP, else `app` of tool.refold in pyproject.toml]",
)


def _named_in_settings(start: Path) -> tuple[str | None, Path]:
    """Return the name in the nearest pyproject.toml at or above a folder, and the folder of that file."""
    path = next((one / SETTINGS for one in (start, *start.parents) if (one / SETTINGS).is_file()), None)
    if path is None:
        return None, start
    try:
        named = tomllib.loads(path.read_text("utf-8")).get("tool", {}).get("refold", {}).get("app")
    except (OSError, ValueError, AttributeError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}") from error
    if named is not None and not isinstance(named, str):
        raise click.BadParameter(f"app of tool.refold in {path} is {named!r}: write a text, MODULE:NAME")
    return named, path.parent


def _loaded(named: str, folder: Path) -> Own:
    module, _, attribute = named.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise click.BadParameter(f"{named!r} is not MODULE:NAME, as myapp.projections:ALL")
    # As for `python -m`: a script of the package is started with its own folder on the path instead.
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    found: Any = _imported(module, folder)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise click.BadParameter(f"{module} has no {attribute!r}")
        found = getattr(found, part)
    if hasattr(found, "evolve"):
        return (found,)
    if isinstance(found, Iterable) and not isinstance(found, str | bytes):
        return tuple(found)
    raise click.BadParameter(
        f"{named} is of the type {type(found).__name__}: let it be a projection, or a list of projections"
    )


def _imported(module: str, folder: Path) -> Any:
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            raise click.BadParameter(f"there is no module {error.name!r} in {folder} or on Python's path") from error
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        raise click.BadParameter(f"{module} cannot be imported: {where}: {type(error).__name__}: {error}") from error
