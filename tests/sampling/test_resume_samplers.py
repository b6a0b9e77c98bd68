"""Every sampler resumes a stopped run to the bits of an uninterrupted one."""

import pytest

import tensorbnn as tb
from tensorbnn.sampling.chains import ChainGroup
from tensorbnn.sampling.local import LocalBackend
from tensorbnn.storage.manifest import read_manifest
from tests.sampled import sample_run
from tests.sampling.small_runs import assert_same_run, posterior

pytestmark = pytest.mark.slow

SAMPLERS = {
    "ghmc": tb.GHMC(max_steps=20),
    "nuts": tb.NUTS(max_tree_depth=4),
    "mclmc": tb.MCLMC(max_steps=20),
    "sghmc": tb.SGHMC(batch_size=4, num_steps=10),
}
# 12 transitions of burn-in, 4 draws of 2 transitions each, files of 2 draws.
PLAN = {"burn_in": 12, "draws": 4, "thin": 2, "networks_per_file": 2, "chains": 2}


@pytest.mark.parametrize("name", SAMPLERS)
def test_stopped_in_every_phase(name, tmp_path, monkeypatch):
    """In the first and the second half of burn-in, at its end, within a draw."""
    given = {"progress": False, **PLAN}
    sample_run(posterior(), SAMPLERS[name], path=tmp_path / "reference", **given)
    monkeypatch.setattr(LocalBackend, "call_seconds", 0.0)
    limit = [0]

    def stop(group):
        if group.at.transitions >= limit[0]:
            group.stop.request()

    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(ChainGroup, "after_call", stop)
        for limit[0] in (1, 8, 12, 15):
            try:
                if limit[0] == 1:
                    sample_run(posterior(), SAMPLERS[name], path=path, **given)
                else:
                    tb.resume(path, progress=False)
            except tb.RunError as error:
                assert "holds no draws yet" in str(error)  # noqa: PT017
            assert read_manifest(path)["status"] == "interrupted"
    tb.resume(path, progress=False)
    assert_same_run(path, tmp_path / "reference")
