"""A provider that has become slow is left for the next (SPEC V14.14)."""

import pytest

from refold.domain.llm.fallback import FallbackLLM

from .models import ScriptedLLM, SetClock, ask, errors_of, said


def reported(*latencies: float, providers: int = 2, hits: int = 2) -> FallbackLLM:
    """Return a model that was told, turn by turn, how long answers took to begin; 100 ms is allowed."""
    chain = [ScriptedLLM([str(index)]) for index in range(providers)]
    model = FallbackLLM(chain, 60.0, 3, 100.0, hits, measure_latency=False, system=SetClock())
    for latency in latencies:
        model.on_turn_metrics({"metrics": {"ttft": latency}})
    return model


@pytest.mark.parametrize(
    ("latencies", "hits", "active"),
    [
        ((150, 50, 150), 2, 0),
        ((150, 50, 150, 150), 2, 1),
        ((100, 100, 100), 2, 0),
        ((150,), 0, 1),
        ((50,), 0, 0),
        ((150, 150, 150), 3, 1),
    ],
)
def test_late_answers_in_a_row(latencies: tuple[float, ...], hits: int, active: int) -> None:
    """One in time starts the count again; at the threshold is in time; at least one is needed."""
    model = reported(*latencies, hits=hits)

    assert model.active_provider is model.providers[active]
    assert model.attempts == ({0: 1} if active else {})


def test_the_count_starts_again_with_the_next_provider(caplog: pytest.LogCaptureFixture) -> None:
    """Being slow is no error, so there is no event, but a line in the log; the new provider has its own chance."""
    model = reported(150, 150, 150, providers=3)
    heard = errors_of(model)
    assert model.active_provider is model.providers[1]

    model.record_latency(150)

    assert model.active_provider is model.providers[2]
    assert heard == []
    slow = "tests.domain.llm.models.ScriptedLLM is too slow (150 ms); going on with the next"
    assert caplog.messages == [slow] * 2


def test_a_slow_provider_is_better_than_none() -> None:
    """Without another one nothing is counted against it."""
    model = reported(150, 150, 150, 150, providers=1)

    assert (model.active_provider, model.attempts) == (model.providers[0], {})


@pytest.mark.parametrize("tools", [{"functionToolsCalled": ["f"]}, {"mcpToolMetrics": [{}]}, {"ttft": None}])
def test_turns_with_tools_do_not_count(tools: dict[str, object]) -> None:
    """Nor does one whose time is not known; the count goes on behind it."""
    model = reported(150)

    model.on_turn_metrics({"metrics": {"ttft": 9_000, **tools}})
    model.on_turn_metrics({})
    assert model.active_provider is model.providers[0]
    model.on_turn_metrics({"metrics": {"ttft": 150}})

    assert model.active_provider is model.providers[1]


def test_without_a_threshold_nothing_is_slow() -> None:
    """The default."""
    model = FallbackLLM([ScriptedLLM(["a"]), ScriptedLLM(["b"])])

    for _ in range(5):
        model.record_latency(1e9)

    assert model.active_provider is model.providers[0]


@pytest.mark.parametrize("buffer", [True, False])
def test_the_time_to_the_first_piece_is_measured(buffer: bool) -> None:
    """Nobody has to report it; how long the rest takes does not matter."""
    clock = SetClock()
    long = ScriptedLLM([50.0, "a", 900.0, "b"], [150.0, "late"], [150.0, "late"], clock=clock)
    model = FallbackLLM([long, ScriptedLLM(["next"])], latency_threshold_ms=100, consecutive_latency_hits=2,
                        system=clock, buffer=buffer)  # fmt: skip

    answers = [ask(model) for _ in range(4)]

    assert answers == [["a", "b"], ["late"], ["late"], ["next"]]


def test_measured_turns_with_tools_do_not_count() -> None:
    """An answer that asks for tools may think longer."""
    clock = SetClock()
    slow = ScriptedLLM([150.0, said("", tool_calls=[{"name": "f"}])], clock=clock)
    model = FallbackLLM([slow, ScriptedLLM(["next"])], latency_threshold_ms=100, consecutive_latency_hits=1,
                        system=clock)  # fmt: skip

    ask(model)

    assert model.active_provider is slow


def test_what_is_reported_is_not_measured_as_well() -> None:
    """Or each turn would count twice."""
    clock = SetClock()
    slow = ScriptedLLM([150.0, "a"], clock=clock)
    model = FallbackLLM([slow, ScriptedLLM(["next"])], latency_threshold_ms=100, consecutive_latency_hits=1,
                        measure_latency=False, system=clock)  # fmt: skip

    assert [ask(model), ask(model)] == [["a"], ["a"]]


def test_a_slow_provider_comes_back() -> None:
    """After its rest, like one that failed."""
    clock = SetClock()
    model = FallbackLLM([ScriptedLLM(["a"]), ScriptedLLM(["b"])], latency_threshold_ms=100,
                        consecutive_latency_hits=1, system=clock)  # fmt: skip
    model.record_latency(150)
    answers = [ask(model)]
    clock.time += 61

    answers.append(ask(model))

    assert answers == [["b"], ["a"]]
