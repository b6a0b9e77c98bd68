"""Findings about data: each with its columns, its numbers and a remedy."""

from tensorbnn.findings import Finding
from tensorbnn.messages import PYTHON, Remedy, Words


class AboutColumns(Finding):
    """Something about columns of `x` or of `y`."""

    of_sampling = False
    argument: str
    columns: tuple[int, ...]
    of: int
    """Number of columns of the argument."""

    def found(self) -> str:
        return self.said(PYTHON.columns(self.argument, self.columns, self.of), PYTHON)

    def advice(self, words: Words = PYTHON) -> str:
        said = self.said(words.columns(self.argument, self.columns, self.of), words)
        return said if self.remedy is None else f"{said}: {words.remedy(self.remedy)}"

    def said(self, columns: str, words: Words) -> str:
        """The finding in words; `columns` are named as in the front-end."""
        raise NotImplementedError

    @property
    def many(self) -> bool:
        return len(self.columns) > 1


class Unscaled(AboutColumns):
    """Columns far from unit scale."""

    doubtful = True
    remedy = Remedy.STANDARDIZE
    size: float
    """The root mean square farthest from 1."""

    def said(self, columns: str, words: Words) -> str:
        up_to = f"up to {self.size:.3g}" if self.size > 1 else f"down to {self.size:.3g}"
        size = up_to if self.many else f"{self.size:.3g}"
        return f"{columns} {'are' if self.many else 'is'} far from unit scale (typical size {size})"


class Sentinel(AboutColumns):
    """A number that probably marks a missing value."""

    doubtful = True
    remedy = Remedy.MISSING_VALUES
    value: float
    cells: int

    def said(self, columns: str, words: Words) -> str:
        times = f"in {self.cells:,} cells" if self.cells > 1 else "in one cell"
        return (
            f"{columns} {'have' if self.many else 'has'} the value {self.value:.6g} {times}, "
            "which looks like a code for missing values"
        )


class FarValue(AboutColumns):
    """One or a few values far outside the rest of their column."""

    remedy = Remedy.CHECK_VALUE
    value: float
    row: int
    """The user's number of its row."""
    low: float
    high: float
    """The range of the rest of the column."""

    def said(self, columns: str, words: Words) -> str:
        return (
            f"{columns} has the value {self.value:.4g}{words.in_row(self.row)}, far outside the "
            f"rest ({self.low:.4g} to {self.high:.4g})"
        )


class ConstantColumns(AboutColumns):
    """Inputs that never vary."""

    remedy = Remedy.LEAVE_COLUMN_OUT

    def said(self, columns: str, words: Words) -> str:
        return f"{columns} {'are' if self.many else 'is'} constant in all rows, and of no use"


class DuplicateColumns(AboutColumns):
    """Inputs that equal each other in every row."""

    remedy = Remedy.KEEP_ONE_COLUMN

    def said(self, columns: str, words: Words) -> str:
        return f"{columns} are the same in all rows"


class CountsRows(AboutColumns):
    """An input that only numbers the rows."""

    remedy = Remedy.NO_MEASUREMENT

    def said(self, columns: str, words: Words) -> str:
        return f"{columns} only counts the rows"


class LooksCategorical(AboutColumns):
    """Whole numbers between which targets go up and down."""

    remedy = Remedy.CATEGORIES
    values: int

    def said(self, columns: str, words: Words) -> str:
        return (
            f"{columns} has only {self.values} values, all whole numbers, between which targets go "
            "up and down, as between categories"
        )


class ConstantTargets(AboutColumns):
    """Targets that never vary."""

    doubtful = True
    remedy = Remedy.VARYING_TARGETS
    value: float

    def said(self, columns: str, words: Words) -> str:
        return f"{columns} is {self.value:.6g} in all rows, from which nothing can be learned"


class CoarseNoise(AboutColumns):
    """Noise so small that the data type can't resolve the residuals."""

    doubtful = True
    sd: float
    """The noise in units of the model."""
    dtype: str
    error: float
    """Rounding error of the log-density."""

    @property
    def remedy(self) -> Remedy:
        return Remedy.FINER_TYPE if self.dtype == "float32" else Remedy.LARGER_NOISE

    def said(self, columns: str, words: Words) -> str:
        return (
            f"a noise sd of {self.sd:.2g} for {columns} is too small for {self.dtype}, which "
            f"rounds log-densities by about {self.error:.2g}"
        )


class FewRows(Finding):
    """Too few rows to learn from."""

    of_sampling = False
    remedy = Remedy.MORE_ROWS
    rows: int
    least: int

    @property
    def doubtful(self) -> bool:
        return self.rows == 1

    def found(self) -> str:
        rows = "one row is" if self.rows == 1 else f"{self.rows} rows are"
        return f"{rows} too few to learn from (at least {self.least}), so the priors decide"
