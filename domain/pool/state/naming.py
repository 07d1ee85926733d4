"""How the items of a container are named to those who call: by their birth, `stream@version`."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import InvalidInputError, NotFoundError
from ...spans import Ref
from ..items import Held
from .fold import ContainerState


def absolute(ref: Ref, stream: str) -> Ref:
    """Return a name with its stream, `stream` where it is the own one."""
    return ref if ref.stream else Ref(ref.version, stream)


def birth_of(ref: Ref, stream: str) -> str:
    """Return the name of an item of `stream`."""
    return f"{ref.stream or stream}@{ref.version}"


def ref_of(birth: str, stream: str) -> Ref:
    """
    Return what `birth_of` was given, with its stream; a number alone is a version of `stream`.

    Raises:
        InvalidInputError: it is no such name.
    """
    named, at, version = str(birth).rpartition("@")
    if not version.isdecimal() or (at and not named):
        raise InvalidInputError(f"{birth!r} does not name an item: take one of `births`, as {stream}@2, or its version")
    return Ref(int(version), named or stream)


def named_items(state: ContainerState, refs: Iterable[Ref], stream: str) -> list[Held]:
    """
    Return the items of the container `stream` that are there under these names, which have their stream.

    Raises:
        NotFoundError: one is not there.
    """
    by_ref = {absolute(held.ref, stream): held for held in state.items.values()}
    for ref in refs:
        if ref not in by_ref:
            raise NotFoundError(
                f"{stream} does not hold the item {birth_of(ref, stream)}: `births` names those it does"
            )
    return [by_ref[ref] for ref in refs]
