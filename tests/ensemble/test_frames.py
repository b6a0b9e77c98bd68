"""Results as tables, and a run in memory that is saved, resumed and reported on."""

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.ensemble.diagnostics import convergence
from tests.ensemble.made import coefficients, ensemble_of, linear

X = np.linspace(-1, 1, 8)
SAMPLER = tb.HMC(step_size=0.1, num_steps=5)


def posterior(y, outputs=1, **options):
    network = tb.Network(tb.Dense(outputs, tb.Normal(), tb.Normal()), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.3)), X, y, **options)


@pytest.fixture(scope="module")
def run():
    return tb.sample(posterior(0.5 * X), SAMPLER, chains=2, burn_in=50, draws=60, progress=False)


def test_a_prediction_as_a_table(run):
    p = run.predict(X)
    table = p.to_dataframe(quantiles=[0.1, 0.9])
    assert table.columns.tolist() == ["mean", "sd", "sd_total", "q0.1", "q0.9"]
    np.testing.assert_array_equal(table["mean"], p.mean)
    np.testing.assert_array_equal(table["q0.9"], p.quantile(0.9, noise=True))
    noisy = p.to_dataframe(quantiles=[0.1], noise=False)
    np.testing.assert_array_equal(noisy["q0.1"], p.quantile(0.1, noise=False))
    both = np.column_stack([X, -X])
    options = {"chains": 1, "burn_in": 5, "draws": 5, "progress": False}
    several = tb.sample(posterior(both, outputs=2), SAMPLER, **options).predict(X)
    table = several.to_dataframe(quantiles=())
    assert table.columns.tolist() == [
        *("mean_0", "mean_1", "sd_0", "sd_1", "sd_total_0", "sd_total_1"),
    ]
    np.testing.assert_array_equal(table["mean_1"], several.mean[:, 1])


def test_a_diagnosis_keeps_its_inputs(run):
    np.testing.assert_allclose(run.diagnose(X[:3]).x, X[:3, None], rtol=1e-6)
    np.testing.assert_allclose(run.diagnose().x, X[:, None], rtol=1e-6)


def test_a_summary_of_the_parameters(run):
    table = run.summary()
    assert table.index.tolist() == [
        *("likelihood.sd", "dense_0.weights[0, 0]", "dense_0.biases[0]"),
    ]
    sd = run.hyperparameters["likelihood.sd"]
    found, known = table.loc["likelihood.sd"], convergence(sd)
    expected = [sd.mean(), sd.std(), *np.quantile(sd, [0.025, 0.975])]
    np.testing.assert_allclose(found[["mean", "sd", "q0.025", "q0.975"]], expected, rtol=1e-6)
    np.testing.assert_allclose(found[["rhat", "ess", "ess_tail"]], known, rtol=1e-9)
    assert run.summary(["dense_0.biases"]).index.tolist() == ["dense_0.biases[0]"]
    with pytest.raises(tb.OptionError, match=r"`var_names` must be some of \['dense_0.biases'"):
        run.summary(["nothing"])


def test_a_summary_after_reweighting():
    """Exact draws of N(0, 1), reweighted to N(0.2, 0.8), which is then what they are of."""
    draws = np.random.default_rng(0).normal(size=(8000, 2))
    unit, other = tb.Normal(0.0, 1.0), tb.Normal(0.2, 0.8)
    prior = tb.Posterior(linear(unit, unit), tb.Gaussian(), dtype="float64")
    w = ensemble_of(prior, coefficients(draws)).reweight(network=linear(other, unit))
    found = w.summary().loc["dense_0.weights[0, 0]"]
    error = 4 * 0.8 / np.sqrt(w.ess)
    assert abs(found["mean"] - 0.2) < error
    assert abs(found["sd"] - 0.8) < error
    # A quantile at 2.5 % of a normal has 2.7 times the error of the mean.
    assert abs(found["q0.975"] - (0.2 + 1.96 * 0.8)) < 2.7 * error


def same(one, two):
    pairs = zip(
        (one.parameters | one.hyperparameters).items(),
        (two.parameters | two.hyperparameters).items(),
        strict=True,
    )
    return all(a == b and np.array_equal(v, w) for (a, v), (b, w) in pairs)


def test_a_run_in_memory_is_saved_loaded_and_resumed(run, tmp_path):
    assert (run.path, run.status, run.sampler) == (None, "complete", SAMPLER)
    run.save(tmp_path / "run")
    loaded = tb.load(tmp_path / "run")
    assert same(loaded, run)
    assert (loaded.path, loaded.status, loaded.sampler) == (tmp_path / "run", "complete", SAMPLER)
    np.testing.assert_array_equal(loaded.data.y, run.data.y)
    np.testing.assert_array_equal(loaded.predict(X).mean, run.predict(X).mean)
    longer = tb.resume(tmp_path / "run", draws=90, progress=False)
    assert same(longer, tb.resume(run, draws=90, progress=False))
    with pytest.raises(FileExistsError, match="already holds a run"):
        run.save(tmp_path / "run")
    run.save(tmp_path / "run", overwrite=True)
    assert len(tb.load(tmp_path / "run")) == len(run)


def test_what_can_not_be_saved(run, tmp_path):
    for view in (run.thin(2), run.discard(1), run.sel(chain=0)):
        with pytest.raises(ValueError, match="`save` is about all draws of a run"):
            view.save(tmp_path / "view")
    with pytest.raises(ValueError, match="`resume` is about all draws of a run"):
        tb.resume(run.thin(2), draws=90)
    with pytest.raises(ValueError, match="`save` can't be used after `reweight`"):
        run.reweight(network=run.network).save(tmp_path / "other")
    run.save(tmp_path / "run")
    with pytest.raises(ValueError, match=r"is saved already, in .*run: copy that directory"):
        tb.load(tmp_path / "run").save(tmp_path / "again")
    prior = tb.Posterior(linear(tb.Normal(), tb.Normal()), tb.Gaussian())
    with pytest.raises(ValueError, match="has no state from which its chains could continue"):
        ensemble_of(prior, coefficients(np.zeros((8, 2)))).save(tmp_path / "made")


@pytest.mark.slow
def test_a_report(run, tmp_path):
    run.report(tmp_path / "memory.html", progress=False)
    assert "<h2" in (tmp_path / "memory.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="`report` is about all draws of a run"):
        run.thin(2).report(tmp_path / "view.html")
