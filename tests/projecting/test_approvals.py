"""The approvals of all chats: which calls wait, and what each version of a chat showed when one was changed."""

from typing import Any

import refold
from refold.infrastructure.queries.intervals import ids_seen


def waiting(store: refold.Store) -> list[tuple[str, str]]:
    """Return context and call id of the calls that wait."""
    return [(one.context, one.call.call_id) for one in store.pending_approvals()]


def test_calls_that_wait_in_all_chats(store: refold.Store) -> None:
    """The longest waiting first, with what a person needs to decide; a decided or answered one is not among them."""
    for name in ("a", "b", "c", "d"):
        chat = store.chat(name, agent="clerk")
        chat.add_message("user", "pay")
        chat.add_function_call("pay", f'{{"to": "{name}"}}', "c1")
        chat.add_function_call("pay", "{}", "c2")
    store.chat("b").approvals.request("c1", by="clerk", because="money")
    store.chat("c").approvals.approve("c1", by="mia")
    for name in ("a", "d"):
        for call_id in ("c1", "c2"):
            store.chat(name).approvals.request(call_id)
    store.chat("d").add_function_output("pay", "ran all the same", "c1")
    store.chat("d").evict(store.chat("d").pending_calls()[0].calls[0].item_id)
    fork = store.chat("a").fork("fork")

    assert waiting(store) == [("b", "c1"), ("a", "c1"), ("a", "c2")]
    rows: list[Any] = store.rows("approvals")
    [decided] = [row for row in rows if row.context == "chat:c"]
    # Nobody asked for it, so there is no time of that.
    assert (decided.state, decided.requested_by, decided.requested_at) == ("approved", "", 0)
    first = store.pending_approvals()[0]
    assert first.call == store.chat("b").approvals.pending()[0]
    assert first.requested_at == store.chat("b").history()[-1].recorded_at
    store.chat("a").approvals.reject("c2", by="mia")
    store.chat("a").approvals.change("c1", {}, by="mia")
    assert waiting(store) == [("b", "c1")]
    assert [one.call_id for one in fork.approvals.pending()] == ["c1", "c2"]
    fork.approvals.approve("c1", by="mia")
    assert waiting(store) == [("b", "c1")]


def test_validity_of_a_changed_call(store: refold.Store) -> None:
    """Rows say of every version what could be seen, also in a fork, and what a search finds."""
    chat = store.chat("a")
    chat.add_message("user", "pay")
    chat.add_function_call("pay", '{"sum": "seventy"}', "c1")
    chat.add_function_call("pay", "{}", "c2")
    fork = chat.fork("fork")
    for one in (chat, fork):
        one.approvals.change("c1", {"sum": "seven"}, by="mia", because="too much")
        one.answer_call("c1", "paid")

    for one in (chat, fork):
        stays = store.validity(one.id)
        for version in range(one.version + 1):
            assert ids_seen(stays, version) == [item.id for item in one.at(version).items]
    counted = {row.id: (row.items, row.tokens) for row in store.contexts()}
    assert counted == {one.id: (len(one.items), one.estimated_tokens()) for one in (chat, fork)}
    assert [hit.version for hit in store.search("seven", context="a")] == [5]
    gone = store.why_gone("a", chat.at(3).items[1].id)
    assert (gone.how, gone.reason) == ("change", "too much")
    assert store.verify().is_whole


def test_who_let_a_tool_run(store: refold.Store) -> None:
    """The audit says who asked, who decided, and why; of a changed call both forms."""
    chat = store.chat("a", agent="clerk")
    asked = chat.add_function_call("pay", '{"sum": 700}', "c1")
    chat.approvals.request("c1", because="money")
    chat.approvals.change("c1", {"sum": 7}, by="mia", because="too much")
    [answer] = chat.pending_calls()

    decided = store.audit("a", "approval")
    assert [(one.actor, one.item, one.new, one.reason) for one in decided] == [
        ("clerk", asked.id, "requested", "money"),
        ("mia", answer.item_id, "changed by mia", "too much"),
    ]
    left, came = store.audit("a", item=asked.id)[-1], store.audit("a", item=answer.item_id)[-1]
    assert (left.old["arguments"], left.new, left.reason) == ('{"sum": 700}', None, "changed by mia, too much")
    assert (came.old, came.new["arguments"], came.actor) == (None, '{"sum":7}', "mia")
