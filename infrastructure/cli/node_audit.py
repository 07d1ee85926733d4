"""What became of one node: every change of its attributes, in all rounds of its session."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.ids import split_stream_id
from ...domain.trajectory import RunId
from ...domain.trajectory.naming import parse_node_name
from ...domain.trajectory.nodes import DATA
from ..queries.audit_trail import Change
from ..queries.node_audit import node_changes
from ..store import Store
from .run_sessions import runs_in

PLACES_SHOWN_MAX = 10


def changes_of(store: Store, name: str, attribute: str | None, where: Mapping[str, Any]) -> list[Change]:
    """
    Return the changes of a node; `where` says whose it is, as far as that is known.

    Raises:
        NotFoundError: there is no such node, or it never had that attribute.
        InvalidInputError: there are several such nodes; the message says where.
    """
    try:
        told = store.audit_node(name, attribute, **where)
    except InvalidInputError as error:
        places = _places(store, name, where)
        if len(places) < 2:
            raise
        raise InvalidInputError(_several(name, places)) from error
    return node_changes(store.log, name, told)


def _several(name: str, places: list[str]) -> str:
    is_data = parse_node_name(name).type in DATA
    options = "--session and --user" if is_data else "--session, --user, --round and --sub"
    shown = ", ".join(islice(places, PLACES_SHOWN_MAX))
    more = len(places) - PLACES_SHOWN_MAX
    shown += f" and {more} more" if more > 0 else ""
    return f"there is {name!r} in {shown}: say which with {options}"


def _places(store: Store, name: str, where: Mapping[str, Any]) -> list[str]:
    """Return the sessions that have a data node, or the runs that have another one."""
    is_data = parse_node_name(name).type in DATA
    runs = [run for run in runs_in(store.contexts()) if _is_meant(run, where)]
    # For data one run stands for its session.
    candidates = {run[:2] if is_data else run: run for run in sorted(runs)}.values()
    having = [run for run in candidates if _has(store, name, run, is_data)]
    return [f"session {run.session_id!r} of {run.user_id!r}" if is_data else _id(run) for run in having]


def _is_meant(run: RunId, where: Mapping[str, Any]) -> bool:
    return all(value in (None, getattr(run, field)) for field, value in where.items())


def _has(store: Store, name: str, run: RunId, is_data: bool) -> bool:
    run_id, sub_id = (None, None) if is_data else run[2:]
    try:
        store.audit_node(name, user_id=run.user_id, session_id=run.session_id, run_id=run_id, sub_id=sub_id)
    except NotFoundError:
        return False
    return True


def _id(run: RunId) -> str:
    return split_stream_id(run.stream)[1]
