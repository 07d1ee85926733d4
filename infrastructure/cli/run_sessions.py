"""`SESSION`: from what was typed to the run whose graph is meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.ids import parse_address, split_stream_id, stream_id
from ...domain.trajectory import RunId
from ...domain.trajectory.identity import KIND, run_id_of
from ...projections.catalogue import CatalogueRow
from ..store import Store
from .addresses import address
from .context_views import view_of
from .options import reading, summed_up
from .run_words import SeenRun


class Wanted(NamedTuple):
    """An address as typed: a session or a run, its user, round and agent, and the moment."""

    name: str
    user: str | None
    round: int | None
    sub: int | None
    moment: str | None


def wanted_runs(location: str, wanted: Wanted) -> tuple[list[str], str | None]:
    """
    Return the streams of the runs that may be meant, the newest round first, and the moment.

    Raises:
        NotFoundError: there is no such session, round or agent.
        InvalidInputError: users have sessions of that name.
        UsageError: a run is named, and what is said beside it goes with sessions.
    """
    with reading(location) as store:
        named = _named_run(store, wanted)
    if named is not None:
        if (wanted.user, wanted.round, wanted.sub) != (None, None, None):
            fault = f"--user, --round and --sub go with a session, and this is {named[0]}"
            raise click.UsageError(fault, click.get_current_context())
        stream, moment = named
        return [stream], moment
    runs = _runs_of_session(summed_up(location, lambda store: store.contexts()), wanted)
    return [run.stream for run in sorted(runs, reverse=True)], wanted.moment


def run_at(store: Store, streams: Sequence[str], moment: str | None) -> SeenRun:
    """
    Return the first of some runs, newest first, that there was at a moment.

    Raises:
        NotFoundError: there was none yet, or no such version or name.
    """
    for stream in streams:
        view = view_of(store, stream, moment)
        assert isinstance(view, SeenRun)
        if view.version or not _is_of_all(moment):
            return view
    raise NotFoundError(f"{streams[-1]} was not opened yet at {moment}")


def _is_of_all(moment: str | None) -> bool:
    """Return whether a moment is one of the whole log: versions and names are those of one run."""
    return moment is not None and not isinstance(parse_address(moment), int | str)


def _named_run(store: Store, wanted: Wanted) -> tuple[str, str | None] | None:
    """Return the run that is named by its context's id, with a moment behind it or without."""
    bare = wanted.name.removeprefix(f"{KIND}:")
    # In the id of a run is no @.
    context, at, moment = bare.partition("@")
    try:
        is_run = bool(store.log.head(stream_id(KIND, context)))
    except InvalidInputError:
        return None
    if not is_run or not at:
        return (stream_id(KIND, context), wanted.moment) if is_run else None
    if wanted.moment is not None:
        fault = "the moment is given twice: in RUN@V and with --at"
        raise click.UsageError(fault, click.get_current_context())
    ctx = click.get_current_context()
    return stream_id(KIND, context), address(ctx, ctx.command.params[0], moment)


def _runs_of_session(rows: Iterable[CatalogueRow], wanted: Wanted) -> list[RunId]:
    runs = [run for run in runs_in(rows) if run.session_id == wanted.name and wanted.user in (None, run.user_id)]
    users = sorted({run.user_id for run in runs})
    if not users:
        whose = "" if wanted.user is None else f" of {wanted.user!r}"
        raise NotFoundError(f"there is no session {wanted.name!r}{whose}: `refold contexts` lists the runs")
    if len(users) > 1:
        named = ", ".join(map(repr, users))
        raise InvalidInputError(f"session {wanted.name!r} is one of {named}: say whose with --user")
    found = [run for run in runs if run.sub_id == (wanted.sub or 0) and wanted.round in (None, run.run_id)]
    if not found:
        there = ", ".join(split_stream_id(run.stream)[1] for run in sorted(runs))
        raise NotFoundError(f"session {wanted.name!r} has no such round or agent: its runs are {there}")
    return found


def runs_in(rows: Iterable[CatalogueRow]) -> Iterator[RunId]:
    """Yield which runs there are among the contexts of a store."""
    for row in rows:
        if row.kind == KIND:
            try:
                yield run_id_of(row.id)
            except InvalidInputError:
                # Adopted under an id that names no session.
                continue
