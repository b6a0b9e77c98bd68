"""A run keeps the engine it was begun with."""

import json

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.engine import library
from tensorbnn.errors import RunError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        library.problem() is not None, reason=f"no native engine: {library.problem()}"
    ),
]
OPTIONS = {"chains": 2, "burn_in": 5, "seed": 3, "progress": False}
SAMPLER = tb.HMC(step_size=0.02, num_steps=4)


@pytest.fixture
def posterior():
    x = np.linspace(-1, 1, 9)
    network = tb.Network(tb.Dense(4), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=0.1), x, np.sin(3 * x), engine="native")


@pytest.fixture(autouse=True)
def as_before():
    before = library.instruction_set()
    yield
    library.use_instruction_set(before)


def test_a_resumed_run_keeps_its_engine_and_bits(posterior, tmp_path):
    path = tmp_path / "run"
    tb.sample(posterior, SAMPLER, draws=3, path=path, **OPTIONS)
    manifest = json.loads((path / "run.json").read_text())
    assert manifest["engine"] == "native"
    assert manifest["instruction_set"] == library.instruction_set()
    resumed = tb.resume(path, draws=6, progress=False)
    at_once = tb.sample(posterior, SAMPLER, draws=6, **OPTIONS)
    for name, values in at_once.parameters.items():
        np.testing.assert_array_equal(resumed.parameters[name], values)


def test_another_instruction_set_is_named(posterior, tmp_path):
    path = tmp_path / "run"
    tb.sample(posterior, SAMPLER, draws=3, path=path, **OPTIONS)
    if library.instruction_set() == "portable":
        manifest = json.loads((path / "run.json").read_text())
        (path / "run.json").write_text(json.dumps(manifest | {"instruction_set": "avx2"}))
    library.use_instruction_set("portable")
    with pytest.warns(UserWarning, match=r"instruction set avx\d+, this machine uses portable"):
        tb.resume(path, draws=4, progress=False)


def test_a_run_without_its_engine_can_not_be_resumed(posterior, tmp_path, monkeypatch):
    path = tmp_path / "run"
    tb.sample(posterior, SAMPLER, draws=3, path=path, **OPTIONS)
    monkeypatch.setattr(library, "_load", lambda: library.Library(None, "it is not there"))
    message = "begun with the native engine, which can't be used here: it is not there"
    with pytest.raises(RunError, match=message):
        tb.resume(path, draws=4, progress=False)
    assert len(tb.load(path)) == 6  # its draws stay readable
