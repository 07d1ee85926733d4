"""Several models behind one: who is asked, who rests, who comes back (SPEC V14.7 to V14.15)."""

import asyncio

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.errors import InvalidInputError
from refold.domain.llm.base import LLM, collect
from refold.domain.llm.fallback import FallbackLLM

from .models import Emitted, ScriptedLLM, SetClock, Step, ask, errors_of, failing, pieces, said


def chain(*providers: LLM, attempts: int = 3, clock: SetClock | None = None, buffer: bool = False) -> FallbackLLM:
    """Return a model over providers that rest for 60 seconds."""
    return FallbackLLM(list(providers), 60.0, attempts, system=clock or SetClock(), buffer=buffer)


def test_there_must_be_a_provider() -> None:
    """An empty list is refused, in the seed's words."""
    with pytest.raises(InvalidInputError, match="LLM requires at least one provider"):
        FallbackLLM([])


def test_the_next_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    """A failure is one event with the error's text, and one line in the log; the next provider stays active."""
    first, second = failing("a"), ScriptedLLM(["b"])
    model = chain(first, second)
    heard = errors_of(model)

    assert ask(model) == ["b"]
    assert ask(model) == ["b"]

    assert heard == ["a"]
    assert (model.active_provider, model.attempts) == (second, {0: 1})
    assert len(first.prompts) == 1
    assert caplog.messages == ["tests.domain.llm.models.ScriptedLLM failed: a"]


def test_parameters_are_handed_on() -> None:
    """Those that were given, to each provider that is asked."""
    first, second = failing("a"), ScriptedLLM(["b"])

    ask(chain(first, second), tools=["t"], temperature=0.5)

    assert first.kwargs == second.kwargs == [{"tools": ["t"], "temperature": 0.5}]


def test_when_all_fail_the_last_error_is_raised() -> None:
    """The last provider stays, and serves the next call."""
    last = ScriptedLLM([RuntimeError("c")], ["c works"])
    model = chain(failing("a"), failing("b"), last)
    heard = errors_of(model)

    with pytest.raises(RuntimeError, match=r"^c$"):
        ask(model)

    assert heard == ["a", "b", "c"]
    assert model.active_provider is last
    assert ask(model) == ["c works"]


def test_a_provider_that_rested_is_asked_again() -> None:
    """Not before, nor at, but after the time that it rests; then it is listened to again."""
    clock = SetClock()
    first = ScriptedLLM([RuntimeError("a")], ["a works"])
    model = chain(first, ScriptedLLM(["b"]), clock=clock)
    heard = errors_of(model)
    answers = [ask(model)]
    for seconds in (59, 1, 0.001):
        clock.time += seconds
        answers.append(ask(model))

    assert answers == [["b"], ["b"], ["b"], ["a works"]]
    first.emit("error", "later")
    assert heard == ["a", "later"]


def test_the_first_that_rested_comes_back() -> None:
    """Of several, the one that stands first."""
    clock = SetClock()
    first, second = ScriptedLLM([RuntimeError("a")], ["a works"]), failing("b")
    model = chain(first, second, ScriptedLLM(["c"]), clock=clock)
    ask(model)
    assert (model.check_recovery(), model.active_provider) == (False, model.providers[2])
    clock.time += 61

    assert (model.check_recovery(), model.active_provider) == (True, first)
    assert model.check_recovery() is False
    assert ask(model) == ["a works"]


def test_a_provider_is_out_for_good() -> None:
    """After as many failures as are allowed, no rest is long enough."""
    clock = SetClock()
    first = failing("a")
    model = chain(first, ScriptedLLM(["b"]), attempts=2, clock=clock)
    for _ in range(4):
        assert ask(model) == ["b"]
        clock.time += 1_000

    assert (len(first.prompts), model.attempts) == (2, {0: 2})


def test_the_last_provider_is_asked_once() -> None:
    """When the others are out and it fails as well, the error is raised at once."""
    last = ScriptedLLM(["b"], [RuntimeError("b")], ["b works"])
    model = chain(failing("a"), last, attempts=1)
    ask(model)

    with pytest.raises(RuntimeError, match=r"^b$"):
        ask(model)

    assert len(last.prompts) == 2


BROKEN: list[Step] = ["Hel", "lo", RuntimeError("broke off")]


def test_text_is_not_repeated() -> None:
    """With a buffer, a consumer that joins the texts has one answer, not one and a half."""
    model = chain(ScriptedLLM(BROKEN), ScriptedLLM(["Good ", "day"]), buffer=True)
    heard = errors_of(model)

    assert ask(model) == ["Good ", "day"]
    assert heard == ["broke off"]


def test_half_an_answer_is_none() -> None:
    """With a buffer, when the last provider breaks off, nothing of it was handed on before the error."""
    texts = []

    async def listen() -> None:
        async for piece in chain(ScriptedLLM(BROKEN), buffer=True).chat(ChatContext()):
            texts.append(piece.content)

    with pytest.raises(RuntimeError, match="broke off"):
        asyncio.run(listen())

    assert texts == []


def test_streaming_says_where_the_answer_starts_again() -> None:
    """Text comes at once, and a mark says what to throw away; `collect` does it."""
    model = FallbackLLM([ScriptedLLM(BROKEN), ScriptedLLM(["Good day"])])
    again = chain(ScriptedLLM(BROKEN), ScriptedLLM(["Good day"]))

    found = asyncio.run(pieces(model))

    assert found == [said("Hel"), said("lo"), said("", restart=True), said("Good day")]
    assert asyncio.run(collect(again.chat(ChatContext()))) == said("Good day")


def test_a_failure_before_the_first_text_needs_no_mark() -> None:
    """Nothing was said that could be thrown away."""
    model = chain(failing("a"), ScriptedLLM(["b"]))

    assert asyncio.run(pieces(model)) == [said("b")]


def test_text_comes_at_once() -> None:
    """The first piece is there before the second is made."""
    clock = SetClock()
    model = FallbackLLM([ScriptedLLM(["a", 1_000.0, "b"], clock=clock)], system=clock)

    async def times() -> list[float]:
        return [clock.time async for _ in model.chat(ChatContext())]

    assert asyncio.run(times()) == [100.0, 101.0]


def test_an_event_and_an_error_are_one_failure() -> None:
    """A provider that tells of its error and raises it has failed once."""
    model = chain(ScriptedLLM([Emitted("told"), RuntimeError("raised")]), ScriptedLLM(["b"]))
    heard = errors_of(model)

    assert ask(model) == ["b"]

    assert (heard, model.attempts) == (["told"], {0: 1})


def test_an_event_alone_is_a_failure() -> None:
    """The answer is handed on if there is one; the next call goes to the next provider."""
    model = chain(ScriptedLLM([Emitted("told"), Emitted("told again"), "a"]), ScriptedLLM(["b"]))
    heard = errors_of(model)

    assert [ask(model), ask(model)] == [["a"], ["b"]]
    assert (heard, model.attempts) == (["told"], {0: 1})


def test_an_event_between_calls_is_a_failure() -> None:
    """Also without a loop; what a provider says that is not active does not count."""
    first, second = ScriptedLLM(["a"]), ScriptedLLM(["b"])
    model = chain(first, second)
    heard = errors_of(model)

    first.emit("error", "lost the connection")
    first.emit("error", "still lost")

    assert (model.active_provider, heard) == (second, ["lost the connection"])


def test_each_event_between_calls_counts() -> None:
    """Those of a call that is over do not belong to it any more."""
    only = ScriptedLLM(["a"])
    model = chain(only)
    heard = errors_of(model)
    ask(model)

    only.emit("error", "one")
    only.emit("error", "two")

    assert (heard, model.attempts) == (["one", "two"], {0: 2})


class Slow(ScriptedLLM):
    """Takes a moment before it plays its script, so that another call can begin."""

    async def chat(self, messages, *args, **kwargs):  # type: ignore[no-untyped-def]
        """Wait, then play the script."""
        await asyncio.sleep(0.01)
        async for piece in super().chat(messages, *args, **kwargs):
            yield piece


def at_once(model: LLM) -> list[list[str]]:
    """Return what two calls at the same time are answered."""

    async def both() -> list[list[str]]:
        found = await asyncio.gather(pieces(model), pieces(model))
        return [[piece.content for piece in answer] for answer in found]

    return asyncio.run(both())


def test_an_event_belongs_to_the_call_that_it_comes_from() -> None:
    """The older of two calls tells of its error and raises it: one failure, and none of the other call."""
    model = chain(Slow([Emitted("a"), RuntimeError("a")], ["a works"]), Slow(["b"]))
    heard = errors_of(model)

    assert at_once(model) == [["b"], ["a works"]]
    assert (heard, model.attempts) == (["a"], {0: 1})


def test_two_calls_that_fail_together_are_one_outage() -> None:
    """Both go on with the next provider, which is not skipped; each failure is an event."""
    model = chain(Slow([Emitted("a"), RuntimeError("a")]), Slow(["b"]), Slow(["c"]))
    heard = errors_of(model)

    assert at_once(model) == [["b"], ["b"]]
    assert (heard, model.attempts) == (["a", "a"], {0: 1})


@pytest.mark.parametrize("buffer", [True, False])
def test_who_stops_listening_closes_the_provider(buffer: bool) -> None:
    """The provider's stream is not left open, and stopping is no failure."""
    provider = ScriptedLLM(["a", "b"])
    model = chain(provider, ScriptedLLM(["c"]), buffer=buffer)

    async def first() -> None:
        answer = model.chat(ChatContext())
        await anext(answer)
        await answer.aclose()  # type: ignore[attr-defined]
        # Before the loop ends and closes what was forgotten.
        assert provider.closed_streams == 1

    asyncio.run(first())

    assert model.attempts == {}


def test_stopping_and_closing() -> None:
    """Only the active provider is stopped, all are closed, also when closing one fails."""
    first, second, third = failing("a"), ScriptedLLM(["b"]), ScriptedLLM(["c"])
    model = chain(first, second, third)
    ask(model)

    asyncio.run(model.cancel_current_generation())
    assert (first.cancelled, second.cancelled, third.cancelled) == (0, 1, 0)
    asyncio.run(model.aclose())
    assert (first.cancelled, second.cancelled, third.cancelled) == (1, 3, 1)


def test_one_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    """Its error is raised when the others are closed."""

    class Stuck(ScriptedLLM):
        """Cannot be closed."""

        async def aclose(self) -> None:
            """Fail."""
            raise OSError("stuck")

    last = ScriptedLLM(["b"])

    with pytest.raises(OSError, match="stuck"):
        asyncio.run(chain(Stuck(["a"]), last).aclose())

    assert last.cancelled == 1


def test_the_label_is_its_own() -> None:
    """Not that of a provider."""
    assert chain(failing("a")).label == "refold.domain.llm.fallback.FallbackLLM"
