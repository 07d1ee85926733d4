"""Errors of runs that are also what callers of the seed's module expect."""

from __future__ import annotations

from ..errors import DecisionRefusedError, InvalidInputError, NotFoundError


class NodeNotFoundError(NotFoundError, ValueError):
    """No such node; a ValueError as well."""


class RunStateError(DecisionRefusedError, RuntimeError):
    """The run is not at the point where that can be done; a RuntimeError as well."""


class UnknownAttributeError(InvalidInputError, AttributeError):
    """A node of this type has no such attribute, or none that can be changed; an AttributeError as well."""
