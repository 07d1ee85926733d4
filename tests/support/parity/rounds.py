"""
Playing the rounds of a recorded session: the same calls, in the same order, by a caller who uses the names it is given.

Where a name was recorded as the result of a call, later calls use the one that came back now. Whoever answers, Refold
or the model of its seed, is a `Round`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

# What the seed raises; ours are derived from these, some from two of them.
KINDS = (AttributeError, RuntimeError, ValueError, KeyError)


class Round(Protocol):
    """One round of a session, which can be played."""

    def do(self, op: str, args: Mapping[str, Any]) -> str | None:
        """Carry one operation out, and return the name of what it registered."""
        ...

    def pointers(self) -> list[str]:
        """Return the names of the pointers."""
        ...

    def left(self) -> dict[str, Any]:
        """Return what there is at the end."""
        ...


def played(case: Mapping[str, Any], begun: Callable[[int], Round]) -> list[dict[str, Any]]:
    """Return what is answered to the operations of a case, and what is left of each round; `begun` begins one."""
    names: dict[str, str] = {}
    answers = []
    for number, steps in enumerate(case["rounds"]):
        one = begun(number)
        answers.append({"ops": [_answer(one, step, names) for step in steps["ops"]], **one.left()})
    return answers


def recorded(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what was recorded of a case, as `played` gives it."""
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
