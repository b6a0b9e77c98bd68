"""Ctrl-C and SIGTERM: chains stop after the call they are in, and nothing is lost."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether chains are to stop: somebody has called `request`, or `also` says so."""

    def __init__(self, also: Callable[[], bool] = lambda: False) -> None:
        # A plain attribute: whoever handles a signal may not wait for a lock.
        self._requested, self._also = False, also
        self.signal: int | None = None
        """The signal that came."""

    @classmethod
    def at(cls, deadline: float | None) -> "StopRequest":
        """One that is made when the monotonic time has come to `deadline`, if there is one."""
        return cls(lambda: deadline is not None and time.monotonic() >= deadline)

    @property
    def requested(self) -> bool:
        return self._requested or self._also()

    def request(self) -> None:
        self._requested = True


@contextlib.contextmanager
def catch_signals(stop: StopRequest) -> Iterator[None]:
    """While the block runs, Ctrl-C and SIGTERM ask `stop`; a second Ctrl-C does not wait.

    Only where handlers can be set, which is the main thread; what is ignored stays ignored.
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
                # None: set by another program in this process, which could not be put back.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    before[number] = signal.signal(number, handle)
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)
