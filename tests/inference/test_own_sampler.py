"""A sampler of the user's own, in one file, runs, is saved and resumed as the library's are."""

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.findings import EnergyErrors
from tests.sampling.small_runs import arrays, assert_same_arrays

ROOT = Path(__file__).parents[2]
X = np.linspace(-1, 1, 5)
UNIT = tb.Normal()
POSTERIOR = tb.Posterior(
    tb.Network(tb.Dense(1, UNIT, UNIT), inputs=1), tb.Gaussian(sd=0.3), X, np.sin(X)
)


@pytest.fixture(scope="module")
def own():
    """The module of the example, found by workers, too."""
    folder = str(ROOT / "examples")
    sys.path.insert(0, folder)
    try:
        import metropolis

        yield metropolis
    finally:
        sys.path.remove(folder)


def draw(sampler, path, **options):
    given = {"chains": 2, "burn_in": 10, "draws": 30, "seed": 3, "progress": False}
    return tb.sample(POSTERIOR, sampler, path=path, **(given | options))


def files(path):
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.glob("chain-*/*")}


@pytest.mark.slow
def test_a_run_that_is_stopped_and_resumed_is_bit_identical(own, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    reference = draw(own.Metropolis(step_size=0.3), whole)
    with pytest.warns(UserWarning, match="max_gradients"):
        short = draw(own.Metropolis(step_size=0.3), cut, max_gradients=25)
    assert short.num_draws < 30
    custom = {"Metropolis": own.Metropolis}
    longer = tb.resume(cut, max_gradients=math.inf, custom_objects=custom, progress=False)
    assert files(cut) == files(whole)
    loaded = tb.load(cut)
    for name, values in reference.parameters.items():
        assert np.array_equal(longer.parameters[name], values)
        assert np.array_equal(loaded.parameters[name], values)
    assert 0 < reference.sample_stats["acceptance_rate"].mean() < 1


class Rough(tb.HMC):
    """A sampler that declares that it is biased."""

    exact = False

    @staticmethod
    def findings(info):
        return (EnergyErrors("Rough", float(info["acceptance_rate"].max()), 0.9, 0.0, "HMC"),)


def test_the_verdict_includes_its_findings(tmp_path):
    """Also of a run that is loaded, where the class is given."""
    mine = draw(Rough(step_size=0.1, num_steps=3), tmp_path / "run")
    again = tb.load(tmp_path / "run", custom_objects={"Rough": Rough})
    for ensemble in (mine, again):
        kinds = [type(each) for each in ensemble.diagnose(X, progress=False).verdict.findings]
        assert EnergyErrors in kinds
    others = tb.load(tmp_path / "run").diagnose(X, progress=False).verdict.findings
    assert EnergyErrors not in map(type, others)


def test_workers_import_it(own, tmp_path):
    draw(own.Metropolis(), tmp_path / "here")
    with ThreadPoolExecutor(2) as executor:
        draw(own.Metropolis(), tmp_path / "workers", executor=executor)
    workers, here = (arrays(tb.load(tmp_path / each)) for each in ("workers", "here"))
    assert_same_arrays(workers, here)


def test_the_page_shows_the_example():
    code = (ROOT / "examples" / "metropolis.py").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    assert code[code.index("class MetropolisState") :] in page


def test_a_similar_class_must_subclass_sampler(own):
    class Duck:
        init, step = own.Metropolis.init, own.Metropolis.step

    with pytest.raises(TypeError, match=r"must subclass tb\.Sampler: .*class Duck\(tb\.Sampler\)"):
        tb.sample(POSTERIOR, Duck(), progress=False)
    for other in (tb.HMC, "hmc"):
        with pytest.raises(TypeError, match=r"must be a sampler such as tb\.HMC\(\), got"):
            tb.sample(POSTERIOR, other, progress=False)
