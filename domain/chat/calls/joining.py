"""
The part of a chat context that brings in another one: merges, and the summaries that a model writes (SPEC V5, V7).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from ...concurrency.threads import in_thread
from ...errors import InvalidInputError
from ...spans import Segment
from ..events import MessageAdded
from ..items import ChatMessage, ChatRole
from ..rules.commands import Merge, MergeRule, OtherSide, Summarize, TellOther, UndoSummary
from ..rules.decide import CHAT
from ..rules.merging import fork_point
from ..rules.summaries import SummaryPlan, plan_summary
from ..state.loading import complete
from ..state.sequence import Items
from ..summarising import SummaryAnswer, ask_for_summary, render_items
from ..views import recorded_form
from .other_side import other_as_given, seen_from
from .reading import ChatView
from .writing import WritableChat

if TYPE_CHECKING:
    # A model is asked with a context, and a context asks models.
    from ...llm.base import LLM

Self = TypeVar("Self", bound="JoiningChat")
SUMMARY = "[Conversation Summary]\n"
OTHERS_SUMMARY = "[Sub-agent Summary]\n"


class JoiningChat(WritableChat):
    """Merging and summarising; both name what they bring together, and copy nothing."""

    _no_summary: str | None = None

    @property
    def summary_failure(self) -> str | None:
        """Why the last `summarize` or `merge_with_summary` got no summary and changed nothing; None if it did."""
        return self._no_summary

    async def merge(
        self: Self,
        other: ChatView,
        *,
        base: Literal["auto"] | None = "auto",
        instructions: bool = False,
        on_conflict: MergeRule = "ours",
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """
        Take what another context has and this one never had, and return self (SPEC V5.1, V5.2).

        Items go where their time belongs among those that are here. With `base="auto"` the point at which both
        were the same is found by itself. What sets instructions or tools stays behind unless `instructions` is
        true (SPEC V5.6). Where both sides changed that, or both summarised the same items, `on_conflict` says who
        wins (`ours`, `theirs`, `newest`), and a `ConflictResolved` event keeps both sides. A context of another
        log is adopted into this one first, in the same transaction.

        Raises:
            ConcurrencyError: another writer came first.
        """
        await in_thread(
            self._merge,
            other,
            "full",
            base=base,
            instructions=instructions,
            rule=on_conflict,
            expected_version=expected_version,
            idempotency_key=idempotency_key,
        )
        return self

    async def merge_result(
        self: Self,
        other: ChatView,
        *,
        agent_id: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """
        Take the last answer of another context to the end of this one, and return self (SPEC V5.7).

        `agent_id` is stamped on it. Nothing happens where there is none, or it was taken before (SPEC V5.8).

        Raises:
            ConcurrencyError: another writer came first.
        """
        await in_thread(
            self._merge,
            other,
            "result",
            agent_id=agent_id,
            expected_version=expected_version,
            idempotency_key=idempotency_key,
        )
        return self

    async def merge_with_summary(
        self: Self,
        other: ChatView,
        *,
        llm: LLM,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """
        Add a message in which a model tells what another context holds, and return self (SPEC V5.9 to V5.11).

        Without an answer nothing changes, and `summary_failure` says why. The same version of the other context
        is told once.
        """
        text = await in_thread(lambda: render_items(other.items))
        self._no_summary = None

        def call() -> tuple[object, ...]:
            return ("merge_with_summary", *other_as_given(other, self._live.home), agent_id)

        if not text.strip() or await self._is_repeated(call, idempotency_key):
            return self
        answer = await ask_for_summary(llm, text)
        self._no_summary = answer.failure
        if answer.failure is None:
            summary = self._summary(OTHERS_SUMMARY + answer.text, self._system.now(), agent_id)
            await in_thread(self._tell, other, summary, call, idempotency_key)
        return self

    async def summarize(
        self: Self, llm: LLM, *, keep_recent_turns: int = 3, idempotency_key: str | None = None
    ) -> Self:
        """
        Put a summary in the place of all but the last turns, and return self (SPEC V7).

        Instructions, handoffs, config updates and pinned items stay. An earlier summary is taken into the new
        one. Without an answer nothing changes, and `summary_failure` says why. `undo_summary()` takes it back.

        Raises:
            InvalidInputError: a negative number of turns.
            DecisionRefusedError: what was to be told was evicted while the model wrote.
        """
        self._no_summary = None
        call = ("summarize", keep_recent_turns)
        if await self._is_repeated(call, idempotency_key):
            return self
        plan = await in_thread(lambda: plan_summary(self._journal.state.items, keep_recent_turns))
        told = render_items(plan.told) if plan else ""
        if plan is None or not told.strip():
            return self
        answer = await ask_for_summary(llm, told, prior=_prior_text(plan))
        self._no_summary = answer.failure
        if answer.failure is None:
            await in_thread(self._fold_away, plan, answer, _name_of(llm), call, idempotency_key)
        return self

    def undo_summary(
        self,
        summary_id: str | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Take a summary away, the last one without an id, and put back what it tells.

        Raises:
            NotFoundError: there is no such summary.
            ConcurrencyError: another writer came first.
        """
        command = UndoSummary(self._journal.place.stream, summary_id)
        self._edit(command, expected_version=expected_version, idempotency_key=idempotency_key)

    async def _is_repeated(self, call: object, key: str | None) -> bool:
        """Whether a call was made before under its key: a model that has answered once need not be asked again."""
        return await in_thread(self._journal.repeated, call, key) is not None

    def _fold_away(
        self, plan: SummaryPlan, answer: SummaryAnswer, model: str | None, call: object, key: str | None
    ) -> None:
        command = Summarize(
            stream=self._journal.place.stream,
            folded=tuple(item.id for item in (*plan.prior, *plan.told)),
            before=plan.before,
            summary=self._summary(SUMMARY + answer.text, plan.created_at, None),
            model=model,
        )
        # What it tells is named, so what others appended meanwhile does no harm.
        self._edit(command, call=call, idempotency_key=key, catch_up=True)

    def _summary(self, text: str, created_at: float, agent_id: str | None) -> MessageAdded:
        message = ChatMessage(
            id=self._system.new_id("msg_"),
            created_at=created_at,
            agent_id=agent_id,
            role=ChatRole.ASSISTANT,
            content=[text],
            extra={"summary": True},
        )
        recorded = recorded_form(message)
        assert isinstance(recorded, MessageAdded), "a message is recorded as one"
        return recorded

    def _tell(self, other: ChatView, summary: MessageAdded, call: object, key: str | None) -> None:
        with self._seen_from_here(other, key) as (side, left_key):
            self._edit(TellOther(side, summary), call=call, idempotency_key=left_key, catch_up=True)

    def _merge(
        self,
        other: ChatView,
        how: Literal["full", "result"],
        *,
        base: Literal["auto"] | None = None,
        instructions: bool = False,
        rule: MergeRule = "ours",
        agent_id: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        if rule not in get_args(MergeRule):
            raise InvalidInputError(f"on_conflict is {rule!r}: take 'ours', 'theirs' or 'newest'")

        def call() -> tuple[object, ...]:
            return (f"merge_{how}", *other_as_given(other, self._live.home), base, instructions, rule, agent_id)

        if self._journal.repeated(call, idempotency_key):
            return

        def command(side: OtherSide) -> Merge:
            found = self._fork_point(side) if base == "auto" else None
            return Merge(
                stream=self._journal.place.stream,
                other=side,
                base=found,
                base_items=None if found is None else self._items_at(found),
                how=how,
                instructions=instructions,
                rule=rule,
                agent_id=agent_id,
            )

        def brings_something(side: OtherSide) -> bool:
            return bool(CHAT.decide(command(side), self._journal.state))

        with self._seen_from_here(other, idempotency_key, brings_something) as (side, left_key):
            self._edit(command(side), call=call, expected_version=expected_version, idempotency_key=left_key)

    def _seen_from_here(
        self, other: ChatView, key: str | None, is_wanted: Callable[[OtherSide], bool] = lambda _: True
    ) -> AbstractContextManager[tuple[OtherSide, str | None]]:
        place = self._journal.place
        return seen_from(self._live.home, place.stream, place.root, other, key, is_wanted)

    def _fork_point(self, side: OtherSide) -> Segment | None:
        own = Segment(self._journal.place.stream, self.version)
        ours = (*self._journal.state.ancestry, own)
        return fork_point(ours, (*side.ancestry, Segment(side.stream, side.version)))

    def _items_at(self, base: Segment) -> Items:
        if base.stream == self._journal.place.stream:
            return self._journal.past(base.version).items
        log = self._journal.log
        events = log.read_events(base.stream, until=base.version)
        if len(events) < base.version:
            # It was decided in this transaction, and is not in the log yet; what this context began with holds it.
            return self._journal.past(1).items
        return CHAT.fold(CHAT.initial_state, complete(log, events)).items


def _name_of(llm: LLM) -> str | None:
    """The model's name where an adapter has one, else the adapter's own."""
    name = getattr(llm, "model", None) or getattr(llm, "label", None)
    return name if isinstance(name, str) else None


def _prior_text(plan: SummaryPlan) -> str | None:
    """The earlier summaries without their headings, which the new one gets for itself."""
    texts = []
    for message in plan.prior:
        content = message.content if isinstance(message.content, tuple) else (message.content,)
        text = " ".join(part for part in content if isinstance(part, str))
        texts.append(text.removeprefix(SUMMARY).removeprefix(OTHERS_SUMMARY))
    return "\n".join(texts) or None
