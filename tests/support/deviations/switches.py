"""Finds the switches of a model that explain the difference between a recorded answer and ours."""

from collections.abc import Callable, Collection
from typing import Any

Model = Callable[[Collection[str]], Any]
UNEXPLAINED = "unexplained"


def explanation(model: Model, numbers: Collection[str], *, recorded: Any, ours: Any) -> list[str]:
    """
    Return the numbers of the deviations that lead from what was recorded to our answer: none where they are equal,
    `unexplained` if the model does not give both answers.
    """
    if model(()) != recorded or model(numbers) != ours:
        return [UNEXPLAINED]
    needed = list(numbers)
    for number in numbers:
        without = [other for other in needed if other != number]
        if model(without) == ours:
            needed = without
    return needed
