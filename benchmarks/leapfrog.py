"""Microseconds per leapfrog step per chain, of tensorbnn and of BlackJAX, in one run.

    python -m benchmarks.leapfrog --workloads W1,W2 --chains 1,16 --cores 1

The samplers take turns, so that a disturbance of the machine hits all of them; what counts is the
ratio of their medians. Compilation is timed apart. Before anything is timed, both sides must
compute the same log-density and gradient.

`tensorbnn` is `tb.HMC` with N(0, 1) priors, `tensorbnn, hierarchical` the same with the default
priors, whose hyper-parameters are sampled too: more than BlackJAX is asked for; both by the JAX
engine. `native` and `native, hierarchical` are the same by the native engine, where it is there.
All advance the chains by the library's `over_chains`; `tensorbnn, threads` runs each chain as a
task of its own, as `tb.sample` does on a CPU.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import report
from benchmarks.contestants import MismatchError, Outcome, contestants
from benchmarks.report import Measurement, Timing
from benchmarks.workloads import WORKLOADS, Workload

RESULTS = Path(__file__).parent / "results"
REPETITIONS, QUICK_REPETITIONS = 9, 3
# A call of a quick run is so many times shorter.
QUICK = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, show, save."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options = _parse(arguments)
    _pin(options.cores, arguments)
    console, machine = Console(), report.machine()
    console.print(report.describe_machine(machine), soft_wrap=True)
    began = time.monotonic()
    try:
        measurements = _measure_all(options)
    except MismatchError as error:
        console.print(f"[bold red]{error}[/]; times would not be comparable")
        return 1
    console.print(report.table(measurements))
    console.print(f"{time.monotonic() - began:.0f} s in all")
    _save(measurements, machine, options)
    return 0


def measure(
    workload: Workload, chains: int, steps: int, repetitions: int, tick: Callable[[], None]
) -> Measurement:
    """Time every contestant `repetitions` times, in turns, each turn begun by the next of them."""
    rivals = contestants(workload, chains, steps, report.cores())
    first_calls = []
    for rival in rivals:
        first_calls.append(_timed(rival.compile)[1])
        tick()
    seconds = np.empty((len(rivals), repetitions, 2))
    for repetition in range(repetitions):
        for turn in range(len(rivals)):
            index = (repetition + turn) % len(rivals)
            outcome, wall, cpu = _timed(rivals[index].call)
            seconds[index, repetition] = wall, cpu
            _check_outcome(workload, rivals[index].name, outcome)
        tick()
    walls, cpus = np.moveaxis(1e6 * seconds / (steps * chains), -1, 0).tolist()
    timings = tuple(
        Timing(rival.name, tuple(walls[row]), tuple(cpus[row]), first_calls[row])
        for row, rival in enumerate(rivals)
    )
    return Measurement(workload, chains, steps, timings)


def _measure_all(options: argparse.Namespace) -> list[Measurement]:
    measurements = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("")
        for workload in options.workloads:
            for chains in options.chains:
                # Calls with several chains are somewhat longer, but never below two steps.
                shrink = min(chains, 8) * (QUICK if options.quick else 1)
                steps = max(2, workload.steps // shrink)
                progress.reset(
                    task,
                    description=f"{workload.name} × {chains}",
                    total=options.repetitions + (5 if chains == 1 else 6),
                )
                measurements.append(
                    measure(
                        workload,
                        chains,
                        steps,
                        options.repetitions,
                        lambda: progress.advance(task),
                    )
                )
                progress.console.print(report.one_line(measurements[-1]), soft_wrap=True)
    return measurements


def _timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call returns, its wall time and its CPU time in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(call())
    return result, time.perf_counter() - wall, time.process_time() - cpu


def _check_outcome(workload: Workload, name: str, outcome: Outcome) -> None:
    if np.any(outcome.divergent) or not np.all(np.isfinite(outcome.acceptance)):
        raise RuntimeError(f"{workload.name}: {name} diverged: its time means nothing")


def _pin(cores: int | None, arguments: list[str]) -> None:
    """Start this program again on `cores` cores: XLA counts them when it is loaded."""
    if os.environ.get("XLA_FLAGS"):
        raise SystemExit("XLA_FLAGS is set: unset it, so that XLA runs as it does for a user")
    if cores is None or cores == report.cores():
        return
    if cores > report.cores():
        raise SystemExit(f"`--cores` ({cores}) must not be above the {report.cores()} there are")
    if not hasattr(os, "sched_setaffinity"):
        raise SystemExit("`--cores` needs os.sched_setaffinity, which this system does not have")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    os.execv(sys.executable, [sys.executable, "-m", "benchmarks.leapfrog", *arguments])


def _save(
    measurements: list[Measurement], machine: dict[str, Any], options: argparse.Namespace
) -> None:
    text = json.dumps(report.as_json(measurements, machine), indent=2) + "\n"
    if options.json:
        options.json.write_text(text)
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        name = "leapfrog" if options.cores is None else f"leapfrog-cores-{options.cores}"
        (RESULTS / f"{name}.json").write_text(text)
        (RESULTS / f"{name}.md").write_text(report.as_markdown(measurements, machine))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.leapfrog",
        description="Time the leapfrog step of tensorbnn and of BlackJAX side by side.",
        epilog="; ".join(
            f"{each.name}: {each.network}, {each.rows} rows" for each in WORKLOADS.values()
        ),
    )
    add = parser.add_argument
    every = list(WORKLOADS.values())
    add("--workloads", type=_workloads, default=every, metavar="W1,W2", help="default: all")
    add("--chains", type=_counts, default=[1, 16], metavar="1,16", help="numbers of chains")
    add("--repetitions", type=_count, help=f"turns of each sampler (default: {REPETITIONS})")
    add("--quick", action="store_true", help="a look: few turns, short calls")
    add("--cores", type=_count, help="use so many cores only (default: all)")
    add("--json", type=Path, metavar="FILE", help="write the numbers to FILE too")
    add("--no-save", dest="save", action="store_false", help="leave benchmarks/results as it is")
    options = parser.parse_args(arguments)
    if options.repetitions is None:
        options.repetitions = QUICK_REPETITIONS if options.quick else REPETITIONS
    return options


def _workloads(text: str) -> list[Workload]:
    names = text.split(",")
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown workloads {', '.join(unknown)}: choose from {', '.join(WORKLOADS)}"
        )
    return [WORKLOADS[name] for name in names]


def _counts(text: str) -> list[int]:
    return [_count(part) for part in text.split(",")]


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
