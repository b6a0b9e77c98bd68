"""Progress: a live display on a terminal, a line now and then in a log."""

import datetime
import textwrap
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
)
from rich.table import Column, Table
from rich.text import Text

# Most rows that are shown under a bar.
MAX_ROWS = 8
# Seconds between two lines in a log.
LOG_SECONDS = 30.0
# The time left comes from the steps of at most the last ten minutes; one step may be a long one.
SPEED_SECONDS = 600.0


class Bar:
    """A progress bar on standard error; quiet where not asked for, or done before `delay`.

    On a terminal the bar is live and may have rows under it. Elsewhere (a file, a batch job) it is
    a line of text every 30 seconds and one at the end. All methods may be called from any thread.

    Parameters
    ----------
    description
        What is being done.
    total
        Number of steps in all.
    done
        Number of steps that were done before.
    show
        Whether to show anything.
    delay
        Seconds to wait before anything is shown.
    deadline
        The monotonic time at which the work is stopped, where there is one.
    console
        Where to show it; standard error by default.
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
        self._console = console or Console(stderr=True)
        self._display = _Display(self._console)
        fields: dict[str, Any] = {"note": "", "standing": "", "deadline": deadline}
        self._task = self._display.add_task(description, total=total, completed=done, **fields)
        self._show = show
        self.live = _is_live(self._console)
        """Whether the bar moves on a terminal and shows rows; otherwise it is lines in a log."""
        self._began = self._logged = time.monotonic()
        self._delay = delay
        self._lock = threading.Lock()
        self._started = False
        self._show_when_due()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._started:
            self._display.stop()
        elif self._show and not self.live and time.monotonic() - self._began >= self._delay:
            self._log()

    def advance(self, steps: int, note: str = "") -> None:
        """Count `steps` more steps as done and show `note`."""
        with self._lock:
            self._display.update(self._task, advance=steps, note=note)
            self._show_when_due()

    def describe(self, description: str) -> None:
        """Change what is said to be done."""
        with self._lock:
            self._display.update(self._task, description=description)

    def aim(self, total: int, standing: str) -> None:
        """Change the number of steps in all, and say in words how far from the aim they are."""
        with self._lock:
            self._display.aim(total, standing)
            self._show_when_due()

    def row(self, number: int, cells: Mapping[str, str]) -> None:
        """Set row `number` of the table under the bar; `cells` are its texts by column.

        Of more than eight rows the eight that were set last are shown. In a log there are none.
        """
        with self._lock:
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


def say(text: str) -> None:
    """A line on standard error."""
    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


def log_line(task: Task) -> str:
    """A bar as a line of text."""
    count = f"{task.completed:,.0f} of {task.total or 0:,.0f}"
    said = [task.fields["standing"], task.fields["note"]]
    parts = [f"{task.description} {task.percentage:.0f} %", count, *said, _time(task)]
    return ", ".join(part for part in parts if part)


def rows_table(rows: Mapping[int, Mapping[str, str]], width: int) -> list[RenderableType]:
    """The rows that were set last, in order of their numbers, under the names of their columns."""
    shown = sorted(list(rows)[-MAX_ROWS:])
    # Columns in the order of the fullest row: some cells of others may not be known yet.
    columns = max((rows[number] for number in shown), key=len)
    cells = {name: [rows[number].get(name, "") for number in shown] for name in columns}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, size in _column_widths(cells, width).items():
        heading = Text("\n".join(textwrap.wrap(name, size)))
        table.add_column(heading, justify="right", vertical="bottom", width=size)
    for texts in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, texts))
    hidden = len(rows) - len(shown)
    return [table, Text(f"... and {hidden} more")] if hidden else [table]


def _column_widths(cells: Mapping[str, list[str]], width: int) -> dict[str, int]:
    """Widths with which a table fits into `width`: headings are folded, never the cells."""
    longest = max(map(len, cells))
    for most in range(longest, 3, -1):
        widths = {
            name: max(min(len(name), most), *map(len, texts)) for name, texts in cells.items()
        }
        if sum(widths.values()) + 2 * (len(widths) - 1) <= width:
            break
    return widths


class _Display(Progress):
    """The bar, and the table under it."""

    def __init__(self, console: Console) -> None:
        self._rows: dict[int, Mapping[str, str]] = {}
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            _TimeColumn(),
            console=console,
            refresh_per_second=4,
            speed_estimate_period=SPEED_SECONDS,
        )

    def set_row(self, number: int, cells: Mapping[str, str]) -> None:
        with self._lock:
            self._rows.pop(number, None)  # so that it comes last
            self._rows[number] = cells

    def aim(self, total: int, standing: str) -> None:
        with self._lock:
            task = self.tasks[0]
            # Not by `update`, which forgets how fast the work was.
            task.total, task.finished_time, task.finished_speed = total, None, None
            self.update(task.id, standing=standing)

    def get_renderables(self) -> "list[RenderableType]":
        shown: list[RenderableType] = [self.make_tasks_table(self.tasks)]
        if self.tasks and self.tasks[0].fields["standing"]:
            shown.append(Text(self.tasks[0].fields["standing"]))
        return [*shown, *rows_table(self._rows, self.console.width)] if self._rows else shown


class _TimeColumn(ProgressColumn):
    max_refresh = 0.5

    def get_table_column(self) -> Column:
        return Column(no_wrap=True)

    def render(self, task: Task) -> Text:
        return Text(_time(task), style="progress.remaining")


def _time(task: Task) -> str:
    """The time that was taken, or that is left as far as it is known."""
    if task.finished:
        return f"{_hours(task.elapsed or 0.0)} in all"
    left, deadline = task.time_remaining, task.fields["deadline"]
    if deadline is not None:
        limit = max(deadline - time.monotonic(), 0.0)
        if left is None or limit < left:
            return f"{_hours(limit)} to the limit"
    return "" if left is None else f"{_hours(left)} left"


def _hours(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))


def _is_live(console: Console) -> bool:
    return console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal)
