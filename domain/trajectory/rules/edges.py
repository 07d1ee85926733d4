"""What kind an edge is where nobody says (SPEC D5)."""

from __future__ import annotations

from collections.abc import Iterable

from ...canonical import require_unicode
from ...errors import InvalidInputError
from ..nodes import COMPUTATION, DATA

TRIGGERS, CONCLUDES, OUTPUTS = "triggers", "has_conclusion", "outputs"
TRIGGERING = ({"Query"}, {"State"})
CONCLUDING = tuple({name} for name in COMPUTATION)
OUTPUTTING = ({"Action"},)


def edge_type(given: str | None, sources: Iterable[str], target: str) -> str:
    """
    Return the type of the edges from nodes of some types to one of the type `target`: the given one, or the usual.

    Questions or conclusions trigger an action; questions, actions or conclusions have a conclusion; actions output
    data.

    Raises:
        InvalidInputError: none was given, and there is no usual one (SPEC D5.4).
    """
    if given is not None:
        return require_unicode(given, "the edge type")
    types = set(sources)
    if target == "Action" and types in TRIGGERING:
        return TRIGGERS
    if target == "State" and types in CONCLUDING:
        return CONCLUDES
    if target in DATA and types in OUTPUTTING:
        return OUTPUTS
    raise InvalidInputError("No default edge type detected. Please provide an edge type.")
