"""Effective samples of the network's output per gradient and per second, by sampler.

To add a sampler, add it to `samplers`.
"""

import math
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import tensorbnn as tb
from benchmarks.options import Options
from benchmarks.tables import Cell, Table
from tensorbnn.ensemble.diagnostics import convergence
from tensorbnn.inference.target import TargetDensity

CHAINS = 2
# What is timed takes at least this long.
LEAST_SECONDS = 2.0
ABOUT = (
    "Bulk ESS of the network's output, median and 10 % quantile over inputs; two chains, "
    "hyper-parameters held. "
    "Gradients and seconds are those of all chains after burn-in, compilation left out; an ESS "
    "means little where the largest R-hat is well above 1. NumPyro's NUTS samples the same "
    "density in the same coordinates. On the variable case all begin where HMC was after 500 "
    "transitions."
)
COLUMNS = (
    *("case", "sampler", "ESS", "largest R-hat", "ESS / 1,000 gradients", "10 %", "ESS / s"),
    *("gradients / s", "burn-in s"),
)


def samplers(case: str) -> dict[str, Any]:
    """Samplers by name. A sampler that tunes itself needs no options."""
    del case
    return {
        "HMC": tb.HMC(),
        "GHMC": tb.GHMC(),
        "MCLMC": tb.MCLMC(),
        "NUTS": tb.NUTS(),
        "AdaptiveHMC": tb.AdaptiveHMC(),
    }


class Case(NamedTuple):
    """A posterior, the inputs at which predictions are compared, and the length of the run."""

    name: str
    posterior: tb.Posterior
    x: Any
    burn_in: int
    draws: int
    start: tb.Ensemble | None = None
    """Where chains begin if a burn-in of this length would not reach the posterior."""


class Found(NamedTuple):
    """Outputs of the network ``(chains, draws, rows)``, with their gradients and seconds."""

    values: Any
    gradients: float
    seconds: float
    burn_in_seconds: float


def measure(options: Options) -> list[Table]:
    """Every sampler on every case, then NumPyro's NUTS."""
    rows: list[tuple[Cell, ...]] = []
    cases = _cases(options)
    for case in cases:
        for name, sampler in samplers(case.name).items():
            found = _ours(case, sampler, 0.0 if options.quick else LEAST_SECONDS)
            rows.append(_row(case.name, name, found))
        rows.append(_row(case.name, "NumPyro NUTS", _numpyro(case)))
    given = Table("efficiency", "What samplers give", ABOUT, COLUMNS, rows)
    return [given, _time_to_trust(cases[0], options)]


def _time_to_trust(case: Case, options: Options) -> Table:
    """Seconds from the call until chains agree at 61 inputs, with the default sampler."""
    grid = np.linspace(-3, 3, 61)
    limit = 5.0
    # The smoke test needs few draws: on a busy machine, a short limit could come before any.
    chains, rhat, ess = (2, 2.0, 4) if options.quick else (8, 1.01, 400)
    times = []
    for name in ("with compilation", "again"):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the limit, which the table shows
            ensemble = tb.sample(
                case.posterior,
                chains=chains,
                burn_in=case.burn_in,
                draws=case.draws,
                seed=len(times),
                until=tb.Converged(rhat=rhat, ess=ess, x=grid, fraction=1.0),
                max_minutes=limit,
                progress=False,
            )
        seconds = time.perf_counter() - began
        found = ensemble.diagnose(grid)
        draws = len(ensemble.sample_stats["num_gradients"][0])
        times.append((name, seconds, draws, float(found.rhat.max()), float(found.ess.min())))
    return Table(
        "trust",
        "Time to a trustworthy answer",
        f"The sparse case with {chains} chains and the default sampler, hyper-parameters sampled: "
        f"seconds from the call of `tb.sample` until R-hat is below {rhat:g} and the ESS, in bulk "
        f"and tails, at least {ess} at all 61 inputs on [-3, 3], or {limit:g} minutes have passed.",
        ("run", "seconds", "draws a chain", "largest R-hat", "least ESS"),
        times,
    )


def _row(case: str, name: str, found: Found) -> tuple[Cell, ...]:
    result = convergence(found.values)
    ess, low = float(np.nanmedian(result.ess)), float(np.nanquantile(result.ess, 0.1))
    each = 1000 / found.gradients
    return (
        *(case, name, ess, float(np.nanmax(result.rhat)), ess * each, low * each),
        *(ess / found.seconds, found.gradients / found.seconds, found.burn_in_seconds),
    )


def _cases(options: Options) -> list[Case]:
    network = tb.Network(*[tb.Dense(10), tb.Tanh()] * 3, tb.Dense(1), inputs=1)
    grid = np.linspace(-2.5, 2.5, 51)
    sparse = np.linspace(-2, 2, 11)
    ends = np.linspace(-2, -1, 1024), np.linspace(1, 2, 1024)
    variable = np.concatenate([*ends, np.linspace(-1, 1, 7)])
    likelihood = tb.Gaussian(sd=0.1)

    def curve(x):
        return x * np.sin(2 * np.pi * x) - np.cos(np.pi * x)

    of_sparse = tb.Posterior(network, likelihood, sparse, curve(sparse))
    if options.quick:
        return [Case("sparse", of_sparse, grid, 20, 5)]
    of_variable = tb.Posterior(network, likelihood, variable, curve(variable))
    found = [
        Case("sparse", of_sparse, grid, 1000, 500),
        Case("variable", of_variable, grid, 200, 40, _warm(of_variable)),
        _classifier(),
    ]
    if options.data is not None:
        found.append(_table(options.data))
    return found


def _warm(posterior: tb.Posterior) -> tb.Ensemble:
    """Chains after burn-in."""
    return tb.sample(
        posterior, chains=CHAINS, burn_in=500, draws=1, sample_hyperparameters=False,
        progress=False,
    )  # fmt: skip


def _classifier() -> Case:
    """Two inputs, 300 rows, two classes with a curved boundary."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = np.sin(2 * x[:, 0]) + x[:, 1] ** 2 - 1 + 0.3 * rng.normal(size=300) > 0
    network = tb.Network(tb.Dense(15), tb.Tanh(), tb.Dense(1), inputs=2)
    side = np.linspace(-2.5, 2.5, 7)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    return Case("classifier", tb.Posterior(network, tb.Bernoulli(), x, y * 1.0), grid, 500, 300)


def _table(folder: Path) -> Case:
    """The concrete data of the UCI repository, standardized."""
    rows = np.loadtxt(folder / "concrete.csv", delimiter=",", skiprows=1)
    network = tb.Network(tb.Dense(50), tb.Tanh(), tb.Dense(1), inputs=rows.shape[1] - 1)
    x, y = rows[:, :-1], rows[:, -1]
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.3), x, y, standardize=True)
    return Case("concrete", posterior, x[::20], 300, 100)


def _ours(case: Case, sampler: Any, least_seconds: float) -> Found:
    """Sample, then resume and time that, when everything is compiled."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        began = time.perf_counter()
        ensemble = tb.sample(
            case.posterior, sampler, start=case.start, path=path, sample_hyperparameters=False,
            chains=CHAINS, burn_in=case.burn_in, draws=case.draws, thin=1, progress=False,
        )  # fmt: skip
        first = time.perf_counter() - began
        ensemble, seconds, timed = _resumed(path, ensemble, case.draws)
        burn_in, more = max(first - seconds, 0.0), case.draws
        # The time to open and close a run should not count.
        while seconds < least_seconds:
            more = math.ceil(more * min(1.5 * least_seconds / seconds, 20))
            ensemble, seconds, timed = _resumed(path, ensemble, more)
        gradients = _gradients(ensemble)
        values = ensemble.predict(case.x, progress=False).samples
    values = np.asarray(values).reshape(CHAINS, ensemble.num_draws, -1)
    return Found(values, gradients, seconds * gradients / timed, burn_in)


def _resumed(path: Path, ensemble: tb.Ensemble, more: int) -> tuple[tb.Ensemble, float, float]:
    """The run with `draws` more draws, and their seconds and gradients."""
    began = time.perf_counter()
    longer = tb.resume(path, draws=ensemble.num_draws + more, progress=False)
    seconds = time.perf_counter() - began
    return longer, seconds, _gradients(longer) - _gradients(ensemble)


def _gradients(ensemble: tb.Ensemble) -> float:
    return float(ensemble.sample_stats["num_gradients"].sum())


def _numpyro(case: Case) -> Found:
    """NumPyro's NUTS with a diagonal mass matrix, in standard coordinates."""
    from numpyro.infer import MCMC, NUTS

    model = case.posterior.model
    phi = jnp.asarray(case.posterior.flatten_hyperparameters(model.start_hypers()))
    # The plain JAX density, which a NumPyro user would have.
    described = tb.Posterior(
        case.posterior.network, case.posterior.likelihood, case.posterior.x, case.posterior.y,
        standardize=case.posterior.scaling, engine="jax",
    )  # fmt: skip
    target = TargetDensity(described.model, described._arrays, phi)
    kernel = NUTS(potential_fn=lambda q: -target.log_density(q))
    mcmc = MCMC(
        kernel, num_warmup=case.burn_in, num_samples=case.draws, num_chains=CHAINS,
        chain_method="sequential" if CHAINS == 1 else "vectorized", progress_bar=False,
    )  # fmt: skip
    keys = jax.random.key(0), jax.random.key(1)
    start = 0.3 * jax.random.normal(keys[1], (CHAINS, target.dimension))
    if case.start is not None:
        start = _last_positions(case.start, target)
    began = time.perf_counter()
    mcmc.warmup(keys[0], init_params=start, extra_fields=("num_steps",))
    jax.block_until_ready(mcmc.post_warmup_state)
    burn_in = time.perf_counter() - began
    # The second one is timed, when everything is compiled.
    gradients, draws = 0.0, []
    for state in (mcmc.post_warmup_state, None):
        began = time.perf_counter()
        mcmc.post_warmup_state = mcmc.last_state if state is None else state
        mcmc.run(mcmc.post_warmup_state.rng_key, extra_fields=("num_steps",))
        draws.append(jax.block_until_ready(mcmc.get_samples(group_by_chain=True)))
        seconds = time.perf_counter() - began
        spent = float(np.sum(mcmc.get_extra_fields()["num_steps"]))
        gradients += spent
    seconds *= gradients / spent
    inputs = case.posterior.scaling.inputs(np.asarray(case.x).reshape(len(case.x), -1), "float32")
    values = _outputs(target, jnp.concatenate(draws, axis=1), inputs)
    return Found(values, gradients, seconds, burn_in)


def _last_positions(ensemble: tb.Ensemble, target: TargetDensity) -> Any:
    """The last draws of chains, in the coordinates of the samplers."""
    named, _ = ensemble._last_draws(CHAINS)
    phi = target.held_phi
    assert phi is not None
    return jnp.stack([
        target.position(target.model.theta.flatten({k: v[chain] for k, v in named.items()}), phi)
        for chain in range(CHAINS)
    ])  # fmt: skip


def _outputs(target: TargetDensity, positions: Any, inputs: Any) -> Any:
    network = target.model.network

    def one(position):
        theta, _ = target.vectors(position)
        return network.apply(target.model.theta.unflatten(theta), jnp.asarray(inputs).T)[0]

    return np.asarray(jax.jit(jax.vmap(jax.vmap(one)))(positions))
