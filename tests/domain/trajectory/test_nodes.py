"""What a node says: its type's fields, what else was given, whose it is; and that it is a value (SPEC D2)."""

import ast
import dataclasses
import inspect

import pytest

from refold.domain.errors import DecisionRefusedError, InvalidInputError
from refold.domain.trajectory import nodes
from refold.domain.trajectory.nodes import COMPUTATION, DATA, NODE_TYPES, BaseIR, DataNode, own_fields

from .runs import FIELDS, add, asked


def test_ten_types() -> None:
    """Three of computation and seven of data (SPEC D2.1); each is a dataclass of what it requires."""
    assert [*COMPUTATION] == ["Query", "State", "Action"]
    assert [*DATA] == ["Knowledge", "Tool", "Table", "Column", "File", "Script", "Skill"]
    assert all(issubclass(cls, DataNode) == (name in DATA) for name, cls in NODE_TYPES.items())
    assert {name: set(own_fields(name)) for name in FIELDS} == {name: set(given) for name, given in FIELDS.items()}
    # Their fields are given by name, so that a new one may stand anywhere.
    assert all(field.kw_only for cls in NODE_TYPES.values() for field in dataclasses.fields(cls))


@pytest.mark.parametrize("node_type", FIELDS)
def test_a_node_says_what_was_given(node_type: str) -> None:
    """Its own fields by name, the rest in `extra`; and its label, description, session, round and time."""
    run, query = asked(3)
    before = run._attachment.system.now()
    node = run.node(add(run, node_type, query, description="d", note={"n": [1]}, other=None))

    assert type(node) is NODE_TYPES[node_type]
    content = node.get_full_content()
    assert {name: content[name] for name in FIELDS[node_type]} == FIELDS[node_type]
    assert node.extra == {"note": {"n": [1]}, "other": None}
    assert (node.session_id, node.run_id, node.history) == ("s", 3, {})
    assert before <= node.created_at <= run._attachment.system.now()
    assert node.get_schema() == {"label": f"{node_type.lower()}00000", "description": "d"}


@pytest.mark.parametrize("node_type", FIELDS)
def test_every_field_is_required(node_type: str) -> None:
    """Without any of them nothing is registered (SPEC D2.4)."""
    run, query = asked()
    for name in FIELDS[node_type]:
        given = {field: value for field, value in FIELDS[node_type].items() if field != name}
        with pytest.raises(InvalidInputError, match=rf"A {node_type} node must contain info about '\['{name}'\]'\."):
            run.register_node(node_type, "", [query], "next", **given)

    assert (run.version, run.nodes()) == (2, [query])


def test_a_node_is_a_value() -> None:
    """Nobody can change it, or what is in it; nor does it change when the run does."""
    run, query = asked()
    name = add(run, "Column", query, values=[[1]], note={"a": []})
    node = run.node(name)
    with pytest.raises(dataclasses.FrozenInstanceError):
        node.label = "x"  # type: ignore[misc]
    for inner in (node.get_full_content()["values"][0], node.extra["note"]["a"]):
        with pytest.raises(DecisionRefusedError):
            inner.append(2)
    run.modify_node(name, {"values": [2]})

    assert node.get_full_content()["values"] == [[1]]
    assert node == run.at(3).node(name) != run.node(name)


def test_attributes_of_a_graph_stay() -> None:
    """What a graph shows of a node is what it was when the graph was made, whenever one looks."""
    run, query = asked()
    name = add(run, "Table", query)
    graph = run.graph()
    run.modify_node(name, {"path": "/new"})
    run.remove_node(name)

    assert dict(graph.nodes[name].attributes) == {"description": "", "path": "/t.csv"}
    assert repr(graph.nodes[name].attributes) == repr({"description": "", "path": "/t.csv"})
    assert len(run.graph()) == 1


def test_a_node_that_somebody_made() -> None:
    """The classes can be used on their own, history and extra left out."""
    node = BaseIR(label="l", description="d", session_id="s", run_id=0, created_at=0.0)

    assert (node.history, node.extra) == ({}, {})


def test_type_checkers_know_the_fields_of_all_types() -> None:
    """`run.node(name).path` is of any type of node; a name that no type has is refused by them."""
    (base,) = (one for one in ast.parse(inspect.getsource(nodes)).body if getattr(one, "name", "") == "BaseIR")
    (checked,) = (one for one in ast.iter_child_nodes(base) if isinstance(one, ast.If))
    named = {one.id for one in ast.walk(checked) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}

    assert named == {name for node_type in NODE_TYPES for name in own_fields(node_type)}


def test_whether_a_node_is_there() -> None:
    """By its name; another name, and what is no name at all, is not in the run."""
    run, query = asked()

    assert query in run
    assert "State(never)" not in run
    assert "no name" not in run
    assert 5 not in run
    assert [query in one for one in (run.at(1), run.at(2))] == [False, True]
