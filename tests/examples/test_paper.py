"""`make paper`: every step runs, and the statements on the page follow from the numbers."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def paper():
    """The example as a module; it imports its neighbor as scripts do."""
    folder = str(ROOT / "examples")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("paper", ROOT / "examples" / "paper.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(folder)
        sys.modules.pop("paper_cases", None)


class Pretended:
    """An ensemble whose bands are given by functions of x."""

    def __init__(self, mean, sd):
        self._mean, self._sd = mean, sd

    def predict(self, x, progress=True):
        self.mean, self.sd = self._mean(x), self._sd(x)
        return self


def straight(paper, case):
    """Straight from point to point, with an sd that grows with the distance from them."""
    data = np.sort(paper.inputs(case))
    return Pretended(
        lambda x: np.interp(x, data, paper.truth(data)),
        lambda x: 0.05 + np.abs(x[:, None] - data).min(axis=1),
    )


def test_a_quick_run_makes_everything(paper, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{paper.BEGIN}old\n{paper.END}after\n")
    folders = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    assert paper.main(["--quick", *folders, "--page", str(page)]) == 0
    for name in ("data", "sampled", "variational"):
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 5000
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert len(results["fits"]) == 4
    assert len(results["statements"]) == 12
    text = paper.render(results)
    assert text in capsys.readouterr().out
    assert page.read_text() == f"before\n{paper.BEGIN}\n{text}\n{paper.END}after\n"
    # Each row has a number for the samples, for the fits, or for all.
    cells = [line.split("|")[2:6] for line in text.splitlines()[2:17]]
    filled = {tuple(bool(cell.strip()) for cell in row) for row in cells}
    assert filled == {(True,) * 4, (True, False) * 2, (False, True) * 2}


def test_the_page_has_the_numbers_of_the_last_run(paper):
    results = json.loads((ROOT / "docs" / "paper" / "results.json").read_text())
    page = (ROOT / "docs" / "paper.md").read_text()
    assert f"{paper.BEGIN}\n{paper.render(results)}\n{paper.END}" in page
    assert all(each["holds"] for each in results["statements"])


def test_statements_that_hold(paper):
    narrow = Pretended(lambda x: 0 * x, lambda x: 0 * x + 0.05)
    ensembles = {(case, "sampled"): straight(paper, case) for case in paper.CASES}
    ensembles |= {(case, "variational"): narrow for case in paper.CASES}
    found = paper.statements(ensembles)
    # A line misses the dip of 1.4 by more than two sds of at most 0.25.
    assert [each.holds for each in found] == [True] * 12
    assert found[0].numbers == "mean sd 0.050 there, at least 0.250 elsewhere"


def test_statements_that_do_not_hold(paper):
    same = Pretended(paper.truth, lambda x: 0 * x + 0.2)
    kinds = ("sampled", "variational")
    found = paper.statements({(case, kind): same for case in paper.CASES for kind in kinds})
    assert [each.holds for each in found] == [False] * 12


def test_samplers_by_name(paper):
    assert paper.make_sampler("paper", quick=False).num_steps_max == 10_000
    assert paper.make_sampler("default", quick=False) is None
    assert type(paper.make_sampler("HMC", quick=False)).__name__ == "HMC"
    with pytest.raises(SystemExit, match="there is no sampler Dense: use paper, default"):
        paper.make_sampler("Dense", quick=False)


def test_a_page_without_a_place_for_them(paper, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(SystemExit, match=re.escape(f"{page} has no place")):
        paper.update_page(page, "")
