"""Published figures for the tables of `quality`: RMSE and mean log-density of test targets.

The number after ± is copied from its source: standard errors for PBP and MC dropout. The table of
Deep Ensembles does not say what it is; it has the size of standard deviations over splits.
"""

from typing import NamedTuple


class Figure(NamedTuple):
    """A mean and the number after its ±."""

    mean: float
    error: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.error is None else f"{self.mean:.2f} ± {self.error:.2f}"


class Published(NamedTuple):
    """The figures of one method on one set."""

    rmse: Figure
    log_score: Figure


# One hidden layer of 50 units (100 for protein) unless stated otherwise; 20 splits (protein 5).
METHODS = ("PBP", "MC dropout", "MC dropout, 2 layers", "Deep Ensembles")
SOURCES = (
    "PBP (Hernández-Lobato and Adams 2015) and Deep Ensembles: Table 1 of Lakshminarayanan et al. "
    "2017. MC dropout, with one and two hidden layers: readme of "
    "github.com/yaringal/DropoutUncertaintyExps (energy: the error of its own file of splits). "
    "Airfoil: paper of github.com/scikit-learn-contrib/bde."
)

# For each method: RMSE, its error, log score, its error; - if there is none.
_UCI = """
boston   3.01 0.18 -2.57 0.09  2.90 0.18 -2.40 0.04  2.80 0.13 -2.34 0.02  3.28 1.00 -2.41 0.25
concrete 5.67 0.09 -3.16 0.02  4.82 0.16 -2.93 0.02  4.50 0.18 -2.82 0.02  6.03 0.58 -3.06 0.18
energy   1.80 0.05 -2.04 0.02  0.54 0.01 -1.21 0.01  0.47 0.01 -1.48 0.00  2.09 0.29 -1.38 0.22
kin8nm   0.10 0.00  0.90 0.01  0.08    -  1.14 0.01  0.08    -  1.10    -  0.09 0.00  1.20 0.02
naval    0.01 0.00  3.73 0.01  0.00    -  4.45    -  0.00    -  4.32    -  0.00 0.00  5.63 0.05
power    4.12 0.03 -2.84 0.01  4.01 0.04 -2.80 0.01  3.63 0.04 -2.67 0.01  4.11 0.17 -2.79 0.04
protein  4.73 0.01 -2.97 0.00  4.27 0.02 -2.87    -  3.62 0.01 -2.70    -  4.71 0.06 -2.83 0.02
wine_red 0.64 0.01 -0.97 0.01  0.62 0.01 -0.93 0.01  0.60 0.01 -0.90 0.01  0.64 0.04 -0.94 0.12
yacht    1.02 0.05 -1.63 0.02  0.67 0.05 -1.25 0.01  0.66 0.06 -1.37 0.02  1.58 0.48 -1.18 0.21
"""


def _read(line: str) -> dict[str, Published]:
    numbers = [None if word == "-" else float(word) for word in line.split()[1:]]
    figures = [Figure(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    pairs = zip(figures[::2], figures[1::2], strict=True)
    return {method: Published(*pair) for method, pair in zip(METHODS, pairs, strict=True)}


UCI = {line.split()[0]: _read(line) for line in _UCI.strip().splitlines()}

# In units of the standard deviation of the training targets, five seeds; a method that
# predicts only a mean has no log score.
AIRFOIL: dict[str, tuple[Figure, Figure | None]] = {
    "Linear regression": (Figure(0.6598), None),
    "Random forest": (Figure(0.2560, 0.0015), None),
    "XGBoost": (Figure(0.2025, 0.0055), None),
    "CatBoost": (Figure(0.2393, 0.0036), Figure(-0.1479, 0.1414)),
    "Deep Ensembles (10)": (Figure(0.3650, 0.0038), Figure(-0.1760, 0.0043)),
    "TabPFN v2": (Figure(0.1359, 0.0028), Figure(0.9338, 0.0195)),
    "BDE (MILE, 4 layers of 16)": (Figure(0.1215, 0.0042), Figure(0.9126, 0.0131)),
}
