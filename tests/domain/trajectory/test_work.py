"""Steps and messages of a run: in order, within their room, and nothing of them lost (SPEC D11, D12)."""

import re
from typing import Any

import pytest

from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from refold.domain.trajectory.commands import RecordMessages
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.nodes import RunStateError
from refold.infrastructure.views.answer_shapes import run_shape
from refold.infrastructure.views.contexts import RunView

from .runs import asked

CALL = {"name": "look", "args": {"q": 1}, "id": "c1"}
MESSAGES = [
    SystemMessage("be brief"),
    HumanMessage([{"type": "text", "text": "hi"}], name="mia", id="m1", additional_kwargs={"k": [1]}),
    AIMessage("", tool_calls=[CALL], invalid_tool_calls=[{"name": "x"}], response_metadata={"model": "m"}),
    ToolMessage("no", tool_call_id="c1", status="error", name="look"),
    AIMessage("lost", tool_calls=[{**CALL, "id": "c2"}]),
]


def test_steps_in_their_order() -> None:
    """The oldest first; what was given back before it, the last one first of all."""
    run, _ = asked()
    for name in "abcd":
        assert run.append_todo(name, {"n": name})
    taken = [run.pop_todo() for _ in range(3)]
    for step in taken[:2]:
        assert step is not None
        run.return_step(step)

    assert [step["name"] for step in run.steps()] == ["b", "a", "d"]
    assert taken[0] == {"name": "a", "params": {"n": "a"}}
    assert [dict(run.pop_todo() or ()).get("name") for _ in range(3)] == ["b", "a", "d"]
    assert run.pop_todo() is None


def test_queues_have_room_for_a_hundred() -> None:
    """Or for what is said of a run; a step that was given back counts, one that is taken does not (SPEC D11.1)."""
    run, _ = asked()
    assert all(run.append_todo("s") for _ in range(100))
    assert not run.append_todo("more")
    assert run.append_todo("s", list_type="post")
    step = run.pop_todo()
    assert step is not None
    assert run.append_todo("s")
    run.return_step(step)
    assert (run.append_todo("more"), len(run.steps())) == (False, 101)
    refused = [one.event for one in run.recorded_events() if type(one.event).__name__ == "StepRefused"]
    assert [(event.name, event.capacity) for event in refused] == [("more", 100)] * 2


def test_filling_queues() -> None:
    """Those before and after are cleared and filled; what has no room is told; the one between stays (SPEC D11.2)."""
    run, _ = asked()
    run.steps_max = 2
    run.append_todo("stays")
    run.append_todo("old", list_type="pre")

    assert run.init_todolist(["a", {"name": "b", "params": [1]}, "c"], ()) == ["c"]
    assert run.steps("pre") == [{"name": "a", "params": {}}, {"name": "b", "params": [1]}]
    assert (run.steps("post"), run.steps()) == ([], [{"name": "stays", "params": {}}])
    run.clear_steps()
    run.clear_steps()
    assert [run.steps(queue) for queue in ("pre", "todo", "post")] == [[], [], []]
    assert [type(one.event).__name__ for one in run.recorded_events()].count("StepsCleared") == 2


def test_a_workflow_may_be_an_iterator() -> None:
    """It is read once, when it is set."""
    run, _ = asked()
    run.pre_workflow = (step for step in ("load", "clean"))  # type: ignore[assignment]  # as a program without types
    for _ in range(2):
        assert run.init_todolist() == []
        assert [step["name"] for step in run.steps("pre")] == ["load", "clean"]


def test_a_step_is_given_back_once() -> None:
    """Not twice, not before it was taken; also after its queue was cleared."""
    run, _ = asked()
    run.append_todo("a")
    with pytest.raises(NotFoundError, match="no step of version 3 is taken"):
        run.return_step(3)
    step = run.pop_todo()
    run.append_todo("b")
    run.clear_steps("todo")
    assert step is not None
    run.return_step(step)
    with pytest.raises(NotFoundError):
        run.return_step(step.version)

    assert run.steps() == [{"name": "a", "params": {}}]


@pytest.mark.parametrize("step", [None, "", {}, {"name": ""}, {"name": 5}, {"params": {}}, 7, "\ud800"])
def test_what_is_no_step(step: Any) -> None:
    """It is refused, and nothing is queued or cleared (SPEC D11.3, D11.8)."""
    run, _ = asked()
    run.append_todo("a", list_type="pre")
    name: Any = step.get("name") if isinstance(step, dict) else step
    with pytest.raises(InvalidInputError):
        run.append_todo(name)
    with pytest.raises(InvalidInputError):
        run.init_todolist(["b", step])

    assert (run.steps(), run.steps("pre")) == ([], [{"name": "a", "params": {}}])


def test_queues_and_parameters_that_cannot_be() -> None:
    """The error names them."""
    run, _ = asked()
    for call in (run.steps, run.pop_todo, run.clear_steps, lambda queue: run.append_todo("a", None, queue)):
        with pytest.raises(InvalidInputError, match=re.escape("Invalid list type: zz (there are pre, todo, post)")):
            call("zz")
    with pytest.raises(InvalidInputError, match="parameters of the step 'a'"):
        run.append_todo("a", {"x": {1}})
    with pytest.raises(RunStateError, match="requires pre_workflow or post_workflow"):
        run.init_todolist()
    assert run.version == 2


def test_steps_are_copies() -> None:
    """What the caller changes afterwards, and what is changed of a step, is nobody else's (SPEC D11.7)."""
    run, _ = asked()
    params: dict[str, Any] = {"a": [1]}
    run.append_todo("s", params)
    params["a"].append(2)
    run.steps()[0]["params"]["a"].append(3)

    assert run.pop_todo() == {"name": "s", "params": {"a": [1]}}


def test_nothing_of_a_message_is_lost() -> None:
    """Ids, names, status, system messages; of another round too, and read again (SPEC D12.3, D12.4)."""
    factory = RunFactory()
    run, _ = asked(1, factory=factory)
    run.record_messages(*MESSAGES[:2])
    run.record_messages()
    run.record_messages(*(message.to_dict() for message in MESSAGES[2:]))
    run.cleanup()

    assert run.messages() == MESSAGES
    assert run.at(4).messages() == MESSAGES[:2]
    assert run.version == 2 + len(MESSAGES)


def test_clean_messages() -> None:
    """Those that can be replayed: no system message, no call without its result (SPEC D12.6)."""
    run, _ = asked()
    run.record_messages(*MESSAGES)

    assert run.messages(clean=True) == [*MESSAGES[1:4], AIMessage("lost")]
    assert run.context_text().startswith("=== CURRENT CONTEXT ===")


def test_recorded_messages_whose_calls_are_not_lists() -> None:
    """An import of events can record such messages: they are shown without their calls."""
    run, _ = asked()
    first, second = (
        b'{"type":"ai","content":"a","tool_calls":"f()"}',
        b'{"type":"ai","content":"b","tool_calls":[{"id":1}]',
    )
    run._record(RecordMessages((first, second + b',"additional_kwargs":[1]}')))

    assert [message.content for message in run.messages(clean=True)] == ["a", "b"]
    assert run.context_text().count("[Assistant]\nb") == 1
    assert [shape["content"] for shape in run_shape(RunView(run._journal.log, run, run.version))["messages"]] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    "message",
    [None, 5, "hi", {}, {"role": "nobody"}, HumanMessage({1}), HumanMessage("\ud800"),
     {"type": "ai", "tool_calls": "f()"}, {"type": "ai", "additional_kwargs": [1]}],
)  # fmt: skip
def test_what_is_no_message(message: Any) -> None:
    """It is refused, and with it those that were given beside it."""
    run, _ = asked()
    with pytest.raises(InvalidInputError):
        run.record_messages(HumanMessage("hi"), message)

    assert (run.messages(), run.version) == ([], 2)
