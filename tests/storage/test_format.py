"""Format 2 of run directories and pickles: the names of all that is written.

A name here is a promise: later versions read runs that have it. Names may be added, with a rule for
runs that lack them; none is changed or removed without a new format.
"""

import dataclasses
import re

import jax
import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.errors import DamagedFileError
from tensorbnn.estimators import state as estimator_state
from tensorbnn.sampling.plan import Plan
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import FIELDS, pack_manifest, read_manifest

MANIFEST = """
    blackjax burn_in chains created data draws dtype engine format instruction_set jax library
    likelihood max_gradients max_minutes metrics network networks_per_file notes output_shape pooled
    report_every sample_hyperparameters sampler scaling seed status thin until
"""
# Of every chain, whatever its sampler.
CHAIN = """
    gradients reported restarts rounds_done shared step_size sums/partial transitions
    sums/draw.acceptance_rate sums/draw.divergences sums/draw.num_gradients
    sums/pooling.acceptance_rate sums/pooling.divergences sums/pooling.num_gradients
    sums/report.acceptance_rate sums/report.divergences sums/report.num_gradients
    state/position state/log_density
"""
AVERAGING = "log_anchor log_average log_step_size mean_error updates"
TUNING = """
    acceptance length lengths path record units.center units.scale settings.end settings.many_steps
    settings.max_steps settings.round_length settings.target_acceptance settings.tunes_length
    settings.tunes_step_size
"""
STATES = {
    tb.HMC: f"""
        gradient iteration settings.num_steps settings.num_steps_jitter settings.step_size_jitter
        tuning.({TUNING}) tuning.averaging.({AVERAGING})
    """,
    tb.AdaptiveHMC: f"""
        iteration theta z_phi hyper.({AVERAGING}) weaving.({AVERAGING})
        adapter.(covariance features highest num_steps rejected resets reward_sum step_size
        step_size_max step_size_min trajectories tried weights)
        constants.(a averaging_steps delta k num_steps_increment num_steps_min random_steps strikes)
        constants.num_steps.(features pairs squares) constants.step_sizes.(features pairs squares)
        settings.(burn_in hyper_adapt_steps hyper_num_steps hyper_target_acceptance interweaves
        rewards_function step_size_jitter)
    """,
    tb.GHMC: f"""
        gradient iteration momentum slice settings.(num_steps num_steps_jitter slice_step
        trajectory_length) tuning.({TUNING}) tuning.averaging.({AVERAGING})
    """,
    tb.NUTS: f"""
        gradient iteration adaptation.({AVERAGING})
        settings.(adapt_steps max_tree_depth target_acceptance)
    """,
    tb.MCLMC: f"""
        gradient iteration momentum adaptation.({AVERAGING}) spread.(mean squares visits)
        settings.(decoherence_time max_steps step_size_adapt_steps target_energy_error
        time_adapt_steps)
    """,
    tb.SGHMC: f"""
        gradient iteration momentum noise rows adaptation.({AVERAGING}) spread.(mean squares visits)
        settings.(adapt_steps burn_in friction friction_adapt_steps num_steps target_energy_error)
    """,
}
VARIATIONAL = """
    normals.(mean log_sd) record.(elbos elbo elbo_error pareto_k ess history)
"""
PICKLE = """
    burn_in chains dtype likelihood network output_shape sample_hyperparameters sampler scaling
    status
"""


def names(text, prefix=""):
    """The names in a text, in which ``a.(b c)`` stands for ``a.b a.c``."""
    found = set()
    for group, inside, name in re.findall(r"([\w./]*)\(([^()]*)\)|(\S+)", text):
        found |= {prefix + (name or group + each) for each in inside.split() or [""]}
    return found


def line(n=12):
    x = np.linspace(-1, 1, n)
    return x, 0.8 * x


@pytest.fixture(scope="module")
def posterior():
    network = tb.Network(tb.Dense(2), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), *line())


def written(path):
    """Names of the arrays in the state of a run's only chain."""
    return set(DirectoryStore(path).read_state(0))


@pytest.mark.parametrize("sampler", STATES, ids=lambda kind: kind.__name__)
def test_names_in_the_state_of_a_chain(sampler, posterior, tmp_path):
    options = {"chains": 1, "burn_in": 2, "draws": 1, "progress": False}
    tb.sample(posterior, sampler(), path=tmp_path / "run", **options)
    assert written(tmp_path / "run") == names(CHAIN) | names(STATES[sampler], "state/")
    jax.clear_caches()


def test_names_in_the_state_of_a_variational_fit(posterior, tmp_path):
    path, few = tmp_path / "run", {"cycles": 1, "epochs": 2, "num_starts": 1}
    held = {"sample_hyperparameters": False, "progress": False}
    tb.fit_variational(posterior, draws=2, path=path, **few, **held)
    assert written(path) == names(CHAIN) | names(VARIATIONAL, "state/") | {"held_phi"}


def test_names_in_run_json(posterior, tmp_path):
    tb.sample(posterior, chains=1, burn_in=2, draws=1, path=tmp_path / "run", progress=False)
    manifest = read_manifest(tmp_path / "run")
    assert set(manifest) == names(MANIFEST) == set(FIELDS)
    assert manifest["format"] == 2
    assert {field.name for field in dataclasses.fields(Plan)} <= set(FIELDS)


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_field_that_is_missing_from_run_json_is_named(name, run_on_disk):
    manifest = read_manifest(run_on_disk)
    del manifest[name]
    (run_on_disk / "run.json").write_bytes(pack_manifest(manifest))
    message = "not written by this library" if name == "format" else f"`{name}` is missing"
    for read in (tb.load, tb.resume):
        with pytest.raises(DamagedFileError, match=message):
            read(run_on_disk)


def test_fields_that_a_later_version_adds_are_ignored(run_on_disk):
    manifest = read_manifest(run_on_disk) | {"added_later": {"type": "Nothing"}}
    (run_on_disk / "run.json").write_bytes(pack_manifest(manifest))
    assert tb.load(run_on_disk).num_draws == 1
    assert tb.resume(run_on_disk, draws=2, progress=False).num_draws == 2


def test_an_option_that_is_missing_from_a_description_is_named(run_on_disk):
    manifest = read_manifest(run_on_disk)
    del manifest["network"]["layers"][0]["weight_prior"]
    (run_on_disk / "run.json").write_bytes(pack_manifest(manifest))
    with pytest.raises(
        tb.RunError, match=r"describes an invalid Dense: .*'weight_prior'\] missing"
    ):
        tb.load(run_on_disk)


@pytest.fixture
def run_on_disk(posterior, tmp_path):
    path = tmp_path / "run"
    sampler = tb.HMC(step_size=0.01, num_steps=2)
    tb.sample(posterior, sampler, chains=1, burn_in=2, draws=1, path=path, progress=False)
    return path


def test_names_in_the_pickle_of_an_estimator():
    sampler = tb.HMC(step_size=0.01, num_steps=2)
    options = {"until": None, "burn_in": 2, "draws": 4, "chains": 2, "sampler": sampler}
    x, y = line()
    with pytest.warns(tb.ConvergenceWarning):
        regressor = tb.BNNRegressor((2,), **options).fit(x[:, None], y)
    state = regressor.__getstate__()
    assert state["_tensorbnn_format"] == 2
    packed = state["ensemble_"]
    assert set(packed) == {"kind", "text", "chunks", "burn_in", "data", "custom"}
    known = estimator_state.json.loads(packed["text"])
    assert set(known) == {"manifest", "reports"}
    assert set(known["manifest"]) == names(PICKLE)
    assert set(state["diagnosis_"]) == {"kind", "text", "arrays", "hyperparameters"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_tensorbnn_format": 3}, "has format 3, .* reads format 2: use a newer version"),
        ({"_tensorbnn_format": 1}, "has format 1, .* reads format 2: use an older version"),
        ({"sampler": {"kind": "description"}}, "is damaged: KeyError: 'text'"),
    ],
)
def test_a_pickle_of_another_format_is_refused(change, message):
    state = tb.BNNRegressor().__getstate__() | change
    with pytest.raises(tb.RunError, match=f"^this pickle of an estimator {message}"):
        tb.BNNRegressor().__setstate__(state)


def test_a_pickle_from_before_formats_is_refused():
    state = tb.BNNRegressor().__getstate__()
    del state["_tensorbnn_format"]
    with pytest.raises(tb.RunError, match="has format 1"):
        tb.BNNRegressor().__setstate__(state)
