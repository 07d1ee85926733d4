"""The rules of a chat context, given-when-then."""

import pytest

from refold.domain.chat.events import Named, Opened, Origin
from refold.domain.chat.rules.commands import AddItems, Open
from refold.domain.chat.rules.decide import CHAT
from refold.domain.context.decider import NameVersion
from refold.domain.errors import DuplicateItemError, InvalidInputError

from .chat_events import OPENED, STREAM, called, named, returned, said
from .scenario import Scenario

chat = Scenario(CHAT)


def test_an_empty_stream_is_opened() -> None:
    """Opening records what was said about the context."""
    chat.given().when(Open(OPENED)).then(OPENED)


def test_opening_again_is_nothing_new() -> None:
    """A context that is open stays as it was opened first."""
    chat.given(OPENED).when(Open(Opened(user="noah"))).then()


def test_items_are_added_in_their_order() -> None:
    """One event for each item."""
    items = (called(), returned(), said())

    chat.given(OPENED).when(AddItems(STREAM, items)).then(*items)


def test_no_items_are_no_events() -> None:
    """Adding nothing records nothing."""
    chat.given(OPENED).when(AddItems(STREAM, ())).then()


def test_the_same_item_again_is_nothing_new() -> None:
    """A repetition, also with another time or another origin, is so already."""
    again = said(created_at=99.0, origin=Origin(starts=False))

    chat.given(OPENED, said()).when(AddItems(STREAM, (again,))).then()


def test_only_what_is_new_is_added() -> None:
    """Of several items those that are there already are left out."""
    chat.given(said("m1"), said("m2")).when(AddItems(STREAM, (said("m2"), said("m3")))).then(said("m3"))


def test_another_item_under_a_taken_id() -> None:
    """An id belongs to one item; the whole command is refused."""
    command = AddItems(STREAM, (said("m2"), said("m1", "something else")))

    chat.given(OPENED, said("m1")).when(command).then_refused(DuplicateItemError, saying=r"chat:a.*'m1'")


def test_another_kind_under_a_taken_id() -> None:
    """A call cannot have the id of a message."""
    chat.given(said("x")).when(AddItems(STREAM, (called("x"),))).then_refused(DuplicateItemError)


def test_the_same_item_twice_in_one_command() -> None:
    """It is added once."""
    chat.given().when(AddItems(STREAM, (said("m1"), said("m1")))).then(said("m1"))


def test_two_items_with_one_id_in_one_command() -> None:
    """They cannot both be meant."""
    command = AddItems(STREAM, (said("m1", "one"), said("m1", "two")))

    chat.given().when(command).then_refused(DuplicateItemError)


def test_a_version_gets_a_name() -> None:
    """A name is recorded with the version it means."""
    chat.given(OPENED, said()).when(NameVersion("before-lunch", 2)).then(Named(name="before-lunch", version=2))


def test_the_same_name_for_the_same_version() -> None:
    """It has that name already."""
    chat.given(OPENED, named("start", 1)).when(NameVersion("start", 1)).then()


def test_a_name_can_move() -> None:
    """The same name for another version is a new fact."""
    chat.given(OPENED, named("start", 1)).when(NameVersion("start", 2)).then(named("start", 2))


@pytest.mark.parametrize(
    "name", ["", "1st", "-x", "_x", "a@b", "a..b", "a b", "a:b", "a\tb", "a\nb", "x" * 101, " a", "!"]
)
def test_names_that_cannot_be(name: str) -> None:
    """A name starts with a letter and holds nothing that an address would read as something else."""
    chat.given(OPENED).when(NameVersion(name, 1)).then_refused(InvalidInputError, saying="cannot name a version")


@pytest.mark.parametrize("name", ["a", "Zebra-1", "vor_dem_Essen", "über", "x" * 100, "a.b"])
def test_names_that_can_be(name: str) -> None:
    """Letters of any script, digits, dots and dashes are fine."""
    chat.given(OPENED).when(NameVersion(name, 1)).then(named(name, 1))
