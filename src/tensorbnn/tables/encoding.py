"""From named columns to the numbers a network takes, the same for every table of a run.

A column of numbers is one input. A column of texts is a category: one input for each of its
values, 1 in rows that have the value and 0 elsewhere. An `Encoding` describes the training table.
It is saved with the run, so that later tables become numbers in the same way, or are refused.
Columns of standard deviations (error bars) and of weights are not inputs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tensorbnn.data import Dataset
from tensorbnn.tables.columns import (
    Missing,
    as_codes,
    as_deviations,
    as_label,
    as_labels,
    as_numbers,
    as_weights,
    categories_of,
    check_there,
    complete_rows,
    is_text,
)
from tensorbnn.tables.reading import Setting, Table, TableError, counted, names_of

Task = Literal["regression", "classification"]
# Columns of a row that are shown beside its number, or instead of it.
BESIDE_NUMBER = 3
ALONE = 6


@dataclass(frozen=True)
class Input:
    """A column that a network takes; `categories` are the values of a text column."""

    name: str
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table become inputs and targets."""

    inputs: tuple[Input, ...]
    targets: tuple[str, ...]
    classes: tuple[str, ...] | None = None
    """Labels of the classes, in the order in which they are numbered; ``None`` for numbers."""
    missing: Missing = "refuse"
    target_sds: tuple[str, ...] = ()
    """Names of the columns with the standard deviations of targets, one for each, or none."""
    weight: str | None = None
    """Name of the column with the weights of the rows, if there is one."""

    @property
    def task(self) -> Task:
        return "regression" if self.classes is None else "classification"

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each input of the network: ``age``, ``color=red``."""
        found: list[str] = []
        for each in self.inputs:
            values = each.categories
            found += [each.name] if values is None else [f"{each.name}={value}" for value in values]
        return tuple(found)

    def numbers(self, *, targets: bool = False) -> tuple[str, ...]:
        """The columns of a table that hold numbers, with those of the targets if requested."""
        found = tuple(each.name for each in self.inputs if each.categories is None)
        if not targets:
            return found
        found += (self.targets if self.classes is None else ()) + self.target_sds
        return found if self.weight is None else (*found, self.weight)

    def encode(self, table: Table, *, targets: bool = False) -> Dataset:
        """Inputs, and targets where they are wanted, of the rows without missing values.

        Targets are ``(rows, columns)``, with their standard deviations where there are any. Rows
        are numbered as in the file, from 1.
        """
        wanted = [each.name for each in self.inputs]
        if targets:
            wanted += self.beside_inputs
        check_there(table, wanted)
        kept = complete_rows(table, wanted, self.missing)
        x = np.column_stack([_encode_input(table, each, kept) for each in self.inputs])
        rows = table.number(0) + np.flatnonzero(kept)
        if not targets:
            return Dataset(x, rows=rows)
        if self.classes is None:
            y = [as_numbers(table, name, kept) for name in self.targets]
        else:
            y = [as_codes(table, name, self.classes, kept, "class") for name in self.targets]
        sds = [as_deviations(table, name, kept) for name in self.target_sds]
        y_sd = np.column_stack(sds) if sds else None
        weights = None if self.weight is None else as_weights(table, self.weight, kept)
        return Dataset(x, np.column_stack(y), y_sd=y_sd, sample_weight=weights, rows=rows)

    @property
    def beside_inputs(self) -> list[str]:
        """Columns of a training table that are not inputs."""
        return [*self.targets, *self.target_sds, *([] if self.weight is None else [self.weight])]


def noted_table(notes: Mapping[str, Any]) -> dict[str, Any] | None:
    """The notes of `fit` about its table; ``None`` if the run was made in another way."""
    table = notes.get("table")
    return table if isinstance(table, dict) and "inputs" in table else None


def noted_encoding(notes: Mapping[str, Any]) -> Encoding | None:
    """How the table of `fit` becomes numbers; ``None`` for a run that it did not make."""
    table = noted_table(notes)
    return None if table is None else restore_encoding(table)


def restore_encoding(described: Mapping[str, Any]) -> Encoding:
    """The encoding that is saved with a run."""
    try:
        inputs = tuple(
            Input(str(each["name"]), _labels(each["categories"])) for each in described["inputs"]
        )
        targets, classes = tuple(map(str, described["targets"])), _labels(described["classes"])
        missing, sds = described["missing"], tuple(map(str, described.get("target_sds", ())))
        if not inputs or not targets or missing not in get_args(Missing):
            raise ValueError("no inputs or no targets")
    except (KeyError, TypeError, ValueError) as error:
        problem = "the run's description of its table can't be read"
        raise TableError(problem, str(error)) from error
    weight = None if described.get("weight") is None else str(described["weight"])
    return Encoding(inputs, targets, classes, missing, sds, weight)


def plain_encoding(table: Table, inputs: int, targets: int = 0, sds: int = 0) -> Encoding:
    """For a run that was not made from a table: the columns are its inputs, in their order.

    The next `targets` columns are its targets, and the next `sds` their standard deviations;
    classes are numbered from 0.
    """
    names = list(table.columns)
    if len(names) != inputs + targets + sds:
        also, then = "", ""
        if targets:
            also, then = f" and {counted(targets, 'target')}", ", then its targets"
        if sds:
            also = f", {counted(targets, 'target')} and {counted(sds, 'standard deviation')}"
            then += ", then their standard deviations"
        raise TableError(
            f"the network has {counted(inputs, 'input')}{also}, but {table.file} has "
            f"{counted(len(names), 'column')} ({names_of(names)}); the run was not made from a "
            "table and has no names of columns",
            f"give only its inputs, in their order{then}",
        )
    first, known = tuple(map(Input, names[:inputs])), tuple(names[inputs:])
    return Encoding(first, known[:targets] or ("target",), target_sds=known[targets:])


def unnamed_encoding(inputs: int, targets: int = 1) -> Encoding:
    """Names for a run without a table: ``x0``, ``x1``, ..., ``y`` or ``y0``, ..., and ``y sd``."""
    names = ("y",) if targets == 1 else tuple(f"y{number}" for number in range(targets))
    columns = tuple(Input(f"x{number}") for number in range(inputs))
    return Encoding(columns, names, target_sds=tuple(f"{name} sd" for name in names))


def learn(
    table: Table,
    targets: Sequence[str],
    *,
    target_sds: Sequence[str] = (),
    weight: str | None = None,
    task: Task | None = None,
    ignored: Sequence[str] = (),
    categorical: Sequence[str] = (),
    missing: Missing = "refuse",
) -> Encoding:
    """How the columns of a training table become numbers.

    Without a `task`, a target of texts has classes. There is one of `target_sds` for each of the
    `targets`, or none; `categorical` columns are categories even if they hold numbers.
    """
    weights = [] if weight is None else [weight]
    beside = [*targets, *target_sds, *weights]
    check_there(table, [*beside, *ignored, *categorical])
    _check_roles(targets, target_sds, ignored, categorical)
    _check_weight(weight, {*targets, *target_sds, *ignored, *categorical})
    names = [name for name in table.columns if name not in {*beside, *ignored}]
    if not names:
        raise table.error(f"has no columns left to predict {names_of(targets)} from")
    kept = complete_rows(table, [*names, *beside], missing)
    inputs = []
    for name in names:
        is_category = name in categorical or is_text(table, name)
        out = "leave it out with ", Setting("ignore", name)
        inputs.append(Input(name, categories_of(table, name, kept, *out) if is_category else None))
    by_values = task is None and is_text(table, targets[0], is_target=True)
    if target_sds and (by_values or task == "classification"):
        problem = f"the target {targets[0]!r} has classes, which have no standard deviations"
        raise TableError(problem, "leave out ", Setting("target_sd", target_sds[0]))
    classes = _learn_classes(table, targets, task, kept)
    return Encoding(tuple(inputs), tuple(targets), classes, missing, tuple(target_sds), weight)


def row_names(
    x: NDArray[Any], encoding: Encoding, numbers: Sequence[int] | None = None
) -> list[str]:
    """A name for each row of inputs: its number in the table if it has one, or its inputs.

    Examples
    --------
    >>> import numpy as np
    >>> wells = Encoding((Input("depth"), Input("rock", ("chalk", "clay"))), ("flow",))
    >>> row_names(np.array([[97.0, 0.0, 1.0]]), wells, [12])
    ['data row 12 (depth = 97, rock=clay)']
    >>> row_names(np.array([[97.0, 0.0, 1.0]]), unnamed_encoding(3))
    ['x0 = 97, x1 = 0, x2 = 1']
    """
    said = [_inputs_of(row, encoding) for row in x]
    if numbers is None or len(numbers) != len(x):
        return [", ".join(each[:ALONE]) + (", …" if len(each) > ALONE else "") for each in said]
    few = bool(said) and len(said[0]) <= BESIDE_NUMBER
    return [
        f"data row {number:,} ({', '.join(each)})" if few else f"data row {number:,}"
        for number, each in zip(numbers, said, strict=True)
    ]


def _check_roles(
    targets: Sequence[str],
    target_sds: Sequence[str],
    ignored: Sequence[str],
    categorical: Sequence[str],
) -> None:
    """Each column has one role; several targets may share a column of standard deviations."""
    if len(set(targets)) < len(targets):
        raise TableError(f"a target is given twice: {names_of(targets)}")
    if target_sds and len(target_sds) != len(targets):
        raise TableError(
            f"found {counted(len(target_sds), 'column')} of standard deviations "
            f"({names_of(target_sds)}) for {counted(len(targets), 'target')} ({names_of(targets)})",
            *("give one ", Setting("target_sd"), " for each ", Setting("target")),
            ", in the same order",
        )
    sd, classes = Setting("target_sd"), Setting("task", "classification")
    for name in (*targets, *target_sds):
        category = Setting("categorical", name)
        if name in ignored:
            raise TableError("is needed for the target and can't be ignored", column=name)
        if name in targets and name in target_sds:
            problem = "is a target and can't hold standard deviations, too"
            raise TableError(problem, "give ", sd, " another column", column=name)
        if name in targets and name in categorical:
            advice = "if it holds classes, use ", classes, " instead of ", category
            raise TableError("is a target, not an input", *advice, column=name)
        if name in categorical:
            problem = "holds standard deviations and is not an input"
            raise TableError(problem, "leave out ", category, column=name)


def _check_weight(weight: str | None, others: Collection[str]) -> None:
    if weight in others:
        problem = "holds weights of the rows and can't have another role, too"
        raise TableError(problem, "give ", Setting("weight"), " another column", column=weight)


def _learn_classes(
    table: Table, targets: Sequence[str], task: Task | None, kept: NDArray[np.bool_]
) -> tuple[str, ...] | None:
    texts = []
    if task != "classification":
        texts = [name for name in targets if is_text(table, name, is_target=True)]
    if task == "regression" and texts:
        text = next(value for value in as_labels(table, texts[0]) if value is not None)
        problem = f"holds texts such as {text!r}, which can't be the target of a regression"
        use = Setting("task", "classification")
        raise table.error(problem, "use ", use, column=texts[0])
    if task != "classification" and not texts:
        return None
    if len(targets) > 1:
        raise TableError(f"classes are one column, but there are {len(targets)} targets")
    advice: list[str | Setting] = ["if it holds numbers, use ", Setting("task", "regression")]
    if texts:
        advice = ["if these are numbers, write them without units or other signs, as 1234.5"]
    return categories_of(table, targets[0], kept, *advice, is_target=True)


def _encode_input(table: Table, column: Input, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    if column.categories is None:
        return as_numbers(table, column.name, kept)[:, None]
    codes = as_codes(table, column.name, column.categories, kept, "category")
    return (codes[:, None] == np.arange(len(column.categories))).astype(np.float64)


def _labels(values: Any) -> Any:
    """The labels of a run as `as_label` writes them."""
    return None if values is None else tuple(as_label(str(each)) for each in values)


def _inputs_of(row: NDArray[Any], encoding: Encoding) -> list[str]:
    """The value of each column of a row."""
    values, found = row.tolist(), []
    for column in encoding.inputs:
        width = len(column.categories or (None,))
        own, values = values[:width], values[width:]
        if column.categories is None:
            found.append(f"{column.name} = {own[0]:.4g}")
        else:
            found.append(f"{column.name}={column.categories[own.index(max(own))]}")
    return found
