"""Timing in turns: a disturbance of the machine affects all contestants."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np


class Timing(NamedTuple):
    """Seconds of each turn, and of the first call, which compiles."""

    first_call: float
    wall: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.wall))

    @property
    def best(self) -> float:
        return min(self.wall)


def in_turns(calls: Mapping[str, Callable[[], Any]], repetitions: int) -> dict[str, Timing]:
    """Time every call `repetitions` times, starting each turn with the next call."""
    names = list(calls)
    first = {name: seconds(calls[name]) for name in names}
    found: dict[str, list[float]] = {name: [] for name in names}
    for repetition in range(repetitions):
        for turn in range(len(names)):
            name = names[(repetition + turn) % len(names)]
            found[name].append(seconds(calls[name]))
    return {name: Timing(first[name], tuple(found[name])) for name in names}


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of a call."""
    began = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - began
