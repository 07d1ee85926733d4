"""
Plays the rounds of a recorded session: the same calls, in the same order, by a caller who uses the returned names.

If a name was recorded as the result of a call, later calls use the name that the call returns now. A `Round` gives the
answers: it is of Refold, or of the model of its seed.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

# The errors of the seed; our errors are derived from these, some from two of them.
KINDS = (AttributeError, RuntimeError, ValueError, KeyError)


class Round(Protocol):
    """One round of a session, which can be played."""

    def do(self, op: str, args: Mapping[str, Any]) -> str | None:
        """Carry out one operation, and return the name of the node that it registered."""
        ...

    def pointers(self) -> list[str]:
        """Return the names of the pointers."""
        ...

    def left(self) -> dict[str, Any]:
        """Return what there is at the end."""
        ...


def played(case: Mapping[str, Any], begun: Callable[[int], Round]) -> list[dict[str, Any]]:
    """Return the answers to the operations of a case, and the end state of each round; `begun` begins a round."""
    names: dict[str, str] = {}
    answers = []
    for number, steps in enumerate(case["rounds"]):
        one = begun(number)
        answers.append({"ops": [_answer(one, step, names) for step in steps["ops"]], **one.left()})
    return answers


def recorded(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the recorded answers of a case, in the form of `played`."""
    return [
        {
            **steps,
            "ops": [{key: step[key] for key in step if key not in ("op", "args")} for step in steps["ops"]],
            "meta": {**steps["meta"], "current_pt": sorted(steps["meta"]["current_pt"])},
        }
        for steps in case["rounds"]
    ]


def _answer(one: Round, step: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    outcome: dict[str, Any]
    try:
        outcome = {"result": one.do(step["op"], _renamed(step["args"], names))}
    except Exception as error:
        kind = next((kind for kind in KINDS if isinstance(error, kind)), type(error))
        outcome = {"error": kind.__name__, "msg": str(error)}
    if step.get("result") and outcome.get("result"):
        names[step["result"]] = outcome["result"]
    return {**outcome, "pointers": sorted(one.pointers())}


def _renamed(args: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    renamed = dict(args)
    if "predecessor_node" in args:
        renamed["predecessor_node"] = [names.get(name, name) for name in args["predecessor_node"]]
    if "graph_node_label" in args:
        renamed["graph_node_label"] = names.get(args["graph_node_label"], args["graph_node_label"])
    return renamed
