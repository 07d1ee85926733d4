"""What Hypothesis draws from: chat events of every kind, open JSON, positions."""

import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from refold.domain.canonical import canonical_json
from refold.domain.chat.events import (
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    Image,
    MessageAdded,
    Named,
    Opened,
    Origin,
)
from refold.domain.positions import Moment, Position

from .chat_events import OPENED, called, configured, handed, named, returned, said

# The profile's number of examples (tests/conftest.py), or that of a run that wants fewer.
PROPERTY = settings(max_examples=int(os.environ.get("REFOLD_PROPERTY_EXAMPLES", settings().max_examples)))

# A chosen alphabet: all of Unicode takes Hypothesis seconds to learn, and these are the ones that hurt.
ALPHABET = "aZ09 .:-+@_/%\"'\\\n\t\x00\x7f\x85äßé\u0301²٣漢字\u2028\ufeff\U0001f600"
TEXT = st.text(ALPHABET, max_size=12)
WORD = st.sampled_from(["a", "b", "c", "m1", "m2", "über", "漢字"])
TIME = st.floats(0, 2e9, allow_nan=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
JSON_OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
JSON_BYTES = JSON_OBJECT.map(lambda value: canonical_json(value, what="drawn") if value else b"")
MAYBE = st.none() | TEXT
ORIGIN = st.none() | st.builds(Origin, starts=st.booleans(), rest=JSON_BYTES)
IMAGE = st.builds(Image, id=WORD, image=TEXT, inference_detail=st.sampled_from(["auto", "high", "low"]))
CONTENT = TEXT | st.lists(TEXT | IMAGE, max_size=3).map(tuple)
ROLE = st.sampled_from(["system", "developer", "user", "assistant"])
_ITEM: dict[str, Any] = {"id": WORD, "created_at": TIME, "agent_id": MAYBE, "origin": ORIGIN}
MESSAGE = st.builds(
    MessageAdded,
    **_ITEM,
    role=ROLE,
    content=CONTENT,
    interrupted=st.booleans(),
    extra=JSON_BYTES,
    confidence=st.none() | st.floats(0, 1),
    metrics=JSON_BYTES,
    audio_instructions=MAYBE,
    text_instructions=MAYBE,
)
CALL = st.builds(FunctionCalled, **_ITEM, name=WORD, arguments=TEXT, call_id=WORD, metadata=JSON_BYTES)
OUTPUT = st.builds(
    FunctionReturned,
    **_ITEM,
    name=WORD,
    output=TEXT,
    call_id=WORD,
    is_error=st.booleans(),
    call_item_id=st.none() | WORD,
)
HANDOFF = st.builds(HandedOff, **_ITEM, to_agent=WORD, from_agent=MAYBE, reason=MAYBE)
TOOLS = st.none() | st.lists(WORD, max_size=3).map(tuple)
CONFIG = st.builds(ConfigUpdated, **_ITEM, instructions=MAYBE, tools=TOOLS)
ITEM_EVENT = MESSAGE | CALL | OUTPUT | HANDOFF | CONFIG
OPENED_EVENT = st.builds(Opened, user=MAYBE, session=MAYBE, agent=MAYBE, source=MAYBE, attributes=JSON_BYTES)
EVENT = OPENED_EVENT | ITEM_EVENT | st.builds(Named, name=WORD, version=st.integers(1, 9))
# Drawn from a pool: what a fold does depends on kinds, ids, roles and order, and drawing is what takes the time.
POOL = [
    OPENED,
    *(said(item_id, "abcdefgh", role=role) for item_id, role in (("m1", "user"), ("m2", "user"), ("m3", "system"))),
    said("m1", ("abcd", Image(id="i", image="data:,x")), role="assistant"),
    called(),
    returned(),
    handed(),
    configured(instructions="Be brief.", tools=("lookup",)),
    configured("c2", tools=()),
    named("a", 1),
    named("a", 2),
]
HISTORY = st.lists(st.sampled_from(POOL), max_size=8)

NUMBER = st.integers(1, 2**62)
POSITION = st.builds(Position, st.integers(-1, 1023), NUMBER)
MOMENT = st.dictionaries(st.integers(0, 1023), NUMBER, max_size=5).map(Moment.of) | NUMBER.map(
    lambda number: Moment(((-1, number),))
)
