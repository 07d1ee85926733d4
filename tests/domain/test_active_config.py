"""Which instructions and tools are in force behind an item (SPEC V3)."""

from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import ImageContent
from refold.domain.errors import NotFoundError, RefusedError
from tests.support.effort import calls_of


def conversation() -> ChatContext:
    """Return: system, config (tools), user, config (instructions), developer."""
    chat = ChatContext()
    chat.add_message("system", "Be kind.", message_id="s")
    chat.add_config_update(tools=["lookup"])
    chat.add_message("user", "Hello.", message_id="u")
    chat.add_config_update(instructions="Be brief.")
    chat.add_message("developer", ["Be", ImageContent(image="data:,x"), "exact."], message_id="d")
    return chat


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (None, ("Be exact.", ["lookup"])),
        ("s", ("Be kind.", None)),
        ("u", ("Be kind.", ["lookup"])),
        ("d", ("Be exact.", ["lookup"])),
        (0, ("Be kind.", None)),
        (3, ("Be brief.", ["lookup"])),
    ],
)
def test_the_later_wins(target: str | int | None, expected: Any) -> None:
    """V3.1, V3.2: up to and including an id or an index; whatever its kind, the later wins."""
    assert conversation().active_config_at(target) == expected


@pytest.mark.parametrize(
    ("target", "expected"), [(-1, ("Be exact.", ["lookup"])), (-2, ("Be brief.", ["lookup"])), (-5, ("Be kind.", None))]
)
def test_a_negative_index_counts_from_the_end(target: int, expected: Any) -> None:
    """V3.5, repaired: as everywhere in Python."""
    assert conversation().active_config_at(target) == expected


@pytest.mark.parametrize("target", ["nobody", "", 5, -6, 10**30])
def test_an_unknown_item_is_refused(target: str | int) -> None:
    """V3.4, repaired: a KeyError, not silently the whole context."""
    with pytest.raises(KeyError) as caught:
        conversation().active_config_at(target)

    assert isinstance(caught.value, NotFoundError)


def test_an_empty_context_has_no_config() -> None:
    """V3.1: nothing is in force."""
    assert ChatContext().active_config_at() == (None, None)


def test_no_tools_is_not_nothing_said() -> None:
    """V3.2: an empty list of tools replaces the tools, None leaves them."""
    chat = ChatContext()
    chat.add_config_update(tools=["a", "b"])
    chat.add_config_update(tools=[])
    chat.add_config_update(instructions="x")

    assert chat.active_config_at() == ("x", [])


def test_empty_instructions_win() -> None:
    """V3.3: an empty text is not None."""
    chat = conversation()
    chat.add_config_update(instructions="")

    assert chat.active_config_at() == ("", ["lookup"])


def test_tools_are_read_only() -> None:
    """V3.6, repaired: what is given back cannot be changed."""
    _, tools = conversation().active_config_at()

    assert tools is not None
    with pytest.raises(RefusedError):
        tools.append("other")


def test_a_view_of_the_past_has_its_own_config() -> None:
    """The config at a version is that of the items it shows."""
    chat = conversation()

    assert chat.at(3).active_config_at() == ("Be kind.", ["lookup"])


LOOKUP = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}
PAY = {"name": "pay", "input_schema": {"type": "object"}}
SEARCH = {"type": "web_search"}


def configured() -> ChatContext:
    """Return: all at once; then another model, no temperature, and tools of which one is new and one is named only."""
    chat = ChatContext()
    settings = {"temperature": 0.2, "response_format": {"type": "json_object"}}
    chat.add_config_update("Be brief.", [LOOKUP, PAY, "refund"], model="m1", settings=settings)
    chat.add_config_update(tools=["pay", SEARCH], settings={"model": "m2", "temperature": None})
    return chat


def test_settings_and_definitions_of_tools() -> None:
    """Settings are merged by name, and None unsets one; a tool that is only named keeps its definition."""
    chat = configured()
    first, now = chat.active_config_at(0), chat.active_config_at()

    assert (first.instructions, first.tools, first.model) == ("Be brief.", ["lookup", "pay", "refund"], "m1")
    assert first.settings == {"model": "m1", "temperature": 0.2, "response_format": {"type": "json_object"}}
    assert first.tool_schemas == [LOOKUP, PAY]
    assert now == ("Be brief.", ["pay", "web_search"])
    assert now.settings == {"model": "m2", "response_format": {"type": "json_object"}}
    assert now.tool_schemas == [PAY, SEARCH]
    with pytest.raises(RefusedError):
        now.settings["model"] = "m3"


def test_configurations_are_compared_in_all() -> None:
    """Two differ if one setting does, although the pairs are equal."""
    chat, other = configured(), configured()
    assert chat.active_config_at() == other.active_config_at()

    other.add_config_update(model="m3")

    assert tuple(chat.active_config_at()) == tuple(other.active_config_at())
    assert chat.active_config_at() != other.active_config_at()


def test_the_configuration_in_other_forms() -> None:
    """It comes back from plain data and a replay, and is in force in every fork; without it the seed's form stays."""
    chat = configured()
    chat.add_message("user", "Hello.")
    chat.add_message("assistant", "Hello.")
    wanted = chat.active_config_at()
    plain = chat.to_dict()
    replayed: list[Any] = []
    chat.replay(lambda seen: replayed.append(seen.active_config_at()))

    others = [ChatContext.from_dict(plain), chat.fork(), chat.fork_filtered(1), chat.copy()]
    assert [*replayed, *(one.active_config_at() for one in others)] == [wanted] * 5
    assert ChatContext.from_dict(plain).to_dict() == plain
    bare = conversation().to_dict()["items"][1]
    assert list(bare) == ["type", "id", "created_at", "agent_id", "instructions", "tools"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"tools": [{"parameters": {}}]}, "has no name"),
        ({"tools": [{"function": 5}]}, "has no name"),
        ({"tools": [PAY, PAY]}, "the name of another one"),
        ({"settings": {"temperature": float("nan")}}, "settings of agent_config_update"),
        ({"settings": {1: 2}}, "settings"),
        ({"settings": ["model"]}, "settings"),
    ],
)
def test_a_configuration_that_is_none(given: Any, named: str) -> None:
    """It is refused, and nothing is recorded."""
    chat = ChatContext()

    with pytest.raises(ValueError, match=named):
        chat.add_config_update(**given)

    assert chat.version == 1


@pytest.mark.parametrize("again", [True, False])
def test_the_same_instructions_again(again: bool) -> None:
    """They are recorded once, and the item is the first one."""
    chat = ChatContext()
    for _ in range(1 + again):
        item = chat.add_message("system", "Be brief.", replace=True, message_id="m1", created_at=1.5)

    assert (item, chat.version) == (chat.items[0], 2)


def test_items_that_configure_nothing() -> None:
    """They cost no calls where the configuration is asked, and few where the calls without an output are."""
    chat = ChatContext()
    for number in range(1_000):
        chat.add_message("user", str(number))

    assert calls_of(chat.active_config_at) < 500
    assert calls_of(chat.pending_calls) < 3_000
