"""Portraits: who is described, by whom, when it fails, and what others wrote meanwhile (SPEC D10)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, InvalidInputError, ReadOnlyError, StorageClosedError
from refold.domain.log.envelope import acting
from refold.domain.trajectory import run as run_module
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.nodes import DATA, own_fields

from ..llm.models import ScriptedLLM
from .finds import WRITTEN, Portrayer, describe, description, find, run_that_acted, run_with_finds, told

FAILED = ["PortraitRequested", "PortraitFailed"]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attempts follow each other at once."""
    monkeypatch.setattr(run_module, "FIRST_PAUSE_SECONDS", 0.0)


async def test_pauses_between_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first there is none; each behind it is twice as long as the one before."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(run_module, "FIRST_PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    for attempt in range(4):
        await run_module._pause(attempt)

    assert pauses == [0.5, 1.0, 2.0]


def test_a_model_that_fails_is_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a pause before each further attempt."""
    attempts: list[int] = []

    async def pause(attempt: int) -> None:
        attempts.append(attempt)

    monkeypatch.setattr(run_module, "_pause", pause)
    run = run_with_finds(1)
    describe(run, lambda prompt: " ", attempts_max=3)

    # Each failure is recorded at the first attempt.
    assert [attempt for attempt in attempts if attempt] == [1, 2]
    assert len(attempts) == 3 + 3


def test_undescribed_data_are_described() -> None:
    """Those with a description, queries, states and actions never; nothing is done twice."""
    run, action = run_that_acted()
    find(run, action, "k0")
    find(run, action, "k1", "known")
    run.register_node("State", "", [action], state="done")

    assert describe(run, lambda prompt: "It tells of k0.") == 1
    assert (description(run), description(run, "k1"), told(run)) == ("It tells of k0.", "known", WRITTEN)
    assert run.node("Knowledge(k0)").history == {0: {"description": ""}}
    assert run.profiling() == 0


def test_all_types_of_data_are_described() -> None:
    """Columns and skills too (SPEC D10.7, repaired)."""
    run, action = run_that_acted()
    for node_type in DATA:
        nothing: dict[str, Any] = dict.fromkeys(own_fields(node_type))
        run.register_node(node_type, "", [action], "found", label="x", **nothing)

    assert describe(run, lambda prompt: "d") == 7
    assert {run.node(f"{node_type}(x)").description for node_type in DATA} == {"d"}


def test_in_a_running_loop() -> None:
    """The tasks run in that loop, no more at once than were allowed."""
    portrayer = Portrayer(is_open=False)
    run = run_with_finds(20)

    async def work() -> list[str]:
        run.portray_with(portrayer, limit=3)
        assert (run.profiling(), run.profiling()) == (20, 0)
        await portrayer.open_for(3)
        return await run.wait_pending_tasks()

    assert asyncio.run(work()) == []
    assert (portrayer.asked, portrayer.asking_most, told(run).count("PortraitWritten")) == (20, 3, 20)
    assert description(run, "k7") == "A portrait of k7."


def test_the_limit_holds_over_loops() -> None:
    """Some nodes are described in a loop, others in the thread of those who have none."""
    portrayer = Portrayer(is_open=False)
    run = run_with_finds(10)

    async def work() -> None:
        run.portray_with(portrayer, limit=2)
        run.profiling()
        find(run, "Action(action00000)", "later")
        elsewhere = asyncio.create_task(asyncio.to_thread(run.profiling))
        await portrayer.open_for(2)
        await elsewhere
        await run.wait_portraits()

    asyncio.run(work())
    assert (portrayer.asking_most, told(run).count("PortraitWritten")) == (2, 11)


@pytest.mark.parametrize("make", [ScriptedLLM, lambda script: lambda prompt: script[0]])
def test_a_model_or_a_function(make: Callable[[list[str]], Any]) -> None:
    """Either is asked; what it says is taken as it is."""
    run = run_with_finds(1)

    describe(run, make([" It tells of k0.\n"]))

    assert description(run) == " It tells of k0.\n"


def test_what_a_model_is_told() -> None:
    """The instructions, then the question."""
    model = ScriptedLLM(["d"])

    describe(run_with_finds(1), model)

    (prompt,) = model.prompts
    assert [role for role, _ in prompt] == ["system", "user"]
    assert "one or two sentences" in prompt[0][1][0]
    assert prompt[1][1][0].startswith("Type: Knowledge\nLabel: k0\n")


def test_who_and_why() -> None:
    """The model acts; it is asked because of the registration, and writes because it was asked; traces are kept."""
    run = run_with_finds(1)

    with acting(actor="mia", correlation_id="t1"):
        describe(run, lambda prompt: "d", model="m-1")
        describe(run, lambda prompt: "d")

    asked, written = run.recorded_events()[-2:]
    assert (asked.event.model, written.event.model) == ("m-1", "m-1")
    assert (asked.meta.actor, asked.meta.causation, asked.meta.correlation_id) == ("m-1", f"{run.stream_id}@4", "t1")
    assert (written.meta.actor, written.meta.causation) == ("m-1", asked.reference)
    assert [change.actor for change in run.history("Knowledge(k0)", "description")] == [None, "m-1"]


def test_the_name_of_a_model() -> None:
    """An adapter knows its own, which a given one replaces; a nameless one acts as `portrait`."""
    named, renamed, nameless, odd = (run_with_finds(1) for _ in range(4))
    model, unnamed = ScriptedLLM(["d"]), ScriptedLLM(["d"])
    model.model = "m-2"  # type: ignore[attr-defined]
    unnamed.model = 5  # type: ignore[attr-defined]

    describe(named, model)
    describe(renamed, model, model="m-3")
    describe(nameless, lambda prompt: "d")
    describe(odd, unnamed)

    runs = (named, renamed, nameless, odd)
    assert [run.recorded_events()[-1].meta.actor for run in runs] == ["m-2", "m-3", "portrait", "portrait"]


def failing(error: BaseException) -> Callable[[str], str]:
    """Return a model that raises something."""

    def fail(prompt: str) -> str:
        raise error

    return fail


@pytest.mark.parametrize(
    ("portrayer", "reason"),
    [
        (failing(OSError("no net")), "the model failed: OSError: no net"),
        (failing(StopIteration("over")), "the model failed: RuntimeError: StopIteration was raised: over"),
        (ScriptedLLM(["half", RuntimeError("broke off")]), "the model failed: RuntimeError: broke off"),
        (lambda prompt: " \n", "the model gave a blank answer"),
        (lambda prompt: None, "the model gave a NoneType, not a text"),
        (lambda prompt: "\ud800", "the model's answer holds a lone surrogate (U+D800) at index 0"),
        (failing(OSError("x" * 9_999)), "the model failed: OSError: xxx"),
    ],
)
def test_a_failure_is_recorded(portrayer: Any, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """The description stays empty (SPEC D10.6, repaired), and the next call asks again (D10.9, repaired)."""
    run = run_with_finds(1)

    assert describe(run, portrayer, attempts_max=1) == 1
    failure = run.recorded_events()[-1].event
    assert (description(run), told(run)) == ("", FAILED)
    assert failure.error.startswith(reason)
    assert len(failure.error) <= 500
    # An error of the model is logged with its traceback, which the event does not have.
    errors = [one.exc_info for one in caplog.records if one.message == "no portrait: the model failed"]
    assert (len(errors), all(errors)) == (reason.startswith("the model failed"), True)
    assert describe(run, lambda prompt: "at last") == 1
    assert (description(run), told(run)) == ("at last", FAILED + WRITTEN)


def test_a_failure_is_tried_again() -> None:
    """By itself, a few times: each is told."""
    run = run_with_finds(1)

    describe(run, ScriptedLLM([OSError("a")], [OSError("b")], ["d"]))

    assert (description(run), told(run)) == ("d", [*FAILED, "PortraitFailed", "PortraitWritten"])


def test_what_somebody_else_wrote_stays() -> None:
    """The answer that came too late is kept in the log alone."""
    run = run_with_finds(2)
    portrayer = Portrayer(is_open=False)
    run.portray_with(portrayer)
    run.profiling()
    while portrayer.asking < 2:
        threading.Event().wait(0.001)
    run.modify_node("Knowledge(k0)", {"description": "mine"})
    run.remove_node("Knowledge(k1)")
    portrayer.is_open = True

    assert run.finish_portraits(20) == []
    assert (description(run), run.nodes("Knowledge")) == ("mine", ["Knowledge(k0)"])
    assert told(run) == ["PortraitRequested"] * 2 + ["PortraitDiscarded"] * 2


def test_nobody_is_asked_about_what_was_described_meanwhile() -> None:
    """Neither at first, nor after a failure."""
    run = run_with_finds(2)

    def portrayer(prompt: str) -> str:
        for label in ("k0", "k1"):
            run.modify_node(f"Knowledge({label})", {"description": "mine"})
        raise OSError("too late")

    describe(run, portrayer, limit=1)

    assert told(run) == FAILED


def test_a_node_of_an_earlier_round() -> None:
    """What was not described in its own round is in the next; of a node that was met again the newest vertex is."""
    factory = RunFactory()
    first, action = run_that_acted(factory)
    find(first, action, "k0")
    find(first, action, "k1")
    second, action = run_that_acted(factory, 1)
    find(second, action, "k1")

    assert describe(second, lambda prompt: "d") == 2
    described = {name: second.node(name).description for name in second.nodes("Knowledge")}
    assert described == {"Knowledge(k0)": "d", "Knowledge(k1)#1": "", "Knowledge(k1)": "d"}
    assert told(first) == []


def test_a_closed_run() -> None:
    """Its nodes can still be described."""
    run = run_with_finds(1)
    run.close()

    assert (describe(run, lambda prompt: "d"), description(run)) == (1, "d")


LOST = ("a portrait could not be recorded, and can be asked for again",)


@pytest.mark.parametrize(
    ("error", "answer", "logged"),
    [
        (ConcurrencyError("run:x", expected=1, actual=2), "d", ()),
        (StorageClosedError("closed"), "", ()),
        (ZeroDivisionError("lost"), "", LOST),
    ],
)
def test_a_log_that_refuses(
    error: Exception,
    answer: str,
    logged: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An answer is kept until the log has time for it; of a closed store nobody complains."""
    run, refused = run_with_finds(1), [error, error]
    change = run._record

    def refusing(command: Any, *args: Any, **options: Any) -> Any:
        if type(command).__name__ == "WritePortrait" and refused:
            raise refused.pop()
        return change(command, *args, **options)

    monkeypatch.setattr(run, "_record", refusing)
    describe(run, lambda prompt: "d")

    assert (description(run), tuple(caplog.messages)) == (answer, logged)
    assert [one.exc_info[1] for one in caplog.records if one.exc_info] == [error for _ in logged]


@pytest.mark.parametrize(
    ("arguments", "options", "reason"),
    [
        (["gpt"], {}, "'gpt' cannot describe anything"),
        ([len], {"limit": 0}, "limit is 0"),
        ([len], {"attempts_max": "2"}, "attempts_max is '2'"),
        ([len], {"model": ""}, "model is ''"),
    ],
)
def test_what_cannot_be_asked(arguments: list[Any], options: dict[str, Any], reason: str) -> None:
    """It is refused, and changes nothing."""
    run = run_with_finds(1)

    with pytest.raises(InvalidInputError, match=reason):
        run.portray_with(*arguments, **options)
    with pytest.raises(InvalidInputError, match="portray_with"):
        run.profiling()


def test_not_within_a_transaction() -> None:
    """Its nodes may be rolled back."""
    run = run_with_finds(1)
    run.portray_with(lambda prompt: "d")

    with transaction(run._journal.log), pytest.raises(InvalidInputError, match="after the block"):
        run.profiling()
    assert run.profiling() == 1
    assert run.finish_portraits(20) == []


def test_a_view_asks_nobody() -> None:
    """It can be read only."""
    run = run_with_finds(1)

    with pytest.raises(ReadOnlyError):
        run.readonly.profiling()
    with pytest.raises(ReadOnlyError):
        run.at(1).portray_with(lambda prompt: "d")
