"""The report is one well-formed page with all its parts, and holds no text as HTML that is not."""

import base64
import re
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.cli import main
from tensorbnn.findings import VerdictKind
from tensorbnn.report.context import read_context
from tensorbnn.report.figures import (
    draw_confusion,
    draw_histogram,
    drawn,
    new_axes,
)
from tensorbnn.report.html import table
from tensorbnn.report.model import TITLES
from tensorbnn.warning import DataWarning
from tests.cli.conftest import QUICK
from tests.cli.running import write

pytestmark = pytest.mark.slow

PARTS = {
    *("verdict", "model", "data", "sampler", "functions", "predictions", "calibration"),
    *("hyperparameters", "sensitivity", "reproduce"),
}
VOID = {"meta", "link", "img"}


class Page(HTMLParser):
    """Elements of a page, which must be closed in the order in which they were opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag, attribute):
        return [attributes.get(attribute) for name, attributes in self.found if name == tag]


def made(run, folder, capsys):
    file = folder / "page.html"
    arguments = ["report", run, "--out", str(file), "--overwrite", "--quiet"]
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert "verdict" in shown.out
    assert not shown.err
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("run", "figures", "said"),
    [
        # Log-density, five of agreement, truth, two of calibration, hyper-parameters, prior.
        ("prices", 11, ["For 15 held-out rows", "color=red", "1 rows with missing values"]),
        # The same without a PIT; and the label as text, which an element b would not have.
        ("kinds", 10, ["<b>mid</b>", "were fitted to them, so this tells little about new data"]),
    ],
)
def test_the_page(inside, tmp_path, capsys, run, figures, said):
    text = made(run, tmp_path, capsys)
    page = Page(text)
    assert {attributes.get("id") for _, attributes in page.found} >= PARTS
    for link in page.all("a", "href"):
        assert link.removeprefix("#") in PARTS
    pictures = page.all("img", "src")
    assert len(pictures) == figures
    for picture in pictures:
        drawing = ElementTree.fromstring(base64.b64decode(picture.split(",", 1)[1]))
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(drawing.iter("{http://www.w3.org/2000/svg}path"))) > 10
    assert all(page.all("img", "alt"))
    words = "".join(page.words)
    for each in [*said, f"tensorbnn fit {run}.csv --out {run} --target"]:
        assert each in words
    # It loads nothing from elsewhere and runs nothing.
    assert "script" not in {tag for tag, _ in page.found}
    assert all(source.startswith("data:") for source in pictures + page.all("link", "href"))
    assert not re.search(r"url\(|@import", text)


def test_small_units_and_names_with_equal_signs(tmp_path, capsys):
    x = np.linspace(-1, 1, 20).round(3)
    noise = np.random.default_rng(0).normal(0, 0.1, 20)
    columns = {"T=300": x, "rock": ["clay", "chalk"] * 10, "area": 1e-28 * (2 + x + noise)}
    data, run = write(tmp_path / "t.csv", columns), str(tmp_path / "run")
    assert main(["fit", str(data), "--target", "area", "--out", run, *QUICK]) == 0
    words = "".join(Page(made(run, tmp_path, capsys)).words)
    assert re.search(r"least, at data row \d+ \(T=300 = -?\d[\d.e-]*, rock=(clay|chalk)\)", words)
    (moved,) = re.findall(r"means change by at most (\d+\.\d+) standard deviations", words)
    assert float(moved) > 0.01  # not that of so many of another unit


def test_one_row(tmp_path, capsys):
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(1), inputs=1)
    posterior = tb.Posterior(network, tb.Gaussian(sd=0.1), [1.0], [2.0])
    options = {"chains": 2, "burn_in": 20, "draws": 20, "progress": False}
    with pytest.warns(DataWarning, match="one row is too few"):
        tb.sample(posterior, path=tmp_path / "run", **options)
    words = "".join(Page(made(str(tmp_path / "run"), tmp_path, capsys)).words)
    assert "The mean of the networks, and one and two standard deviations" in words


def test_names_of_targets_whose_noise_is_predicted(tmp_path):
    network = tb.Network(tb.Dense(2), tb.Tanh(), tb.Dense(4), inputs=1)
    x, y = np.linspace(-1, 1, 5), np.random.default_rng(0).normal(size=(5, 2))
    posterior = tb.Posterior(network, tb.HeteroscedasticGaussian(), x, y)
    options = {"chains": 2, "burn_in": 5, "draws": 5, "progress": False}
    tb.sample(posterior, path=tmp_path / "run", **options)
    assert read_context(tmp_path / "run", progress=False).outputs == ("y0", "y1")


def test_a_page_that_is_there_is_kept(inside, tmp_path, capsys):
    (tmp_path / "page.html").write_text("mine")
    assert main(["report", "prices", "--out", str(tmp_path / "page.html")]) == 1
    assert "exists: choose another --out" in capsys.readouterr().err
    assert (tmp_path / "page.html").read_text() == "mine"


def test_names_in_figures_are_as_written():
    ax = new_axes()
    ax.plot([0, 1], label="$^$")
    ax.set(xlabel="true $\\frac$", ylabel="output 0")  # no formula that could be drawn
    ax.legend()
    assert drawn(ax, "says", "caption").text.startswith("<figure>")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["$^$"]
    drawn(draw_confusion(np.array([0, 1]), np.array([0, 1]), ("$^$", "b")), "says", "caption")


@pytest.mark.parametrize("largest", [1.004, 1.019, 1.07, 2.3, 14.0])
def test_numbers_below_a_histogram_do_not_touch(largest):
    values = np.linspace(0.999, largest, 50)
    ax = draw_histogram(values, "R-hat", 1.01, least=0.998)
    ax.figure.draw_without_rendering()
    low, high = ax.get_xlim()
    shown = [each for each in ax.get_xticklabels() if low <= each.get_position()[0] <= high]
    boxes = [each.get_window_extent() for each in shown]
    assert len(boxes) > 2
    # By the width of a digit at least.
    gaps = [right.x0 - left.x1 for left, right in pairwise(boxes)]
    assert min(gaps) > boxes[0].width / len(shown[0].get_text())


def test_tables_align_numbers():
    text = table(("name", "n", "words"), [("a", "-1.5", "x"), ("b", "nan", "2 < 3")]).text
    assert '<th scope="col" class="number">n</th>' in text
    assert '<td class="number">nan</td><td class="text">2 &lt; 3</td>' in text


def test_every_verdict_has_a_title_that_does_not_contradict_it():
    assert set(TITLES) == set(VerdictKind)
    trusted = [kind for kind, title in TITLES.items() if title.startswith("You can trust")]
    assert trusted == [VerdictKind.TRUSTWORTHY]
