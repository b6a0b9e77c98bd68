"""Progress bars: live on a terminal, occasional lines of text in a log."""

import collections
import contextlib
import datetime
import math
import os
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from typing import Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.table import Column, Table
from rich.text import Text

# Maximum number of rows shown under a bar.
MAX_ROWS = 8
# Columns dropped first if a terminal is too narrow for all; after them, the last columns go.
SPARE = ("step size", "gradients", "accepted")
# Seconds between two lines in a log.
LOG_SECONDS = 30.0
# The remaining time is estimated from the speed over at most the last ten minutes, since a single
# step may take long, and from the amount of work in recent steps.
SPEED_SECONDS = 600.0
LATELY_SECONDS = 20.0
# Longer times are shown as this, which is close to the largest `timedelta`.
MOST_SECONDS = 1e13


class Bar:
    """A progress bar on standard error, unless `show` is false or the work ends before `delay`.

    The environment variable ``TENSORBNN_PROGRESS=0`` switches all bars off.

    On a terminal the bar is live and may have rows under it. Elsewhere (a file, a batch job), a
    line of text is printed every 30 seconds and at the end. Of the `total` steps, `done` are
    already complete; work stops at the monotonic time `deadline`. All methods are thread-safe.
    """

    def __init__(
        self,
        description: str,
        total: int,
        *,
        done: int = 0,
        show: bool,
        delay: float = 1.0,
        deadline: float | None = None,
        console: Console | None = None,
    ) -> None:
        self._console = console or _standard_error()
        self._display = _Display(self._console)
        fields: dict[str, Any] = {"note": "", "standing": "", "deadline": deadline}
        fields |= {"step_seconds": None, "growing": False}
        self._task = self._display.add_task(description, total=total, completed=done, **fields)
        self._show = show and os.environ.get("TENSORBNN_PROGRESS") != "0"
        is_terminal = self._console.is_terminal and not self._console.is_dumb_terminal
        self.live = self._console.is_jupyter or is_terminal
        """Whether the bar is live on a terminal and shows rows, rather than lines in a log."""
        self._began = self._logged = time.monotonic()
        self._delay, self._started = delay, False
        self._lock, self._speed = threading.Lock(), Speed()
        self._show_when_due()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *error: object) -> None:
        if self._started:
            self._display.stop()
        elif self._show and not self.live and time.monotonic() - self._began >= self._delay:
            self._log()

    def advance(
        self, steps: int, note: str = "", *, work: float | None = None, growing: bool = False
    ) -> None:
        """Count `steps` more steps as done and show `note`.

        If steps differ in cost, `work` is the cost of these, so that the remaining time is based on
        recent steps. If the cost is still `growing`, the remaining time is a lower bound.
        """
        with self._lock:
            self._speed.add(time.monotonic(), steps, steps if work is None else work)
            fields: dict[str, Any] = {"step_seconds": self._speed.step_seconds, "growing": growing}
            self._display.update(self._task, advance=steps, note=note, **fields)
            self._show_when_due()

    def describe(self, description: str) -> None:
        self._display.update(self._task, description=description)

    def set_total(self, total: int, standing: str) -> None:
        """Change the total number of steps, and describe how far the run is from its goal."""
        with self._lock:
            task = self._display.tasks[0]
            task.finished_time = None
            self._display.update(task.id, total=total, standing=standing)
            self._show_when_due()

    def row(self, number: int, cells: Mapping[str, str]) -> None:
        """Set row `number` of the table under the bar; `cells` holds its text by column.

        At most eight rows are shown, the most recently set ones. A log shows no rows.
        """
        self._display.set_row(number, cells)

    def _show_when_due(self) -> None:
        now = time.monotonic()
        if not self._show or self._started:
            return
        if self.live and now >= self._began + self._delay:
            self._display.start()
            self._started = True
        elif not self.live and now >= self._logged + LOG_SECONDS:
            self._log()
            self._logged = now

    def _log(self) -> None:
        line = log_line(self._display.tasks[0])
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Speed:
    """Estimates how long a step takes, from the speed of the work and the work per recent step."""

    def __init__(self) -> None:
        # Time, steps and work so far, at each update.
        self._all: collections.deque[tuple[float, float, float]] = collections.deque()
        self._late: collections.deque[tuple[float, float, float]] = collections.deque()

    def add(self, now: float, steps: float, work: float) -> None:
        _, steps_before, work_before = self._all[-1] if self._all else (now, 0.0, 0.0)
        for points, seconds in ((self._all, SPEED_SECONDS), (self._late, LATELY_SECONDS)):
            points.append((now, steps_before + steps, work_before + work))
            while len(points) > 2 and points[0][0] < now - seconds:
                points.popleft()

    @property
    def step_seconds(self) -> float | None:
        """Seconds per step; ``None`` while unknown."""
        (began, _, work_began), (ended, _, work_ended) = self._all[0], self._all[-1]
        steps, work = (self._late[-1][i] - self._late[0][i] for i in (1, 2))
        if not (ended > began and work_ended > work_began and steps > 0):
            return None
        return work / steps * (ended - began) / (work_ended - work_began)


def say(text: str) -> None:
    """Print a line on standard error."""
    _standard_error().print(text, markup=False, highlight=False, soft_wrap=True)


def log_line(task: Task) -> str:
    """A bar as a line of text."""
    count = f"{task.completed:,.0f} of {task.total or 0:,.0f}"
    said = [task.fields["standing"], task.fields["note"]]
    parts = [f"{task.description} {task.percentage:.0f} %", count, *said, _time(task)]
    return ", ".join(part for part in parts if part)


def rows_table(rows: Mapping[int, Mapping[str, str]], width: int) -> list[RenderableType]:
    """The most recently set rows, sorted by number, with column headings."""
    shown = sorted(list(rows)[-MAX_ROWS:])
    # Columns in the order of the fullest row: other rows may not have all cells yet.
    columns = max((rows[number] for number in shown), key=len)
    cells = {name: [rows[number].get(name, "") for number in shown] for name in columns}
    widths = _column_widths(cells, width)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, size in widths.items():
        heading = Text("\n".join(textwrap.wrap(name, size)))
        table.add_column(heading, justify="right", vertical="bottom", width=size)
    for texts in zip(*(cells[name] for name in widths), strict=True):
        table.add_row(*map(Text, texts))
    hidden = len(rows) - len(shown)
    left_out = ", ".join(name for name in cells if name not in widths)
    notes = [f"... and {hidden} more"] if hidden else []
    notes += [f"(too narrow for {left_out})"] if left_out else []
    return [table, *(Text(note, style="dim") for note in notes)]


def _column_widths(cells: Mapping[str, list[str]], width: int) -> dict[str, int]:
    """Column widths with which a table fits into `width`.

    Headings wrap between words. Cells never wrap; instead, columns are dropped.
    """
    shown = dict(cells)
    while True:
        for most in range(max(map(len, shown)), 0, -1):
            widths = {
                name: max(_folded(name, most), *map(len, texts)) for name, texts in shown.items()
            }
            if sum(widths.values()) + 2 * (len(widths) - 1) <= width or len(widths) == 1:
                return widths
        del shown[next((name for name in SPARE if name in shown), list(shown)[-1])]


def _folded(heading: str, most: int) -> int:
    """Width of a heading wrapped to `most` characters, or of its longest word."""
    words = max(map(len, heading.split()), default=1)
    return max(map(len, textwrap.wrap(heading, max(most, words))), default=1)


class _Display(Progress):
    """The bar, and the table under it."""

    def __init__(self, console: Console) -> None:
        self._rows: dict[int, Mapping[str, str]] = {}
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            _TimeColumn(table_column=Column(no_wrap=True)),
            console=console,
            refresh_per_second=4,
        )

    def set_row(self, number: int, cells: Mapping[str, str]) -> None:
        with self._lock:
            self._rows.pop(number, None)  # so that it comes last
            self._rows[number] = cells

    def get_renderables(self) -> "list[RenderableType]":
        shown: list[RenderableType] = [self.make_tasks_table(self.tasks)]
        if self.tasks and self.tasks[0].fields["standing"]:
            shown.append(Text(self.tasks[0].fields["standing"]))
        return [*shown, *rows_table(self._rows, self.console.width)] if self._rows else shown


class _TimeColumn(ProgressColumn):
    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        return Text(_time(task), style="progress.remaining")


def _time(task: Task) -> str:
    """The elapsed time, or the remaining time if it is known."""
    if task.finished:
        return f"{_hours(task.elapsed or 0.0)} in all"
    step_seconds, deadline = task.fields["step_seconds"], task.fields["deadline"]
    left = math.inf if step_seconds is None else (task.remaining or 0.0) * step_seconds
    if deadline is not None and deadline - time.monotonic() < left:
        return f"{_hours(max(deadline - time.monotonic(), 0.0))} to the limit"
    if math.isinf(left):
        return ""
    return f"{'at least ' if task.fields['growing'] else ''}{_hours(left)} left"


def _hours(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(min(seconds, MOST_SECONDS))))


def _standard_error() -> Console:
    if sys.stderr is None:
        return Console(stderr=True)
    return Console(file=cast(TextIO, _Unfailing(sys.stderr)))


class _Unfailing:
    """A file whose reader may disappear (a terminal, a pipe) or whose disk may fill up.

    The output is then lost, but the work continues.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()
