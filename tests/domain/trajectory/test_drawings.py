"""The graph drawn in DOT and in Mermaid."""

import html
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import pydot
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.html_page import to_html
from refold.domain.trajectory.nodes import DATA, own_fields
from refold.domain.trajectory.run import Run
from refold.domain.trajectory.trajectory import Trajectory

# pydot's parser calls another package by its old names.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pydot")

NASTY = [
    'a "quoted" \\ name\\n', "(", ")#2", "[a] {b} <i>|c|</i>", "two\nlines\r\n- list", "--> end; %%{init}%%",
    "&amp; &#35; #quot;", "`code` *b* _i_ ~s~ $$m$$", "style:x#y", "ä漢😀👩\u200d💻\u0627\u202e",
    "\x00\x1b[2J\x7f\x85\u2028", "www.example.org https://x.y a@b.cc", "ﬂ°°35¶ß", "1) one", " ",
]  # fmt: skip
LABELS = st.lists(st.text(min_size=1) | st.sampled_from(NASTY), min_size=1, max_size=4, unique=True)
# How Mermaid's own grammar takes these lines; nothing else may stand in a quoted text.
QUOTED = r'"((?:[^"\\`#;<>&\[\]{}|%]|#[0-9]+;|<br/>)+)"'
NODE = re.compile(
    rf"  (\w+)(?:\(\[{QUOTED}\]\)|\{{\{{{QUOTED}\}}\}}|\[{QUOTED}\]|>{QUOTED}\]|\[/{QUOTED}\\\]|\[\({QUOTED}\)\]"
    rf"|\[/{QUOTED}/\]|\({QUOTED}\)|\[\[{QUOTED}\]\]|\[\\{QUOTED}/\])"
)
EDGE = re.compile(rf"  (\w+) (-->|-\.->)(?:\|{QUOTED}\|)? (\w+)")


def run_with(labels: list[str], edge_type: str = "outputs") -> Run:
    """Return a run whose action led to a table of each label."""
    run = RunFactory().run("mia", "s")
    query = run.register_query("q")
    action = run.register_node("Action", "d", [query], action="x", params={}, output=None, success=True)
    for label in labels:
        run.register_node("Table", "", [action], edge_type, label=label, path="/")
    return run


def meeting_again() -> Trajectory:
    """Return a graph by identity, with an edge that leads back."""
    run = run_with(["orders"])
    state = run.register_node("State", "d", ["Table(orders)"], "shows", state="s", remove_pt=True)
    run.register_node("Table", "", [state], "asks_for", label="orders", path="/")
    return run.graph().by_identity()


def shown(text: str) -> str:
    """Return a text as a drawing shows it, by a way of its own: what cannot be seen is replaced."""
    hidden = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")} - set("\n\u200c\u200d")
    for char in hidden:
        code = ord(char)
        text = text.replace(char, chr(0x2400 + code) if code < 32 else "␡" if code == 127 else f"⟨U+{code:04X}⟩")
    return text


def dot_texts(source: str) -> tuple[list[str], list[str]]:
    """Return the labels of nodes and of edges that a parser of DOT finds."""
    (graph,) = pydot.graph_from_dot_data(source) or []
    drawn = (graph.get_nodes(), graph.get_edges())
    nodes, edges = ([_dot_text(str(one.get("label"))) for one in some] for some in drawn)
    return nodes, edges


def _dot_text(quoted: str) -> str:
    """What Graphviz makes of an escString."""
    assert quoted[0] == quoted[-1] == '"'
    plain = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], quoted[1:-1])
    return html.unescape(plain)


def mermaid_lines(source: str) -> Iterator[tuple[str, ...]]:
    """Yield nodes and edges, `(id, text)` and `(id, arrow, text, id)`; a line that is neither fails."""
    first, *lines = source.splitlines()
    assert first == "flowchart TD"
    for line in lines:
        node, edge = NODE.fullmatch(line), EDGE.fullmatch(line)
        if node:
            yield node[1], _mermaid_text(next(text for text in node.groups()[1:] if text))
        elif edge:
            yield edge[1], edge[2], _mermaid_text(edge[3] or ""), edge[4]
        else:
            assert re.fullmatch(r"  classDef pointer [\w:-]+|  class \w+(,\w+)* pointer", line), line


def _mermaid_text(text: str) -> str:
    return re.sub("#([0-9]+);", lambda found: chr(int(found[1])), text.replace("<br/>", "\n"))


@given(LABELS)
@example(NASTY)
def test_names_survive_in_dot(labels: list[str]) -> None:
    """Whatever characters they hold."""
    graph = run_with(labels).graph()

    assert dot_texts(graph.to_dot())[0] == [shown(name) for name in graph]


@given(LABELS)
def test_names_survive_in_mermaid(labels: list[str]) -> None:
    """Whatever characters they hold; a line of Mermaid is a line, and none begins as a list would."""
    graph = run_with(labels).graph()
    drawn = [one for one in mermaid_lines(graph.to_mermaid()) if len(one) == 2]

    assert [text for _, text in drawn] == [shown(name) for name in graph]
    assert not re.search(r"<br/>[^\w#\"<\u2400-\u2421⟨]", graph.to_mermaid())


@pytest.mark.parametrize("edge_type", [*NASTY, ""])
def test_types_of_edges_survive(edge_type: str) -> None:
    """They may be any text as well; an empty one stands nowhere in Mermaid."""
    graph = run_with(["a"], edge_type).graph()
    types = ["triggers", shown(graph.edges[-1].type)]

    assert dot_texts(graph.to_dot())[1] == types
    assert [one[2] for one in mermaid_lines(graph.to_mermaid()) if len(one) == 4] == types


def test_types_have_shapes_of_their_own() -> None:
    """All ten; so computation and data differ."""
    run = run_with([])
    (query, action) = run.nodes()
    run.register_node("State", "d", [query], state="s", add_pt=True)
    for node_type in DATA:
        fields: dict[str, Any] = dict.fromkeys(own_fields(node_type))
        run.register_node(node_type, "", [action], **fields)
    graph = run.graph()
    shapes = {
        re.sub(r'".*"', "", line.strip().lstrip("rsv0123456789")) for line in graph.to_mermaid().splitlines()[1:11]
    }

    assert len(set(re.findall(r"shape=(\w+)", graph.to_dot()))) == 10
    assert len(shapes) == 10


def test_pointers_are_marked() -> None:
    """And nothing else is."""
    graph = run_with(["a"]).graph()

    assert [line.split()[0] for line in graph.to_dot().splitlines() if "penwidth" in line] == ["r0s0v3"]
    assert graph.to_mermaid().splitlines()[-1] == "  class r0s0v3 pointer"


def test_edges_that_lead_back_are_dashed() -> None:
    """Those of the graph by identity alone."""
    graph = meeting_again()
    dashed = [line.strip() for line in graph.to_dot().splitlines() if "dashed" in line]

    assert dashed == ['r0s0v5 -> r0s0v6 [label="asks_for", style=dashed, constraint=false]']
    assert [one for one in mermaid_lines(graph.to_mermaid()) if "-.->" in one] == [
        ("r0s0v5", "-.->", "asks_for", "r0s0v6")
    ]


def named_ids(run: Run) -> dict[str, str]:
    """Return the names of the nodes that are drawn, by their ids."""
    return dict(re.findall(r'^  (r\w+) \[label="([^"]+)', run.graph().to_dot(), re.MULTILINE))


def test_ids_stay_when_a_name_goes_to_another() -> None:
    """What was drawn keeps its id; the same graph is drawn the same."""
    run = run_with(["orders"])
    before = named_ids(run)
    run.register_node("Table", "", ["Action(action00000)"], label="orders", path="/2")
    after = named_ids(run)

    assert (before["r0s0v4"], after["r0s0v4"], after["r0s0v5"]) == ("Table(orders)", "Table(orders)#1", "Table(orders)")
    assert run.graph().to_dot() == run.at(run.version).graph().to_dot()
    assert run.graph().to_mermaid() == run.at(run.version).graph().to_mermaid()


def test_descriptions_are_tooltips() -> None:
    """Where there is one."""
    run = run_with(["a"])
    run.modify_node("Table(a)", {"description": 'the "orders"'})
    (graph,) = pydot.graph_from_dot_data(run.graph().to_dot()) or []

    assert [one.get("tooltip") for one in graph.get_nodes()] == ['"User query No.00000"', '"d"', r'"the \"orders\""']


@pytest.mark.parametrize(("characters", "shown"), [(26, "x" * 26), (27, "x" * 25 + "…")])
def test_a_long_name_on_a_page_is_cut(characters: int, shown: str) -> None:
    """To what its box has room for."""
    run = RunFactory().run("mia", "s")
    query = run.register_query("How many?")
    name = "x" * characters
    run.register_node("Knowledge", "", [query], "leads", name, knowledge_type="fact", knowledge_content=name)

    assert f">{shown}</text>" in to_html(run.graph(), "a graph")


def test_the_places_on_a_page() -> None:
    """Each node is in the row below those that lead to it, in the next column; the drawing has room for all."""
    run = RunFactory().run("mia", "s")
    query = run.register_query("How many?")
    sides = [
        run.register_node("Knowledge", "", [query], "leads", label, knowledge_type="fact", knowledge_content=label)
        for label in ("a", "b")
    ]
    run.register_node("Knowledge", "", [query, *sides], "leads", "c", knowledge_type="fact", knowledge_content="c")

    page = to_html(run.graph(), "a graph")

    boxes = re.findall(r'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', page)
    assert boxes == [
        ("20", "20", "190", "44"), ("20", "130", "190", "44"), ("250", "130", "190", "44"), ("20", "240", "190", "44"),
    ]  # fmt: skip
    assert '<svg xmlns="http://www.w3.org/2000/svg" width="480" height="324">' in page
    lines = re.findall(r'<line x1="(\d+)" y1="(\d+)" x2="(\d+)" y2="(\d+)"', page)
    assert lines[:2] == [("115", "64", "115", "130"), ("115", "64", "345", "130")]
    # The type of an edge stands in the middle of its line, those of a node and its label in the middle of its box.
    texts = re.findall(r'<text(?: class="type")? x="(\d+)" y="(\d+)">([^<]*)</text>', page)
    assert texts[:2] == [("115", "97", "leads"), ("230", "97", "leads")]
    assert [text[:2] for text in texts[-2:]] == [("115", "257"), ("115", "274")]
