"""To Google contents: what comes out, case by case; that it is valid for all contexts; what breaks the rules."""

import sys
from typing import Any

import pytest
from google.genai.types import Content
from hypothesis import given

from refold.domain.chat.events import ChatItemEvent
from refold.domain.formats.google.send import google_contents, to_google_types
from refold.domain.formats.send import DUMMY_FIRST, DUMMY_LAST, NO_OUTPUT
from tests.domain.chat_events import configured, handed, said
from tests.support.provider_rules.google import faults

from .provider_contexts import CONTEXTS, MANY, PIXEL, call, output, packed, pictured, with_signatures

ASKED = said("u1", "w?")


def sent(*items: ChatItemEvent, **options: Any) -> list[dict[str, Any]]:
    """Return the contents, which must be valid."""
    contents, _ = google_contents(items, **options)
    assert faults(contents) == []
    return contents


def part(kind: str, call_id: str, name: str, **rest: Any) -> dict[str, Any]:
    """Return the part of a call or of a response."""
    return {kind: {"id": call_id, "name": name, **rest}}


def user(*parts: Any) -> dict[str, Any]:
    """Return a user's content."""
    return {"role": "user", "parts": [{"text": one} if isinstance(one, str) else one for one in parts]}


def model(*parts: Any) -> dict[str, Any]:
    """Return a model's content."""
    return {**user(*parts), "role": "model"}


def use(call_id: str = "c1", name: str = "f", **args: Any) -> dict[str, Any]:
    """Return the part of a call."""
    return part("function_call", call_id, name, args=args)


def response(call_id: str = "c1", name: str = "f", **said: str) -> dict[str, Any]:
    """Return the part of a response."""
    return part("function_response", call_id, name, response=said)


def signatures(contents: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the signature of each call, by its id."""
    parts = [one for content in contents for one in content["parts"] if "function_call" in one]
    return {one["function_call"]["id"]: one.get("thought_signature") for one in parts}


@given(CONTEXTS)
@MANY
def test_what_comes_out_is_valid(items: list[ChatItemEvent]) -> None:
    """Whatever lies in a context, in any order, with signatures by name or without."""
    for named in (None, {"f": b"byname"}):
        contents, _ = google_contents(items, thought_signatures=named)

        assert faults(contents) == []
        for content in contents:
            Content.model_validate(content)


@given(CONTEXTS)
@MANY
def test_signatures_travel_with_their_calls(items: list[ChatItemEvent]) -> None:
    """Where the first call of each batch is signed, the request is valid for models that demand it."""
    firsts: list[bool] = []
    for content in google_contents(items)[0]:
        firsts += [number == 0 for number, _ in enumerate(part for part in content["parts"] if "function_call" in part)]

    assert faults(google_contents(with_signatures(items, firsts))[0], signed=True) == []


def test_a_conversation() -> None:
    """Neighbours of one role are one content; the system text is apart (SPEC V11.2, V11.3)."""
    items = (
        said("s", ("S", "T"), role="system"), ASKED, said("u2", ("a", "b")), handed(),
        said("m", "yo", role="assistant"), configured(instructions="NEW"), said("u3", "bye"),
    )  # fmt: skip

    assert google_contents(items) == ([user("w?", "a", "b"), model("yo"), user("bye")], "NEW")


def test_a_batch_is_one_content() -> None:
    """So are its outputs, alone in theirs, before what the user said meanwhile (SPEC V11.7, V11.8)."""
    items = (ASKED, said("m", "let me see", role="assistant"), call("c1"), call("c2", "g", '{"a": 1}'),
             said("u2", "hurry"), output("c2", "2", is_error=True), output("c1", "1"))  # fmt: skip

    assert sent(*items) == [
        user("w?"),
        model("let me see", use(), use("c2", "g", a=1)),
        user(response(output="1"), response("c2", "g", error="2")),
        user("hurry"),
    ]


def test_repairs() -> None:
    """No output, an output too many, an id again, a name that is refused, arguments that are no object."""
    repaired = sent(ASKED, call("c1", "7 up", "[1]"), output("c9"), call("c1", "f" * 99), output("c1", name="other"))

    assert repaired == [
        user("w?"),
        model(use("c1", "_7_up", arguments="[1]")),
        user(response("c1", "_7_up", error=NO_OUTPUT)),
        model(use("c1_2", "f" * 64)),
        user(response("c1_2", "f" * 64, output="found")),
    ]


def test_the_ends_are_the_users() -> None:
    """Where they are not, a text that nobody wrote stands there (SPEC L8, X3); empty texts are not sent."""
    assert sent() == [user(DUMMY_FIRST)]
    assert sent(said("m", ("", "hm"), role="assistant")) == [user(DUMMY_FIRST), model("hm"), user(DUMMY_LAST)]


def test_pictures() -> None:
    """In their places: inline, or as an address, whose media type its ending tells (SPEC V11.4)."""
    inline = {"inline_data": {"mime_type": "image/png", "data": PIXEL.partition(",")[2]}}

    assert sent(pictured()) == [user("look", inline)]
    assert sent(pictured("https://e.x/a.PNG?b=c.d"))[0]["parts"][1] == {
        "file_data": {"file_uri": "https://e.x/a.PNG?b=c.d", "mime_type": "image/png"}
    }
    assert sent(pictured("gs://b/a"))[0]["parts"][1]["file_data"]["mime_type"] == "image/jpeg"
    assert sent(pictured("data:image/png")) == [user("look", "[Image img_1 is left out: its data URL is malformed]")]
    assert sent(pictured("a.png")) == [user("look", "[Image img_1 is left out: only web addresses can be sent: a.png]")]


@pytest.mark.parametrize(
    ("recorded", "made"),
    [("c2lnMQ==", "c2lnMQ=="), ("-_-_", "+/+/"), ("!!!notb64", None), ("", None), (7, None), (None, None)],
)
def test_signatures(recorded: Any, made: str | None) -> None:
    """Standard base64, or none where it cannot be decoded (SPEC V11.6); a message's is on its last part."""
    spoke = said("m", ("a", "b"), role="assistant", extra=packed({"google": {"thought_signature": recorded}}))

    assert signatures(sent(ASKED, call(metadata={"thought_signature": recorded}))) == {"c1": made}
    assert sent(ASKED, spoke)[1]["parts"][-1].get("thought_signature") == made


def test_signatures_by_name() -> None:
    """One signature is for one call: the first of its name in the newest batch, if that has none recorded."""
    items: list[ChatItemEvent] = [ASKED, call("c1"), output("c1"), call("c2", "g"), call("c3"), call("c4")]
    named = {"f": b"byname", "g": "Z25hbWU=", "h": b"nobody"}

    assert signatures(sent(*items, thought_signatures=named)) == {
        "c1": None,
        "c2": "Z25hbWU=",
        "c3": "YnluYW1l",
        "c4": None,
    }
    undecodable = call("c5", metadata={"thought_signature": "!!!"})
    assert signatures(sent(*items, output("c3"), undecodable, thought_signatures=named))["c5"] is None


def test_as_objects_of_the_package() -> None:
    """Base64 becomes the bytes it stands for, in signatures and in pictures."""
    objects = to_google_types(sent(pictured(), call(metadata={"thought_signature": "-_-_"})))

    assert objects[0].parts[1].inline_data.data.startswith(b"\x89PNG")
    assert objects[1].parts[0].thought_signature == b"\xfb\xff\xbf"


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names it (SPEC V11.1); plain contents do without."""
    monkeypatch.setitem(sys.modules, "google.genai.types", None)

    with pytest.raises(ImportError, match=r'google-genai: pip install "refold\[google\]"'):
        to_google_types(sent(ASKED))


@pytest.mark.parametrize(
    ("contents", "fault"),
    [
        ([], "not specified"),
        ([model("a"), user("b")], "first turn"),
        ([user("a"), model("b")], "last turn"),
        ([user("a"), user("b")], "one content"),
        ([user("a"), model("b"), model(use()), user(response())], "must come after"),
        ([user("a"), {**model("b"), "role": "assistant"}, user("c")], "valid role"),
        ([user()], "at least one parts"),
        ([user("")], "text parameter"),
        ([user({**use(), "text": "a"})], "oneof"),
        ([user("a"), model(use())], "without function responses"),
        ([user("a"), model(use(), use("c2")), user(response())], "must equal the number"),
        ([user("a"), model(use(), use("c2")), user(response()), user(response("c2"))], "must equal the number"),
        ([user("a"), model(use(), use("c2")), user(response("c2"), response())], "must answer"),
        ([user("a"), model(use()), user(response(), "b")], "nothing else"),
        ([user("a"), user(response())], "must equal the number"),
        ([user("a"), model(use(), use()), user(response(), response())], "equal ids"),
        ([user("a"), model(use(name="7")), user(response(name="7"))], "invalid function name"),
        ([user("a"), model(part("function_call", "c", "f", args=[])), user(response("c"))], "must be an object"),
        ([user(use())], "are the model's"),
        ([user({"inline_data": {"mime_type": "", "data": ""}})], "mime_type"),
        ([user({"file_data": {"mime_type": "", "file_uri": "a"}})], "mime_type"),
        ([user({"text": "a", "thought_signature": "!"})], "base64"),
        ([user("a"), model(use()), user(response())], "missing a thought_signature"),
        ([user("a"), model(use(name="g")), user(response(name="g"))], "undeclared names: ['g']"),
        ([user("\ud800")], "written as JSON"),
    ],
)
def test_the_checker_can_fail(contents: list[dict[str, Any]], fault: str) -> None:
    """Each rule is found broken where it is."""
    assert fault in "; ".join(faults(contents, signed=True, declared=["f"]))
