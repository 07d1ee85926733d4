"""What can be copied and sent to another process, and what says that it cannot."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import refold

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "the oldest pickle": lambda value: pickle.loads(pickle.dumps(value, 0)),
}


@pytest.fixture(scope="module")
def store() -> Iterator[refold.Store]:
    """A store in memory with a chat and a run."""
    with refold.open(":memory:") as store:
        chat = store.chat("a", user="mia", agent="triage")
        chat.add_config_update("Be brief.", [{"name": "lookup", "parameters": {}}], settings={"temperature": 1})
        chat.add_message("user", "Where is it?", message_id="m")
        chat.add_function_call("lookup", "{}", "c", metadata={"a": [1]})
        chat.evict("m")
        run = store.run("mia", "s")
        asked = run.register_query("Where is it?")
        run.register_node("Action", "", [asked], action="read", params={"t": [1]}, output="x", success=True)
        yield store


KEPT: dict[str, Callable[[refold.Store], object]] = {
    "store": lambda store: store,
    "chat": lambda store: store.chat("a"),
    "a past chat": lambda store: store.chat("a").at(1),
    "pool": lambda store: store.pool("p"),
    "run": lambda store: store.run("mia", "s"),
    "memory": lambda store: store.memory(),
    "what a framework keeps": lambda store: store.chat("a").saved_states,
    "the store of a moment": lambda store: store.at(store.now()),
    "a request": lambda store: store.agent_context("t", "/ask"),
    "its async side": lambda store: refold.to_async(store.chat("a")),
    "an eviction": lambda store: store.chat("a").evict("m"),
    "a replay": lambda store: store.chat("a").replay("all"),
    "what if": lambda store: store.what_if(store.now()),
    "a subscription": lambda store: store.subscribe(),
    "a detached chat": lambda _: refold.ChatContext(),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_what_has_a_log_is_not_copied(store: refold.Store, name: str, way: str) -> None:
    """As for the arguments of a process that is spawned: the error names the object, and what to do."""
    with pytest.raises(TypeError, match=r"objects can neither be copied nor sent to another process: there, open the"):
        COPIES[way](KEPT[name](store))


VALUES: dict[str, Callable[[refold.Store], object]] = {
    "events": lambda store: store.chat("a").history(),
    "items": lambda store: store.chat("a").items,
    "items that left": lambda store: store.chat("a").evicted_items(),
    "the configuration": lambda store: store.chat("a").active_config_at(),
    "calls": lambda store: store.chat("a").pending_calls(),
    "a difference": lambda store: store.chat("a").diff(1),
    "a graph": lambda store: store.run("mia", "s").graph(),
    "nodes": lambda store: [*store.run("mia", "s").graph().nodes.values()],
    "versions": lambda store: store.run("mia", "s").versions("Query(query00000)"),
    "rows of nodes": lambda store: store.run_nodes("mia", "s"),
    "contexts": lambda store: store.contexts(),
    "hits": lambda store: store.search("where"),
    "changes": lambda store: store.audit("a"),
    "why it left": lambda store: store.why_gone("a", "m"),
    "a page": lambda store: store.find_contexts(),
    "the end": lambda store: store.now(),
    "a report": lambda store: store.verify(),
}


@pytest.mark.parametrize("name", VALUES)
def test_answers_are_values(store: refold.Store, name: str) -> None:
    """They do not need the store any more."""
    value: Any = VALUES[name](store)

    for way, copied in COPIES.items():
        made: Any = copied(value)
        assert (made, repr(made)) == (value, repr(value)), way
