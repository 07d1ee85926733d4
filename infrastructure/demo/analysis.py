"""Runs: an analyst who answers questions about late orders, round after round, with sub-agents for single tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from ...domain.log.envelope import acting
from ...domain.trajectory.run import Run
from ..store import Store
from .simulation import DAY, Job, Simulation

USER, SESSION = "mia.frey", "late-orders"
# The question of a round, the tables that it reads, and its conclusion.
ROUNDS = (
    ("How many orders were late last quarter?", ("orders", "deliveries"), "412 of 9,180 orders came late."),
    (
        "Which warehouses do they come from?",
        ("orders", "warehouses", "staff"),
        "Two thirds left from Graz, where a shift was missing.",
    ),
    ("What did it cost us?", ("refunds", "orders"), "31,900 euros in refunds, and 44 customers who left."),
    (
        "Can the next quarter be foreseen?",
        ("orders", "holidays", "weather"),
        "Not from the weather; from the shifts, within 8 %.",
    ),
    ("Draft a note for the board, with one chart.", ("orders",), ""),
)
COLUMNS = ("order_id", "promised_at", "delivered_at", "warehouse", "carrier", "amount")


def jobs(store: Store, simulation: Simulation, *, days: float, nodes: int) -> list[tuple[float, Job]]:
    """Return the rounds of one session, a day apart, the last one unfinished; and a crawl of so many nodes."""
    first = days - len(ROUNDS) + 0.4
    rounds = range(len(ROUNDS))
    answers: list[tuple[float, Job]] = [
        ((first + number) * DAY, partial(answer_round, store, simulation, number)) for number in rounds
    ]
    return [(2 * DAY, partial(crawl, store, simulation, nodes)), *answers] if nodes else answers


async def answer_round(store: Store, simulation: Simulation, number: int) -> None:
    """Answer one question: plan, read tables side by side, go down a wrong way, describe the data, conclude."""
    question, tables, conclusion = ROUNDS[number]
    work = Analysis(simulation, store.run(USER, SESSION, number, agent="analyst"))
    run = work.run
    with acting(correlation_id=f"late-orders-{number}"):
        run.init_todolist(pre_workflow=["read the question"], post_workflow=["describe the data", "write the note"])
        run.pop_todo("pre")
        with acting(actor=USER):
            query = run.register_query(question)
        run.record_messages({"role": "user", "content": question})
        await work.pause(5, 40)
        plan = run.register_node(
            "State", "the plan", [query], state=f"Read {', '.join(tables)}, then join them by order."
        )
        for table in tables:
            run.append_todo("read", {"table": table})
        run.name_version("planned")
        found = [await work.read(plan, table) for table in tables]
        wrong = await work.wrong_way(plan, number)
        if number in (1, 2):
            await sub_run(store, simulation, number, tables[0])
        joined = await work.join(found, number)
        run.add_edge(plan, joined, "triggers")
        run.remove_node(wrong, reason="the table of last year") if number == 1 else None
        await work.describe()
        if not conclusion:
            # The round is unfinished: steps are queued, and there is no conclusion.
            run.append_todo("draw", {"chart": "late orders by week"})
            run.steps_max = 2
            run.append_todo("draw", {"chart": "a second chart"})
            run.append_todo("draw", {"chart": "one too many"})
            run.return_step(taken) if (taken := run.pop_todo()) else None
            return
        run.register_node("State", "the answer", [joined], state=conclusion)
        run.record_messages({"role": "assistant", "content": conclusion})
        run.name_version("answered")
        run.close("answered")
    await work.corrected(found[0])


async def sub_run(store: Store, simulation: Simulation, number: int, table: str) -> None:
    """Have a sub-agent look at one table, in a run of its own."""
    work = Analysis(simulation, store.run(USER, SESSION, number, number, agent=f"{table} agent"))
    query = work.run.register_query(f"Which columns of {table} say when an order was promised?")
    action, _ = await work.read(query, table)
    work.run.register_node("State", "", [action], state="promised_at, in local time; delivered_at is UTC.")
    work.run.close("answered")


class Analysis:
    """A run, and the steps that an analyst takes in it."""

    def __init__(self, simulation: Simulation, run: Run) -> None:
        self.simulation, self.run = simulation, run
        self.random = Random(run.id)

    async def pause(self, low: float, high: float) -> None:
        """Wait for a time between two numbers of seconds."""
        await self.simulation.wait(self.random.uniform(low, high))

    async def read(self, before: str, table: str) -> tuple[str, str]:
        """Read a table beside others: return the names of the action and of the table."""
        await self.pause(1, 9)
        self.run.pop_todo()
        rows = self.random.randint(900, 60_000)
        action = call(self.run, before, "read_table", {"table": table}, f"{rows:,} rows", add_pt=True)
        node = self.run.register_node("Table", "", [action], label=table, path=f"/data/{table}.parquet")
        for column in self.random.sample(COLUMNS, 4):
            self.run.register_node(
                "Column",
                "",
                [action],
                label=f"{table}.{column}",
                from_table=table,
                values=[self.random.randint(1, 99) for _ in range(3)],
                supplementary_schemas={},
            )
        return action, node

    async def wrong_way(self, before: str, number: int) -> str:
        """Try twice something that fails, and give it up: no node follows."""
        name, missing = before, f"orders_{2030 - number}"
        for attempt in range(2):
            await self.pause(2, 12)
            fault = f"Error: no such table: {missing} (attempt {attempt + 1})"
            name = call(self.run, before, "run_query", {"sql": f"select * from {missing}"}, fault, add_pt=True)
            self.run.move_pointers(leave=[name])
        return name

    async def join(self, found: Sequence[tuple[str, str]], number: int) -> str:
        """Join what was read, and return the name of the step that did."""
        await self.pause(10, 60)
        between = self.run.register_node(
            "State", "", [action for action, _ in found], state="All tables have the order in them."
        )
        script = f"orders.join({', '.join(node for _, node in found)}, on='order_id')"
        action = call(self.run, between, "run_script", {"script": script}, json.dumps({"rows": 9_180 - number}))
        self.run.register_node(
            "Knowledge",
            "",
            [action],
            label=f"late orders {number}",
            knowledge_type="json",
            knowledge_content={"late": 412 - 9 * number, "of": 9_180},
        )
        self.run.register_node(
            "File", "", [action], label=f"late-{number}.csv", path=f"/out/late-{number}.csv", source="run_script"
        )
        return action

    async def describe(self) -> None:
        """Have a model describe the data that was found; one answer fails, and the next profiling repeats it."""
        texts = iter(("", *(f"What was read in step {number}, one line for an order." for number in range(1, 99))))

        def portray(_prompt: str) -> str:
            return next(texts)

        self.run.portray_with(portray, model="north-small", limit=1, attempts_max=1)
        for _ in range(2):
            await self.pause(4, 20)
            self.run.profiling()
            await self.run.wait_portraits()

    async def corrected(self, read: tuple[str, str]) -> None:
        """Let a person change what a model had written."""
        await self.pause(1_000, 4_000)
        table = read[1]
        with acting(actor=USER, because=self.run.versions(table)[-1].recorded):
            self.run.modify_node(
                table, {"description": "Orders as they were promised, without the ones that were cancelled"}
            )


def call(run: Run, before: str, tool: str, params: dict[str, Any], output: str, *, add_pt: bool = False) -> str:
    """Register a call of a tool and what it returned, and return the name of the node."""
    success = not output.startswith("Error")
    about: dict[str, Any] = {"action": tool, "params": params, "output": output, "success": success}
    return run.register_node("Action", "", [before], "triggers", add_pt=add_pt, **about)


async def crawl(store: Store, simulation: Simulation, nodes: int) -> None:
    """Record a crawl: a graph of so many nodes, with chains, fans of pages, ends that failed and a few joins."""
    run = store.run("ops", "crawl", 0, agent="crawler")
    random = Random("crawl")
    ends = [run.register_query("Which pages of the archive still link to the old price list?")]
    made = 1
    while made < nodes:
        await simulation.wait(random.uniform(0.5, 4))
        # As many at once as a crawler takes: one commit.
        with store.transaction():
            end = ends.pop(random.randrange(len(ends))) if len(ends) > 12 else random.choice(ends)
            success = random.random() > 0.08
            pages = random.choice((0, 1, 2, 3, 6, 9))
            output = f"{pages} links" if success else "Error: 404"
            page = call(run, end, "fetch", {"page": made}, output, add_pt=True)
            made += 1
            for number in range(pages if success else 0):
                run.register_node(
                    "File", "", [page], label=f"page-{made}", path=f"/archive/{made}.html", source=f"link {number}"
                )
                made += 1
            if success:
                ends.append(run.register_node("State", "", [page], state=f"{pages} pages, none with prices"))
                made += 1
    run.name_version("crawled")
