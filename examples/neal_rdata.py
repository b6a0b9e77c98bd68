"""Neal's regression example `rdata` (FBM), with the paper's sampler or with joint HMC.

    python examples/neal_rdata.py fbm_rdata.csv
    python examples/neal_rdata.py fbm_rdata.csv --sampler hmc

A 1-8-1 tanh network. All scales, including that of the noise, have Neal's gamma prior on the
precision. The file is the `rdata` of FBM's "ex-netgp" with the header ``x,y``: 100 rows for
training, 1000 for testing. FBM's documentation reports, for 50,000 iterations, an average log
probability of 0.830 and a squared error of 0.0187 on the test rows, and predictions at -3, 0 and 3.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from scipy import special, stats

import tensorbnn as tb

# Predictive mean and the 1, 10, 90 and 99 % quantiles of the target, from FBM.
PRINTED = {
    -3.0: (-2.10, -3.12, -2.61, -1.62, -0.44),
    0.0: (1.38, 1.13, 1.25, 1.52, 1.64),
    3.0: (2.96, 1.81, 2.61, 3.31, 3.59),
}
LEVELS = (0.01, 0.1, 0.9, 0.99)
UNITS = 8


def build_posterior(x, y) -> tb.Posterior:
    """Neal's ``ih=0.05:0.5 bh=0.05:0.5 ho=x0.05:0.5 bo=100`` and noise ``0.05:0.5``."""

    def scale(width):
        return tb.Hyper(1.0, tb.GammaPrecision(width, 0.5))

    into_hidden = tb.Normal(0.0, scale(0.05))
    into_output = tb.Normal(0.0, scale(0.05 / np.sqrt(UNITS)))
    network = tb.Network(
        tb.Dense(UNITS, into_hidden, into_hidden),
        tb.Tanh(),
        tb.Dense(1, into_output, tb.Normal(0.0, 100.0)),
        inputs=1,
    )
    noise = tb.Hyper(0.1, tb.GammaPrecision(0.05, 0.5))
    return tb.Posterior(network, tb.Gaussian(sd=noise), x, y)


def build_sampler(name: str) -> tb.HMC | tb.AdaptiveHMC:
    if name == "hmc":
        return tb.HMC()
    return tb.AdaptiveHMC(
        step_size_start=0.01,
        step_size_min=0.002,
        step_size_max=0.03,
        num_steps_start=500,
        num_steps_min=100,
        num_steps_max=2000,
        hyper_step_size=0.1,
    )


def log_probability(outputs, noise, y):
    """Log-density of each target under the mixture of all networks, averaged as in FBM."""
    each = stats.norm.logpdf(y, outputs, noise[:, None])
    return special.logsumexp(each, axis=0) - np.log(len(outputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="CSV file of rdata with the header x,y")
    parser.add_argument("--sampler", choices=["adaptive", "hmc"], default="adaptive")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--burn-in", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=1000, help="networks from each chain")
    parser.add_argument("--thin", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    x, y = np.loadtxt(options.data, delimiter=",", skiprows=1).T
    posterior = build_posterior(x[:100], y[:100])
    began = time.monotonic()
    ensemble = tb.sample(
        posterior,
        build_sampler(options.sampler),
        chains=options.chains,
        burn_in=options.burn_in,
        draws=options.draws,
        thin=options.thin,
        seed=options.seed,
    )
    seconds = time.monotonic() - began

    noise = ensemble.hyperparameters["likelihood.sd"].reshape(-1)
    outputs = ensemble.predict(x[100:]).samples
    scores = log_probability(outputs, noise, y[100:])
    by_chain = [
        log_probability(own, sd, y[100:]).mean()
        for own, sd in zip(
            np.split(outputs, options.chains), np.split(noise, options.chains), strict=True
        )
    ]
    error = np.mean((outputs.mean(0) - y[100:]) ** 2)
    print(f"time             {seconds:.0f} s, {len(ensemble):,} networks")
    print(f"log probability  {scores.mean():.3f} (FBM 0.830); each chain {np.round(by_chain, 3)}")
    print(f"squared error    {error:.4f} (FBM 0.0187)")
    rng = np.random.default_rng(options.seed)
    places = np.array(list(PRINTED))
    at = ensemble.predict(places).samples
    targets = rng.normal(at, noise[:, None])
    for place, f, target in zip(places, at.T, targets.T, strict=True):
        found = (f.mean(), *np.quantile(target, LEVELS))
        texts = " ".join(f"{value:6.2f}" for value in found)
        printed = " ".join(f"{value:6.2f}" for value in PRINTED[float(place)])
        print(f"at x = {place:4.1f}      {texts}\n      (FBM)      {printed}")
    diagnosis = ensemble.diagnose(x[100:200])
    print(f"acceptance       {diagnosis.acceptance_rate.round(2)}")
    print(f"verdict          {diagnosis.verdict}")


if __name__ == "__main__":
    main()
