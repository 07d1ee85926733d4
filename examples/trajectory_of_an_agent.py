"""
An agent whose every step is kept as a graph, one run for each question of a conversation.

    python examples/trajectory_of_an_agent.py FOLDER                # a made-up conversation
    python examples/trajectory_of_an_agent.py FOLDER airline.json   # the first one in a file of tau-bench runs

It needs no model: what the agent says and calls, and what its tools return, comes from the transcript. Called again
it answers nothing twice.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from transcripts import conversation

import refold
from refold.trajectory import Run, write_round_files

Message = dict[str, Any]


def plan(run: Run, messages: list[Message]) -> None:
    """The planner: queue what is to be done. What a tool will answer is known here already."""
    outputs = [(message["tool_call_id"], message["content"]) for message in messages if message["role"] == "tool"]
    for message in messages:
        if message["role"] == "assistant" and message.get("content"):
            run.append_todo("say", {"text": message["content"]})
        for call in message.get("tool_calls") or ():
            # Ids repeat: the first output that is left is that of the call.
            index = [call_id for call_id, _ in outputs].index(call["id"])
            run.append_todo("call", {**call["function"], "output": outputs.pop(index)[1]})


def execute(run: Run) -> None:
    """The executor: take step after step, and go on from the ends of the active branches."""
    while step := run.pop_todo():
        ends, params = sorted(run.get_active_branch()), step["params"]
        if step["name"] == "say":
            run.register_node("State", "", ends, state=params["text"])
        else:
            call_tool(run, ends, params["name"], json.loads(params["arguments"]), params["output"])


def call_tool(run: Run, ends: list[str], name: str, arguments: Message, output: str) -> None:
    """Register a call, and the data that it returned; one that failed is a branch on which nobody goes on."""
    failed = output.startswith("Error")
    fields: Message = {"action": name, "params": arguments, "output": output, "success": not failed}
    action = run.register_node("Action", "", ends, "triggers", add_pt=failed, **fields)
    if failed:
        run.move_pointers(leave=[action])
    elif output.startswith(("{", "[")):
        data = {"knowledge_type": "json", "knowledge_content": json.loads(output)}
        run.register_node("Knowledge", "", [action], label=" ".join([name, *map(str, arguments.values())]), **data)


def describe(prompt: str) -> str:
    """Stand in for a model, which would say in a sentence what the data are."""
    return f"What was found by {prompt.partition('Label: ')[2].split()[0]}."


async def answer(store: refold.Store, number: int, messages: list[Message], folder: Path) -> Run:
    """Go through one round. Those before it are restored when its run is opened."""
    run = store.run("mia", "heron-air", number, agent="heron")
    if run.is_closed:
        return run  # answered when the example was called before
    run.portray_with(describe, model="stand-in")
    run.init_todolist(pre_workflow=["ask"], post_workflow=["portray"])
    while run.pop_todo("pre"):
        run.register_query(messages[0]["content"])
    run.name_version("asked")
    run.record_messages(*messages)
    plan(run, messages)
    execute(run)
    while run.pop_todo("post"):
        run.profiling()
        await run.wait_portraits(timeout=10)
    run.close("answered")
    write_round_files(run, folder / "heron-air")
    return run


async def main(folder: str, transcript: str | None = None) -> None:
    """Play a conversation, then look back."""
    messages = json.loads(Path(transcript).read_text())[0]["traj"] if transcript else conversation(0, 1)
    asked = [place for place, message in enumerate(messages) if message["role"] == "user"]
    with refold.open(Path(folder, "agent.db")) as store:
        rounds = [messages[start:end] for start, end in pairwise([*asked, len(messages)])]
        runs = [await answer(store, number, one, Path(folder)) for number, one in enumerate(rounds)]
        for run in runs:
            before, active = run.at("asked").graph(), run.graph(trimmed=True)
            left = [name for name in run.graph() if name not in active]
            print(f"round {run.run_id}: from {len(before)} to {len(active)} nodes; nobody went on from {left}")
        for change in run.history(run.nodes("Knowledge")[0], "description"):
            print(f"{change.reference}: {change.old!r} -> {change.new!r} by {change.actor}, after {change.cause}")
        print(run.graph().to_mermaid())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
