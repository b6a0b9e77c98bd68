"""Results are printed as one line, however many rows they have."""

import numpy as np
import pytest

import tensorbnn as tb


@pytest.fixture(scope="module")
def ensemble():
    network = tb.Network(tb.Dense(2, tb.Normal(), tb.Normal()), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.5))
    return tb.sample(posterior, chains=2, burn_in=5, draws=20, progress=False)


X = np.linspace(-1, 1, 1000)


@pytest.mark.slow
def test_scores(ensemble):
    scores = ensemble.evaluate(X, np.zeros((1000, 2)), progress=False)
    rmse = ", ".join(f"{each:.4g}" for each in scores.rmse)
    assert repr(scores).startswith(f"Scores(log_score={scores.log_score:.4g}, rmse=[{rmse}], crps=")
    assert repr(scores).endswith("] of 0.95, 1000 rows)")


@pytest.mark.slow
def test_class_scores():
    network = tb.Network(tb.Dense(1, tb.Normal(), tb.Normal()), inputs=1)
    posterior = tb.Posterior(network, tb.Bernoulli())
    ensemble = tb.sample(posterior, chains=2, burn_in=5, draws=20, progress=False)
    scores = ensemble.evaluate(X, (X > 0).astype(int), progress=False)
    expected = f"accuracy={scores.accuracy:.4g}, brier={scores.brier:.4g}, ece={scores.ece:.4g})"
    assert repr(scores) == f"ClassScores(log_score={scores.log_score:.4g}, {expected}"


@pytest.mark.slow
def test_diagnosis_and_prediction(ensemble):
    diagnosis = ensemble.diagnose(X, progress=False)
    assert repr(diagnosis) == f"Diagnosis(1000 rows; {diagnosis.verdict})"
    assert repr(ensemble.predict(X)) == "Prediction(1000 rows by 40 networks)"


def test_sensitivity(ensemble):
    found = ensemble.sensitivity(X, "dense_0.weights.scale", [0.95, 1.0], progress=False)
    known = int(found.trustworthy.sum())
    assert repr(found) == (
        f"Sensitivity(dense_0.weights.scale at 2 values from 0.95 to 1, {known} of them "
        "trustworthy; 1000 rows)"
    )
