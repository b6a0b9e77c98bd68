"""All that says what chains do: given by the user, or made again from a run directory."""

import hashlib
import importlib.metadata
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tensorbnn.data import Dataset, pack_dataset
from tensorbnn.engine import choice
from tensorbnn.ensemble.metrics import Metric
from tensorbnn.inference.sampler import Sampler
from tensorbnn.model.checks import check_count
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.posterior import Posterior, precision
from tensorbnn.progress import Bar
from tensorbnn.sampling.chains import Pace
from tensorbnn.sampling.checkpoint import Checkpoint, read_checkpoint, together
from tensorbnn.sampling.interrupt import Stop
from tensorbnn.sampling.local import Outcome, run_chains
from tensorbnn.sampling.plan import Plan
from tensorbnn.sampling.reporting import Reporting
from tensorbnn.storage.description import restore
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.files import Arrays, RunError
from tensorbnn.storage.store import Store
from tensorbnn.warning import warn

# Samplers whose bits depend on the version of BlackJAX, too.
BY_BLACKJAX = ("NUTS", "MCLMC")


class Recipe(NamedTuple):
    """All that says what chains do."""

    posterior: Posterior
    sampler: Sampler
    plan: Plan
    reporting: Reporting
    pace: Pace

    def run(
        self,
        store: Store,
        checkpoints: Sequence[Checkpoint],
        *,
        progress: bool = False,
        stop: Stop | None = None,
        bar: Bar | None = None,
        until_met: bool = False,
    ) -> Outcome:
        """Run chains, all of a run or some, from where they are to their end, or until `stop`.

        With `until_met` only to the last meeting in burn-in.
        """
        return run_chains(
            checkpoints,
            self.sampler,
            self.plan,
            store,
            reporting=self.reporting,
            pace=self.pace,
            dtype=self.posterior.dtype,
            progress=progress,
            stop=stop,
            bar=bar,
            until_met=until_met,
        )


def read_checkpoints(
    store: DirectoryStore, recipe: Recipe, chains: Sequence[int]
) -> list[Checkpoint]:
    """Where these chains of a run are, as they are advanced together; for `Recipe.run`.

    Running a chain from there again gives the same files again, and nothing is done for one that is
    at its end.
    """
    with precision(recipe.posterior.dtype):
        return together(
            [
                read_checkpoint(store, chain, recipe.posterior, recipe.sampler, recipe.plan)
                for chain in chains
            ]
        )


def make_posterior(
    store: DirectoryStore, network: Network, likelihood: Likelihood, data: Arrays | None
) -> Posterior:
    """The posterior of a run on disk, whose `data` are those it was begun with, or an error."""
    manifest, known = store.manifest, data or {}
    options = {
        "dtype": manifest["dtype"],
        "engine": manifest["engine"],
        "standardise": restore(manifest["scaling"], {}),
    }
    _check_engine(manifest, network, likelihood)
    posterior = Posterior(network, likelihood, known.get("x"), known.get("y"), **options)
    if fingerprint(posterior) != manifest["data"]:
        raise RunError(
            f"{store.path / 'data.safetensors'} does not hold the data of this run; its draws stay "
            "readable by tb.load"
        )
    return posterior


def _check_engine(manifest: Mapping[str, Any], network: Network, likelihood: Likelihood) -> None:
    """A run keeps its engine: another one would change the last digits of its draws."""
    problem = choice.why_not_native(network, likelihood)
    if manifest["engine"] == "native" and problem is not None:
        raise RunError(
            f"the run was begun with the native engine, which can't be used here: {problem}"
        )
    then, now = manifest.get("instruction_set"), choice.instruction_set(manifest["engine"])
    if then is not None and then != now:
        warn(
            f"the run was begun with the instruction set {then}, this machine uses {now}: draws "
            "from here on may differ in their last bits from those of an uninterrupted run",
        )


def make_pace(plan: Plan, draws: int | None, seconds: float) -> Pace:
    """How often chains are saved, checked."""
    if not isinstance(seconds, numbers.Real) or isinstance(seconds, bool) or not seconds > 0:
        raise ValueError(f"`checkpoint_seconds` must be a positive number, got {seconds!r}")
    count = plan.networks_per_file if draws is None else draws
    return Pace(check_count("checkpoint_draws", count, least=1), float(seconds))


def make_reporting(
    posterior: Posterior,
    named: Mapping[str, Metric],
    validation: Dataset | tuple[ArrayLike, ArrayLike] | None,
    every: int,
) -> Reporting:
    """What is reported of a run, checked."""
    if validation is not None and not named:
        raise ValueError(
            "`validation` is given but `metrics` is not: say what to report of these data, such as "
            "`metrics=[tb.SquaredError()]`"
        )
    if not named:
        return Reporting(every)
    if posterior.dataset is None or posterior.data is None:
        raise ValueError(
            "`metrics` compare predictions with targets, but `posterior` has no data: build it as "
            "tb.Posterior(network, likelihood, x, y), or leave `metrics` out"
        )
    rows, data = {"training": posterior.dataset}, {"training": posterior.data}
    if validation is not None:
        own = posterior.prepare_validation(validation)
        rows["validation"], data["validation"] = own.dataset, posterior.arrange(own)
    return Reporting(every, named, rows, data, posterior.scaling)


def versions() -> dict[str, str]:
    """Versions on which the bits of a run depend."""
    packages = {"library": "tensorbnn", "jax": "jax", "blackjax": "blackjax"}
    return {name: importlib.metadata.version(package) for name, package in packages.items()}


def fingerprint(posterior: Posterior) -> dict[str, Any] | None:
    """Shapes and SHA-256 of the data, by which they are known again; ``None`` for the prior."""
    data = pack_dataset(posterior.dataset)
    if not data:
        return None
    digest = hashlib.sha256()
    for name in ("x", "y"):
        array = np.ascontiguousarray(data[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    shapes = {name: list(array.shape) for name, array in data.items()}
    return {"shapes": shapes, "sha256": digest.hexdigest()}
