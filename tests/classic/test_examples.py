"""TensorBNN's two examples, shortened."""

import runpy
import sys
from pathlib import Path

import pytest
from matplotlib import image

import tensorbnn as tb

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "classic"
SHORT = ["--epochs", "101", "--burnin", "20", "--leapfrog-max", "200"]


@pytest.mark.parametrize("name", ["trainRegression", "extendedRegression"])
def test_example(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, *SHORT])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    ensemble = tb.load("TrigRegression")
    assert len(ensemble) == 8
    architecture = Path("TrigRegression/architecture.txt").read_text().split()
    assert architecture == ["denseGaussian", "tanh"] * 3 + ["denseGaussian"]
    told = capsys.readouterr().out
    if name == "trainRegression":
        assert "8 networks in TrigRegression/" in told
        assert "validation.squared_error" in told
    else:
        assert (tmp_path / "TrigRegression-backup.safetensors").is_file()
        for picture in ("close", "far"):
            assert f"{picture}.png" in told
            assert image.imread(f"TrigRegression/{picture}.png").std() > 0.05
