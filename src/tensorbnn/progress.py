"""Progress on the terminal: a bar for anything that takes longer than a second."""

import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Bar:
    """A progress bar on standard error; quiet where not asked for, or done before `delay`.

    Parameters
    ----------
    description
        What is being done.
    total
        Number of steps in all.
    show
        Whether to show anything.
    delay
        Seconds to wait before anything is shown.
    """

    def __init__(self, description: str, total: int, *, show: bool, delay: float = 1.0) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not show,
        )
        self._begin = time.monotonic() + delay
        self._task = self._progress.add_task(description, total=total, note="")
        self._lock = threading.Lock()
        self._visible = False
        self._show_when_due()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._visible:
            self._progress.stop()

    def advance(self, steps: int, note: str = "") -> None:
        """Count `steps` more steps as done and show `note`; may be called from any thread."""
        with self._lock:
            self._progress.update(self._task, advance=steps, note=note)
            self._show_when_due()

    def describe(self, description: str) -> None:
        """Change what is said to be done."""
        with self._lock:
            self._progress.update(self._task, description=description)

    def _show_when_due(self) -> None:
        if not self._visible and time.monotonic() >= self._begin:
            self._progress.start()
            self._visible = True
