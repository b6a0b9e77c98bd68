"""Ctrl-C and SIGTERM: chains stop after the call they are in, and nothing is lost."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether chains should stop: `request` was called, time is up, or `also` returns true.

    Chains may run until the monotonic time `deadline`, less the seconds that `reserve` returns for
    the work afterwards.
    """

    def __init__(
        self,
        also: Callable[[], bool] = lambda: False,
        deadline: float | None = None,
        reserve: Callable[[], float] = lambda: 0.0,
    ) -> None:
        # A plain attribute: a signal handler may not wait for a lock.
        self._requested, self._limited, self._also = False, False, also
        self._deadline, self._reserve = deadline, reserve
        self.signal: int | None = None
        """The signal that was received."""

    @property
    def requested(self) -> bool:
        return self._requested or self.seconds_left <= 0 or self._also()

    @property
    def by_limit(self) -> bool:
        """Whether a limit is the reason."""
        return self._limited or self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        """Seconds until chains should stop; infinite without a deadline."""
        if self._deadline is None:
            return math.inf
        return self._deadline - self._reserve() - time.monotonic()

    def request(self, *, by_limit: bool = False) -> None:
        self._requested, self._limited = True, self._limited or by_limit


@contextlib.contextmanager
def catch_signals(stop: StopRequest) -> Iterator[None]:
    """While the block runs, Ctrl-C and SIGTERM request a `stop`; a second Ctrl-C does not wait.

    Handlers can be set only in the main thread; signals that are ignored stay ignored.
    """

    def handle(number: int, _: FrameType | None) -> None:
        if stop.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.signal = stop.signal or number
        stop.request()

    before: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # None: the handler was not set from Python, and could not be restored.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    before[number] = signal.signal(number, handle)
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)
