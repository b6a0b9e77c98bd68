"""The speed of chains, and how much of what comes next fits into the remaining time.

Only a run with a time limit uses this; how it is divided into calls does not change its draws.
"""

import math
from typing import NamedTuple, final

# Share of the remaining time to plan for: other programs, for example, may slow chains down.
SAFETY = 0.97
LARGEST = 2**31 - 1


class Budget(NamedTuple):
    """The limits of a call."""

    transitions: int
    gradients: int
    """Below 0 without a time limit."""


@final
class Pace:
    """Seconds per gradient and per transition, from the calls so far.

    Gradients count if the sampler `announces` how many a transition takes; otherwise the time of
    recent transitions does.
    """

    def __init__(self, *, announces: bool) -> None:
        self._announces = announces
        self._gradient, self._transition = 0.0, 0.0

    def add(self, transitions: int, gradients: int, seconds: float) -> None:
        """Add the measured time of a call."""
        if transitions:
            self._transition = _slower(self._transition, seconds / transitions)
        if gradients:
            self._gradient = _slower(self._gradient, seconds / gradients)

    def budget(self, seconds: float) -> Budget:
        """What fits into `seconds`; the first transition always does, since nothing is known."""
        if math.isinf(seconds):
            return Budget(LARGEST, -1)
        known, seconds = bool(self._transition), SAFETY * max(seconds, 0.0)
        if not known:
            return Budget(1, -1)
        if self._announces:
            return Budget(LARGEST, min(int(seconds / max(self._gradient, 1e-12)), LARGEST))
        return Budget(min(int(seconds / self._transition), LARGEST), -1)


def _slower(before: float, latest: float) -> float:
    """A running mean of seconds that rises at once, and falls over several calls."""
    return max(latest, (before + latest) / 2)
