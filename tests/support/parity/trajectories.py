"""Replaying "trajectory rounds": the rounds of a session, one after the other (SPEC D3 to D9)."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from refold.domain.trajectory.events import NodeRegistered, QueryRegistered
from refold.domain.trajectory.nodes import NODE_TYPES
from refold.domain.trajectory.run import Run
from refold.domain.trajectory.trajectory import Trajectory
from tests.support.deviations import trajectory
from tests.support.deviations.switches import explanation

from .homes import opens_runs
from .rounds import played, recorded
from .verdicts import Question, Verdict, cases, verdict_of, weighed

Opens = Callable[[str, str, int], Run]


def replayed_trajectories(text: str) -> Iterator[Verdict]:
    """Return the verdict on each case of a file of JSON lines."""
    for case in cases(text):
        yield verdict_of(str(case["seed"]), {"answer": weighed(_question(case))})


def _question(case: Mapping[str, Any]) -> Question:
    def explain(recorded: Any, ours: Any) -> list[str]:
        return explanation(lambda on: modelled(case, on), trajectory.NUMBERS, recorded=recorded, ours=ours)

    return Question("answer", recorded(case), lambda: asked(case), explain)


def modelled(case: Mapping[str, Any], on: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the answers that the seed would give to the operations of a case with some repairs."""
    return played(case, trajectory.ModelSession(on).begun)


def asked(case: Mapping[str, Any], opens: Opens | None = None) -> list[dict[str, Any]]:
    """Return the answers of our runs, which `opens` makes, to the operations of a case."""
    return played(case, Session(opens_runs() if opens is None else opens).begun)


class Session:
    """The runs of a session so far."""

    def __init__(self, opens: Opens) -> None:
        self._opens = opens
        self._runs: list[Run] = []

    def begun(self, number: int) -> "RefoldRound":
        """Open the next round."""
        self._runs.append(self._opens("mia", "s1", number))
        return RefoldRound(tuple(self._runs))


class RefoldRound:
    """The last of several runs, as a round that can be played."""

    def __init__(self, runs: tuple[Run, ...]) -> None:
        self._runs, self._run = runs, runs[-1]

    def do(self, op: str, args: Mapping[str, Any]) -> str | None:
        """Carry out one operation."""
        match op:
            case "register_query":
                return self._run.register_query(args["query"], args["additional_files"])
            case "register_node":
                rest = {key: value for key, value in args.items() if key != "attrs"}
                return self._run.register_node(**rest, **args["attrs"])
            case "modify_node":
                self._run.modify_node(args["graph_node_label"], args["changes"])
            case "remove_node":
                self._run.remove_node(args["graph_node_label"])
            case other:
                raise NotImplementedError(other)
        return None

    def pointers(self) -> list[str]:
        """Return the names of the pointers."""
        return sorted(self._run.get_active_branch())

    def left(self) -> dict[str, Any]:
        """Return what there is at the end."""
        run, graph = self._run, self._run.graph()
        own = graph.limited_to(name for name, node in graph.nodes.items() if node.run_id == run.run_id)
        return {
            "nodes": sorted(graph),
            "edges": _edges(graph),
            "trimmed": sorted(run.graph(trimmed=True)),
            "session_root": run.session_root,
            "initial": run.initial,
            "is_dag": graph.is_acyclic,
            "json_nodes": sorted(own),
            "json_edges": _edges(own),
            "meta": {"initial_pt": graph.initial, "current_pt": sorted(graph.pointers), "messages": {}},
            "counts": self._counts(),
            "histories": {name: history for name in graph if (history := _history(run, name))},
        }

    def _counts(self) -> dict[str, int]:
        """The number of nodes of each type that were registered in all rounds, from which automatic labels follow."""
        events = (one.event for run in self._runs for one in run.recorded_events())
        types = (
            event.type if isinstance(event, NodeRegistered) else "Query"
            for event in events
            if isinstance(event, NodeRegistered | QueryRegistered)
        )
        return {**dict.fromkeys(NODE_TYPES, 0), **Counter(types)}


def _edges(graph: Trajectory) -> list[list[str]]:
    return sorted([edge.source, edge.target, edge.type] for edge in graph.edges)


def _history(run: Run, name: str) -> dict[str, Any]:
    """In JSON, keys are texts, and not numbers (SPEC D8.8)."""
    return {str(number): dict(old) for number, old in run.node(name).history.items()}
