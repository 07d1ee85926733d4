"""Positions and moments, and their text form."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.errors import InvalidInputError
from refold.domain.positions import BEGINNING, Moment, Partition, Position

from .strategies import MOMENT, NUMBER, POSITION, PROPERTY


@PROPERTY
@given(MOMENT)
def test_a_moment_is_read_as_it_was_written(moment: Moment) -> None:
    """parse(str(moment)) == moment, on one sequence and on slices."""
    assert Moment.parse(str(moment)) == moment


@PROPERTY
@given(POSITION)
def test_a_position_is_a_moment(position: Position) -> None:
    """The text of an event's position is the moment at which it had just happened."""
    moment = Moment.parse(str(position))

    assert moment == Moment(((position.slice, position.number),))
    assert moment.head(position.slice) == position.number


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (BEGINNING, "0"),
        (Moment(((-1, 17),)), "17"),
        (Moment(((3, 17),)), "3.17"),
        (Moment(((0, 5), (7, 2**62))), "vkpIABZIHz0AAAAAAAAAA"),
    ],
)
def test_texts_are_kept_for_ever(moment: Moment, text: str) -> None:
    """People note them down: a decimal, `slice.number`, or an encoded vector."""
    assert str(moment) == text


@PROPERTY
@given(st.dictionaries(st.integers(0, 1023), NUMBER, max_size=5))
def test_a_moment_of_heads(heads: dict[int, int]) -> None:
    """The order in which heads are named does not matter; a slice that is not named has nothing."""
    moment = Moment.of(heads)

    assert moment == Moment.of(dict(reversed(heads.items())))
    assert [moment.head(number) for number in heads] == list(heads.values())
    assert moment.head(5_000) == 0


@PROPERTY
@given(POSITION, POSITION)
def test_positions_are_ordered_within_a_slice(one: Position, other: Position) -> None:
    """By slice first, then by number."""
    assert (one < other) == ((one.slice, one.number) < (other.slice, other.number))


@pytest.mark.parametrize("text", ["", "x", "-1", "1.", ".1", "1.2.3", "1 ", "+1", "v", "v☃", "0x1", "1_000"])
def test_texts_that_are_no_position(text: str) -> None:
    """An error that shows the text and what would be right."""
    with pytest.raises(InvalidInputError, match="is not a position"):
        Moment.parse(text)


@pytest.mark.parametrize("heads", [((-2, 5),), ((3, -1),), ((-1, -5),)])
def test_a_moment_before_everything(heads: tuple[tuple[int, int], ...]) -> None:
    """Numbers below nothing are refused, however they are written."""
    packed = base64.urlsafe_b64encode(msgspec.msgpack.encode(heads)).decode().rstrip("=")

    with pytest.raises(InvalidInputError, match="is not a position"):
        Moment.parse("v" + packed)


def test_the_share_of_a_partition() -> None:
    """The slices that leave its number, so that each is in one share; a log with one sequence is not shared."""
    moment = Moment.of({lane: 1 + lane for lane in range(10)})

    shares = [Partition(number, 3).share(moment) for number in range(3)]

    assert [[lane for lane, _ in share.heads] for share in shares] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert all(head == 1 + lane for share in shares for lane, head in share.heads)
    alone = Moment.of({-1: 5})
    assert [Partition(number, 3).share(alone) for number in range(3)] == [alone] * 3
