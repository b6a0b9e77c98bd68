"""How fast chains are, and how much of what comes next still fits into the time that is left.

Only a run with a limit of time looks at this; how it is cut into calls does not change its draws.
"""

import math
from typing import NamedTuple, final

# Part of the time that is planned with: chains may become slower, by other programs for example.
SAFETY = 0.97
LARGEST = 2**31 - 1


class Budget(NamedTuple):
    """What a call may do at most."""

    transitions: int
    gradients: int
    """Below 0 without a limit of time."""


@final
class Pace:
    """Seconds of a gradient and of a transition, from the calls so far.

    Of a sampler that `announces` the gradients of a transition, gradients count; otherwise the
    time that transitions took lately.
    """

    def __init__(self, *, announces: bool) -> None:
        self._announces = announces
        self._gradient, self._transition = 0.0, 0.0

    def add(self, transitions: int, gradients: int, seconds: float) -> None:
        """Take in a call."""
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
    """A mean that follows what becomes slower at once, and what becomes faster over some calls."""
    return max(latest, (before + latest) / 2)
