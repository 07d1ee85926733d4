"""Runs on the command line: finding the run of a session, printing its graph, and comparing two graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from ...domain.context.description import counted, joined, source_of
from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.ids import parse_address, split_stream_id, stream_id
from ...domain.messages import Message, kind_of
from ...domain.spans import Ref
from ...domain.trajectory.describe import message_text, value_text
from ...domain.trajectory.events import QUEUES
from ...domain.trajectory.history import ChangedAttribute, TrajectoryDiff
from ...domain.trajectory.identity import KIND, RunId, run_id_of
from ...domain.trajectory.trajectory import TrajectoryEdge, TrajectoryNode
from ...projections.catalogue import CATALOGUE, CatalogueRow
from ..store import Store
from ..views.answer_shapes import difference_shape, own_nodes, run_shape
from ..views.contexts import RunView, view_of
from .args import address, answered, moment_twice, reading, usage_error
from .lines import print_head
from .render import (
    TEXT_WIDTH_MIN,
    aligned,
    json_text,
    one_line,
    paint,
    print_json,
    prints_json,
    terminal_width,
    wrapped,
)

if TYPE_CHECKING:
    from ...domain.trajectory.run import QueuedStep

INDENT = 4
SPEAKER_WIDTH = 11


class RunAddress(NamedTuple):
    """An address as it was typed: a session or a run, its user, round and agent, and the moment."""

    name: str
    user: str | None
    round: int | None
    sub: int | None
    moment: str | None


def wanted_runs(wanted: RunAddress) -> tuple[list[str], str | None]:
    """
    Return the streams of the runs that match, the newest round first, and the moment.

    Raises:
        NotFoundError: there is no such session, round or agent.
        InvalidInputError: several users have a session of that name.
        UsageError: a run is named together with options that are only for sessions.
    """
    with reading() as store:
        named = _named_run(store, wanted)
    if named is not None:
        if (wanted.user, wanted.round, wanted.sub) != (None, None, None):
            raise usage_error(f"--user, --round and --sub go with a session, and this is {named[0]}")
        stream, moment = named
        return [stream], moment
    rows: list[Any] = answered(lambda store: store.rows(CATALOGUE.name, under=f"{KIND}:"))
    runs = _runs_of_session(rows, wanted)
    return [run.stream for run in sorted(runs, reverse=True)], wanted.moment


def run_at(store: Store, streams: Sequence[str], moment: str | None) -> RunView:
    """
    Return the newest run that existed at a moment; `streams` are ordered newest first.

    Raises:
        NotFoundError: none existed then, or there is no such version or name.
    """
    for stream in streams:
        view = view_of(store, stream, moment)
        assert isinstance(view, RunView)
        if view.version or not _is_of_all(moment):
            return view
    raise NotFoundError(f"{streams[-1]} was not opened yet at {moment}")


def _is_of_all(moment: str | None) -> bool:
    """Return whether a moment is a moment of the whole log; a version or a name belongs to one run."""
    return moment is not None and not isinstance(parse_address(moment), int | str)


def _named_run(store: Store, wanted: RunAddress) -> tuple[str, str | None] | None:
    """Return the stream and the moment of a run that is named by its context's id, with or without a moment."""
    bare = wanted.name.removeprefix(f"{KIND}:")
    # The id of a run contains no @.
    context, at, moment = bare.partition("@")
    try:
        is_run = bool(store.log.head(stream_id(KIND, context)))
    except InvalidInputError:
        return None
    if not is_run or not at:
        return (stream_id(KIND, context), wanted.moment) if is_run else None
    if wanted.moment is not None:
        raise moment_twice("RUN")
    ctx = click.get_current_context()
    return stream_id(KIND, context), address(ctx, ctx.command.params[0], moment)


def _runs_of_session(rows: Iterable[CatalogueRow], wanted: RunAddress) -> list[RunId]:
    runs = [run for run in runs_in(rows) if run.session_id == wanted.name and wanted.user in (None, run.user_id)]
    users = sorted({run.user_id for run in runs})
    if not users:
        whose = "" if wanted.user is None else f" of {wanted.user!r}"
        hint = ", and --user names the user of one" if "/" in wanted.name else ""
        raise NotFoundError(f"there is no session {wanted.name!r}{whose}: `refold contexts` lists the runs{hint}")
    if len(users) > 1:
        named = ", ".join(map(repr, users))
        raise InvalidInputError(f"session {wanted.name!r} is one of {named}: say whose with --user")
    found = [run for run in runs if run.sub_id == (wanted.sub or 0) and wanted.round in (None, run.run_id)]
    if not found:
        there = ", ".join(split_stream_id(run.stream)[1] for run in sorted(runs))
        raise NotFoundError(f"session {wanted.name!r} has no such round or agent: its runs are {there}")
    return found


def runs_in(rows: Iterable[CatalogueRow]) -> Iterator[RunId]:
    """Yield the runs among the contexts of a store."""
    for row in rows:
        if row.kind == KIND:
            try:
                yield run_id_of(row.id)
            except InvalidInputError:
                # The run was adopted under an id that is not made of a user and a session.
                continue


def place_in(view: RunView, node: TrajectoryNode) -> str:
    """Return the place where a node was registered: `@3`, or `stream@3` for another round."""
    born = Ref.parse(node.birth)
    return f"@{born.version}" if born.stream == view.stream else node.birth


def print_run(view: RunView) -> None:
    """Print a round, for people or as JSON."""
    if prints_json():
        print_json(run_shape(view))
        return
    own = own_nodes(view)
    steps = {queue: view.run.steps(queue) for queue in QUEUES}
    messages = view.run.messages()
    print_head(view, _run_counts(view, len(own), sum(map(len, steps.values())), len(messages)))
    if view.run.rounds:
        rounds = ", ".join(source_of(one.stream, one.version) for one in view.run.rounds)
        click.echo(paint(_wrapped(f"goes back over {rounds}", 0), "dim"))
    _print_nodes(view, own)
    _print_steps(steps)
    _print_messages(messages)


def _run_counts(view: RunView, nodes: int, steps: int, messages: int) -> str:
    counts = [counted(nodes, "node"), counted(len(view.run.get_active_branch()), "pointer")]
    counts += [counted(steps, "step")] if steps else []
    counts += [counted(messages, "message")] if messages else []
    return joined([*counts, "closed" if view.run.is_closed else ""])


def _print_nodes(view: RunView, own: Sequence[TrajectoryNode]) -> None:
    leading: dict[str, list[TrajectoryEdge]] = {node.name: [] for node in own}
    for edge in view.run.graph().edges:
        if edge.target in leading:
            leading[edge.target].append(edge)
    for node in own:
        click.echo("\n" + "\n".join(_node(view, node, leading[node.name])))


def _print_steps(steps: Mapping[str, Sequence[QueuedStep]]) -> None:
    for queue, held in steps.items():
        if held:
            click.echo(f"\n{paint(queue, 'bold')}")
        for step in held:
            params = json_text(step["params"]) if step["params"] else ""
            click.echo(_wrapped(f"{source_of('', step.version)}  {step['name']} {params}", INDENT))


def _node(view: RunView, node: TrajectoryNode, leading: Iterable[TrajectoryEdge]) -> Iterator[str]:
    pointer = paint("  (pointer)", "green") if node.name in view.run.graph().pointers else ""
    yield f"{paint(one_line(place_in(view, node)), 'dim')}  {paint(one_line(node.name), 'cyan')}{pointer}"
    from_where = [f"{edge.type} from {edge.source}" for edge in leading]
    if from_where:
        yield paint(_wrapped(one_line(", ".join(from_where)), INDENT), "dim")
    for name, value in node.attributes.items():
        # Empty fields are left out here; the JSON has them.
        if value not in (None, "", [], {}):
            yield _wrapped(f"{name}: {value_text(value, json_text)}", INDENT)


def _print_messages(messages: Iterable[Message]) -> None:
    for index, message in enumerate(messages):
        if not index:
            click.echo(f"\n{paint('messages', 'bold')}")
        first, *rest = _lines(message_text(message.to_dict(), json_text), INDENT + SPEAKER_WIDTH)
        speaker = f"{kind_of(message):<{SPEAKER_WIDTH}}"
        click.echo("\n".join([" " * INDENT + speaker + first.lstrip(), *rest]).rstrip())


def _wrapped(text: str, indent: int) -> str:
    return "\n".join(_lines(text, indent))


def _lines(text: str, indent: int) -> list[str]:
    width = max(terminal_width() - indent, TEXT_WIDTH_MIN)
    return [" " * indent + line for line in wrapped(text, width)]


def print_run_diff(before: RunView, after: RunView, *, stat: bool) -> bool:
    """Print the differences from the graph `before` to the graph `after`, and return whether there are any."""
    difference = after.run.diff(before.run)
    if prints_json():
        sides = {"from": _side_shape(before), "to": _side_shape(after)}
        print_json({**sides, **(_numbers(difference) if stat else difference_shape(difference, before, after))})
        return bool(difference)
    labels = (one_line(f"{side.stream}@{side.version}") for side in (before, after))
    click.echo(paint(" -> ".join(labels), "bold"))
    click.echo(paint(_diff_counts(difference), "dim"))
    if stat:
        _print_table(difference)
    else:
        _print_lines(difference)
    return bool(difference)


def _side_shape(view: RunView) -> dict[str, Any]:
    kind, context = split_stream_id(view.stream)
    graph = view.run.graph()
    numbers = {"nodes": len(graph), "edges": len(graph.edges), "pointers": len(graph.pointers)}
    return {"context": context, "kind": kind, "version": view.version, **numbers}


def _numbers(difference: TrajectoryDiff) -> dict[str, int]:
    return {name: len(entries) for name, entries in msgspec.structs.asdict(difference).items()}


def _diff_counts(difference: TrajectoryDiff) -> str:
    numbers = _numbers(difference)
    changed = len({change.node for change in difference.changed})
    nodes = f"nodes: {numbers['nodes_added']} added, {numbers['nodes_removed']} removed, {changed} changed"
    return f"{nodes}; edges: {numbers['edges_added']} added, {numbers['edges_removed']} removed"


def _print_table(difference: TrajectoryDiff) -> None:
    numbers = _numbers(difference)
    rows = [
        (what, f"+{numbers[f'{what}_added']}", f"-{numbers[f'{what}_removed']}")
        for what in ("nodes", "edges", "pointers")
    ]
    for line in aligned([*rows, ("attributes", f"~{numbers['changed']}", "")], right=(1, 2)):
        click.echo("  " + line)


def _print_lines(difference: TrajectoryDiff) -> None:
    styles = {"+": "green", "-": "red", "~": "yellow"}
    nodes = _marked(difference.nodes_removed, difference.nodes_added)
    nodes += [("~", _changed(change)) for change in difference.changed]
    edges = _marked(map(_edge, difference.edges_removed), map(_edge, difference.edges_added))
    gone, new = (
        (f"pointer {name}" for name in names) for names in (difference.pointers_removed, difference.pointers_added)
    )
    for part in (nodes, edges, _marked(gone, new)):
        for index, (mark, text) in enumerate(part):
            click.echo(("" if index else "\n") + paint(f"{mark} {one_line(text)}", styles[mark]))


def _marked(removed: Iterable[str], added: Iterable[str]) -> list[tuple[str, str]]:
    return [*(("-", text) for text in removed), *(("+", text) for text in added)]


def _changed(change: ChangedAttribute) -> str:
    old, new = value_text(change.old, json_text), value_text(change.new, json_text)
    return f"{change.node} {change.attribute}: {old} -> {new}"


def _edge(edge: TrajectoryEdge) -> str:
    return f"{edge.source} -> {edge.target} ({edge.type})"
