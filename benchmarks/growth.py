"""How both engines grow with width, depth, rows and chains, on one core."""

import dataclasses

from benchmarks.contestants import engines
from benchmarks.leapfrog import check
from benchmarks.options import Options
from benchmarks.tables import Cell, Table
from benchmarks.timing import in_turns
from benchmarks.workloads import Workload

REPETITIONS = 5
# Products of weights and rows that take a call about 20 ms.
WORK = 3e7
ABOUT = (
    "Microseconds per step and chain on one core, best of the turns. `engine='auto'` follows a "
    "rule that was calibrated by the growth with width (`tensorbnn/engine/native.py`)."
)
BASE = Workload("growth", "", (10, 50, 50, 1), rows=500, steps=0)


def cases(*, quick: bool) -> dict[str, list[tuple[int, Workload, int]]]:
    """For each quantity that grows: its value, the workload, and the number of chains."""

    def of(**changes: object) -> Workload:
        return dataclasses.replace(BASE, **changes)  # type: ignore[arg-type]

    found = {
        "width": [(n, of(units=(10, n, n, 1)), 1) for n in (5, 10, 20, 50, 100, 150, 200, 400)],
        "depth": [(n, of(units=(10, *[50] * n, 1)), 1) for n in (1, 2, 3, 5, 8)],
        "rows": [(n, of(rows=n), 1) for n in (1, 10, 100, 1000, 10_000)],
        "chains": [(n, of(units=(1, 10, 10, 10, 1), rows=11), n) for n in (1, 4, 16, 64)],
    }
    return {"width": found["width"][:2]} if quick else found


def measure(options: Options) -> list[Table]:
    """A table for each quantity that grows."""
    return [
        _grow(name, each, 2 if options.quick else REPETITIONS)
        for name, each in cases(quick=options.quick).items()
    ]


def _grow(name: str, points: list[tuple[int, Workload, int]], repetitions: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    names: list[str] = []
    for value, workload, chains in points:
        work = sum(a * b for a, b in zip(workload.units, workload.units[1:], strict=False))
        steps = int(min(max(WORK / (work * workload.rows * chains), 4), 2000))
        calls = engines(workload, chains, steps)
        names = list(calls)
        timings = in_turns(calls, repetitions)
        for each, call in calls.items():
            check(each, workload, call)
        best = [1e6 * timings[each].best / (steps * chains) for each in names]
        rows.append((value, workload.network, workload.rows, chains, *best))
    return Table(
        f"growth-{name}",
        f"Growth with {name}",
        ABOUT,
        (name, "network", "rows of data", "chains at once", *names),
        rows,
    )
