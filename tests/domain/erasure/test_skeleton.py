"""What an erasure leaves of an event: no text, and everything that folds, views and requests need."""

import random
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.canonical import canonical_json, parse_json
from refold.domain.chat import events as chat
from refold.domain.chat.pieces import erased_tokens, written
from refold.domain.chat.tokens import estimate_tokens
from refold.domain.content import Content
from refold.domain.erasure.events import (
    SEAL_BYTES,
    ErasedVersions,
    Erasures,
    RetentionEnded,
    RetentionSet,
    decide,
    fold,
)
from refold.domain.erasure.skeleton import _FIELDS, _WHOLE, ERASED, TEXTS, Mask, meta_skeleton, skeleton_of
from refold.domain.errors import InvalidInputError
from refold.domain.formats.anthropic.send import anthropic_messages
from refold.domain.formats.google.send import google_contents
from refold.domain.formats.openai.send import openai_messages
from refold.domain.formats.responses.send import openai_responses_input
from refold.domain.kinds import every_event
from refold.domain.log.admission import TOTAL_MAX, admitted
from refold.domain.log.envelope import Meta
from refold.domain.pool import events as pool
from refold.domain.pool.items import totals_of
from refold.domain.spans import Ref
from refold.domain.totals import Totals
from refold.domain.trajectory.events import MessageRecorded, StepQueued, StepRefused
from tests.domain.chat_events import called, returned, said
from tests.domain.formats.openai_contexts import EDITED
from tests.domain.formats.provider_contexts import CONTEXTS, FEW, POOL
from tests.golden.known import EVENTS
from tests.support.provider_rules.anthropic import faults as anthropic_faults
from tests.support.provider_rules.google import faults as google_faults
from tests.support.provider_rules.openai import faults as openai_faults
from tests.support.provider_rules.openai import responses_faults


def is_admitted(event: Any) -> bool:
    """Return whether a log takes an event: some of the golden files are older than its rules."""
    try:
        return bool(admitted(event, "chat:a"))
    except InvalidInputError:
        return False


KNOWN = [event for event in EVENTS if type(event) in get_args(every_event()) and is_admitted(event)]
WHOLE = Mask("mia", b"salt")
# Its text is beside the item alone.
THOUGHT = said("m", "", origin=chat.Origin(rest=b'{"responses":{"before":[{"type":"reasoning"}]}}', apart=True))
# Texts that stay: ids and names by which other events, calls and requests refer to something, and who did something.
KEPT = {
    "id", "agent_id", "agent", "session", "root", "name", "call_id", "call_item_id", "role", "model", "tools", "how",
    "parent", "source", "to_agent", "from_agent", "framework", "key", "rule", "kept", "kind", "stream", "runs", "type",
    "edge", "queue", "queues", "policy", "inference_detail", "tags",
}  # fmt: skip


def texts_in(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of an event with the names of their fields."""
    if isinstance(value, str | bytes):
        yield path, value if isinstance(value, str) else value.decode(errors="replace")
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from texts_in(inner, path)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from texts_in(getattr(value, name), name)


@pytest.mark.parametrize("event", [*KNOWN, THOUGHT], ids=lambda event: f"{type(event).__name__}")
@pytest.mark.parametrize("mask", [TEXTS, WHOLE], ids=["item", "whole"])
def test_a_skeleton_is_an_event_that_a_log_takes(event: Any, mask: Mask) -> None:
    """It is of the same type, and its own skeleton; so it can be made once more."""
    left = skeleton_of(event, mask)

    assert type(left) is type(event)
    assert is_admitted(left)
    assert skeleton_of(left, mask) is left


def _leaves(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Annotated:
        yield from _leaves(get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType, tuple):
        for inner in get_args(hint):
            yield from _leaves(inner)
    else:
        yield hint


def test_each_field_with_text_is_decided() -> None:
    """A new field of an event is erased, or stands among those that stay."""
    undecided = []
    for event in get_args(every_event()):
        if event in _WHOLE:
            continue
        ruled = {name for base in event.__mro__ for name in _FIELDS.get(base, {})}
        for name, hint in get_type_hints(event, include_extras=True).items():
            if not name.startswith("_") and name.isidentifier() and name in event.__struct_fields__:
                is_text = {str, bytes} & {*_leaves(hint)}
                if is_text and name not in ruled and name not in KEPT:
                    undecided.append(f"{event.__name__}.{name}")

    assert undecided == [], "erased by a rule in domain/erasure/skeleton.py, or KEPT here?"


def _planted(event: Any) -> Any:
    """Return an event with a word in all of its texts that may be anything."""
    changed: dict[str, Any] = {}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        # Who decided stays, unless it is the user.
        if name in KEPT or name == "by":
            continue
        if isinstance(value, str) and name not in ("incomplete", "label"):
            changed[name] = "PLANTED"
        elif isinstance(value, bytes) and value[:1] == b"{":
            changed[name] = value[:-1] + (b"," if len(value) > 2 else b"") + b'"planted":"PLANTED"}'
    return msgspec.structs.replace(event, **changed)


@pytest.mark.parametrize("event", KNOWN, ids=lambda event: f"{type(event).__name__}")
def test_no_text_is_left(event: Any) -> None:
    """Whatever its fields say."""
    left = skeleton_of(_planted(event), Mask("PLANTED", b"salt"))

    assert [path for path, text in texts_in(left) if "PLANTED" in text] == []


def test_the_name_of_a_planned_step_is_a_text() -> None:
    """Other names stay, but this one is what an agent wrote into its plan."""
    for step in (StepQueued(queue="todo", name="Call Mia."), StepRefused(queue="todo", name="Call Mia.", capacity=1)):
        assert skeleton_of(step) == msgspec.structs.replace(step, name="[erased]")


def test_an_item_counts_what_it_counted() -> None:
    """The totals in later events were made with it."""
    for item in (said("m1", "a long text, " * 9), called(arguments='{"a": "bcd"}'), returned(output="x" * 99), *POOL):
        left = skeleton_of(item)

        assert estimate_tokens(left) == estimate_tokens(item)  # type: ignore[arg-type]  # it is an item
    added = next(event for event in EVENTS if isinstance(event, pool.PoolAdded))
    assert totals_of(skeleton_of(added)) == totals_of(added)  # type: ignore[arg-type]  # it is of the same type


@pytest.mark.parametrize("tokens", [TOTAL_MAX + 1, -TOTAL_MAX - 1, 10**30])
def test_absurd_numbers_of_tokens_do_not_count(tokens: int) -> None:
    """Sums of them would fit no row: a log takes no such content, and a message counts what its text counts."""
    message = chat.MessageAdded(id="m", role="user", content=(ERASED,), created_at=0.0)
    absurd = msgspec.structs.replace(message, extra=canonical_json({"erased": tokens}, what="it"))

    assert erased_tokens(absurd) is None
    with pytest.raises(InvalidInputError):
        admitted(pool.QueueAppended(content=Content(text=ERASED, erased=tokens)), "queue:a")


def test_a_message_that_was_written_piece_by_piece_counts_what_it_counted() -> None:
    """Of its pieces no text is left, and of the message the word that stands for one."""
    begun = said("m1", "", role="assistant", incomplete=chat.UNFINISHED)
    pieces: list[tuple[int, chat.Piece]] = [
        (3, chat.MessageExtended(item=Ref(2), text="Hello there.", change=Totals(0, 0, 3))),
        (4, chat.MessageFinished(item=Ref(2), role="assistant", text=" Good day.", tokens=9)),
    ]
    whole = written(begun, pieces[:1])
    left: Any = skeleton_of(begun)
    bare: Any = [(version, skeleton_of(piece)) for version, piece in pieces]

    assert written(left, bare).content in (ERASED, (ERASED,))
    assert estimate_tokens(written(left, bare[:1])) == estimate_tokens(whole)
    assert estimate_tokens(written(left, bare)) == 9


def test_names_become_pseudonyms_of_one_kind() -> None:
    """Equal keys stay equal, with one salt and no other; without one they stay as they are."""
    first, again = (Mask(salt=b"1").name(name) for name in ("colour", "colour"))

    assert first == again != Mask(salt=b"2").name("colour")
    assert Mask().name("colour") == "colour"
    assert Mask(salt=b"3").name(first) == first


def test_an_envelope_loses_the_user_and_the_hash_of_the_text() -> None:
    """The trace, the cause and the key stay."""
    meta = Meta("mia", "trace", "chat:a@1", "key", fingerprint=b"hash of the call")

    assert meta_skeleton(meta, WHOLE, is_erased=True) == Meta(ERASED, "trace", "chat:a@1", "key")
    assert meta_skeleton(meta, TEXTS, is_erased=False) == meta


def erased_some(items: list[chat.ChatItemEvent], seed: int) -> list[Any]:
    """Return the items, some of which are erased."""
    draw = random.Random(seed)
    return [skeleton_of(item) if draw.random() < 0.6 else item for item in items]


@given(CONTEXTS, st.integers())
@FEW
def test_requests_stay_valid(items: list[chat.ChatItemEvent], seed: int) -> None:
    """For every provider, whichever items of a context are erased."""
    left = erased_some(items, seed)
    messages, system = anthropic_messages(left)

    assert anthropic_faults(messages, system) == []
    assert google_faults(google_contents(left)[0]) == []
    assert openai_faults(openai_messages(left)) == []
    assert responses_faults(openai_responses_input(left)[0]) == []


@given(EDITED, st.integers())
@FEW
def test_requests_of_imported_items_stay_valid(items: list[chat.ChatItemEvent], seed: int) -> None:
    """Their original shape is gone with their texts."""
    left = erased_some(items, seed)

    assert openai_faults(openai_messages(left)) == []
    assert responses_faults(openai_responses_input(left)[0]) == []


def test_of_calls_in_a_message_of_a_run_their_names_are_left() -> None:
    """And their ids, in either form; so that outputs still have their calls."""
    calls = [
        {"name": "look", "args": {"q": "PLANTED"}, "id": "c1"},
        {"id": "c2", "type": "function", "function": {"name": "find", "arguments": "PLANTED"}},
        "PLANTED",
    ]
    record = canonical_json({"role": "assistant", "content": "PLANTED", "tool_calls": calls}, what="it")
    left: Any = skeleton_of(MessageRecorded(record=record))

    assert parse_json(left.record)["tool_calls"] == [
        {"name": "look", "args": {}, "id": "c1"},
        {"id": "c2", "type": "function", "function": {"name": "find", "arguments": "{}"}},
    ]
    assert b"PLANTED" not in left.record


def test_each_erased_version_has_its_seal() -> None:
    """A log takes no event that has more or fewer of them."""
    for count in (0, 1, 3):
        erased = ErasedVersions("chat:a", b"\1\2", bytes(SEAL_BYTES * count))
        with pytest.raises(InvalidInputError, match="it does not have one seal for each version of 'chat:a'"):
            erased.require_admissible()
    ErasedVersions("chat:a", b"\1\2", bytes(SEAL_BYTES * 2)).require_admissible()


def test_a_policy_that_is_not_there_does_not_end() -> None:
    """Nothing is recorded; one that is there ends."""
    ended, begun = RetentionEnded(name="chats", why="x"), next(one for one in EVENTS if isinstance(one, RetentionSet))
    known = fold(Erasures(), [begun])

    assert decide(ended, Erasures()) == []
    assert [*decide(msgspec.structs.replace(ended, name=begun.name), known)] != []
