"""
The JSON twins of the page's addresses: an address of the page with `.json` at its end is what the page shows, as data.

A twin is the answer to one of the page's questions. So it has the same shape, and redaction and caching are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...domain.context.address import parse_reference
from ...domain.errors import NotFoundError
from ...domain.ids import split_stream_id
from ...domain.kinds import KINDS
from ..opening import streams_named
from ..store import Store
from .answers import stream_named

ENDING = ".json"
# The question of each screen that needs nothing of its address but the parameters.
SCREENS = {
    "": "contexts", "log": "log", "graph": "lineage", "usage": "usage", "approvals": "approvals",
    "projections": "projections", "search": "search",
}  # fmt: skip
TABS = {"log": "log", "left": "left", "replay": "replay", "tokens": "context"}
# The page's names of parameters that the questions call otherwise.
RENAMED = {"ctx": "context"}
NODE = re.compile(r"(?P<name>.*\))(@\d+)?", re.DOTALL)
Asked = tuple[str, dict[str, str]]


def question_of(store: Store, path: str, given: Mapping[str, str]) -> Asked | None:
    """
    Return the question of a twin, with its parameters; None if the path is no twin, but a context whose id ends so.

    `path` has no slash at its beginning.

    Raises:
        InvalidInputError: the address of a context is malformed.
        NotFoundError: the page has no such screen, or there is no such context.
    """
    screen, _, name = path.removesuffix(ENDING).partition("/")
    parameters = {RENAMED.get(key, key): value for key, value in given.items()}
    match screen:
        case "c" if name:
            is_named = "@" not in name and streams_named(store.log, name + ENDING, KINDS)
            return None if is_named else _of_context(store, name, parameters)
        case "diff" if "..." in name:
            before, _, after = name.partition("...")
            return "diff", {"before": before, "after": after}
        case "e" if name:
            return "event", {"event": name}
        case "n" if found := NODE.fullmatch(name):
            # The history is that of all versions; the context of the page says only from where one came.
            return "node", {**parameters, "name": found["name"]}
        case _ if screen in SCREENS and not name:
            return SCREENS[screen], parameters
    raise NotFoundError(f"the page has no address /{path.removesuffix(ENDING)}")


def _of_context(store: Store, name: str, given: Mapping[str, str]) -> Asked:
    reference = parse_reference(name)
    context = stream_named(store, reference.context)
    if reference.is_range:
        first, last = reference.moments
        return "diff", {"before": f"{context}@{first or 0}", "after": f"{context}@{last}" if last else context}
    question = TABS.get(given.get("tab", ""), "graph" if split_stream_id(context)[0] == "run" else "view")
    moment = reference.moments[0] if reference.moments and question in ("view", "left", "graph") else ""
    return question, {**given, "context": context, "version": moment}
