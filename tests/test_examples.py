"""The examples on scikit-learn's data run from a shell and draw their figures (with --quick)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
EXAMPLES = ("diabetes", "breast_cancer", "wine", "digits")


@pytest.mark.soak
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_draws_its_figure(name, tmp_path):
    picture = pytest.importorskip("matplotlib.image")
    out = tmp_path / "picture.png"
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--quick", "--out", str(out)]
    # Too few draws give a warning, not an error.
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^fitted in \d+ s: ", done.stdout)
    assert done.stdout.endswith(f"wrote {out}\n")
    drawn = picture.imread(out)
    kept = picture.imread(ROOT / "docs" / "images" / f"{name}.png")
    assert drawn.shape == kept.shape
    assert drawn.std() > 0.1


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_shows_an_example(name):
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert f"](images/{name}.png)" in page
    assert f"python examples/{name}.py" in page
    assert (ROOT / "docs" / "images" / f"{name}.png").stat().st_size < 100_000
