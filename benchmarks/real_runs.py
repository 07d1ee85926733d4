"""Real runs of an airline agent, if they are beside the checkout: half of them to measure, half for training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .workload import Item, Kind

REAL_RUNS = Path(__file__).resolve().parents[2] / "shared" / "data" / "tau_airline_100.json"
KINDS: dict[str, Kind] = {"system": "system", "user": "user", "assistant": "answer"}


def real_runs(*, measured: bool) -> list[list[Item]]:
    """Return the items of every second run: the runs to measure, or the others; nothing if the file is missing."""
    if not REAL_RUNS.exists():
        return []
    runs = json.loads(REAL_RUNS.read_bytes())
    return [_items(run["traj"]) for run in runs[0 if measured else 1 :: 2]]


def _items(messages: list[dict[str, Any]]) -> list[Item]:
    found: list[Item] = []
    for message in messages:
        text = message.get("content") or ""
        if message["role"] == "tool":
            found.append(Item("output", text, message.get("name") or "tool", message.get("tool_call_id") or "none"))
            continue
        if text:
            found.append(Item(KINDS[message["role"]], text))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            found.append(Item("call", function["arguments"], function["name"], call["id"]))
    return found
