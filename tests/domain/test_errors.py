"""The errors: one tree, grouped by what the caller can do."""

import pickle
import re
from types import SimpleNamespace

import pytest

import refold
from refold.domain import errors
from refold.domain.chat.pairing import PendingCall
from refold.domain.errors import (
    CALLS_NAMED,
    MESSAGE_CHARACTERS_MAX,
    ActorMissingError,
    ApprovalPendingError,
    CallSettledError,
    CheckpointSupersededError,
    ConcurrencyError,
    ContextNotFoundError,
    DamagedError,
    DamagedFileError,
    DuplicateItemError,
    HeldError,
    IdempotencyError,
    InvalidInputError,
    KeyDestroyedError,
    KeyMissingError,
    LimitExceededError,
    LogWentBackError,
    Lost,
    NotAllowedError,
    NotFoundError,
    PendingCallsError,
    ProjectionError,
    RefoldError,
    StorageError,
    TamperedError,
    WrongKeyError,
    reason_of,
)
from refold.domain.window.events import WindowOpened

LONG = "x" * 1_000_000
LOST = tuple(Lost(f"chat:a@{version}") for version in range(2, 9))
ADDED = [SimpleNamespace(event=WindowOpened(max_tokens=1), version=version) for version in range(1, 6)]
PAYING = PendingCall(item_id="i1", call_id="c1", name="pay", arguments="{}")
CLASSES = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, RefoldError)]


def drawn_tree() -> dict[str, str]:
    """Return each class of the tree in the docstring and the one it stands below."""
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for indent, name in re.findall(r"^    ([│├└─ ]*)(\w+Error)", errors.__doc__ or "", re.MULTILINE):
        while path and path[-1][0] >= len(indent):
            path.pop()
        parents[name] = path[-1][1] if path else "Exception"
        path.append((len(indent), name))
    return parents


def test_the_tree_is_as_it_is_drawn() -> None:
    """Every error is in the picture, below the class that it extends."""
    assert drawn_tree() == {one.__name__: one.__mro__[1].__name__ for one in CLASSES}


def test_one_root() -> None:
    """Catching RefoldError catches all."""
    assert all(issubclass(one, RefoldError) for one in CLASSES)


def test_all_are_public() -> None:
    """Whoever catches one imports it from the package."""
    assert {one.__name__ for one in CLASSES} <= set(refold.__all__)


def test_an_error_without_a_text_is_named_by_its_type() -> None:
    """A message that gives it as the reason never has an empty one."""
    assert [reason_of(error) for error in (KeyError(), ValueError("no number"))] == ["KeyError", "no number"]


def test_a_missing_thing_reads_like_a_sentence() -> None:
    """It is a KeyError, but its message has no quotation marks around it."""
    assert str(NotFoundError("no item 'x'")) == "no item 'x'"
    assert str(NotFoundError()) == ""


@pytest.mark.parametrize(
    ("error", "facts", "saying"),
    [
        (
            ConcurrencyError("chat:a", expected=2, actual=3),
            {"stream": "chat:a", "expected": 2, "actual": 3, "refused": ()},
            "version 3",
        ),
        (ConcurrencyError("chat:a", expected=2, actual=3, refused=[1]), {"refused": (1,)}, "version 3"),
        (DuplicateItemError("chat:a", "m1"), {"stream": "chat:a", "item_id": "m1"}, "'m1'"),
        (
            LogWentBackError("a.db", stream="chat:a", acknowledged=8, found=1, lost=LOST),
            {"where": "a.db", "stream": "chat:a", "acknowledged": 8, "found": 1, "lost": LOST},
            "at version 8, and is at version 1 now (gone: chat:a@2, chat:a@3, chat:a@4, chat:a@5, chat:a@6 and 2 more)",
        ),
        (
            LogWentBackError("a.db", stream="chat:a", acknowledged=2, found=2),
            {"lost": (), "refused": ()},
            "has another event there now; cleanup() the context",
        ),
        (
            LimitExceededError("BATCH_MAX", allowed=1_000, actual=1_001),
            {"limit": "BATCH_MAX", "allowed": 1_000, "actual": 1_001},
            "1,001",
        ),
        (
            IdempotencyError("chat:a", "k1", ADDED[:3]),
            {"stream": "chat:a", "key": "k1", "refused": ()},
            "at version 3: take",
        ),
        (
            IdempotencyError("chat:a", "k1", ADDED),
            {"recorded": tuple(ADDED)},
            "at version 3 and 2 more: take",
        ),
        (StorageError("no room", refused=[1]), {"refused": (1,)}, "no room"),
        (DamagedError("event chat:a@1", "it is missing"), {"what": "event chat:a@1"}, "event chat:a@1 is damaged"),
        (HeldError(["chat:a", "chat:b"]), {"contexts": ("chat:a", "chat:b")}, "chat:a, chat:b must be kept"),
        (HeldError([f"c{number}" for number in range(CALLS_NAMED)]), {}, f"c{CALLS_NAMED - 1} must be kept"),
        (HeldError([f"c{number}" for number in range(CALLS_NAMED + 2)]), {}, f"c{CALLS_NAMED - 1} and 2 more must be"),
        (ContextNotFoundError("a", ["chat"]), {"name": "a", "kinds": ("chat",), "near": ()}, "is no chat 'a': `refold"),
        (ContextNotFoundError("a", ["x", "y", "z"]), {"fault": "there is no x, y or z 'a'"}, "no x, y or z 'a'"),
        (ContextNotFoundError("a", near=["ab", "ac"]), {"kinds": ()}, "no context 'a': did you mean ab or ac? `refold"),
        (
            ApprovalPendingError("chat:a", "c1", 3),
            {"call_id": "c1", "version": 3},
            "a decision since version 3: approve",
        ),
        (CallSettledError("chat:a", "c1", "has one"), {"stream": "chat:a", "call_id": "c1"}, "'c1' of chat:a has one"),
        (
            NotAllowedError(None, "read", None),
            {"actor": None, "action": "read", "context": None},
            "nobody (no actor is set) may not read in the whole store",
        ),
        (
            NotAllowedError("mia", "erase", "chat:a"),
            {"actor": "mia", "context": "chat:a"},
            "'mia' may not erase chat:a",
        ),
        (
            ActorMissingError("erase", None),
            {"actor": None, "action": "erase", "context": None},
            "erase of the store has no actor",
        ),
        (
            CheckpointSupersededError("chat:a", "k1", None),
            {"stream": "chat:a", "checkpoint": "k1", "newest": None, "expected": 0, "actual": 0, "refused": ()},
            "from checkpoint k1 of chat:a, and all checkpoints were deleted since",
        ),
        (PendingCallsError([PAYING]), {"calls": (PAYING,)}, "recorded for pay (c1): run"),
        (
            KeyMissingError("k1", "the file keys.json"),
            {"key": "k1", "where": "the file keys.json"},
            "the key 'k1' is not in the file",
        ),
        (WrongKeyError("k1"), {"key": "k1"}, "the key 'k1' does not open with it"),
        (KeyDestroyedError("k1"), {"key": "k1"}, "the key 'k1' was destroyed"),
        (DamagedFileError("a.backup", "it was cut off"), {"what": "a.backup"}, "take another copy of the file"),
        (TamperedError("event chat:a@1", "it is missing"), {"what": "event chat:a@1"}, "is not what its witness saw"),
        (
            CheckpointSupersededError("chat:a", None, "k2"),
            {"newest": "k2"},
            "without a checkpoint of chat:a, and k2 was",
        ),
    ],
)
def test_facts_are_attributes(error: RefoldError, facts: dict[str, object], saying: str) -> None:
    """What went wrong can be read by a program, and the message is made of it; in another process too."""
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert type(one) is type(error)
        assert {name: getattr(one, name) for name in facts} == facts
        assert saying in str(one)
        assert str(one) == str(error)


@pytest.mark.parametrize(
    "error",
    [
        InvalidInputError("wrong " + LONG + " do this"),
        NotFoundError("wrong " + LONG + " do this"),
        StorageError("wrong " + LONG + " do this"),
        DuplicateItemError("wrong", LONG + " do this"),
        DamagedError("wrong", LONG),
        ProjectionError("wrong", "chat:a@1", LONG),
    ],
)
def test_a_long_message_leaves_its_middle_out(error: RefoldError) -> None:
    """Whatever it repeats: what is wrong stands in front, what to do behind; what is an attribute is whole."""
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert len(str(one)) < MESSAGE_CHARACTERS_MAX + 100
        assert "wrong" in str(one)[:50]
        assert "characters left out" in str(one)
        assert not str(one).endswith("x")
        assert vars(one) == vars(error)
    assert not isinstance(error, DuplicateItemError) or error.item_id == LONG + " do this"
