"""The costs of a run besides gradients: adaptation, first draw, predictions, memory.

Times to the first draw and peaks of memory are measured in separate processes, which run this file
with the name of a case.
"""

import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from benchmarks.options import Options
from benchmarks.tables import Cell, Table

ABOUT = (
    "On the paper's sparse case (W1). Adapter: one update of the search for step size and number "
    "of steps, and its share of an epoch of 1,000 leapfrog steps. First draw: seconds from the "
    "start of a process, imports and compilation included, and from the call. Memory: the peak of "
    "a process that saves so many draws."
)
FIRST_DRAW = ("tensorbnn", "BlackJAX", "NumPyro")


def measure(options: Options) -> list[Table]:
    """All costs, one row each."""
    rows: list[tuple[Cell, ...]] = [*_adapter(options), *_networks(options)]
    for name in FIRST_DRAW[:1] if options.quick else FIRST_DRAW:
        found = _child("first-draw", name)
        rows.append(("first draw, from process start", name, found.total, "s"))
        rows.append(("first draw, from the call", name, found.call, "s"))
    lengths = (10,) if options.quick else (100, 10_000)
    rows += [
        ("peak memory", f"{n} draws", _child("memory", str(n)).megabytes, "MB") for n in lengths
    ]
    return [Table("costs", "Other costs", ABOUT, ("what", "of", "value", "unit"), rows)]


def _adapter(options: Options) -> list[tuple[Cell, ...]]:
    import jax
    import jax.numpy as jnp

    import tensorbnn as tb
    from benchmarks.contestants import tensorbnn
    from benchmarks.timing import in_turns
    from benchmarks.workloads import WORKLOADS
    from tensorbnn.inference import trajectory_adapter

    constants = tb.AdaptiveHMC()._constants()
    adapter = trajectory_adapter.init(
        constants,
        step_size_min=jnp.asarray(1e-4),
        step_size_max=jnp.asarray(1e-2),
        step_size=jnp.asarray(1e-3),
        num_steps=jnp.asarray(1000, jnp.int32),
    )
    updates = 20 if options.quick else 400

    @jax.jit
    def search(key, adapter):
        def one(i, adapter):
            jump = 1 + 0.1 * jnp.sin(i.astype(jnp.float32))
            own = jax.random.fold_in(key, i)
            return trajectory_adapter.update(own, adapter, constants, jump, jnp.asarray(True))

        return jax.lax.fori_loop(0, updates, one, adapter)

    steps = 100 if options.quick else 1000
    epoch = tensorbnn("jax", WORKLOADS["W1"], 1, steps)
    calls = {"search": lambda: search(jax.random.key(0), adapter), "epoch": epoch}
    timings = in_turns(calls, 3 if options.quick else 9)
    update, trajectory = timings["search"].best / updates, timings["epoch"].best
    return [
        ("adapter, one update", "AdaptiveHMC", 1e6 * update, "µs"),
        ("adapter, share of an epoch", "JAX engine", 100 * update / (update + trajectory), "%"),
    ]


def _networks(options: Options) -> list[tuple[Cell, ...]]:
    import numpy as np

    import tensorbnn as tb
    from benchmarks import predict

    rows: list[tuple[Cell, ...]] = [
        ("predict, one network", "100 networks, 61 rows", predict.milliseconds(3), "ms")
    ]
    posterior = _posterior()
    ensemble = tb.sample(
        posterior, tb.HMC(0.005, 5), chains=2, burn_in=0, draws=20 if options.quick else 500,
        progress=False,
    )  # fmt: skip
    other = tb.Gaussian(sd=0.11)
    times = []
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whether the weights can be trusted
            began = time.perf_counter()
            ensemble.reweight(likelihood=other, progress=False)
            times.append(time.perf_counter() - began)
    each = 1000 * float(np.min(times)) / len(ensemble)
    return [*rows, ("re-weight, one network", f"{len(ensemble)} networks", each, "ms")]


def _posterior():
    import tensorbnn as tb
    from benchmarks.workloads import WORKLOADS, posterior

    described: tb.Posterior = posterior(WORKLOADS["W1"], hierarchical=False)
    return described


class Child(NamedTuple):
    """The time and memory of a separate process."""

    total: float
    call: float
    megabytes: float


def _child(kind: str, case: str) -> Child:
    began = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.costs", kind, case]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    call, megabytes = map(float, out.split()[-2:])
    return Child(time.perf_counter() - began, call, megabytes)


def _first_draw(name: str) -> Callable[[], object]:
    """Return a call that makes a draw, with everything imported and described."""
    from benchmarks.workloads import WORKLOADS, plain_log_density

    if name == "tensorbnn":
        import tensorbnn as tb

        options = {"chains": 1, "burn_in": 0, "draws": 1, "progress": False}
        return partial(tb.sample, _posterior(), tb.HMC(0.01, 10), **options)
    import jax
    import jax.numpy as jnp

    start = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), WORKLOADS["W1"].parameters(1))
    log_density = plain_log_density(WORKLOADS["W1"])
    if name == "BlackJAX":
        import blackjax

        size = sum(leaf.size for leaf in jax.tree.leaves(start))
        kernel = blackjax.hmc(log_density, 0.01, jnp.ones(size), 10)
        step = jax.jit(kernel.step)
        return lambda: jax.block_until_ready(step(jax.random.key(0), kernel.init(start)))
    from numpyro.infer import HMC, MCMC

    potential = {"potential_fn": lambda q: -log_density(q), "trajectory_length": None}
    hmc = HMC(**potential, step_size=0.01, num_steps=10)
    mcmc = MCMC(hmc, num_warmup=0, num_samples=1, progress_bar=False)
    return lambda: mcmc.run(jax.random.key(0), init_params=start)


def _save_draws(draws: int) -> None:
    import tempfile

    import tensorbnn as tb

    with tempfile.TemporaryDirectory() as folder:
        options = {"chains": 2, "burn_in": 0, "draws": draws, "progress": False}
        tb.sample(_posterior(), tb.HMC(0.005, 2), path=f"{folder}/run", **options)


def main(kind: str, case: str) -> None:
    """Run one case in this process; print the seconds of the call and the peak of memory."""
    call = _first_draw(case) if kind == "first-draw" else partial(_save_draws, int(case))
    began = time.perf_counter()
    call()
    seconds = time.perf_counter() - began
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])
