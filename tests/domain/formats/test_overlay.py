"""One request says more than the context, and the context stays as it is (SPEC V15.3)."""

from refold.domain.chat.events import ChatItemEvent, Image
from refold.domain.formats.openai.send import openai_messages
from refold.domain.formats.send import with_prefix
from tests.domain.chat_events import called, said
from tests.importing.shapes import items
from tests.importing.shapes import said as told


def test_the_last_user_message_gets_the_prefix() -> None:
    """The others, and what came after it, stay; so does the list that was given."""
    context: list[ChatItemEvent] = [
        said("m1", "one"),
        said("m2", ("two", "three")),
        said("m3", "a", role="assistant"),
        called(),
    ]
    overlaid = with_prefix(context, "Facts.")

    assert overlaid[1] == said("m2", "Facts.\n\nUser: two three")
    assert [overlaid[0], *overlaid[2:]] == [context[0], *context[2:]]
    assert context[1] == said("m2", ("two", "three"))


def test_images_stay_behind_the_text() -> None:
    """They are what the question is about."""
    image = Image(id="i", image="https://e.x/a.png")

    assert with_prefix([said("m1", (image, "what?"))], "Facts.") == [said("m1", ("Facts.\n\nUser: what?", image))]


def test_an_imported_message_says_the_prefix_too() -> None:
    """What lay beside its text does not bring the old one back."""
    came = items(told("user", [{"type": "text", "text": "hi", "x": 1}]))

    assert openai_messages(with_prefix(came, "Facts.")) == [told("user", "Facts.\n\nUser: hi")]


def test_without_a_user_message_or_a_prefix_nothing_changes() -> None:
    """There is nothing to put it in front of, or nothing to put."""
    assert with_prefix([called()], "Facts.") == [called()]
    assert with_prefix([said()], "") == [said()]
