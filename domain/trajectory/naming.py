"""
How nodes are called: `Type(label)`, and `Type(label)#2` for the second vertex of that name.

A label may hold any character: the type ends at the first parenthesis, and the label at the last. The plain name
means the newest vertex that bears it; numbers go from the first round to the last, in the order of registration.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import InvalidInputError

NAME = re.compile(r"(?P<type>[^()]+)\((?P<label>.*)\)(?:#(?P<number>[1-9][0-9]{0,17}))?", re.DOTALL)


class NodeName(NamedTuple):
    """A name in its parts; `number` is None for the newest vertex of that name."""

    type: str
    label: str
    number: int | None = None


def node_name(node_type: str, label: str, number: int | None = None) -> str:
    """Return the name of a node."""
    name = f"{node_type}({label})"
    return name if number is None else numbered_name(name, number)


def numbered_name(name: str, number: int) -> str:
    """Return the name of one of the vertices that bear a plain name."""
    return f"{name}#{number}"


def parse_node_name(name: str) -> NodeName:
    """
    Return the parts of a name.

    Raises:
        InvalidInputError: it is not of the form `Type(label)` (SPEC D2.7).
    """
    found = NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidInputError(f"Graph node label {name!r} has illegal format: `Type(label)` is right.")
    return NodeName(found["type"], found["label"], int(found["number"]) if found["number"] else None)
