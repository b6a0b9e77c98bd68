"""The gain of a second core: for one chain, which splits its rows, and for two chains."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

from benchmarks.contestants import tensorbnn
from benchmarks.leapfrog import steps_for
from benchmarks.machine import cores
from benchmarks.options import Options
from benchmarks.tables import Cell, Table
from benchmarks.timing import in_turns
from benchmarks.workloads import WORKLOADS, Workload
from tensorbnn.engine import library

REPETITIONS = 9
ABOUT = (
    "Speed on all cores over the speed on one, by the best of the turns. One chain: the native "
    "engine with a thread on each core, or one thread. A chain on each core: as `tb.sample` runs "
    "them, against one after the other; W1's calls are the shortest."
)


def measure(options: Options) -> list[Table]:
    """W1 to W4 by both engines."""
    names = ["W1"] if options.quick else list(WORKLOADS)
    repetitions = 2 if options.quick else REPETITIONS
    native = library.problem() is None
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        workload = WORKLOADS[name]
        steps = steps_for(workload, 1, options)
        for engine in ("jax", "native") if native else ("jax",):
            ratio = _chains(workload, engine, steps, repetitions)
            rows.append((name, f"{engine}, a chain on each core", cores(), ratio))
        if native:
            rows.append((name, "native, one chain", cores(), _rows(workload, steps, repetitions)))
    return [Table("threads", "More cores", ABOUT, ("workload", "what", "cores", "speed-up"), rows)]


def _rows(workload: Workload, steps: int, repetitions: int) -> float:
    call = tensorbnn("native", workload, 1, steps)

    def with_threads(count: int) -> Callable[[], Any]:
        def run() -> Any:
            library.use_threads(count)
            return jax.block_until_ready(call())

        return run

    calls = {"one": with_threads(1), "all": with_threads(cores())}
    timings = in_turns(calls, repetitions)
    library.use_threads(0)
    return timings["one"].best / timings["all"].best


def _chains(workload: Workload, engine: str, steps: int, repetitions: int) -> float:
    call = tensorbnn(engine, workload, 1, steps)
    count = cores()

    def run(_: int) -> Any:
        return jax.block_until_ready(call())

    library.use_threads(1)  # otherwise, a single chain would split its rows
    with ThreadPoolExecutor(max_workers=count) as pool:
        calls = {
            "one": lambda: run(0),
            "all": lambda: list(pool.map(run, range(count))),
        }
        timings = in_turns(calls, repetitions)
    library.use_threads(0)
    return count * timings["one"].best / timings["all"].best
