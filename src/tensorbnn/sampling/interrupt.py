"""Ctrl-C and SIGTERM: chains stop after what they are doing, and nothing is lost."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether chains are to stop: somebody has set `asked`, or `also` says so."""

    def __init__(self, also: Callable[[], bool] = lambda: False) -> None:
        # A plain attribute: whoever handles a signal may not wait for a lock.
        self._asked, self._also = False, also

    @property
    def asked(self) -> bool:
        """Whether chains are to stop."""
        return self._asked or self._also()

    @asked.setter
    def asked(self, asked: bool) -> None:
        self._asked = asked


class Interrupts:
    """While the block runs, Ctrl-C and SIGTERM ask `stop`; a second Ctrl-C does not wait.

    Only where handlers can be set, which is the main thread; what is ignored stays ignored.

    Attributes
    ----------
    received : int or None
        The signal that came.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._before: dict[int, Any] = {}
        self.received: int | None = None

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # None: set by another program in this process, which could not be put back.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = self.received or number
        self._stop.asked = True
