"""The results of a case: rows of the common table, each with its goal, and separate tables for a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .timing import Stats


class Unit(NamedTuple):
    """How a figure is shown; a rate is one divided by the measured time, and more is better."""

    name: str
    factor: float = 1.0
    is_rate: bool = False

    def show(self, measured: float) -> float:
        """Return a measured figure in this unit."""
        return 1 / measured if self.is_rate else measured * self.factor


MICROSECONDS = Unit("µs", 1e6)
MILLISECONDS = Unit("ms", 1e3)
RATE = Unit("/s", is_rate=True)
PLAIN = Unit("")


class Goal(NamedTuple):
    """A limit on ours: as a multiple of raw, or, with `absolute`, on the figure itself as it is shown."""

    limit: float
    at_least: bool = False
    absolute: bool = False

    def text(self, unit: Unit) -> str:
        """Return the goal in words."""
        sign = ">=" if self.at_least else "<="
        return f"{sign} {self.limit:g}" + (f" {unit.name}".rstrip() if self.absolute else " x raw")


@dataclass(frozen=True)
class Row:
    """One line of the table: the figures of all contestants for the same task."""

    label: str
    database: str
    unit: Unit
    stats: Mapping[str, Stats]
    goal: Goal | None = None

    def shown(self, name: str) -> float | None:
        """Return a contestant's figure in the row's unit; None where it did not take part."""
        stats = self.stats.get(name)
        return None if stats is None else self.unit.show(stats.median)

    def to_raw(self, name: str) -> float | None:
        """Return a contestant's figure as a multiple of raw."""
        figure, raw = self.shown(name), self.shown("raw")
        return None if figure is None or not raw else figure / raw

    @property
    def is_met(self) -> bool | None:
        """Whether ours meets the goal; None if there is no goal, or nothing to compare with."""
        if self.goal is None:
            return None
        reached = self.shown("ours") if self.goal.absolute else self.to_raw("ours")
        if reached is None:
            return None
        return reached >= self.goal.limit if self.goal.at_least else reached <= self.goal.limit

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain data, with all that was measured."""
        return {
            "case": self.label,
            "database": self.database,
            "unit": self.unit.name,
            "goal": self.goal.text(self.unit) if self.goal else None,
            "met": self.is_met,
            "contestants": {name: self._figures(name, stats) for name, stats in self.stats.items()},
        }

    def _figures(self, name: str, stats: Stats) -> dict[str, Any]:
        show = self.unit.show
        return {
            "median": show(stats.median),
            "to_raw": self.to_raw(name),
            "mean": show(stats.mean),
            "processor_seconds": stats.processor_time,
            "first": None if stats.first_run is None else show(stats.first_run),
            **{f"p{percent}": show(stats.percentile(percent)) for percent in (50, 95, 99)},
            "blocks": len(stats.blocks),
            "runs": sum(map(len, stats.blocks)),
        }


@dataclass(frozen=True)
class Table:
    """A separate table for a study."""

    title: str
    headers: Sequence[str]
    lines: list[list[str]] = field(default_factory=list)
    note: str = ""
