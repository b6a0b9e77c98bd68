"""Check that all do the same work: the same log-density and gradient, as many steps."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import tfp
from benchmarks.contestants import STEP_SIZE, Outcome, named, target_and_positions
from benchmarks.workloads import Floats, Workload, plain_log_density
from tensorbnn.engine import library

# Norm of the difference over the norm, for values and gradients: some ten times the rounding error
# that float32 leaves in the sums of the largest workload.
TOLERANCE = 1e-5


class MismatchError(Exception):
    """Two contestants do not compute the same."""


def check_same_density(workload: Workload, *, tensorflow: bool = False) -> None:
    """Raise `MismatchError` if log-densities or gradients differ by more than rounding."""
    parameters = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), workload.parameters(1))
    value, tree = jax.jit(jax.value_and_grad(plain_log_density(workload)))(parameters)
    plain = {"log-density": value, "gradient": _flat(workload, tree)}
    for name, *found in _densities(workload, tensorflow):
        for what, ours in zip(plain, found, strict=True):
            error = _difference(ours, plain[what])
            if not error < TOLERANCE:
                raise MismatchError(
                    f"{workload.name}: the {what} of {name} differs from BlackJAX's by "
                    f"{error:.1e} of its norm, more than {TOLERANCE:.0e}"
                )


def check_same_length(name: str, outcome: Outcome, steps: int) -> None:
    """Raise `MismatchError` if a transition did not make the two or three steps it should.

    Such a short trajectory is straight. All chains together move by step size times number of steps
    times the norm of the momenta, which is the square root of their number within a few percent.
    """
    pairs = zip(jax.tree.leaves(outcome.start), jax.tree.leaves(outcome.end), strict=True)
    moves = [np.ravel(np.asarray(end, np.float64) - np.asarray(start)) for start, end in pairs]
    move = np.concatenate(moves)
    found = np.linalg.norm(move) / (STEP_SIZE * np.sqrt(move.size))
    if not abs(found - steps) < 0.5:
        raise MismatchError(f"{name} moved as far as {found:.1f} steps go, instead of {steps}")


def _densities(workload: Workload, tensorflow: bool) -> Iterator[tuple[str, Floats, Floats]]:
    """Log-density and gradient at the start of one chain, except for BlackJAX and NumPyro."""
    for engine in ("jax",) if library.problem() else ("jax", "native"):
        target, positions = target_and_positions(workload, 1, engine, hierarchical=False)
        yield (
            f"tensorbnn ({engine})",
            *jax.jit(jax.value_and_grad(target.log_density))(positions[0]),
        )
    if tensorflow:
        value, leaves = tfp.value_and_gradient(workload)
        pairs = zip(leaves[::2], leaves[1::2], strict=True)
        tree = [{"weights": weights, "biases": biases} for weights, biases in pairs]
        yield "TFP", value, _flat(workload, tree)


def _flat(workload: Workload, layers: list[dict[str, Floats]]) -> Floats:
    target, _ = target_and_positions(workload, 1, "jax", hierarchical=False)
    return np.asarray(target.model.theta.flatten(named(layers)))


def _difference(ours: Floats, theirs: Floats) -> float:
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
