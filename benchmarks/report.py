"""What the benchmark says: the machine, a table for the terminal, Markdown and JSON."""

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from benchmarks.contestants import BLACKJAX
from benchmarks.workloads import Workload

ABOUT = (
    "Microseconds per leapfrog step per chain: median and minimum of the wall time, median of the "
    "CPU time of all threads. Ratio: BlackJAX's median over the sampler's, above 1 where it "
    "is faster than BlackJAX, with the quartiles over the turns. First call: seconds, compilation "
    "included; the rest leaves it out."
)
HEADINGS = ("sampler", "median", "minimum", "CPU", "ratio", "quartiles", "first call")


class Timing(NamedTuple):
    """Microseconds per leapfrog step per chain of each turn, and seconds of the first call."""

    name: str
    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    first_call: float

    @property
    def median(self) -> float:
        return float(np.median(self.wall))

    @property
    def minimum(self) -> float:
        return min(self.wall)


class Measurement(NamedTuple):
    """All samplers on one workload, with `steps` leapfrog steps in a call."""

    workload: Workload
    chains: int
    steps: int
    timings: tuple[Timing, ...]

    def ratio(self, timing: Timing) -> float:
        """How many times faster than BlackJAX, by the medians."""
        return self._blackjax.median / timing.median

    def ratio_of_minima(self, timing: Timing) -> float:
        """The same by the minima."""
        return self._blackjax.minimum / timing.minimum

    def quartiles(self, timing: Timing) -> tuple[float, float]:
        """Quartiles of the ratio over the turns."""
        low, high = np.quantile(np.divide(self._blackjax.wall, timing.wall), [0.25, 0.75])
        return float(low), float(high)

    @property
    def _blackjax(self) -> Timing:
        return next(timing for timing in self.timings if timing.name == BLACKJAX)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """What the numbers depend on besides the code."""
    packages = ("jax", "jaxlib", "blackjax", "tensorbnn")
    return {
        "processor": _processor(),
        "cores": cores(),
        "cores_of_machine": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def describe_machine(about: dict[str, Any]) -> str:
    """The machine in one sentence."""
    packages = ("python", "jax", "blackjax", "tensorbnn")
    versions = ", ".join(f"{name} {about[name]}" for name in packages)
    return (
        f"{about['processor']}, {about['cores']} of {about['cores_of_machine']} cores, "
        f"load {about['load']} at the start; {versions}"
    )


def one_line(measurement: Measurement) -> str:
    """A measurement as soon as it is made."""
    each = "; ".join(
        f"{timing.name} {_number(timing.median)} µs ({measurement.ratio(timing):.2f})"
        for timing in measurement.timings
    )
    return f"{measurement.workload.name} × {measurement.chains}: {each}"


def table(measurements: list[Measurement]) -> Table:
    """For the terminal."""
    shown = Table(caption=ABOUT, caption_justify="left", box=None, padding=(0, 1, 0, 0))
    shown.add_column("workload\n× chains", no_wrap=True)
    for heading in HEADINGS:
        shown.add_column(
            heading.replace(" ", "\n"),
            justify="left" if heading == "sampler" else "right",
            no_wrap=True,
        )
    for measurement in measurements:
        label = f"{measurement.workload.name} × {measurement.chains}"
        for row in _rows(measurement):
            shown.add_row(label, *row)
            label = ""
        shown.add_row()
    return shown


def as_markdown(measurements: list[Measurement], about: dict[str, Any]) -> str:
    """The same as a page."""
    workloads = dict.fromkeys(measurement.workload for measurement in measurements)
    turns = len(measurements[0].timings[0].wall)
    lines = [
        "# The leapfrog step, side by side",
        "",
        f"{datetime.date.today().isoformat()}. {describe_machine(about)}.",
        f"HMC in float32, tanh, Gaussian likelihood; the samplers took turns, {turns} each.",
        "Made by `python -m benchmarks.leapfrog`.",
        "",
        *(f"- {each.name}: {each.network}, {each.rows} rows ({each.about})" for each in workloads),
        "",
        ABOUT,
        "",
        "| workload | chains | " + " | ".join(HEADINGS) + " |",
        "|---|---|---|" + "---:|" * (len(HEADINGS) - 1),
    ]
    for measurement in measurements:
        label = f"| {measurement.workload.name} | {measurement.chains} | "
        lines += [label + " | ".join(row) + " |" for row in _rows(measurement)]
    return "\n".join(lines) + "\n"


def as_json(measurements: list[Measurement], about: dict[str, Any]) -> dict[str, Any]:
    """Every turn of every sampler."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": about,
        "unit": "microseconds per leapfrog step per chain",
        "measurements": [
            {
                "workload": measurement.workload.name,
                "network": measurement.workload.network,
                "rows": measurement.workload.rows,
                "chains": measurement.chains,
                "steps_per_call": measurement.steps,
                "samplers": [_sampler_json(measurement, each) for each in measurement.timings],
            }
            for measurement in measurements
        ],
    }


def _sampler_json(measurement: Measurement, timing: Timing) -> dict[str, Any]:
    return {
        "name": timing.name,
        "median": timing.median,
        "minimum": timing.minimum,
        "ratio": measurement.ratio(timing),
        "ratio_of_minima": measurement.ratio_of_minima(timing),
        "quartiles": measurement.quartiles(timing),
        "first_call_seconds": timing.first_call,
        "wall": timing.wall,
        "cpu": timing.cpu,
    }


def _rows(measurement: Measurement) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for timing in measurement.timings:
        low, high = measurement.quartiles(timing)
        rows.append(
            (
                timing.name,
                _number(timing.median),
                _number(timing.minimum),
                _number(float(np.median(timing.cpu))),
                f"{measurement.ratio(timing):.2f}",
                "" if timing.name == BLACKJAX else f"{low:.2f}-{high:.2f}",
                f"{timing.first_call:.1f}",
            )
        )
    return rows


def _number(microseconds: float) -> str:
    """Three figures, all of those before the point."""
    digits = 2 if microseconds < 10 else 1 if microseconds < 100 else 0
    return f"{microseconds:.{digits}f}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
