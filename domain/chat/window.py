"""Keeping a context within limits before each turn: old items are summarised, then the oldest are truncated."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..arguments import require_callable, require_limits
from ..errors import DecisionRefusedError, RefoldError
from ..llm.base import LLMError
from .tokens import DEFAULT, TokenCounter

if TYPE_CHECKING:
    # Only for type checkers: at run time this import would be a circle, since a model's answers use the roles of chats.
    from ..llm.base import LLM
    from .context import ChatContext

logger = logging.getLogger(__name__)


class ContextWindow:
    """
    Limits for a chat context, and `manage` to apply them.

    `max_tokens` and `max_context_items` limit the context; None means no limit. The last `keep_recent_turns` user turns
    are never summarised. `max_tool_calls_per_turn` limits the loop that runs tools. `summary_llm` writes the summaries;
    without it the model of the conversation does. With `whole_turns=False` single items are truncated, as in the seed.
    `counter` counts the tokens of a text, such as `SCRIPTS`; the default is a quarter of the characters.
    """

    def __init__(
        self,
        *,
        max_tokens: int | None = None,
        max_context_items: int | None = None,
        keep_recent_turns: int = 3,
        max_tool_calls_per_turn: int = 10,
        summary_llm: LLM | None = None,
        whole_turns: bool = True,
        counter: TokenCounter = DEFAULT,
    ) -> None:
        require_limits(max_tokens=max_tokens, max_context_items=max_context_items)
        require_limits(keep_recent_turns=keep_recent_turns, max_tool_calls_per_turn=max_tool_calls_per_turn)
        self.max_tokens = max_tokens
        self.max_context_items = max_context_items
        self.keep_recent_turns = keep_recent_turns
        self.max_tool_calls_per_turn = max_tool_calls_per_turn
        self.summary_llm = summary_llm
        self.counter = require_callable(counter, "the counter")
        self.whole_turns = whole_turns

    async def manage(self, ctx: ChatContext, llm: LLM | None) -> None:
        """
        Bring a context within the limits: summarise if there are old turns, then truncate.

        If the model fails, the failure is logged and the context is only truncated; evicted items can be restored.

        Raises:
            RefoldError: the context could not be changed: another writer came first, or the storage failed.
        """
        if self._needs_summary(ctx):
            await self._summarize(ctx, self.summary_llm or llm)
        if self.max_tokens is not None or self.max_context_items is not None:
            ctx.truncate(
                max_items=self.max_context_items,
                max_tokens=self.max_tokens,
                whole_turns=self.whole_turns,
                counter=self.counter,
            )

    def _needs_summary(self, ctx: ChatContext) -> bool:
        has_old_turns = ctx.turn_count() > self.keep_recent_turns + 1
        return has_old_turns and (
            _is_over(self.max_tokens, ctx.estimated_tokens(self.counter))
            or _is_over(self.max_context_items, len(ctx.items))
        )

    async def _summarize(self, ctx: ChatContext, llm: LLM | None) -> None:
        if llm is None:
            logger.warning("the context is over its limits, and there is no model to summarise it")
            return
        try:
            await ctx.summarize(llm, keep_recent_turns=self.keep_recent_turns)
        except Exception as error:
            if isinstance(error, RefoldError) and not isinstance(error, LLMError | DecisionRefusedError):
                # Errors of storage and of other writers are raised, since they are not failures of the model. A refused
                # decision is not raised: items to be summarised were evicted meanwhile, so there is less to summarise.
                raise
            logger.warning("the context could not be summarised", exc_info=True)


def _is_over(limit: int | None, actual: int) -> bool:
    return limit is not None and actual > limit
