"""
A chat context that can be edited, forked and merged, as it must be: one list of rows, and sets beside it.

Nothing here is shared with the core, and nothing is clever: whatever left the view keeps its place in the list.
"""

from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

TOGETHER = ("evict", "truncate", "clear", "merge")


@dataclass(frozen=True)
class Row:
    """An item: `kind` is a role, or call, output, handoff, config."""

    id: str
    kind: str
    time: float
    text: str = ""
    call_id: str = ""
    agent: str | None = None
    is_summary: bool = False

    @property
    def is_instructions(self) -> bool:
        """Whether it is a system or developer message."""
        return self.kind in ("system", "developer")

    @property
    def sets_config(self) -> bool:
        """Whether it says what instructions are in force."""
        return self.is_instructions or self.kind == "config"

    @property
    def tokens(self) -> int:
        """The seed's estimate: the name of every function has four letters."""
        if self.kind in ("handoff", "config"):
            return 4
        return 4 + len(self.text) // 4 + (6 if self.kind in ("call", "output") else 0)


@dataclass(eq=False)
class Leaving:
    """One event by which rows left the view together."""

    how: str
    reason: str | None = None
    summary: str | None = None


@dataclass
class EditingModel:
    """What one context holds at one version."""

    rows: list[Row] = field(default_factory=list)
    gone: dict[str, Leaving] = field(default_factory=dict)
    pinned: set[str] = field(default_factory=set)
    # In the order in which they came, which need not be that of the rows.
    arrived: list[str] = field(default_factory=list)
    # The contexts that this one was forked from, the root first, each with the version that counts.
    ancestry: list[tuple[str, int]] = field(default_factory=list)
    merged: dict[tuple[str, str], int] = field(default_factory=dict)

    def copy(self) -> "EditingModel":
        """Return a copy of its own."""
        rows, self.rows = self.rows, []
        copied = deepcopy(self)
        self.rows, copied.rows = rows, list(rows)
        return copied

    # What can be seen

    def view(self) -> list[Row]:
        """Return the rows that can be seen."""
        return [row for row in self.rows if row.id not in self.gone]

    def ids(self, wanted: Callable[[Row], bool]) -> list[str]:
        """Return the ids of the rows that can be seen and are wanted."""
        return [row.id for row in self.view() if wanted(row)]

    def row(self, row_id: str) -> Row:
        """Return the row with an id."""
        return next(row for row in self.rows if row.id == row_id)

    def partner(self, row_id: str) -> str | None:
        """Return the first output behind a call, or the call of such an output, if both are in the view, or neither."""
        row = self.row(row_id)
        if row.kind not in ("call", "output"):
            return None
        rows = self.rows if row_id in self.gone else self.view()
        same = [one for one in rows if one.call_id == row.call_id]
        place = next((place for place, one in enumerate(same) if one.kind == "call"), len(same))
        pair = same[place : place + 2]
        if row not in pair or len(pair) < 2:
            return None
        other = pair[1] if pair[0] is row else pair[0]
        return other.id if (other.id in self.gone) == (row_id in self.gone) else None

    def with_partners(self, row_ids: Collection[str]) -> set[str]:
        """Return these rows, and the calls and outputs that go with them."""
        return {*row_ids, *(other for one in row_ids if (other := self.partner(one)) is not None)}

    def instructions(self, rows: Sequence[Row] | None = None) -> str | None:
        """Return the instructions in force."""
        found = [row.text for row in (self.view() if rows is None else rows) if row.sets_config]
        return found[-1] if found else None

    def time_behind_call(self, row: Row) -> float:
        """Return the time of a row, of an output never one before its call's."""
        call = self.partner(row.id) if row.kind == "output" else None
        return row.time if call is None else max(row.time, self.row(call).time)

    # Edits; each returns whether it changes anything

    def append(self, *rows: Row) -> bool:
        """Put rows at the end."""
        self.rows += rows
        self.arrived += [row.id for row in rows]
        return bool(rows)

    def put_before(self, row: Row, anchor: str | None) -> None:
        """Put a row right before another one, or at the end."""
        place = len(self.rows) if anchor is None else self.rows.index(self.row(anchor))
        self.rows.insert(place, row)
        self.arrived.append(row.id)

    def insert(self, rows: Sequence[Row]) -> bool:
        """Put each row before the first younger one that can be seen."""
        for row in sorted(rows, key=lambda row: row.time):
            self.put_before(row, self.younger(row, self.view()))
        return bool(rows)

    def younger(self, row: Row, among: Sequence[Row]) -> str | None:
        """Return the first that is younger."""
        return next((one.id for one in among if one.time > row.time), None)

    def replace_system(self, row: Row) -> bool:
        """Put a system message in the place of the first, and take all there were out of the view."""
        replaced = self.ids(lambda one: one.kind == "system")
        self.put_before(row, replaced[0] if replaced else None)
        self.take_out(replaced, Leaving("replace"))
        return True

    def take_out(self, row_ids: Collection[str], leaving: Leaving) -> bool:
        """Take rows out of the view."""
        self.gone.update((row_id, leaving) for row_id in row_ids)
        return bool(row_ids)

    def evict(self, row_ids: Collection[str], reason: str | None) -> bool | None:
        """Take rows out with their partners; None where one is pinned."""
        leaving = self.with_partners([one for one in row_ids if one not in self.gone])
        return None if leaving & self.pinned else self.take_out(leaving, Leaving("evict", reason))

    def put_back(self, row_ids: Collection[str]) -> bool:
        """Put rows back with their partners."""
        back = self.with_partners([one for one in row_ids if one in self.gone])
        for row_id in back:
            del self.gone[row_id]
        return bool(back)

    def restore_last(self) -> bool:
        """Put back what left last, if it was not summarised or replaced."""
        last = next((one for one in reversed(self.gone.values()) if one.how in TOGETHER), None)
        return self.put_back([row_id for row_id, leaving in self.gone.items() if leaving is last])

    def truncate(self, max_items: int | None, max_tokens: int | None) -> bool:
        """Take out the oldest rows, looking at everything again for each (SPEC V6.3 to V6.5)."""
        view, kept = self.view(), self.protected()
        left = list(view)

        def is_over() -> bool:
            tokens = sum(row.tokens for row in left)
            over_items = max_items is not None and len(left) > max_items
            return over_items or (max_tokens is not None and tokens > max_tokens)

        while is_over():
            oldest = next((row for row in left if row.id not in kept), None)
            if oldest is None:
                break
            place = left.index(oldest)
            output = next((one for one in left[place:] if one.kind == "output" and one.call_id == oldest.call_id), None)
            left.remove(oldest)
            if oldest.kind == "call" and output is not None:
                left.remove(output)
        sides = {kind: {row.call_id for row in left if row.kind == kind} for kind in ("call", "output")}
        whole = sides["call"] & sides["output"]
        left = [row for row in left if row.id in kept or not row.call_id or row.call_id in whole]
        return self.take_out([row.id for row in view if row not in left], Leaving("truncate"))

    def protected(self) -> set[str]:
        """Return the rows that truncation leaves alone (SPEC V6.2), with calls that are awaited and pinned pairs."""
        view = self.view()
        kept = set(self.ids(lambda row: row.kind in ("handoff", "config")))
        kept |= {*self.ids(lambda row: row.is_instructions)[:1], *self.ids(lambda row: row.is_summary)[:1]}
        last_user = self.ids(lambda row: row.kind == "user")[-1:]
        kept |= set(last_user)
        running = view[[row.id for row in view].index(last_user[0]) :] if last_user else view
        kept |= {row.id for row in running if row.kind == "call" and self.partner(row.id) is None}
        return kept | self.with_partners([one for one in self.pinned if one not in self.gone])

    # Summaries

    def summary_plan(self, keep: int) -> tuple[list[Row], list[Row], Row, float] | None:
        """Return what a summary would tell, the summaries it takes in, what it would stand before, and its time."""
        view = self.view()
        users = [place for place, row in enumerate(view) if row.kind == "user"]
        if len(users) <= keep:
            return None
        cut = users[len(users) - keep] if keep else users[0]
        held = {row.id for row in view[cut:]} | {one for one in self.pinned if one not in self.gone}
        free = [row for row in view[:cut] if row.kind not in ("handoff", "config") and not row.is_instructions]
        going = [row for row in free if not self.with_partners([row.id]) & held]
        told = [row for row in going if not row.is_summary]
        if not told:
            return None
        return told, [row for row in going if row.is_summary], view[cut], view[cut - 1].time

    def summarize(self, summary: Row, keep: int) -> None:
        """Put a summary in the place of what it tells."""
        plan = self.summary_plan(keep)
        assert plan is not None
        told, prior, before, _ = plan
        self.put_before(summary, before.id)
        self.take_out([row.id for row in (*prior, *told)], Leaving("summarize", summary=summary.id))

    def told_by(self, summary: str) -> set[str]:
        """Return what a summary tells and is out of the view."""
        return {row_id for row_id, leaving in self.gone.items() if leaving.summary == summary}

    def undo_summary(self) -> bool | None:
        """Put back what the summary that came last tells; None where there is none."""
        undone = [one for one in self.arrived if one not in self.gone and self.told_by(one)]
        if not undone:
            return None
        self.put_back(self.told_by(undone[-1]))
        self.take_out([undone[-1]], Leaving("undo_summary"))
        return True

    # Forks

    def forked(self, name: str, version: int, rows: Sequence[Row] | None = None) -> "EditingModel":
        """Return a child: with everything, or with these rows alone."""
        child = self.copy()
        child.ancestry.append((name, version))
        child.merged = {}
        if rows is not None:
            child.rows, child.gone, child.arrived = list(rows), {}, [row.id for row in rows]
            child.pinned &= set(child.arrived)
        return child

    def recent(self, turns: int) -> list[Row]:
        """Return all instructions, then what the last turns hold, without outputs of calls before them."""
        view = self.view()
        users = [place for place, row in enumerate(view) if row.kind == "user"]
        cut = users[len(users) - turns] if len(users) > turns else 0
        earlier = {row.id for row in view[:cut]}
        rows = [row for row in view if row.is_instructions]
        return rows + [
            row
            for row in view[cut:]
            if not row.is_instructions and not (row.kind == "output" and self.partner(row.id) in earlier)
        ]

    def filtered(self, keeps: Callable[[Row], bool]) -> list[Row]:
        """Return the rows that pass; an output passes where its call does."""
        deciding = [(row, self.partner(row.id) if row.kind == "output" else None) for row in self.view()]
        return [row for row, call in deciding if keeps(row if call is None else self.row(call))]

    # Merges

    def merge(
        self,
        other: "EditingModel",
        source: tuple[str, int],
        base: "EditingModel | None",
        *,
        with_config: bool,
        rule: str,
    ) -> bool:
        """Take what the other side shows and this one never held."""
        known = {row.id for row in self.rows}
        coming = [row for row in other.view() if row.id not in known]
        coming, winning, config_kept, ahead = self._without_config(coming, other, base, with_config, rule)
        coming, losing, summary_kept = self._without_summaries(coming, other, rule)
        is_new = self.merged.get((source[0], "full")) != source[1]
        if not coming and not (is_new and (config_kept or summary_kept)):
            return False
        view = self.view()
        parted = [row.id for row in coming if row.kind == "output" and (other.partner(row.id) or "") in self.gone]
        times = {row.id: other.time_behind_call(row) for row in coming}
        for row in sorted(coming, key=lambda row: (row.id in winning, times[row.id])):
            call = other.partner(row.id) if row.kind == "output" else None
            places = [place + 1 for place, one in enumerate(view) if one.id == call]
            places += [place for place, one in enumerate(view) if one.time > times[row.id]][:1] or [len(view)]
            place = len(view) if row.id in winning else max(places)
            place = min([place, *(number for number, one in enumerate(view) if one.id == ahead.get(row.id))])
            self.put_before(row, view[place].id if place < len(view) else None)
        self.take_out(losing, Leaving("merge", "the other side's summary was kept"))
        self.take_out(parted, Leaving("merge", "its call had left the view"))
        self.merged[source[0], "full"] = source[1]
        return True

    def _without_config(
        self, coming: list[Row], other: "EditingModel", base: "EditingModel | None", takes: bool, rule: str
    ) -> tuple[list[Row], set[str], str, dict[str, str]]:
        theirs = [row for row in coming if row.sets_config]
        before = set() if base is None else {row.id for row in base.rows}
        own = [row.id for row in self.view() if row.sets_config and row.id not in before]
        there = {row.id for row in other.rows}
        unseen = [row_id for number, row_id in enumerate(own) if not there & set(own[number:])]
        clash = theirs and unseen and base is not None
        kept = winner(rule, [self.row(one) for one in unseen], theirs) if clash else ""
        if kept == "theirs":
            return coming, {row.id for row in theirs}, kept, {}
        if not takes or kept:
            return [row for row in coming if row not in theirs], set(), kept, {}
        if not own or base is None:
            return coming, set(), kept, {}
        order = [row.id for row in other.view()]
        followed = {row.id: [one for one in order[order.index(row.id) :] if one in own] for row in theirs}
        ahead = {row_id: later[0] for row_id, later in followed.items() if later}
        return coming, {row.id for row in theirs} - set(ahead), kept, ahead

    def _without_summaries(
        self, coming: list[Row], other: "EditingModel", rule: str
    ) -> tuple[list[Row], list[str], str]:
        both = [
            (mine, row)
            for row in coming
            if row.is_summary
            for mine in self.view()
            if self.told_by(mine.id) & other.told_by(row.id)
        ]
        if not both:
            return coming, [], ""
        own = [row for row in self.view() if row in [mine for mine, _ in both]]
        theirs = [row for row in coming if row in [row for _, row in both]]
        kept = winner(rule, own, theirs)
        if kept == "theirs":
            told = {row_id for row in theirs for row_id in other.told_by(row.id)}
            own = [row for row in own if self.told_by(row.id) <= told]
        else:
            known = {row.id for row in self.rows}
            theirs = [row for row in theirs if other.told_by(row.id) <= known]
        if not (own and theirs):
            return coming, [], ""
        if kept == "theirs":
            return coming, [row.id for row in own], kept
        return [row for row in coming if row not in theirs], [], kept

    def merge_result(self, other: "EditingModel", agent: str | None) -> bool:
        """Take the other side's last answer, with a name on it."""
        answers = [row for row in other.view() if row.kind == "assistant"][-1:]
        if not answers or any(row.id == answers[0].id for row in self.rows):
            return False
        return self.append(replace(answers[0], agent=agent or answers[0].agent))


def winner(rule: str, own: Sequence[Row], theirs: Sequence[Row]) -> str:
    """Return the side that a rule chooses."""
    if rule != "newest":
        return rule
    return "theirs" if max(row.time for row in theirs) > max(row.time for row in own) else "ours"


def row_of(item: Any) -> Row:
    """Return the row that says what a public item says."""
    kinds = {"function_call": "call", "function_call_output": "output", "agent_handoff": "handoff"}
    kind = kinds.get(item.type) or ("config" if item.type == "agent_config_update" else item.role.value)
    text = {
        "call": lambda: item.arguments,
        "output": lambda: item.output,
        "handoff": lambda: item.to_agent,
        "config": lambda: item.instructions,
    }.get(kind, lambda: "".join(item.content))()
    return Row(
        item.id,
        kind,
        item.created_at,
        text,
        getattr(item, "call_id", ""),
        item.agent_id,
        bool(getattr(item, "extra", {}).get("summary")),
    )
