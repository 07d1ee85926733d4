"""`refold summarize`: a model summarises the content of a context."""

from __future__ import annotations

import asyncio
from importlib import import_module

import click

from ...domain.chat.context import ChatContext
from ...domain.chat.events import Summarized, SummaryUndone
from ...domain.context.description import count_of, counted
from ...domain.errors import DecisionRefusedError
from ...domain.llm.base import LLM, LLMAuthenticationError
from ..views.changes import after
from .args import change_options, changing, checked_text, flag, number, opened, usage_error
from .changes import report
from .completion import context
from .lines import body_of
from .render import note, one_line, prints_json

# The class of each provider, in its module of `refold.infrastructure.models`, and the variables of its key.
MODELS = {
    "openai": ("OpenAILLM", "OPENAI_API_KEY"),
    "anthropic": ("AnthropicLLM", "ANTHROPIC_API_KEY"),
    "google": ("GoogleLLM", "GOOGLE_API_KEY or GEMINI_API_KEY"),
}


def model_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check an option that has a provider and the name of one of its models."""
    if value is None:
        return None
    provider, colon, name = checked_text(value).partition(":")
    if provider not in MODELS or not colon or not name:
        raise click.BadParameter(f"{value!r} should be one of {', '.join(f'{known}:NAME' for known in MODELS)}")
    return value


def model_of(text: str) -> LLM:
    """
    Return the model of `provider:NAME`; its key is read from the environment.

    Raises:
        DecisionRefusedError: there is no key, or the provider's package is not installed.
    """
    provider, _, name = text.partition(":")
    client, key = MODELS[provider]
    module = import_module(f"..models.{provider}_llm", __package__)
    try:
        model: LLM = getattr(module, client)(name)
        return model
    except LLMAuthenticationError as error:
        raise DecisionRefusedError(f"{text} cannot be asked without a key: set {key}") from error
    except ImportError as error:
        raise DecisionRefusedError(f"{text} cannot be asked: {error}") from error


@click.command("summarize")
@context
@click.option(
    "--with",
    "model",
    metavar="MODEL",
    callback=model_name,
    help="openai:NAME, anthropic:NAME or google:NAME; it needs the extra of that name and its key.",
)
@number("--keep-turns", help="The number of turns that stay.", default=3, show_default=True)
@number(
    "--keep-items", help="The number of items that stay, instead: a long turn is summarised, too, but for its question."
)
@flag("--undo", help="Remove the last summary, and restore the items that it replaced.")
@change_options
def command(context: str, model: str | None, keep_turns: int, keep_items: int | None, undo: bool) -> None:
    """
    Replace all but the last turns of CTX by a summary that a model writes.

    Instructions, handoffs, config updates and pinned items stay. The key is read from OPENAI_API_KEY,
    ANTHROPIC_API_KEY, GOOGLE_API_KEY or GEMINI_API_KEY; what is summarised is sent to that provider.

    With --json: {context, kind, version, items, tokens_before, tokens_after, model, summary_id, summary}; items counts
    what the summary tells, or, with --undo, what came back; the latter three are null where there is no summary now.
    """
    if undo == (model is not None):
        raise usage_error("give one of --with MODEL and --undo")
    with changing() as store:
        chat = opened(store, context)
        version, before = chat.version, chat.estimated_tokens()
        if model is None:
            chat.undo_summary()
        else:
            asyncio.run(_summarize(chat, model, keep_turns, keep_items))
        _report(chat, version, before)


async def _summarize(chat: ChatContext, model: str, keep_turns: int, keep_items: int | None) -> None:
    async with model_of(model) as llm:
        await chat.summarize(llm, keep_recent_turns=keep_turns, keep_items=keep_items)
    if chat.summary_failure:
        raise DecisionRefusedError(f"{model} wrote no summary, so nothing was changed: {chat.summary_failure}")


def _report(chat: ChatContext, version: int, before: int) -> None:
    made: list[Summarized] = after(chat, version, Summarized)
    undone: list[SummaryUndone] = after(chat, version, SummaryUndone)
    items = sum(count_of(one.folded) for one in made) + sum(count_of(one.items) for one in undone)
    tokens = chat.estimated_tokens()
    last = made[-1] if made else None
    shape = {
        "items": items,
        "tokens_before": before,
        "tokens_after": tokens,
        "model": last and last.model,
        "summary_id": last and last.item.id,
        "summary": last and body_of(last.item),
    }
    what = f"{counted(items, 'item')} {'summarised' if made else 'back'}"
    report(chat, f"{what}, tokens {before:,} -> {tokens:,} ({tokens - before:+,})", shape)
    if last and not prints_json():
        click.echo(f"  {one_line(body_of(last.item))}")
    if not made and not undone:
        note("there is nothing to summarise before what is kept: nothing was changed")
