"""TensorFlow Probability's HMC, compiled by XLA: the workloads as a TFP user writes them."""

import os
from collections.abc import Callable
from typing import Any

from benchmarks.machine import cores
from benchmarks.workloads import NOISE, Floats, Workload

Step = Callable[[], tuple[list[Floats], Floats]]
"""One transition of all chains: where they are after it, and the logs of acceptance ratios."""


def hmc(workload: Workload, chains: int, steps: int, step_size: float) -> Step:
    """Every call starts at the same point, with the same momenta."""
    tf, tfp = _load()
    leaves = [tf.constant(leaf) for leaf in start(workload, chains)]
    kernel = tfp.mcmc.HamiltonianMonteCarlo(log_density(workload), step_size, steps)
    results = kernel.bootstrap_results(leaves)
    # State and results are given, as from one transition to the next: a small tensor from outside
    # would become a constant of the compiled code.
    step = tf.function(kernel.one_step, jit_compile=True)
    seed = tf.constant([0, 0])

    def call() -> tuple[list[Floats], Floats]:
        state, after = step(leaves, results, seed=seed)
        if step.experimental_get_tracing_count() > 1:
            raise RuntimeError("TFP was traced again: its time would be that of compilation")
        return [leaf.numpy() for leaf in state], after.log_accept_ratio.numpy()

    return call


def log_density(workload: Workload) -> Callable[..., Any]:
    """The posterior with N(0, 1) priors, of one chain or, with a first axis, of several."""
    tf, tfp = _load()
    x, y = (tf.constant(values) for values in workload.data())
    prior = tfp.distributions.Normal(0.0, 1.0)

    def log_density(*parameters: Any) -> Any:
        weights, biases = parameters[::2], [each[..., None, :] for each in parameters[1::2]]
        h = x
        for w, b in zip(weights[:-1], biases[:-1], strict=True):
            h = tf.tanh(h @ w + b)
        outputs = h @ weights[-1] + biases[-1]
        total = tf.reduce_sum(tfp.distributions.Normal(outputs, NOISE).log_prob(y), (-2, -1))
        for leaf in (*weights, *biases):
            total += tf.reduce_sum(prior.log_prob(leaf), (-2, -1))
        return total

    return log_density


def value_and_gradient(workload: Workload) -> tuple[Floats, list[Floats]]:
    """The gradient of the log-density at the start of one chain."""
    _, tfp = _load()
    value, gradient = tfp.math.value_and_gradient(log_density(workload), start(workload, 1))
    return value.numpy(), [leaf.numpy() for leaf in gradient]


def start(workload: Workload, chains: int) -> list[Floats]:
    """Weights and biases of every layer; a single chain has no axis of chains."""
    layers = workload.parameters(chains)
    leaves = [layer[name] for layer in layers for name in ("weights", "biases")]
    return [leaf[0] for leaf in leaves] if chains == 1 else leaves


def _load() -> tuple[Any, Any]:
    """TensorFlow on the cores of this process and no other device."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf
    import tensorflow_probability as tfp

    tf.config.threading.set_intra_op_parallelism_threads(cores())
    tf.config.threading.set_inter_op_parallelism_threads(cores())
    return tf, tfp
