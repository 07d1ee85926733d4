"""How nodes and runs are called: any label, and any user and session, comes back as it was given (SPEC D2.5)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.errors import InvalidInputError
from refold.domain.ids import split_stream_id
from refold.domain.trajectory.identity import RunId, run_id_of
from refold.domain.trajectory.nodes import NODE_TYPES, NodeName, node_name, parse_node_name

from .runs import add, asked

TYPES = st.sampled_from([*NODE_TYPES])
# Any text, and many that look like a part of a name.
LABELS = st.text() | st.lists(st.sampled_from(["(", ")", "#", "1", "#2", "\n", "Table(", ")#3", "ä", ""])).map("".join)
NUMBERS = st.none() | st.integers(1, 10**18 - 1)
HOSTILE = ["(", ")", "a)#2", ")#1()#2", "#2", " ", "two\nlines", "\x00", "漢\u202e👩\u200d💻", "Table(t)", "x" * 5_000]


@given(TYPES, LABELS, NUMBERS)
def test_a_name_is_read_as_it_was_made(node_type: str, label: str, number: int | None) -> None:
    """Type, label and number, whatever the label holds."""
    assert parse_node_name(node_name(node_type, label, number)) == NodeName(node_type, label, number)


@given(TYPES, LABELS, NUMBERS, TYPES, LABELS, NUMBERS)
def test_different_nodes_have_different_names(
    one: str, label: str, number: int | None, other: str, other_label: str, other_number: int | None
) -> None:
    """No two are called the same."""
    names = {node_name(one, label, number), node_name(other, other_label, other_number)}

    assert len(names) == len({(one, label, number), (other, other_label, other_number)})


@pytest.mark.parametrize(
    "name", ["", "Table", "Table(", "Table)", "(t)", "Table(t)x", "Table(t)#", "Table(t)#0", "Table(t)#01", None, 5]
)
def test_names_that_are_none(name: str) -> None:
    """They are refused as what they are (SPEC D2.7)."""
    with pytest.raises(InvalidInputError, match=re.escape(f"{name!r} has illegal format")):
        parse_node_name(name)
    assert name not in asked()[0]


def test_a_number_that_no_node_ever_has() -> None:
    """However long it is, it is refused like any other name."""
    with pytest.raises(InvalidInputError, match="illegal format"):
        parse_node_name("Table(t)#" + "9" * 5_000)


@pytest.mark.parametrize("label", HOSTILE)
def test_a_node_is_found_by_its_name(label: str) -> None:
    """Whatever its label; a second one of the label takes the plain name, and each has its number."""
    run, query = asked()
    name = add(run, "Table", query, label=label, path="/1")
    add(run, "Table", name, label=label, path="/2")

    assert name == f"Table({label})"
    assert run.nodes("Table") == [f"{name}#1", name]
    for called, path in ((name, "/2"), (f"{name}#2", "/2"), (f"{name}#1", "/1")):
        node = run.node(called)
        assert (node.label, node.get_full_content()["path"]) == (label, path)


def test_labels_that_look_like_numbered_names() -> None:
    """The second node `a` and the first node `a)#2` are not the same."""
    run, query = asked()
    for label in ("a", "a", "a)#2", "a)#2"):
        add(run, "Table", query, label=label)

    assert run.nodes("Table") == ["Table(a)#1", "Table(a)", "Table(a)#2)#1", "Table(a)#2)"]
    assert len(run.graph()) == 5


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20), st.integers(0), st.integers(0))
def test_an_id_says_which_run_it_is(user: str, session: str, number: int, sub: int) -> None:
    """Whatever user and session are called."""
    identity = RunId(user, session, number, sub)

    assert run_id_of(split_stream_id(identity.stream)[1]) == identity


def test_a_number_of_thousands_of_digits() -> None:
    """No id has it."""
    with pytest.raises(InvalidInputError, match="is not the id of a run"):
        run_id_of(f"u/s/{'1' * 5_000}/0")


@pytest.mark.parametrize(
    ("identity", "what"),
    [
        (RunId("u", "s", -1), "run_id"), (RunId("u", "s", 0, -1), "sub_id"), (RunId("u", "s", True), "run_id"),
        (RunId("u", "s", "1"), "run_id"), (RunId("", "s"), "user_id"), (RunId("u", ""), "session_id"),  # type: ignore[arg-type]
        (RunId("u", None), "session_id"), (RunId("\ud800", "s"), "user_id"), (RunId("u", "s" * 300), "session_id"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_runs_that_cannot_be(identity: RunId, what: str) -> None:
    """The error names the part that is wrong."""
    with pytest.raises(InvalidInputError, match=what):
        _ = identity.stream


@pytest.mark.parametrize("context_id", ["", "u/s/0", "u/s/0/0/0", "u/s/x/0", "u/s/0/-1", "u/s/0/0~1"])
def test_ids_of_no_run(context_id: str) -> None:
    """They are refused."""
    with pytest.raises(InvalidInputError, match="not the id of a run"):
        run_id_of(context_id)
