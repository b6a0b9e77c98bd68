"""``tensorbnn predict``: predictions for the rows of a table.

The output file has a row for each row of the table. For numbers, its columns are ``mean``, ``sd``
(over networks), ``sd_total`` (of a new target, with noise, if that is known), and quantiles over
networks, ``q0.05``, or of a new target, ``new_q0.05``. For classes: ``class``, the probability
``p_<label>`` of each class with its ``sd_<label>`` and quantiles, ``entropy`` and
``mutual_information``.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.checks import check_count
from tensorbnn.cli.messages import print_error
from tensorbnn.cli.options import (
    DATA,
    OVERWRITE,
    RESULT,
    RUN,
    Command,
    Option,
    other_model,
    probabilities,
    whole_number,
)
from tensorbnn.cli.output import print_result
from tensorbnn.cli.saved_run import SavedRun, check_free_file, open_run, reweighted
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.tables.encoding import Encoding
from tensorbnn.tables.reading import Column, Table, counted
from tensorbnn.tables.writing import TableWriter

Columns = dict[str, NDArray[Any] | Column]


def run(options: argparse.Namespace) -> int:
    """Predict the table in parts, so that it may have any size."""
    check_free_file(options.out, overwrite=options.overwrite)
    saved = open_run(options.run)
    other = reweighted(saved, options.prior, options.likelihood, progress=not options.quiet)
    ensemble = other.thin(check_count("thin", options.thin, least=1))
    rows = left_out = 0
    with TableWriter(options.out) as output:
        for table in saved.read(options.data):
            columns, predicted = _predict(saved, ensemble, table, options)
            output.write(columns, exact=table.columns if options.with_inputs else ())
            rows, left_out = rows + table.num_rows, left_out + table.num_rows - predicted
    if left_out:
        print_error(f"warning: no prediction for {counted(left_out, 'row')} with missing values")
    networks = len(ensemble)
    lines = {
        "predicted": f"{counted(rows - left_out, 'row')} with {counted(networks, 'network')}",
        "written": f"{options.out}: {', '.join(columns)}",
    }
    facts = {"run": str(options.run), "out": str(options.out), "rows": rows, "missing": left_out}
    print_result(options, lines, facts | {"networks": networks, "columns": list(columns)})
    return 0


def _predict(
    saved: SavedRun, ensemble: Ensemble, table: Table, options: argparse.Namespace
) -> tuple[Columns, int]:
    """Columns for all rows of a part of the table, and the number of rows with a prediction."""
    encoding = saved.encoding_for(table)
    rows = encoding.encode(table)
    columns: Columns = dict(table.columns) if options.with_inputs else {}
    prediction = ensemble.predict(rows.x, progress=not options.quiet)
    made = describe(prediction, encoding, options.quantiles, noise=options.noise)
    for name, values in made.items():
        while name in columns:  # for example in a table that `predict` wrote
            name = f"predicted_{name}"
        columns[name] = _spread_out(values, rows.rows - table.number(0), table.num_rows)
    return columns, len(rows)


def describe(
    prediction: Prediction, encoding: Encoding, quantiles: tuple[float, ...], *, noise: bool
) -> Columns:
    """The columns of a prediction, with a value for each row."""
    if encoding.classes is None:
        if noise and not prediction.knows_noise:
            sds = dict.fromkeys(encoding.target_sds)
            known = f"those in {', '.join(sds)} are" if sds else "it has those"
            raise ValueError(
                "--noise is about a new measurement, whose standard deviation this run can't know: "
                f"{known} of the training rows; leave out --noise, and add yours to sd in "
                "quadrature"
            )
        return _describe_numbers(prediction, encoding.targets, quantiles, noise=noise)
    if noise:
        raise ValueError("--noise is about numbers, but this run predicts classes")
    labels = encoding.classes
    mean, sd = (each.reshape(prediction.num_rows, -1) for each in (prediction.mean, prediction.sd))
    codes = mean[:, 0] > 0.5 if mean.shape[1] == 1 else mean.argmax(axis=1)
    found: Columns = {"class": [labels[int(code)] for code in codes]}
    shown = labels[1:] if mean.shape[1] == 1 else labels
    at = prediction.quantile(quantiles, noise=False).reshape(len(quantiles), *mean.shape)
    for output, label in enumerate(shown):
        found |= {f"p_{label}": mean[:, output], f"sd_{label}": sd[:, output]}
        for level, values in zip(quantiles, at, strict=True):
            found[f"q{level:g}_{label}"] = values[:, output]
    for name in ("entropy", "mutual_information"):
        found[name] = getattr(prediction, name).reshape(len(mean), -1)[:, 0]
    return found


def _describe_numbers(
    prediction: Prediction, targets: tuple[str, ...], quantiles: tuple[float, ...], *, noise: bool
) -> Columns:
    found: Columns = {}
    shape = prediction.num_rows, len(targets)
    mean, sd = prediction.mean.reshape(shape), prediction.sd.reshape(shape)
    at = prediction.quantile(quantiles, noise=noise).reshape(len(quantiles), *shape)
    for output, target in enumerate(targets):
        prefix = f"{target}_" if len(targets) > 1 else ""
        found[f"{prefix}mean"], found[f"{prefix}sd"] = mean[:, output], sd[:, output]
        if prediction.knows_noise:
            found[f"{prefix}sd_total"] = prediction.sd_total.reshape(shape)[:, output]
        for level, values in zip(quantiles, at, strict=True):
            found[f"{prefix}{'new_' if noise else ''}q{level:g}"] = values[:, output]
    return found


def _spread_out(
    values: NDArray[Any] | Column, places: NDArray[Any], rows: int
) -> NDArray[Any] | Column:
    """Values of some rows at their positions among all rows."""
    if len(places) == rows:
        return values
    is_text = isinstance(values, list)
    found = np.full(rows, None if is_text else np.nan)
    found[places] = values
    return found.tolist() if is_text else found


# The median and the 95 % interval.
QUANTILES = (0.025, 0.5, 0.975)
COMMAND = Command(
    "predict",
    "predict the rows of a table",
    (
        RUN,
        DATA,
        Option("out", "the table to write", Path, required=True, path="file"),
        Option("quantiles", "probabilities of the quantiles to write", probabilities, QUANTILES),
        Option("noise", "quantiles of a new target, noise included", kind="switch"),
        Option("with_inputs", "write the table's columns too", kind="switch"),
        Option("thin", "use only every n-th draw of each chain", whole_number, 1),
        *other_model("reweight to"),
        OVERWRITE,
        *RESULT,
    ),
    run,
)
