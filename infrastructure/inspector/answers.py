"""
The questions that the page asks, each with its answer as plain data.

They are answered from projections, and from the events that they name; no chat is loaded for one. An answer that may be
long comes in parts: it says how many there are, and from where to ask on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from ...domain.erasure.events import STREAM as ERASURES
from ...domain.errors import DamagedError, InvalidInputError
from ...domain.ids import parse_address, split_stream_id
from ...domain.kinds import KINDS
from ...domain.log.envelope import RecordedEvent
from ...domain.log.gate import gate_of
from ...domain.trajectory.identity import run_id_of
from ...domain.trajectory.nodes import NODE_TYPES
from ...domain.trajectory.run import Run
from ...domain.trajectory.trajectory import Trajectory
from ...projections.catalogue import CATALOGUE, CatalogueRow
from ...projections.contract import Projection
from ...projections.intervals import rows_prefix
from ...projections.version_names import VERSION_NAMES, VersionNameRow
from ..context_streams import stream_named
from ..log.codec import tag_of
from ..projecting.runner import ProjectionRunner
from ..projecting.status import ProjectionStatus, RowCounts, status_of
from ..queries.origins import event_at
from ..queries.pages import row_page
from ..queries.runs import NodeFilter, node_page
from ..store import Store
from ..views.answer_shapes import (
    hit_shape,
    node_row_shape,
    node_shape,
    plain_row,
    status_shape,
    transition_shape,
    usage_shape,
    waiting_shape,
)
from ..views.contexts import ItemView, RunView, view_of
from ..views.damage import first_damage
from ..views.fork_graph import LANES_MAX, drawn, facts_of, families, point_shape, relatives
from ..views.shapes import Shape, context_shape
from .layout import laid_out
from .parameters import Parameters
from .windows import INTERVALS_MAX, columns, intervals_of, sums_of, windowed

T = TypeVar("T")
# Times and actors are sent for each version of a context up to this many, and for the newest ones beyond.
VERSIONS_MAX = 50_000
PAGE_MAX = 500
_counts: Final[WeakKeyDictionary[Store, RowCounts]] = WeakKeyDictionary()


def meta(store: Store, start: str) -> Shape:
    """Return what the page needs at its start; `cache` goes into the address of each answer that may be kept."""
    now = store.now()
    return {
        "events": now.events,
        "moment": str(now),
        "has_slices": store.log.has_slices,
        "kinds": list(KINDS),
        "node_types": list(NODE_TYPES),
        "missed": store.events_missed(),
        "cache": f"{start}.{store.log.head(ERASURES)}",
    }


def contexts_answer(store: Store, given: Parameters) -> Shape:
    """Return the answer to `contexts`; if the log cannot be folded, the names and versions alone, and the reason."""
    limit, cursor = given.whole("limit", 200, 1, PAGE_MAX), given.text("cursor")
    named = given.text("kind")
    kinds = [None] if named is None else sorted({*named.split(",")})
    user, session, agent = map(given.text, ("user", "session", "agent"))
    found: list[CatalogueRow] = []
    try:
        for kind in kinds:
            # One more than is wanted says whether there are more.
            wanted = limit + 1 - len(found)
            if wanted:
                page = store.find_contexts(
                    kind=kind, user=user, session=session, agent=agent, limit=wanted, cursor=cursor
                )
                found += page.contexts
    except DamagedError as error:
        return {**_names(store, kinds, limit, cursor), "damage": str(error)}
    shown = found[:limit]
    more = shown[-1].key if len(found) > limit else None
    return {"contexts": [context_shape(row) for row in shown], "cursor": more, "damage": None}


def _names(store: Store, kinds: Sequence[str | None], limit: int, cursor: str | None) -> Shape:
    # Streams of other kinds, such as that of the named moments, are no contexts.
    wanted = [kind for kind in KINDS if None in kinds or kind in kinds]
    found = sorted(stream for kind in wanted for stream in store.log.streams(f"{kind}:"))
    shown = [stream for stream in found if cursor is None or stream > cursor][: limit + 1]
    rows = [dict(zip(("kind", "id"), split_stream_id(one), strict=True)) for one in shown[:limit]]
    return {
        "contexts": [{**row, "version": store.log.head(one)} for one, row in zip(shown, rows, strict=False)],
        "cursor": shown[limit - 1] if len(shown) > limit else None,
    }


def context_answer(store: Store, given: Parameters) -> Shape:
    """
    Return a context's head, its times and actors, and the intervals of its items.

    If there are more than INTERVALS_MAX, they are those of the window around `version`; `sums` has what came and left
    in all versions. If the context is damaged, these are the versions before the damage, and `damage` says what is
    wrong. `damage` is also set if another context is damaged, so that there are no intervals for this one. If the
    context is archived, `archive` is the file that has its texts.

    Raises:
        DamagedError: none of its versions can be read.
    """
    stream = stream_named(store.log, given.required("context"))
    kind, _ = split_stream_id(stream)
    head = end = store.log.head(stream)
    events, damage = first_damage(store.log, stream, max(0, head - VERSIONS_MAX), head)
    if damage is not None:
        if not events:
            raise damage
        head = events[-1].version
    intervals = None
    try:
        intervals = intervals_of(store, stream, kind)
    except DamagedError as error:
        damage = damage or error
    edges = _answer_or_none(lambda: store.lineage(stream))
    first = _answer_or_none(lambda: event_at(store.log, stream, 1))
    about = None if first is None else first.event
    opened = {name: getattr(about, name, None) for name in ("user", "session", "agent", "source")}
    parent = getattr(about, "parent", None)
    archive = (_answer_or_none(store.archives) or {}).get(stream)
    return {
        "context": stream,
        "kind": kind,
        "head": head,
        "parent": parent and f"{parent}@{getattr(about, 'version', 1)}",
        "opened": opened,
        "versions": _versions(events),
        **_items(store, intervals or [], stream, given.whole("version", head), head),
        "lineage": [_edge_shape(edge) for edge in edges or ()],
        "damage": damage
        and {
            "event": f"{stream}@{head + 1}" if head < end else None,
            "head": end,
            "message": str(damage),
            "has_items": intervals is not None,
        },
        **({"archive": archive} if archive else {}),
    }


def _items(store: Store, intervals: Sequence[Any], stream: str, version: int, head: int) -> Shape:
    if len(intervals) <= INTERVALS_MAX:
        return {"items": columns(intervals)}
    answer = windowed(intervals, stream, min(max(version, 1), head), head)
    return {**_with_times(store, stream, answer), "sums": sums_of(intervals, head)}


def _with_times(store: Store, stream: str, answer: Shape) -> Shape:
    window = answer["window"]
    events, _ = first_damage(store.log, stream, window["first"] - 1, window["last"])
    return {**answer, "window": {**window, "versions": _versions(events) | {"first": window["first"]}}}


def _answer_or_none(ask: Callable[[], T]) -> T | None:
    """Return the answer from a projection; None if it needs events that cannot be read."""
    try:
        return ask()
    except DamagedError:
        return None


def _edge_shape(edge: Any) -> Shape:
    return {
        "kind": edge.kind, "how": edge.how or None, "source": edge.source, "source_version": edge.source_version,
        "target": edge.target, "target_version": edge.target_version,
    }  # fmt: skip


def _versions(events: Sequence[RecordedEvent]) -> Shape:
    """Return the times, types and actors of events in columns; types and actors are numbers in a list of names."""
    types: dict[str, int] = {}
    actors: dict[str, int] = {}
    return {
        "first": events[0].version if events else 1,
        "at": [event.recorded_at // 1_000 for event in events],
        "type": [types.setdefault(tag_of(event.event), len(types)) for event in events],
        "actor": [actors.setdefault(event.meta.actor or "", len(actors)) for event in events],
        "types": list(types),
        "actors": list(actors),
    }


def intervals_answer(store: Store, given: Parameters) -> Shape:
    """Return the window of a context around a version, with the times of its versions; see `windows.py`."""
    stream = stream_named(store.log, given.required("context"))
    head = store.log.head(stream)
    version = given.whole("version", head, 1, head)
    intervals = intervals_of(store, stream, split_stream_id(stream)[0])
    answer = windowed(intervals, stream, version, head, whole=bool(given.text("whole")))
    return {"context": stream, **_with_times(store, stream, answer)}


def lineage_answer(store: Store, given: Parameters) -> list[Shape]:
    """Return the points of forks and merges in the order of drawing, each with its lanes."""
    context = given.text("context")
    stream = None if context is None else stream_named(store.log, context)
    edges = store.lineage()
    if stream is None:
        contexts, names = store.contexts(), cast("list[VersionNameRow]", store.rows(VERSION_NAMES.name))
    else:
        # Contexts that are no relatives are not drawn.
        members, runner = relatives(stream, edges), _runner(store)
        contexts = [*runner.read(CATALOGUE, ask=lambda rows: rows.load(CATALOGUE, members)).values()]
        names = runner.rows_under([VERSION_NAMES], list(map(rows_prefix, members)))
    found = families(contexts, edges, names)
    most = given.whole("limit", PAGE_MAX, 1, PAGE_MAX)
    points = (
        {**point_shape(point), "lanes": lanes, "family": number, "text": ", ".join(facts_of(point))}
        for number, family in enumerate(found)
        if (stream in family if stream is not None else len(family) > 1)
        for lanes, point in drawn(family, LANES_MAX)
    )
    return [point for point, _ in zip(points, range(most), strict=False)]


def graph_answer(store: Store, given: Parameters) -> Shape:
    """Return the graph of a run with places for its nodes: the column is the depth, the row a lane of its agent."""
    stream = stream_named(store.log, given.required("context"))
    kind, context = split_stream_id(stream)
    if kind != "run":
        raise InvalidInputError(f"{stream} is no run: it has no graph")
    graph = _graph(store.run(*run_id_of(context), create=False), store, given.text("version"))
    named = given.text("attributes")
    wanted = None if named is None else named.split(",")
    places = laid_out(graph)
    return {
        "context": stream,
        "root": graph.root,
        "initial": graph.initial,
        "columns": max((place.column for place in places.values()), default=-1) + 1,
        "rows": max((place.row for place in places.values()), default=-1) + 1,
        "nodes": [{**node_shape(node, graph, wanted), **places[node.name]._asdict()} for node in graph.nodes.values()],
        "edges": [[edge.source, edge.target, edge.type, edge.leads_back] for edge in graph.edges],
    }


def _graph(run: Run, store: Store, version: str | None) -> Trajectory:
    """Return the graph of a run: the newest one from its tables, which takes no events; an earlier one from events."""
    if version is None:
        return store.run_graph(*run.identity)
    return run.at(run.version_at(version)).graph()


def node_answer(store: Store, given: Parameters) -> list[Shape]:
    """Return every change of the attributes of a node: old and new value, who, when, and because of what."""
    where: dict[str, Any] = {"user_id": given.text("user"), "session_id": given.text("session")}
    for name, field in (("round", "run_id"), ("sub", "sub_id")):
        where[field] = given.whole(name, 0) if given.by_name.get(name) not in (None, "") else None
    found = store.audit_node(given.required("name"), given.text("attribute"), **where)
    return [transition_shape(one) for one in found]


def nodes_answer(store: Store, given: Parameters) -> Shape:
    """Return the answer to `nodes`: the nodes of all runs, by type, as they are now."""
    asked = NodeFilter(*map(given.text, NodeFilter._fields))
    page = node_page(_runner(store), asked, limit=given.whole("limit", 200, 1, PAGE_MAX), cursor=given.text("cursor"))
    return {"nodes": [node_row_shape(row) for row in page.nodes], "cursor": page.cursor}


def _runner(store: Store) -> ProjectionRunner:
    """
    Return the runner, which has the rows of projections, for questions that the store has no method for.

    Raises:
        NotAllowedError: the present actor may not search the store.
    """
    if (gate := gate_of(store.log)) is not None:
        gate.ask("search")
    return store._runner


def projection_answer(store: Store, given: Parameters) -> Shape:
    """Return the answer to `projection`: its status, and some of its rows."""
    name, limit = given.required("name"), given.whole("limit", 50, 1, PAGE_MAX)
    under, cursor = given.text("under") or "", given.text("cursor")
    rows, more = row_page(store._runner, name, under=under, limit=limit, cursor=cursor)
    now = store.now()
    (status,) = _statuses(store, [store._runner.named(name)])
    return {
        "head": str(now), "events": now.events, "projection": status_shape(status),
        "rows": [plain_row(row) for row in rows], "cursor": more,
    }  # fmt: skip


def projections_answer(store: Store, given: Parameters) -> Shape:
    now, found = store.now(), _statuses(store, store._runner.projections.values())
    return {"head": str(now), "events": now.events, "projections": [status_shape(one) for one in found]}


def _statuses(store: Store, projections: Iterable[Projection]) -> list[ProjectionStatus]:
    """
    Return the status of projections, for which the page asks every second while others write.

    Raises:
        NotAllowedError: the present actor may not see it.
    """
    if (gate := gate_of(store.log)) is not None:
        gate.ask("admin")
    count = _counts.setdefault(store, RowCounts()).of
    return [status_of(store._whole_log, store._projections, one, count=count) for one in projections]


def search_answer(store: Store, given: Parameters) -> list[Shape]:
    limit = given.whole("limit", 50, 1, PAGE_MAX)
    hits = store.search(given.required("q"), kind=given.text("kind"), context=given.text("context"), limit=limit)
    return [hit_shape(hit) for hit in hits]


def usage_answer(store: Store, given: Parameters) -> list[Shape]:
    by = tuple((given.text("by") or "day,agent,model").split(","))
    return [usage_shape(row) for row in store.usage(by=by)]


def approvals_answer(store: Store, given: Parameters) -> list[Shape]:
    return [waiting_shape(one) for one in store.pending_approvals()]


def moments_answer(store: Store, given: Parameters) -> dict[str, str]:
    return {name: str(moment) for name, moment in store.moments().items()}


def resolve_answer(store: Store, given: Parameters) -> Shape:
    """Return the version of a context that an address means: a number, a time, a name, an item or a call."""
    stream = stream_named(store.log, given.required("context"))
    at = given.required("at")
    parse_address(at)
    return {"context": stream, "version": view_of(store, stream, at).version}


def item_view(store: Store, context: str, version: str | None) -> ItemView:
    """Return a context that holds items, at a version."""
    view = view_of(store, stream_named(store.log, context), version)
    if isinstance(view, RunView):
        raise InvalidInputError(f"{view.stream} is a run, which holds a graph: ask for graph?context=")
    return view


def as_json(value: Any) -> str:
    """Return plain data as the text of JSON."""
    return json.dumps(value, ensure_ascii=False)
