"""
Asking a model to describe something: a model of ours, or any function from a prompt to a text.

Nothing is raised: the answer says why there is none.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ...canonical import require_unicode
from ...chat.context import ChatContext
from ...chat.items import ChatMessage, ChatRole
from ...errors import InvalidInputError
from ...llm.base import LLM
from ...llm.responses import collect
from .daemons import in_daemon_thread
from .prompting import PORTRAIT_PROMPT

logger = logging.getLogger("refold.trajectory")
Portrayer = LLM | Callable[[str], str | Awaitable[str]]
# A provider may put a whole page into an error.
FAILURE_CHARACTERS_MAX = 500


class PortraitAnswer(NamedTuple):
    """A description, or no text and why there is none."""

    text: str = ""
    failure: str | None = None


class Asking(NamedTuple):
    """Who is asked, by which name it is recorded, and how often for one node before it is left for another time."""

    portrayer: Portrayer
    model: str | None
    attempts_max: int

    async def answer(self, question: str) -> PortraitAnswer:
        """Return what the model says; an error, a blank answer, and what is no text give a `failure` in words."""
        try:
            answer = await _said(self.portrayer, question)
        except Exception as error:
            logger.warning("no portrait: the model failed", exc_info=True)
            return _no_answer(f"the model failed: {type(error).__name__}: {error}")
        if not isinstance(answer, str):
            return _no_answer(f"the model gave a {type(answer).__name__}, not a text")
        if not answer.strip():
            return _no_answer("the model gave a blank answer")
        try:
            return PortraitAnswer(require_unicode(str(answer), "the model's answer"))
        except InvalidInputError as error:
            return _no_answer(str(error))


def asking_of(portrayer: object, model: str | None, attempts_max: int) -> Asking:
    """
    Return how to ask a model; its own name is taken where none is given.

    Raises:
        InvalidInputError: it can be neither asked nor called, or the name is none.
    """
    if not isinstance(portrayer, LLM) and not callable(portrayer):
        raise InvalidInputError(f"{portrayer!r} cannot describe anything: give an LLM, or a function of a prompt")
    if model is not None and (not isinstance(model, str) or not model):
        raise InvalidInputError(f"model is {model!r}: it is a name, or left out")
    own = getattr(portrayer, "model", None)
    name = own if model is None and isinstance(own, str) else model
    return Asking(portrayer, require_unicode(name, "the name of the model") if name else None, attempts_max)


async def _said(portrayer: Portrayer, question: str) -> object:
    if isinstance(portrayer, LLM):
        prompt = ChatContext([
            ChatMessage(role=ChatRole.SYSTEM, content=[PORTRAIT_PROMPT]),
            ChatMessage(role=ChatRole.USER, content=[question]),
        ])  # fmt: skip
        return (await collect(portrayer.chat(prompt))).content
    prompt_text = f"{PORTRAIT_PROMPT}\n\n{question}"
    if _is_async(portrayer):
        answer: Any = portrayer(prompt_text)
    else:
        # It may take its time, and the loop has other things to do.
        answer = await in_daemon_thread(portrayer, prompt_text)
    return await answer if inspect.isawaitable(answer) else answer


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _no_answer(failure: str) -> PortraitAnswer:
    return PortraitAnswer(failure=failure[:FAILURE_CHARACTERS_MAX])
