"""Rows of data in the user's units, and prepared for a model.

Only `prepare` converts the user's units to those of a model.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbnn.checks import check_count, check_number
from tensorbnn.errors import OptionError
from tensorbnn.model.checks import DType, as_array, as_rows, cast, check_inputs, check_rows
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.rows import RowLikelihood
from tensorbnn.model.scaling import Scaling

# Messages name a row by its inputs if there are at most this many.
INPUTS_SHOWN = 3
# The fingerprint of a run whose data are unknown.
UNKNOWN_DATA = {"shapes": {}, "sha256": "0" * 64}
# The arrays of a dataset that a run saves.
ARRAYS = ("x", "y", "y_sd", "sample_weight")

Index = slice | NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of data in your units: inputs, and where known targets, error bars and weights.

    Every argument that takes a pair ``(x, y)``, such as `validation`, also takes a `Dataset`.

    Parameters
    ----------
    x
        Inputs ``(rows, inputs)``, or ``(rows,)`` for one input.
    y
        Targets ``(rows,)`` or ``(rows, columns)``, as for `Posterior`. They keep this shape.
    y_sd
        Error bars: standard deviations of the targets, in the shape and unit of `y`.
    sample_weight
        Weights of the rows ``(rows,)``: a row of weight 2 counts as two equal rows.
    rows
        A number for each row, ``(rows,)``; 0, 1, ... by default. A part of a dataset keeps the
        numbers of the whole.
    names
        A name for each row in messages; by default its inputs if there are at most three, and its
        number otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorbnn as tb
    >>> x = np.linspace(-1, 1, 10)
    >>> data = tb.Dataset(x, np.sin(x), y_sd=np.full(10, 0.1))
    >>> data
    Dataset(10 rows, 1 input, 1 target, y_sd)
    >>> data.evenly(3).rows.tolist()
    [0, 4, 8]
    >>> training, validation = data.split(0.2, seed=0)
    >>> len(training), len(validation)
    (8, 2)
    >>> data.row_name(0)
    'x = -1'
    """

    x: NDArray[Any]
    y: NDArray[Any] | None
    y_sd: NDArray[Any] | None
    sample_weight: NDArray[Any] | None
    rows: NDArray[Any]
    names: tuple[str, ...] | None

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike | None = None,
        *,
        y_sd: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        rows: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        inputs = as_rows("x", x)
        count = len(inputs)
        targets = None if y is None else as_rows("y", y)
        if targets is not None and len(targets) != count:
            raise ValueError(f"`x` has {count} rows but `y` has {len(targets)}")
        if targets is not None and np.ndim(y) == 1:  # type: ignore[arg-type]
            targets = targets[:, 0]
        numbers = np.arange(count) if rows is None else np.asarray(rows)
        if numbers.shape != (count,):
            raise ValueError(
                f"`rows` must be a number for each of the {count} rows, got shape {numbers.shape}"
            )
        if names is not None and (not isinstance(names, Sequence) or len(names) != count):
            raise OptionError("names", f"one name for each of the {count} rows of `x`", names)
        self._set(
            x=inputs,
            y=targets,
            y_sd=None if y_sd is None else _checked_sd(y_sd, targets),
            sample_weight=None if sample_weight is None else _checked_weight(sample_weight, count),
            rows=numbers,
            names=None if names is None else tuple(names),
        )

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        columns = {
            "input": self.x.shape[1],
            "target": 0 if self.y is None else self.targets.shape[1],
        }
        counts = [f"{n} {name}{'s' * (n > 1)}" for name, n in columns.items() if n]
        parts = [*counts, *(name for name in ("y_sd", "sample_weight") if name in self._given())]
        return f"Dataset({len(self)} row{'s' * (len(self) > 1)}, {', '.join(parts)})"

    @property
    def targets(self) -> NDArray[Any]:
        """The targets `y` as ``(rows, columns)``; an error if they are unknown."""
        if self.y is None:
            raise ValueError("the targets of these rows are unknown: give tb.Dataset(x, y)")
        return self.y if self.y.ndim == 2 else self.y[:, None]

    def take(self, chosen: Index) -> "Dataset":
        """Some of the rows: a slice, their positions, or a mask."""
        names = self.names
        try:
            places = np.arange(len(self))[chosen]
        except (IndexError, ValueError) as error:
            raise OptionError("chosen", "a slice, positions of rows or a mask", chosen) from error
        return self._with(
            **{name: array[chosen] for name, array in self._given().items()},
            rows=self.rows[chosen],
            names=None if names is None else tuple(names[at] for at in places),
        )

    def evenly(self, most: int) -> "Dataset":
        """At most `most` rows, spread evenly over all."""
        most = check_count("most", most)
        return self.take(slice(None, None, -(-len(self) // most)))

    def split(self, fraction: float, *, seed: int = 0) -> tuple["Dataset", "Dataset"]:
        """Split off a random `fraction` of the rows: returns the others, and these.

        Both keep the order of the rows. The same seed gives the same rows.
        """
        fraction = check_number("fraction", fraction)
        seed = check_count("seed", seed, least=0)
        count = round(fraction * len(self))
        if not 0 < count < len(self):
            raise ValueError(
                f"`fraction` ({fraction:g}) must leave at least one of the {len(self)} rows on "
                "either side"
            )
        order = np.random.default_rng(seed).permutation(len(self))
        return self.take(np.sort(order[count:])), self.take(np.sort(order[:count]))

    def row_name(self, row: int) -> str:
        """The name of the row at this position, for messages."""
        if self.names is not None:
            return self.names[row]
        if self.x.shape[1] > INPUTS_SHOWN:
            return f"row {self.rows[row]}"
        inputs = ", ".join(f"{each:.3g}" for each in self.x[row].tolist())
        return f"x = {inputs}" if self.x.shape[1] == 1 else f"x = ({inputs})"

    def _given(self) -> dict[str, NDArray[Any]]:
        """The arrays of the rows that are known, by name."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        return {name: array for name, array in arrays.items() if array is not None}

    def _with(self, **fields: Any) -> "Dataset":
        """The same rows with other values in some fields, which are not checked again."""
        other = object.__new__(Dataset)
        other._set(**{**vars(self), **fields})
        return other

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def _checked_sd(y_sd: ArrayLike, y: NDArray[Any] | None) -> NDArray[Any]:
    """The user's `y_sd` in the shape of `y`, or an error."""
    if y is None:
        raise OptionError("y_sd", "None, as `y` is", np.shape(y_sd))
    sds = as_rows("y_sd", y_sd)
    if sds.shape != (len(y), y.size // len(y)):
        raise OptionError("y_sd", f"the shape of `y`, {y.shape}", np.shape(y_sd), "have")
    _check_each("y_sd", sds, sds > 0, "positive")
    return sds.reshape(y.shape)


def _checked_weight(sample_weight: ArrayLike, count: int) -> NDArray[Any]:
    """The user's `sample_weight` ``(rows,)``, or an error."""
    given = as_array("sample_weight", sample_weight)
    if given.shape != (count,):
        wanted = f"the shape ({count},), a number for each row"
        raise OptionError("sample_weight", wanted, given.shape, "have")
    weights = as_rows("sample_weight", given)
    _check_each("sample_weight", weights, weights >= 0, "at least 0")
    if not np.any(weights > 0):
        raise OptionError("sample_weight", "positive in some row", 0.0)
    return weights[:, 0]


def _check_each(name: str, values: NDArray[Any], fits: NDArray[Any], wanted: str) -> None:
    """Raise at the first of ``(rows, columns)`` that is not finite or does not fit."""
    bad = np.argwhere(~(np.isfinite(values) & fits))
    if len(bad):
        row, column = bad[0]
        raise OptionError(name, f"finite and {wanted} in row {row}", float(values[row, column]))


def pack_dataset(dataset: Dataset | None, prefix: str = "") -> dict[str, NDArray[Any]]:
    """The arrays of a dataset by the names under which a run saves them; none for the prior."""
    if dataset is None or dataset.y is None:
        return {}
    return {f"{prefix}{name}": array for name, array in dataset._given().items()}


def unpack_dataset(arrays: Mapping[str, NDArray[Any]] | None, prefix: str = "") -> Dataset | None:
    """The dataset that `pack_dataset` packed, or ``None`` if `arrays` have none."""
    if arrays is None or f"{prefix}x" not in arrays:
        return None
    found = {name: arrays[prefix + name] for name in ARRAYS if prefix + name in arrays}
    return Dataset(found["x"])._with(**found)


def fingerprint(dataset: Dataset | None) -> dict[str, Any] | None:
    """Shapes and SHA-256 of data, by which a run recognizes them; ``None`` for the prior."""
    data = pack_dataset(dataset)
    if not data:
        return None
    digest = hashlib.sha256()
    for name in data:
        array: NDArray[Any] = np.ascontiguousarray(data[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    shapes = {name: list(array.shape) for name, array in data.items()}
    return {"shapes": shapes, "sha256": digest.hexdigest()}


class Prepared(NamedTuple):
    """Rows that are checked: in the user's units, and in those of the model."""

    dataset: Dataset
    inputs: NDArray[Any]  # (rows, inputs)
    targets: NDArray[Any]  # (rows, n) for `likelihood`; no columns where they are unknown
    likelihood: Likelihood  # of rows with these error bars and weights

    @property
    def dtype(self) -> DType:
        return "float32" if self.inputs.dtype == np.float32 else "float64"

    def take(self, chosen: Index) -> "Prepared":
        dataset, targets = self.dataset.take(chosen), self.targets[chosen]
        return Prepared(dataset, self.inputs[chosen], targets, self.likelihood)


def follow_y(values: NDArray[Any], output_shape: tuple[int, ...]) -> NDArray[Any]:
    """Values ``(..., columns)`` in the shape that predictions take from `y`.

    Examples
    --------
    >>> follow_y(np.zeros((5, 1)), ()).shape, follow_y(np.zeros((5, 2)), (2,)).shape
    ((5,), (5, 2))
    """
    return values.reshape(*values.shape[:-1], *output_shape)


def as_dataset(name: str, given: Dataset | tuple[ArrayLike, ArrayLike]) -> Dataset:
    """The user's rows with targets, a `Dataset` or a pair, which an argument `name` takes."""
    if isinstance(given, Dataset):
        if given.y is None:
            raise ValueError(f"`{name}` must have targets, as tb.Dataset(x, y) has")
        return given
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(
            f"`{name}` must be a pair (x, y) or a tb.Dataset, got {type(given).__name__}"
        )
    x, y = given
    with in_argument(name):
        as_rows("y", y)  # no pair (x, None)
        return Dataset(x, y)


@contextlib.contextmanager
def in_argument(name: str) -> Iterator[None]:
    """Errors about `x` and `y` also name the argument that they belong to."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"in `{name}`, {error}") from error


def prepare(
    dataset: Dataset, network: Network, likelihood: Likelihood, scaling: Scaling, dtype: DType
) -> Prepared:
    """The user's rows, checked, and as a model takes them, in the type `dtype`."""
    checked = _as_type(dataset, scaling.user_dtype(dtype))
    check_inputs(checked.x, network)
    targets: tuple[NDArray[Any], Likelihood] = np.empty((len(checked), 0), dtype), likelihood
    if dataset.y is not None:
        targets = prepare_targets(checked, network, likelihood, scaling, dtype)
    return Prepared(checked, scaling.inputs(checked.x, dtype), *targets)


def prepare_targets(
    dataset: Dataset, network: Network, likelihood: Likelihood, scaling: Scaling, dtype: DType
) -> tuple[NDArray[Any], Likelihood]:
    """Targets ``(rows, n)``, with error bars and weights, and the likelihood that takes them."""
    given = _as_type(dataset, scaling.user_dtype(dtype))
    of_rows = likelihood_of(given, likelihood)
    columns = [_model_targets(given.targets, network, likelihood, scaling)]
    if given.y_sd is not None:
        sds = given.y_sd.reshape(len(given), -1)
        inside = cast(sds / np.asarray(scaling.y_scale or 1.0), dtype)
        _check_each("y_sd", inside, inside > 0, f"positive in {dtype}")
        columns.append(inside)
    weights = given.sample_weight
    if weights is None:
        return np.column_stack(columns).astype(dtype), of_rows
    # Replace the values of rows that do not count, such as 1e30 for missing ones: even a gradient
    # times zero may be NaN there.
    own = np.column_stack(columns)
    own[weights == 0] = own[np.argmax(weights > 0)]
    return np.column_stack([own, weights]).astype(dtype), of_rows


def likelihood_of(dataset: Dataset, likelihood: Likelihood) -> Likelihood:
    """The likelihood of rows with these error bars and weights, or an error naming `y_sd`."""
    name = type(likelihood).__name__
    if dataset.y_sd is None and not likelihood.knows_noise:
        raise OptionError("y_sd", f"given for a {name} likelihood", None)
    if dataset.y_sd is not None and type(likelihood).sd_of_rows is Likelihood.sd_of_rows:
        wanted = f"None for a {name} likelihood, which has no standard deviation to add it to"
        raise OptionError("y_sd", wanted, dataset)
    if dataset.y_sd is None and dataset.sample_weight is None:
        return likelihood
    num_sds = 0 if dataset.y_sd is None else dataset.targets.shape[1]
    return RowLikelihood(likelihood, num_sds, dataset.sample_weight is not None)


def _as_type(dataset: Dataset, dtype: DType) -> Dataset:
    """The same rows in a floating type, in which all values are finite."""
    given = dataset._given().items()
    return dataset._with(**{n: check_rows(n, each, dtype).reshape(each.shape) for n, each in given})


def _model_targets(
    y: NDArray[Any], network: Network, likelihood: Likelihood, scaling: Scaling
) -> NDArray[Any]:
    """The user's targets ``(rows, n)`` as a likelihood, maybe the user's own, takes them."""
    targets = likelihood.targets(scaling.targets(y), network.outputs)
    shape: tuple[int, ...] = getattr(targets, "shape", ())
    if len(shape) != 2 or shape[0] != len(y):
        raise TypeError(
            f"`targets` of {type(likelihood).__name__} must return an array of shape "
            f"({len(y)}, n), with a row for each of `y`, but returned "
            f"{f'one of shape {shape}' if shape else repr(targets)}"
        )
    return targets
