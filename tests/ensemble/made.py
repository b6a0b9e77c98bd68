"""Ensembles of networks that were not sampled but made: exact draws, or any others."""

import numpy as np

import tensorbnn as tb
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.storage.store import MemoryStore


def ensemble_of(posterior: tb.Posterior, named, *, size=None, held=False) -> Ensemble:
    """Networks of `posterior`; `named` are natural values by name, each ``(chains, draws, ...)``.

    They are stored `size` draws at a time.
    """
    chains, draws = next(iter(named.values())).shape[:2]
    data = None if posterior.x is None else {"x": posterior.x, "y": posterior.y}
    manifest = {
        "chains": chains,
        "sample_hyperparameters": not held,
        "output_shape": list(posterior.output_shape),
        "sampler": {"type": "NUTS"},
    }
    store = MemoryStore(manifest, data)
    hypers = {entry.name for entry in posterior.model.phi.entries}
    kinds = {name: "hyperparameters" if name in hypers else "parameters" for name in named}
    size = size or draws
    info = ("acceptance_rate", "diverging", "energy")
    for chain in range(chains):
        for index, first in enumerate(range(0, draws, size)):
            own = slice(first, first + size)
            count = len(range(draws)[own])
            chunk = {f"{kinds[name]}/{name}": v[chain, own] for name, v in named.items()}
            rng = np.random.default_rng(first)
            chunk |= {f"sample_stats/{name}": rng.uniform(size=count) for name in info}
            store.write_chunk(chain, index, chunk)
    return Ensemble._from_posterior(store, posterior)


def linear(weight_prior, bias_prior, inputs=1) -> tb.Network:
    return tb.Network(tb.Dense(1, weight_prior, bias_prior), inputs=inputs)


def coefficients(draws, chains=4):
    """Draws ``(n, inputs + 1)`` of weights and bias of a linear network, by name."""
    per_chain = draws.reshape(chains, -1, draws.shape[1])
    return {
        "dense_0.weights": per_chain[..., :-1, None],
        "dense_0.biases": per_chain[..., -1:],
    }
