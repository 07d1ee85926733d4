"""Asking for a summary: what is asked, what counts as an answer, and what happens without one (SPEC V8.3)."""

import asyncio
import logging

import pytest

from refold.domain.chat.context import ChatContext, ask_for_summary, generate_summary
from refold.domain.chat.summary_texts import SUMMARIZE_PROMPT, SummaryAnswer
from refold.domain.llm.fallback import FallbackLLM

from .models import ScriptedLLM, SetClock, Step, said


def summary_of(model: ScriptedLLM | FallbackLLM, *, prior: str | None = None) -> SummaryAnswer:
    """Return what a model answers to an excerpt."""
    return asyncio.run(ask_for_summary(model, "User: hi", prior=prior))


def test_the_prompt() -> None:
    """The seed's first and last words (SPEC V8.4), as the instructions; the excerpt as the user's message."""
    model = ScriptedLLM(["a"])

    summary_of(model)

    assert SUMMARIZE_PROMPT.startswith("Summarize the following conversation excerpt. Preserve:\n- ")
    assert SUMMARIZE_PROMPT.endswith("\nOutput ONLY the summary, nothing else.")
    assert model.prompts == [[("system", [SUMMARIZE_PROMPT]), ("user", ["User: hi"])]]


def test_a_prior_summary_is_folded_in() -> None:
    """It stands before the excerpt."""
    model = ScriptedLLM(["a"])

    summary_of(model, prior="They met.")

    assert model.prompts[0][1] == ("user", ["[Previous Summary]: They met.\nUser: hi"])


def test_the_answer_is_taken_as_it_is() -> None:
    """Its pieces are joined, and nothing is stripped."""
    assert summary_of(ScriptedLLM([" They", " met.\n"])) == SummaryAnswer(" They met.\n")


@pytest.mark.parametrize("script", [[], [""], [" ", "\n"]])
def test_a_blank_answer_is_none(script: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """It says so, in the answer and in the log."""
    with caplog.at_level(logging.WARNING):
        answer = summary_of(ScriptedLLM(script))

    assert answer == SummaryAnswer("", "the model gave a blank answer")
    assert "blank answer" in caplog.text
    assert asyncio.run(generate_summary(ScriptedLLM(script), "User: hi")) == ""


def test_an_error_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """Also after part of the answer: half a summary would pass for a whole one. The log has the error."""
    script: list[Step] = ["They", RuntimeError("broke off")]

    with caplog.at_level(logging.WARNING):
        answer = summary_of(ScriptedLLM(script))

    assert answer == SummaryAnswer("", "the model failed: RuntimeError: broke off")
    assert "no summary: the model failed" in caplog.text
    assert "RuntimeError: broke off" in caplog.text
    assert asyncio.run(generate_summary(ScriptedLLM(script), "User: hi")) == ""


def test_an_answer_that_is_not_unicode_is_none() -> None:
    """Half an emoji, as of an answer that was cut off: no event could hold it, and the context is as it was."""
    context = ChatContext()
    for text in ("a", "b", "c"):
        context.add_message("user", text)

    asyncio.run(context.summarize(ScriptedLLM(["They \ud83d"]), keep_recent_turns=1))

    assert (context.version, len(context)) == (4, 3)
    assert "the answer holds a lone surrogate" in str(context.summary_failure)


def test_being_stopped_is_not_swallowed() -> None:
    """A task that is cancelled ends, rather than going on without a summary."""

    async def stop() -> None:
        class Waiting(ScriptedLLM):
            """Never answers."""

            async def chat(self, messages, *args, **kwargs):  # type: ignore[no-untyped-def]
                """Wait."""
                await asyncio.Event().wait()
                yield said("never")

        task = asyncio.create_task(generate_summary(Waiting([]), "User: hi"))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stop())


def test_an_answer_that_starts_again() -> None:
    """A model that streams through a failure gives one summary."""
    chain = [ScriptedLLM(["They", RuntimeError("a")]), ScriptedLLM(["We met."])]

    assert summary_of(FallbackLLM(chain, buffer=False, system=SetClock())) == SummaryAnswer("We met.")
