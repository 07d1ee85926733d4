"""Stream ids and slices."""

import pytest
from hypothesis import given

from refold.domain.errors import InvalidInputError
from refold.domain.ids import SLICES, slice_of, split_stream_id, stream_id

from .strategies import PROPERTY, TEXT


@pytest.mark.parametrize(
    ("root", "slice_number"),
    [("", 259), ("a", 17), ("support-42", 662), ("s1", 247), ("über", 860), ("漢字", 433), ("user%3A1", 112)],
)
def test_slices_are_kept_for_ever(root: str, slice_number: int) -> None:
    """The first 8 bytes of blake2b, big-endian, mod 1024: where a stream lies must never change."""
    assert slice_of(root) == slice_number


@PROPERTY
@given(TEXT)
def test_a_slice_is_one_of_1024(root: str) -> None:
    """Whatever the root."""
    assert 0 <= slice_of(root) < SLICES == 1024


@pytest.mark.parametrize(
    "context_id", ["a", "x" * 255, "ü" * 127, "support-42", "a:b", "a/b", "a.b", "漢字", " ", "a\xa0b"]
)
def test_ids_that_can_be(context_id: str) -> None:
    """1 to 255 bytes of UTF-8; the id may hold colons, and is found again."""
    assert split_stream_id(stream_id("chat", context_id)) == ("chat", context_id)


@pytest.mark.parametrize(
    ("context_id", "saying"),
    [
        ("", "0 bytes"),
        ("x" * 256, "256 bytes"),
        ("ü" * 128, "256 bytes"),
        ("a@b", "`@`"),
        ("a..b", r"`\.\.`"),
        ("a\nb", "control"),
        ("a\x00b", "control"),
        ("a\x1fb", "control"),
        ("a\x7fb", "control"),
        ("a\x80b", "control"),
        ("a\x9fb", "control"),
        ("a\ud800b", "surrogate"),
    ],
)
def test_ids_that_cannot_be(context_id: str, saying: str) -> None:
    """The error names the id and says what is wrong with it."""
    with pytest.raises(InvalidInputError, match=saying):
        stream_id("chat", context_id)
