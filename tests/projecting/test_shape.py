"""The shape of a projection: the digest of its code, and what is said of rows that changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from refold.domain.errors import InvalidInputError
from refold.infrastructure.projecting.shape import code_of, require_same_columns
from refold.infrastructure.projecting.store import column_texts

from .counts import Count


class Row(msgspec.Struct, frozen=True):
    """A row with other fields than that of counts."""

    key: str
    total: int


def projection(text: str = "", **members: Any) -> Any:
    """Return a projection whose class is made of a text, or of members."""
    space: dict[str, Any] = {}
    exec("class Made:\n    name, version, row, keys, kind = 'made', 1, None, {'b', 'a'}, 'x'\n" + text, space)
    made = space["Made"]()
    made.row = Count
    for name, value in members.items():
        setattr(made, name, value)
    return made


FIRST = "    def evolve(self, key): return [one + 1 for one in key if one in {'a', 'b'}]\n"
OTHERS = [
    "",
    FIRST.replace("one + 1", "one + 2"),
    FIRST.replace("one + 1", "one - 1"),
    FIRST.replace("'b'}", "'c'}"),
    FIRST.replace("evolve", "evolved"),
    "    @property\n" + FIRST,
    FIRST + "    @classmethod\n" + FIRST.replace("evolve", "more"),
    FIRST + "    @property\n" + FIRST.replace("evolve", "more"),
    FIRST + "    more = 7\n",
    FIRST + "    more = 'é\\ud800'\n",
]


def test_other_code_is_seen() -> None:
    """Of functions, also in properties and class methods, and of plain values; documents and other objects are none."""
    first = code_of(projection(FIRST))
    found = [code_of(projection(text)) for text in OTHERS]

    # A property or a class method has the code of its function.
    assert (found[5], found[6]) == (first, found[7])
    assert len({first, *found}) == len(OTHERS) - 1
    assert code_of(projection(FIRST)) == code_of(projection('    """A document."""\n' + FIRST)) == first
    assert code_of(projection(FIRST, own=object())) == code_of(projection(FIRST, own=object())) != first
    assert code_of(projection(FIRST, own=7)) != code_of(projection(FIRST, own=8))
    assert code_of(projection(FIRST, row=Row)) != first
    assert len(first) == 24


def test_rows_that_changed_under_one_version() -> None:
    """The error names each field that is new, is gone, or has another type."""
    made, kept = projection(FIRST), column_texts(Count)

    class Stored:
        """A store that has the fields of stored rows."""

        def __init__(self, fields: dict[str, str] | None) -> None:
            self.fields = fields

        def columns(self, _: Any) -> dict[str, str] | None:
            """Return them."""
            return self.fields

    for fields in (None, kept):
        require_same_columns(Stored(fields), made)  # type: ignore[arg-type]  # nothing else is asked
    with pytest.raises(InvalidInputError) as refused:
        require_same_columns(Stored({"key": kept["key"], "events": "str", "old": "str"}), made)  # type: ignore[arg-type]
    assert str(refused.value) == (
        "the rows of made changed, but not its version: events was str and is int; old is gone; "
        "raise `version` from 1 to 2, and the rows are made anew"
    )
    with pytest.raises(InvalidInputError, match=": events is new; raise"):
        require_same_columns(Stored({"key": kept["key"]}), made)  # type: ignore[arg-type]
