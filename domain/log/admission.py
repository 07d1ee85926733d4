"""
The admission of events: which events a log accepts.

Every event that a log accepts can be read again, folded by every projection, shown and converted. So the types of all
fields, the bounds of numbers and open JSON are checked here. Each log calls `admitted` where it encodes an event, so no
event avoids the check: not from calls, imports, files of events, or programs that write to a log directly.

Annotations of the fields in classes of events say more than a type can: `Json`, `VersionNumber` and the like. A check
of several fields is a method `require_admissible` of the class. Reading does not check this, so that an event which is
in a log already is read as it is. The check uses a double of each class, a stricter copy: it decodes the bytes that
were just encoded, which takes less than a microsecond.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from ..canonical import require_key
from ..concurrency.known_types import known
from ..erasure.forgetting import clears_with_erasures
from ..errors import DamagedError, InvalidInputError, RefoldError, shown
from ..ids import VERSION_MAX, require_name, split_stream_id, stream_id
from .envelope import encode_payload
from .ports import NewEvents

# To read one level, Python uses several of the nested calls that it allows.
JSON_DEPTH_MAX = 100
# The sum of eight million events, each with at most this total, stays within 64 bits.
TOTAL_MAX = 1 << 40
NUMBER_MAX = (1 << 63) - 1
# Some projections make a row for each item, in one transaction.
NAMED_ITEMS_MAX = 1_000_000
SHORT_JSON = 64
# The types of values that are read as they were written.
PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_JSON = msgspec.json.Decoder()


class _As(NamedTuple):
    """The type of a field that admission requires."""

    type: Any


class _Requires(NamedTuple):
    """A requirement of a field that is neither empty nor None: `require` raises InvalidInputError."""

    require: Callable[[Any], object]


def _require_json(data: bytes, decoder: msgspec.json.Decoder[Any] = _JSON) -> None:
    try:
        value = decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"it is no JSON that can be kept: {error}") from error
    # JSON cannot be nested deeper than its number of brackets, and most values have few.
    if data.count(b"[") + data.count(b"{") > JSON_DEPTH_MAX and is_deeper(value, JSON_DEPTH_MAX):
        raise InvalidInputError(f"its lists and objects are nested more than JSON_DEPTH_MAX, {JSON_DEPTH_MAX}, deep")


def _require_object(data: bytes) -> None:
    if len(data) > SHORT_JSON:
        _require_json(data, _OBJECT)
    else:
        _require_short_object(data)


@clears_with_erasures
@lru_cache(maxsize=256)
def _require_short_object(data: bytes) -> None:
    # Most imported items have one of a few short objects beside them: to parse it again for each of 10,000 takes 8 ms.
    _require_json(data, _OBJECT)


def is_deeper(value: object, depth: int) -> bool:
    """Return whether lists and dicts are nested deeper than `depth`."""
    if not isinstance(value, dict | list | tuple):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(is_deeper(one, depth - 1) for one in inner)


def _require_stream(name: str) -> None:
    stream_id(*split_stream_id(name))


def _require_order(priority: float) -> None:
    """Require a number that is not NaN; an infinite priority is the highest or the lowest."""
    if priority != priority:
        raise InvalidInputError("a priority that is no number cannot be put in order")


# Types of fields that admission checks more strictly than Python's types.
Json = Annotated[bytes, _Requires(_require_json)]
JsonObject = Annotated[bytes, _Requires(_require_object)]
StreamName = Annotated[str, _Requires(_require_stream)]
VersionName = Annotated[str, _Requires(require_name)]
VersionNumber = Annotated[int, _As(Annotated[int, msgspec.Meta(ge=0, le=VERSION_MAX)])]
Total = Annotated[int, _As(Annotated[int, msgspec.Meta(ge=-TOTAL_MAX, le=TOTAL_MAX)])]
Number = Annotated[int, msgspec.Meta(ge=-NUMBER_MAX - 1, le=NUMBER_MAX)]
# Since 1970; only the years 1 to 9999 can be shown.
Microseconds = Annotated[int, _As(Annotated[int, msgspec.Meta(ge=-62_135_596_800_000_000, lt=253_402_300_800_000_000)])]
Priority = Annotated[int | float, _As(Number | float), _Requires(_require_order)]
_PLAIN = {
    int: Number,
    float: Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)],
}


def one_of(*texts: str) -> _As:
    """Return the annotation of a field that accepts only these texts."""
    return _As(Literal[texts])


class _Check(NamedTuple):
    """
    How events of one class are checked: the decoder of its double, the values of fields that may be texts, and the
    fields that may name items.
    """

    decode: Callable[[bytes], Any]
    texts: Callable[[Any], Any]
    naming: tuple[str, ...]


# Each append makes only this lookup; a class that is not here yet is added at its first event.
_CHECKS: dict[type, _Check] = {}


def admitted(event: Any, stream: str) -> bytes:
    """
    Return the payload of an event to be appended to `stream`. An event that passes can be read and folded later.

    Raises:
        InvalidInputError: no log accepts it; the message says why.
    """
    try:
        decode, texts, naming = _CHECKS.get(event.__class__) or _check_of(event.__class__)
        payload = encode_payload(event)
        given = texts(event)
        # Nearly all values equal those that are read back, and this check is quicker than one of their types.
        if texts(decode(payload)) != given:
            _require_plain(given)
        if naming:
            _require_few(event, naming)
    except (RefoldError, ValueError, TypeError, OverflowError, RecursionError) as error:
        tag = getattr(getattr(event, "__struct_config__", None), "tag", None) or type(event).__name__
        reason = error.reason if isinstance(error, DamagedError) else error
        raise InvalidInputError(f"an event {tag} of {stream!r} cannot be stored: {reason}") from error
    return payload


def require_few_named(event: Any) -> None:
    """
    Check how many items an event names, as admission does; for events that may not have passed admission.

    Raises:
        InvalidInputError: it names more than NAMED_ITEMS_MAX.
    """
    check = _CHECKS.get(event.__class__) or _check_of(event.__class__)
    # Each projection calls this for each event, and few types of events name items.
    if check.naming:
        _require_few(event, check.naming)


def _check_of(event_type: type[msgspec.Struct]) -> _Check:
    hints = get_type_hints(event_type, include_extras=True)
    texts = [name for name in event_type.__struct_fields__ if _has_texts(hints[name])]
    naming = tuple(name for name in event_type.__struct_fields__ if any(map(_is_span, parts_of(hints[name]))))
    decode = msgspec.msgpack.Decoder(known(_double_of(event_type))).decode
    # For a single name, `attrgetter` would not return a tuple.
    values = attrgetter(*texts, *texts[: len(texts) == 1]) if texts else _no_texts
    return _CHECKS.setdefault(event_type, _Check(decode, values, naming))


def _has_texts(hint: Any) -> bool:
    return hint is str or any(map(_has_texts, get_args(hint)))


def _no_texts(_event: Any) -> tuple[()]:
    return ()


def _require_plain(values: Iterable[object]) -> None:
    """
    Require that values are read back as they are: dates, decimals, UUIDs and enums would come back as texts.

    Raises:
        InvalidInputError: one is such an object. A log in memory would return it unchanged.
    """
    for value in values:
        kind = type(value)
        if kind is tuple or kind is list:
            _require_plain(value)  # type: ignore[arg-type]
        elif kind not in PLAIN and not isinstance(value, msgspec.Struct):
            raise InvalidInputError(f"{shown(value)} is no text")


@cache
def _double_of(struct: Any) -> Any:
    """Return a class of the same form whose fields have the types that admission requires."""
    hints, config = get_type_hints(struct, include_extras=True), struct.__struct_config__
    fields: list[Any] = []
    for field in msgspec.structs.fields(struct):
        default = () if field.default is msgspec.NODEFAULT else (msgspec.field(default=field.default),)
        fields.append((field.name, _narrow(hints[field.name]), *default))
    of_fields = [(name, one) for name in struct.__struct_fields__ if (one := _requirement_in(hints[name])) is not None]
    of_whole = getattr(struct, "require_admissible", None)

    def require_all(double: Any) -> None:
        for name, require in of_fields:
            value = getattr(double, name)
            if value:
                require(value)
        if of_whole is not None:
            of_whole(double)

    return msgspec.defstruct(
        struct.__name__,
        fields,
        # With this base, `require_admissible` can use the double as it would use an event.
        bases=(struct,),
        namespace={"__post_init__": require_all} if of_fields or of_whole else {},
        tag=config.tag,
        tag_field=config.tag_field,
        array_like=config.array_like,
        kw_only=not config.array_like,
        frozen=True,
        gc=False,
    )


def _narrow(hint: Any) -> Any:
    """Return a type as admission requires it."""
    origin = get_origin(hint)
    if origin is Annotated:
        plain, *notes = get_args(hint)
        return next((note.type for note in notes if isinstance(note, _As)), None) or _narrow(plain)
    if origin in (Union, UnionType):
        return Union[tuple(map(_narrow, get_args(hint)))]  # noqa: UP007 - it is put together here
    if origin is tuple:
        return tuple[tuple(one if one is ... else _narrow(one) for one in get_args(hint))]  # type: ignore[misc]
    return _double_of(hint) if _is_struct(hint) else _PLAIN.get(hint, hint)


def _requirement_in(hint: Any) -> Callable[[Any], object] | None:
    return next((note.require for note in getattr(hint, "__metadata__", ()) if isinstance(note, _Requires)), None)


def parts_of(hint: Any) -> Iterator[Any]:
    """Yield the types that a type consists of, also those of the fields of Structs."""
    yield hint
    inner = get_type_hints(hint, include_extras=True).values() if _is_struct(hint) else get_args(hint)
    for part in inner:
        yield from parts_of(part)


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _is_span(hint: Any) -> bool:
    return _is_struct(hint) and "ranges" in vars(hint)


def _items_named(value: Any) -> int:
    """Return how many items a part of an event names."""
    if isinstance(value, tuple):
        return sum(map(_items_named, value))
    if not isinstance(value, msgspec.Struct):
        return 0
    ranges = getattr(value, "ranges", None)
    if ranges is not None:
        return sum(map(len, ranges()))
    return sum(_items_named(getattr(value, name)) for name in value.__struct_fields__)


def _require_few(event: Any, naming: Iterable[str]) -> None:
    # Most fields of these events are lineages, names and totals: going through them takes a tenth of a fork.
    named = 0
    for name in naming:
        value = getattr(event, name)
        # Each projection calls this for each event, and most events name nothing.
        if value:
            named += _items_named(value)
    if named > NAMED_ITEMS_MAX:
        raise InvalidInputError(f"it names {named:,} items, and NAMED_ITEMS_MAX is {NAMED_ITEMS_MAX:,}")


def require_names(new: NewEvents) -> None:
    """
    Require that every log can store the names that come with events, and that the envelopes have their key.

    Raises:
        InvalidInputError: a name has a NUL, which not every database stores in a text; or a key is too long, or is not
            in a meta.
    """
    # Each append runs this, and few appends have a key.
    if new.idempotency_key is not None:
        require_key(new.idempotency_key)
    elif "\0" not in f"{new.stream}{new.root}":
        return
    # The root of a stream that exists already is not used.
    root = new.root if new.expected_version == 0 else ""
    for name, what in ((new.stream, "id"), (root, "root")):
        if name and "\0" in name:
            raise InvalidInputError(f"the {what} {name!r} of {new.stream!r} holds a NUL: leave it out")
    key = new.idempotency_key
    if key is not None and any(meta.idempotency_key != key for meta in new.metas):
        raise InvalidInputError(
            f"the idempotency key {key!r} of {new.stream!r} is not in the meta of each event: put it there"
        )
