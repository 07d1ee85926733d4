"""One item on the page: why it is in the context or not, what can be done with it, and the items behind a summary."""

from __future__ import annotations

import asyncio
import json
import re
from decimal import Decimal

import pytest
from playwright.sync_api import Page, expect

import refold
from refold.domain.chat.events import MessageAdded, Origin
from refold.domain.chat.items import ChatMessage
from refold.domain.chat.roles import ChatRole
from refold.domain.memory.records import MemoryRecord
from refold.infrastructure.inspector.item_answers import BODY_MAX
from tests.contract.chat_checking import Teller

from .asking import Asked
from .browser import Served, Watched, apart, intercept


def _ids(served: Served, name: str) -> list[str]:
    return [item.id for item in served.store.chat(name, create=False).items]


def choose(page: Page, text: str) -> None:
    """Choose the item with a text."""
    page.locator(".item").filter(has_text=text).click()


def test_an_item_comes_with_all_that_is_known_of_it() -> None:
    """Who said it, what a provider counted, and to which call it belongs; a long text is cut unless it is asked for."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        chat.add_message(
            "assistant", "Hello.", usage={"model": "m", "input_tokens": 3, "output_tokens": 7}, cost=Decimal("0.1")
        )
        chat.add_function_call("look", "{}", call_id="c1")
        chat.add_message("user", "x" * (BODY_MAX + 1))
        page = Asked(store)
        said, call, long = page("items", ref=[f"chat:a@{version}" for version in (2, 3, 4)])
        [whole] = page("items", ref="chat:a@4", whole="1")

    assert {name: said[name] for name in ("speaker", "body", "cut", "call_id", "name", "grows")} == {
        "speaker": "assistant", "body": "Hello.", "cut": 0, "call_id": None, "name": None, "grows": False,
    }  # fmt: skip
    assert said["usage"] == {"model": "m", "input_tokens": 3, "output_tokens": 7, "cost": "0.1"}
    assert (call["call_id"], call["name"], call["usage"]) == ("c1", "look", None)
    assert [(len(one["body"]), one["cut"]) for one in (long, whole)] == [(BODY_MAX, 1), (BODY_MAX + 1, 0)]


def test_an_item_says_why_it_is_here(watched: Watched, served: Served) -> None:
    """Its event, who recorded it, and the chain of causes; each can be followed."""
    with refold.acting(because="queue:q@2", actor="bo"):
        served.store.chat("caused").add_message("user", "it follows")
    page = watched.open("/c/caused")
    choose(page, "it follows")
    page.get_by_role("button", name="Why is it here?").click()
    why = page.locator(".why")
    expect(why.locator("dd").get_by_text("bo", exact=True)).to_be_visible()
    expect(why.locator("ol li")).to_have_count(2)
    expect(why.locator("ol li").first).to_contain_text('{"n": 0}')
    why.get_by_role("link", name="queue:q@2").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("queue:q@2")
    expect(page.locator("main")).to_contain_text("It follows from")
    page.get_by_role("link", name="chat:a@2").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("a@2")


def test_a_text_that_is_cut_off_shows_it(watched: Watched, served: Served) -> None:
    """It fades out at its end, also where a single line is out of sight; a text that is shown whole does not."""
    chat = served.store.chat("lengths")
    for lines in (9, 2, 60):
        chat.add_message("user", "\n".join(f"{lines} lines, {number}" for number in range(lines)))
    page = watched.open("/c/lengths")

    expect(page.locator(".item .body").filter(has_text="2 lines")).to_be_visible()
    expect(page.locator(".item .clipped")).to_have_count(2)
    clipped = page.locator(".item .clipped")
    expect(clipped.filter(has_text="9 lines, 8")).to_have_css("mask-image", re.compile("linear-gradient"))
    expect(clipped.filter(has_text="2 lines")).to_have_count(0)

    window = served.store.window("lengths")
    for lines in (2, 9):
        window.add(refold.BudgetItem(f"{lines} lines", "\n".join(map(str, range(lines))), "tool", 1))
    text = watched.open("/c/window:lengths").locator("td.text > [tabindex]")
    expect(text).to_have_count(1)
    height = text.evaluate("text => text.clientHeight")
    text.click()
    assert text.evaluate("text => text.clientHeight") > 2 * height


def test_an_inherited_item_says_how_it_came(watched: Watched, served: Served) -> None:
    """The event in the context it was forked from, and the fork."""
    page = watched.open("/c/side@1")
    page.locator(".item").first.click()
    page.get_by_role("button", name="Why is it here?").click()
    why = page.locator(".why")
    expect(why.get_by_role("link", name="a@2", exact=True)).to_be_visible()
    expect(why).to_contain_text("It came into this context")
    expect(why.get_by_role("link", name="side@1", exact=True)).to_be_visible()


def test_an_item_that_left_says_why(watched: Watched, served: Served) -> None:
    """What removed it, who did, when and because of what; a step back it is there again."""
    chat = served.store.chat("leaving")
    for number in range(4):
        chat.add_message("user", f"leaving {number}")
    item = chat.items[1].id
    with refold.acting(actor="cleaner", because="chat:a@3"):
        chat.evict(item, reason="said too much")
    page = watched.open(f"/c/leaving?msg={item}")
    expect(page.locator("aside h2")).to_have_text(item)
    page.get_by_role("button", name="Why is it not in the context?").click()
    why = page.locator(".why")
    for text in ("It was evicted.", "cleaner", "said too much", "chat.items_evicted.v1"):
        expect(why).to_contain_text(text)
    expect(why.locator("ol li").first).to_contain_text("user: question 0")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("button", name="Why is it here?")).to_be_visible()
    page.keyboard.press("Home")
    expect(page.locator("aside")).to_contain_text("It comes later, with @3")


def test_what_is_not_in_the_view_is_found(watched: Watched, served: Served) -> None:
    """Words, an id and an item that a fork did not take over; an answer for each; the words are in the address."""
    page = watched.open("/c/a")
    page.keyboard.press("s")
    page.get_by_label("Find an item").fill("question")
    page.get_by_label("Find an item").press("Enter")
    rows = page.locator(".found li")
    expect(rows).to_have_count(6)
    left = rows.filter(has_text="question 1")
    expect(left).to_contain_text("left with @28: truncate")
    expect(rows.filter(has_text="question 5")).to_contain_text("in the view")
    page.wait_for_url("**/c/a?q=question")
    left.get_by_role("button").click()
    page.get_by_role("button", name="Why is it not in the context?").click()
    expect(page.locator(".why")).to_contain_text("among the oldest")
    page.get_by_role("button", name="Back to what was found").click()
    expect(rows).to_have_count(6)
    gone = served.store.chat("a", create=False).at(20).items[5].id
    page = watched.open(f"/c/brief?q={gone}")
    expect(page.locator("aside")).to_contain_text("The fork did not take it over.")
    expect(page.locator("aside").get_by_role("link", name="brief@1", exact=True)).to_be_visible()
    page = watched.open("/c/brief?q=no-such-item")
    expect(page.locator("aside")).to_contain_text("It never was in it.")

    page.set_viewport_size({"width": 390, "height": 800})
    expect(watched.open("/c/a?q=question").locator(".found")).to_be_visible()
    page.get_by_role("tab", name="Items").click()
    expect(rows.first).to_be_hidden()
    page.get_by_label("Find an item").press("Enter")
    expect(rows.first).to_be_visible()


def test_an_item_has_a_menu(watched: Watched, served: Served) -> None:
    """Copy, its beginning, a fork there, its audit and its JSON."""
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat = served.store.chat("a", create=False)
    item = chat.items[1].id
    page = watched.open(f"/c/a?msg={item}")
    menu = page.get_by_role("group", name="The item")
    menu.get_by_role("button", name="Copy").click()
    expect(page.locator("#said")).to_have_text("the text is copied")
    assert page.evaluate("navigator.clipboard.readText()") == "question 0"
    menu.get_by_role("button", name="JSON").click()
    assert json.loads(page.get_by_role("dialog").locator("pre").inner_text())["event"]["id"] == item
    page.keyboard.press("Escape")
    menu.get_by_role("button", name="Audit").click()
    expect(page.get_by_role("dialog").locator("tr")).to_have_count(2)
    expect(page.get_by_role("dialog").locator("tr").last).to_contain_text("pinned: true")
    page.keyboard.press("Escape")
    menu.get_by_role("button", name="Fork here").click()
    expect(page.get_by_role("dialog")).to_contain_text("Fork a at version 3")
    page.keyboard.press("Escape")
    page.go_back()
    page.wait_for_url(f"**/c/a?msg={item}")
    menu.get_by_role("button", name="Go to its beginning").click()
    page.wait_for_url("**/c/a@3?msg=*")


@pytest.mark.parametrize("name", ["Why is it here?", "Audit", "JSON"])
def test_a_button_whose_answer_does_not_come_says_why(watched: Watched, name: str) -> None:
    """It is not dead: whoever pressed it is told the reason."""
    watched.allowed = ["500"]
    page = watched.open("/c/scrubbed")
    page.locator(".item").last.click()
    for question in ("event", "audit"):
        intercept(page, f"**/api/{question}?*", lambda route: route.fulfill(status=500, json={"message": "no luck"}))
    page.get_by_role("button", name=name).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("no luck")


def test_a_change_without_a_server_says_so(watched: Watched) -> None:
    """In the words of the page, not of the browser."""
    watched.allowed = ["ERR_FAILED"]
    page = watched.open("/c/scrubbed")
    intercept(page, "**/api/fork", lambda route: route.abort())
    page.get_by_role("button", name="Fork", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("the server does not answer")


def test_a_summary_opens_to_what_it_stands_for(watched: Watched, served: Served) -> None:
    """The items that it replaced stand behind it, and go again."""
    chat = served.store.chat("summed")
    for number in range(8):
        chat.add_message("user" if number % 2 == 0 else "assistant", f"summed {number}")
    apart(_summarize, chat)
    chat.add_message("user", "after it")
    page = watched.open("/c/summed")
    button = page.get_by_role("button", name="in the place of 6 items")
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".item", has_text="in short")).to_contain_text("summary")
    button.click()
    expect(page.locator(".item.replaced")).to_have_count(6)
    expect(page.locator(".item.replaced").first).to_contain_text("summed 0")
    # An item that comes in before all others gives each another place.
    apart(chat.insert, ChatMessage(role=ChatRole.USER, content=["long ago"], created_at=1.0))
    expect(page.locator(".item", has_text="long ago")).to_have_count(1)
    expect(page.locator(".item.replaced")).to_have_count(6)
    page.get_by_role("button", name="in the place of").click()
    expect(page.locator(".item.replaced")).to_have_count(0)
    page.get_by_label("Find an item").fill("summed 2")
    page.get_by_label("Find an item").press("Enter")
    page.locator(".found").get_by_role("button").first.click()
    page.get_by_role("button", name="Why is it not in the context?").click()
    page.get_by_role("button", name="Show the summary").click()
    expect(page.locator(".item[aria-current=true]")).to_contain_text("in short")


def _summarize(chat: refold.ChatContext) -> None:
    import asyncio

    asyncio.run(chat.summarize(Teller("in short"), keep_recent_turns=1))


@pytest.mark.parametrize(("version", "tagged"), [(26, 0), (27, 1)])
def test_a_pinned_item_is_tagged(watched: Watched, version: int, tagged: int) -> None:
    """From the version that pinned it."""
    page = watched.open(f"/c/a@{version}?q=")
    page.locator(".view").evaluate("view => { view.scrollTop = 0; }")
    expect(page.locator(".item .tag", has_text="pinned")).to_have_count(tagged)


def test_an_edited_call_is_tagged(watched: Watched, served: Served) -> None:
    """A call that a person changed says so."""
    chat = served.store.chat("changed")
    chat.add_function_call("pay", '{"amount": 900}', call_id="c1")
    chat.approvals.request("c1")
    chat.approvals.change("c1", by="mia", arguments='{"amount": 9}')
    page = watched.open("/c/changed")
    expect(page.locator(".item", has_text='"amount": 9}')).to_contain_text("edited")


def test_a_message_grows_while_it_is_written(watched: Watched, served: Served) -> None:
    """At each version it has the text that it had then, also in a fork; live it grows."""
    chat = served.store.chat("growing")
    with chat.stream() as out:
        out.write("one ")
        out.flush()
        half = chat.version
        chat.fork("grown-half")
        page = watched.open("/c/growing")
        body = page.locator(".item .body")
        expect(body).to_contain_text("[incomplete: its writer has not finished it]")
        expect(body).not_to_contain_text("two")
        out.write("two")
        out.flush()
        expect(body).to_contain_text("one two")
    expect(body).to_have_text("one two")
    page = watched.open(f"/c/growing@{half}")
    expect(body).not_to_contain_text("two")
    page.keyboard.press("End")
    expect(body).to_have_text("one two")
    page = watched.open("/c/grown-half")
    expect(body).not_to_contain_text("two")
    expect(body).to_contain_text("one")


def test_an_entry_of_its_source_says_what_it_is(watched: Watched, served: Served) -> None:
    """It is called as its source calls it, with its thinking; what frameworks saved is counted up to the version."""
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "They ask why."}]}
    chat = served.store.chat("framework")
    chat.add_message("user", "Why?")
    rest = json.dumps({"framework": {"items": 1, "patch": {"is": reasoning}}}).encode()
    entry = MessageAdded(id="rs_1", created_at=0.0, role="assistant", content=(), origin=Origin(rest=rest, apart=True))
    chat._record_items([entry], ("a test",), None, None)
    chat.saved_states.save("framework", {"one": {}, "two": {}})
    page = watched.open("/c/framework")
    item = page.locator(".item").nth(1)
    expect(item.locator(".role")).to_have_text("reasoning")
    expect(item.locator(".thoughts")).to_have_text("They ask why.")
    expect(item.locator(".body")).to_have_text("[reasoning, for its source only]")
    expect(page.locator("aside")).to_contain_text("2 states of frameworks, the last @5")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("aside")).to_contain_text("1 state of frameworks, the last @4")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("aside")).not_to_contain_text("frameworks")


# The characters of an element from left to right.
PLACES = """element => {
  const range = document.createRange(), walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) for (let at = 0; at < node.data.length; at++) {
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    found.push([range.getBoundingClientRect().x, node.data[at]]);
  }
  return found.sort(([one], [other]) => one - other).map(([, text]) => text).join("");
}"""


def test_a_text_is_read_in_its_own_direction(watched: Watched, served: Served) -> None:
    """
    A paragraph that begins in Hebrew begins at the right, and ends with its full stop at the left; behind a name of
    Hebrew a version stays where it is.
    """
    apart(served.store.chat("\u05e9/7", agent="\u05e9").add_message, "user", "\u05e9\u05dc\u05d5\u05dd, abc.\nEnglish.")
    places = watched.open("/e/chat:%D7%A9%2F7@2").locator("h1").evaluate(PLACES)
    assert places == "\u05e9/7@2"
    page = watched.open("/c/%D7%A9%2F7")
    assert " by \u05e9 \u00b7 20" in page.locator(".steps .about").evaluate(PLACES)
    body = page.locator(".item .body")
    expect(body).to_contain_text("English.")
    sides = body.evaluate(
        """body => [[0, 1], [9, 10], [11, 12]].map(([from, to]) => {
          const range = document.createRange();
          range.setStart(body.firstChild, from);
          range.setEnd(body.firstChild, to);
          const [one, box] = [range.getBoundingClientRect(), body.getBoundingClientRect()];
          return one.x + one.width / 2 > box.x + box.width / 2 ? "right" : "left";
        })"""
    )
    assert sides == ["right", "right", "left"]
    stop, first = (body.evaluate("(body, at) => { const r = document.createRange(); r.setStart(body.firstChild, at);"
                                 " r.setEnd(body.firstChild, at + 1); return r.getBoundingClientRect().x; }", at)
                   for at in (9, 0))  # fmt: skip
    assert stop < first


def test_a_long_number_keeps_its_digits(watched: Watched, served: Served) -> None:
    """Ids of other programs have more of them than a number of JavaScript."""
    put = MemoryRecord(scope="user:ids", key="id", value={"id": 1234567890123456789})
    apart(lambda: asyncio.run(served.store.memory().put(put)))
    page = watched.open("/c/memory:user:ids")
    expect(page.locator("td.text")).to_have_text('{"id":1234567890123456789}')
    page = watched.open("/c/memory:user:ids?tab=raw")
    expect(page.locator("pre.raw")).to_contain_text('"id": 1234567890123456789')


def test_a_queue_says_what_it_holds_of_its_limit(watched: Watched) -> None:
    """At each version: what waits, by what the others left, the limit and the tags of then."""
    page = watched.open("/c/queue:q@4")
    holding = page.locator(".holding")
    expect(holding).to_contain_text("3 of 3 items")
    numbers = dict(zip(holding.locator("dt").all_inner_texts(), holding.locator("dd").all_inner_texts(), strict=True))
    assert (numbers["waiting"], numbers["tags"]) == ("3", "x")
    watched.open("/c/pool:p")
    expect(holding).to_contain_text("there")
    expect(holding).to_contain_text("none")
