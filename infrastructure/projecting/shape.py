"""
The shape of a projection: the members and the rows that it must have, its stored columns, and a digest of its code.

It is checked when a projection is added, because a fault found later would stop a worker or set events aside.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from inspect import iscoroutinefunction
from types import CodeType
from typing import Any

import msgspec

from ...domain.errors import InvalidInputError
from ...projections.contract import Projection, SearchedRow, SelectiveProjection
from .store import TAKEN, TAKEN_SEARCHED, ProjectionStore, column_texts, columns_of, kept_by

# Tables have the names of projections; the excluded endings belong to further tables of a projection.
FURTHER = "shadow|shadow_[0-9]+|check|words|words_(?:data|idx|content|docsize|config)"
NAME = re.compile(f"(?!.*_(?:{FURTHER})$)[a-z][a-z0-9_]{{0,39}}")
# PostgreSQL cuts longer names, and that of a table has more before it and behind it; see `table_of` in `rows`.
NAME_AND_VERSION_MAX = 42
COLUMN_BYTES_MAX = 63
MEMBERS = ("name", "version", "row", "keys", "evolve")
# The largest version that a column of a table can hold.
VERSION_MAX = 2**31 - 1
DIGEST_BYTES = 12
PLAIN = (str, int, float, bytes, tuple)


def require_projection(projection: Projection) -> None:
    """
    Require that an object is a projection, and that its rows can be stored.

    Raises:
        InvalidInputError: it is a class, lacks a member, or a member is not of the contract.
    """
    if isinstance(projection, type):
        raise InvalidInputError(f"{projection.__name__} is a class: add an object of it, {projection.__name__}()")
    missing = [member for member in MEMBERS if not hasattr(projection, member)]
    if missing:
        raise InvalidInputError(
            f"{type(projection).__name__} is no projection: it has no {', '.join(missing)}"
            " (docs/how-to/write-a-projection.md lists the members)"
        )
    name, version = projection.name, projection.version
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name!r} cannot name a projection: at most 40 of a-z, 0-9 and _, a letter first, "
            "and none of the endings _shadow, _check and _words, or _words_data and the like"
        )
    if type(version) is not int or not 0 <= version <= VERSION_MAX:
        raise InvalidInputError(f"the version of {name} is {version!r}: take a whole number, 1 at first")
    if len(f"{name}{version}") > NAME_AND_VERSION_MAX:
        raise InvalidInputError(
            f"the name of {name} and its version {version} have more than {NAME_AND_VERSION_MAX} characters together:"
            " take a shorter name, or a smaller version"
        )
    require_row(projection)
    _require_choices(projection)


def _require_choices(projection: Projection) -> None:
    for member in ("keys", "evolve", "evolve_all"):
        # `evolve_all` may be missing: the default is any function that passes.
        fold = getattr(projection, member, require_row)
        if not callable(fold) or iscoroutinefunction(fold):
            raise InvalidInputError(f"{member} of {projection.name} is {fold!r}: take a function that is not async")
    on_fault = getattr(projection, "on_fault", "set_aside")
    if on_fault not in ("set_aside", "stop"):
        raise InvalidInputError(f"on_fault of {projection.name} is {on_fault!r}: take 'set_aside' or 'stop'")
    if not isinstance(projection, SelectiveProjection):
        return
    events: Any = projection.events
    kinds = events if isinstance(events, frozenset | set | tuple | list) else (events,)
    wrong = next((one for one in kinds if not (isinstance(one, type) and issubclass(one, msgspec.Struct))), None)
    if not isinstance(events, frozenset | set) or wrong is not None:
        raise InvalidInputError(
            f"events of {projection.name} is {wrong or events!r}: take a frozenset of classes of events,"
            " as frozenset((MessageAdded,))"
        )


def require_row(projection: Projection) -> None:
    """
    Require that rows of a projection's type can be stored.

    Raises:
        InvalidInputError: it is not a Struct, its first field is not `key`, or a field has another type or a name that
            tables use already.
    """
    name, row = projection.name, projection.row
    if not (isinstance(row, type) and issubclass(row, msgspec.Struct)):
        raise InvalidInputError(f"the rows of {name} are {row!r}: let them be of a class derived from msgspec.Struct")
    try:
        columns = columns_of(row)
    except NameError as error:
        raise InvalidInputError(f"a field of the rows of {name} has a type that is not known: {error}") from error
    if not columns or columns[0][:2] != ("key", "str"):
        raise InvalidInputError(f"the rows of {name} have no key: let `key: str` be the first field")
    taken = TAKEN_SEARCHED if issubclass(row, SearchedRow) else TAKEN
    for column in columns:
        if column.type is None:
            raise InvalidInputError(
                f"{column.name} of the rows of {name} is of the type {column.text}: "
                "take str, int, float or bytes, each also with `| None`"
            )
        # SQLite takes no account of case.
        if column.name.lower() in taken or len(column.name.encode()) > COLUMN_BYTES_MAX:
            raise InvalidInputError(f"a row of {name} cannot have a field {column.name!r}: call it otherwise")
        taken = (*taken, column.name.lower())


def require_same_columns(store: ProjectionStore, projection: Projection) -> None:
    """
    Require that the stored rows of this version of a projection have the fields of its rows.

    Raises:
        InvalidInputError: the fields changed, and the version did not.
    """
    stored = kept_by(store).columns(projection)
    fields = column_texts(projection.row)
    if stored is None or stored == fields:
        return
    raise InvalidInputError(
        f"the rows of {projection.name} changed, but not its version: {'; '.join(_changes(stored, fields))}; "
        f"raise `version` from {projection.version} to {projection.version + 1}, and the rows are made anew"
    )


def _changes(stored: Mapping[str, str], fields: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys((*fields, *stored)):
        before, now = stored.get(name), fields.get(name)
        if before is None:
            yield f"{name} is new"
        elif now is None:
            yield f"{name} is gone"
        elif before != now:
            yield f"{name} was {before} and is {now}"


def code_of(projection: Projection) -> str:
    """
    Return a digest of the code of a projection and of the fields of its rows; a correction of the code changes it.

    It covers the functions and plain values of the object and of its classes, but no functions elsewhere.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    digest.update(repr(columns_of(projection.row)).encode())
    for owner in (projection, *type(projection).__mro__):
        for name, member in sorted(getattr(owner, "__dict__", {}).items()):
            if not name.startswith("__"):
                digest.update(f"{name} {_code_of_member(member)}".encode(errors="backslashreplace"))
    return digest.hexdigest()


def _code_of_member(member: Any) -> str:
    if isinstance(member, PLAIN):
        return repr(member)
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    code = getattr(function, "__code__", None)
    return _text_of(code) if isinstance(code, CodeType) else ""


def _text_of(code: CodeType) -> str:
    constants = [
        _text_of(one) if isinstance(one, CodeType) else sorted(map(repr, one)) if isinstance(one, frozenset) else one
        for one in code.co_consts
    ]
    return repr((code.co_code, code.co_names, constants))
