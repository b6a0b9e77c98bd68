"""Sections of a report: what was modelled, and with which data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn.model.summary import summary
from tensorbnn.report.context import ReportContext
from tensorbnn.report.html import Html, facts, paragraph, section, table
from tensorbnn.tables.encoding import noted_table


def model_section(context: ReportContext) -> Html:
    """Network, priors, likelihood, sampler."""
    ensemble, manifest = context.ensemble, context.manifest
    parameters = ensemble.network.parameters
    rows = [
        (name, " × ".join(map(str, each.shape)), summary(each.prior))
        for name, each in parameters.items()
    ]
    weights = sum(int(np.prod(each.shape)) for each in parameters.values())
    said = facts(
        {
            "Network": summary(ensemble.network),
            "Weights": f"{weights:,}, and {len(ensemble.hyperparameters)} hyper-parameters",
            "Likelihood": summary(ensemble.likelihood),
            "Units": _units(context),
            "Sampler": summary(manifest["sampler"]),
            "Chains": f"{manifest['chains']}, each {manifest['burn_in']:,} transitions of burn-in "
            f"and {ensemble.num_draws:,} saved networks"
            + (f", every {manifest['every']}th" if manifest["every"] > 1 else ""),
        }
    )
    return section(
        "model",
        "What was modelled",
        paragraph(
            f"A Bayesian neural network that predicts {', '.join(context.targets)}. Instead of one "
            f"best network there are {len(ensemble):,}, sampled from the posterior; where they "
            "differ the data don't decide."
        ),
        said,
        table(("parameter", "shape", "prior"), rows),
    )


def data_section(context: ReportContext) -> Html:
    """The columns of the training data."""
    if context.data is None:
        return section("data", "Data", paragraph("The run does not keep its data."))
    x, y = context.data["x"], context.data["y"]
    noted = noted_table(context.manifest["notes"]) or {}
    said = {"Training rows": f"{len(x):,}"}
    if "validation_x" in context.data:
        said["Held-out rows"] = f"{len(context.data['validation_x']):,}"
    if "file" in noted:
        said = {"File": str(noted["file"])} | said
        said["Dropped"] = f"{noted.get('dropped', 0):,} rows with missing values"
        if noted.get("ignored"):
            said["Ignored columns"] = ", ".join(map(str, noted["ignored"]))
    said["Fingerprint"] = f"SHA-256 {str(context.manifest['data']['sha256'])[:16]}…"
    rows = [_column(name, "input", own) for name, own in zip(context.columns, x.T, strict=True)]
    classes = None if context.encoding is None else context.encoding.classes
    if classes is None:
        named = zip(context.targets, y.T, strict=True)
        rows += [_column(name, "target", own) for name, own in named]
    if "y_sd" in context.data:
        sds = zip(context.target_sds, context.targets, context.data["y_sd"].T, strict=True)
        rows += [_column(name, f"sd of {target}", own) for name, target, own in sds]
    shown = table(("column", "role", "mean", "sd", "min", "median", "max"), rows)
    inside = [facts(said), shown]
    if classes is not None:
        counts = np.bincount(y[:, 0].astype(int), minlength=len(classes))
        shares = [
            (label, f"{count:,}", f"{count / len(y):.1%}")
            for label, count in zip(classes, counts, strict=True)
        ]
        inside.append(table((f"class of {context.targets[0]}", "rows", "share"), shares))
    return section("data", "Data", *inside)


def _column(name: str, role: str, values: NDArray[Any]) -> tuple[str, ...]:
    numbers = [values.mean(), values.std(), values.min(), np.median(values), values.max()]
    note = " (constant)" if np.ptp(values) == 0 else ""
    return (name, role + note, *(f"{each:.4g}" for each in numbers))


def _units(context: ReportContext) -> str:
    scaling = context.ensemble.scaling
    if not scaling.x_scale and not scaling.y_scale:
        return "as given"
    both = "inputs and targets" if scaling.y_scale else "inputs"
    noise = "priors and noise are" if scaling.y_scale else "priors are"
    if not context.ensemble.likelihood.knows_noise:
        noise = "the standard deviations of targets are scaled with them, and priors are"
    return f"{both} are shifted and scaled to mean 0 and sd 1; {noise} in these units"
