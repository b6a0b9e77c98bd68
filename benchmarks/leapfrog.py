"""Microseconds per leapfrog step on one core, for both engines and other libraries.

Before anything is timed, all must compute the same log-density and gradient, and take the same
number of steps.
"""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.agreement import check_same_density, check_same_length
from benchmarks.contestants import BLACKJAX, Call, Outcome, contestants
from benchmarks.options import Options
from benchmarks.tables import Cell, Table
from benchmarks.timing import Timing, in_turns, seconds
from benchmarks.workloads import WORKLOADS, Workload

REPETITIONS = 9
ABOUT = (
    "HMC in float32 on one core, tanh, Gaussian likelihood; microseconds per step and chain, "
    "median of the turns, compilation left out. Limit: what the arithmetic would take at the speed "
    "of a large matrix product and of XLA's tanh in the cache, both measured here; the native "
    "engine's tanh is faster, so that less than one is possible. Faster: times BlackJAX's speed. "
    "Hierarchical: with the default priors, whose hyper-parameters move too."
)
COLUMNS = (
    "workload",
    "chains",
    "sampler",
    "µs a step",
    "best",
    "× limit",
    "faster",
    "first call s",
)


def measure(options: Options) -> list[Table]:
    """W1 to W4 with one chain and with 16, after the smoke test, which checks more."""
    if not options.quick:
        measure(options._replace(quick=True))
    names, chain_counts = (["W1"], [1]) if options.quick else (list(WORKLOADS), [1, 16])
    peak = measure_peak(0.02 if options.quick else 0.5)
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        for chains in chain_counts:
            rows += _measure(WORKLOADS[name], chains, peak, options)
    return [Table("leapfrog", "The leapfrog step", ABOUT + " " + _workloads(), COLUMNS, rows)]


def steps_for(workload: Workload, chains: int, options: Options) -> int:
    """Steps of a call; calls of several chains are somewhat longer.

    The smoke test makes so few that it can check their number.
    """
    return 2 if options.quick else max(2, workload.steps // min(chains, 8))


def measure_peak(budget: float) -> tuple[float, float]:
    """Operations per second of a large matrix product, and hyperbolic tangents per second.

    The product is NumPy's or XLA's, whichever is faster: one may not support the processor.
    """
    size, count = 512, 8192
    matrix = np.ones((size, size), np.float32)
    same, multiply = jnp.asarray(matrix), jax.jit(jnp.matmul)
    by_xla = _best(lambda: jax.block_until_ready(multiply(same, same)), budget)
    product = min(_best(lambda: matrix @ matrix, budget), by_xla)
    repeats = 200
    several = jax.jit(lambda x: jax.lax.fori_loop(0, repeats, lambda _, h: jnp.tanh(h), x))
    values = jnp.ones(count, jnp.float32)
    tanh = _best(lambda: jax.block_until_ready(several(values)), budget)
    return 2 * size**3 / product, repeats * count / tanh


def check(name: str, workload: Workload, call: Call) -> Outcome:
    """Make a transition; raise if it diverged, since its time would mean nothing."""
    outcome = call()
    if np.any(outcome.divergent) or not np.all(np.isfinite(outcome.acceptance)):
        raise RuntimeError(f"{workload.name}: {name} diverged: its time means nothing")
    return outcome


def _measure(
    workload: Workload, chains: int, peak: tuple[float, float], options: Options
) -> list[tuple[Cell, ...]]:
    steps = steps_for(workload, chains, options)
    check_same_density(workload, tensorflow=options.tensorflow)
    calls = contestants(workload, chains, steps, tensorflow=options.tensorflow)
    timings = in_turns(calls, 2 if options.quick else REPETITIONS)
    for name, call in calls.items():
        outcome = check(name, workload, call)
        if options.quick:
            check_same_length(name, outcome, steps)
    limit = workload.flops / peak[0] + workload.tanhs / peak[1]

    def row(name: str, timing: Timing) -> tuple[Cell, ...]:
        each = timing.median / (steps * chains)
        best = timing.best / (steps * chains)
        faster = timings[BLACKJAX].median / timing.median
        return (
            *(workload.name, chains, name, 1e6 * each, 1e6 * best),
            *(best / limit, faster, timing.first_call),
        )

    return [row(name, timing) for name, timing in timings.items()]


def _workloads() -> str:
    each = (f"{w.name}: {w.network}, {w.rows} rows ({w.about})" for w in WORKLOADS.values())
    return "; ".join(each) + "."


def _best(call: Callable[[], object], budget: float) -> float:
    call()
    best, end = np.inf, time.perf_counter() + budget
    while time.perf_counter() < end:
        best = min(best, seconds(call))
    return float(best)
