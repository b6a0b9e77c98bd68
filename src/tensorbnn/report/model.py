"""Sections of a report: the model, the data, the sampler, and the agreement of chains."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbnn import plots
from tensorbnn.ensemble.verdict import ESS_LIMIT, RHAT_LIMIT
from tensorbnn.findings import VerdictKind
from tensorbnn.messages import PYTHON
from tensorbnn.model.summary import summary
from tensorbnn.report.context import ReportContext
from tensorbnn.report.figures import draw_histogram, draw_log_density, drawn, new_axes
from tensorbnn.report.html import Html, element, facts, figures, paragraph, section, table
from tensorbnn.tables.encoding import noted_table

TITLES = {
    VerdictKind.TRUSTWORTHY: "You can trust these predictions",
    VerdictKind.USABLE: "Use these predictions with care",
    VerdictKind.NOT_YET: "Not converged yet",
    VerdictKind.DISAGREE: "Do not trust these predictions: the chains disagree",
    VerdictKind.NOT_MOVED: "Do not trust these predictions: a chain has not moved",
    VerdictKind.ONE_CHAIN: "One chain can't show that it has converged",
    VerdictKind.APPROXIMATION: "An approximation of the posterior",
}


def verdict_box(context: ReportContext) -> Html:
    """Whether the predictions can be trusted, in a box at the top."""
    good = context.diagnosis.trustworthy
    title = TITLES[context.diagnosis.verdict.kind]
    look = f"verdict {'good' if good else 'bad'}"
    # In the wording of the front-end that created the run.
    by_fit = isinstance(context.manifest["notes"].get("command"), str)
    said = context.diagnosis.verdict.message(context.words if by_fit else PYTHON)
    return element("div", element("strong", title), said, id="verdict", class_=look)


def model_section(context: ReportContext) -> Html:
    """Network, priors, likelihood and sampler."""
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
            + (f", every {manifest['thin']}th" if manifest["thin"] > 1 else ""),
        }
    )
    return section(
        "model",
        "What was modeled",
        paragraph(
            f"A Bayesian neural network that predicts {', '.join(context.encoding.targets)}. "
            f"Instead of one best network there are {len(ensemble):,}, sampled from the posterior; "
            "where they differ, the data don't decide."
        ),
        said,
        table(("parameter", "shape", "prior"), rows),
    )


def data_section(context: ReportContext) -> Html:
    """The columns of the training data."""
    if context.data is None:
        return section("data", "Data", paragraph("The run does not contain its data."))
    x, y, encoding = context.data["x"], context.data["y"], context.encoding
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
    rows = [_column(name, "input", own) for name, own in zip(encoding.columns, x.T, strict=True)]
    if encoding.classes is None:
        named = zip(encoding.targets, y.T, strict=True)
        rows += [_column(name, "target", own) for name, own in named]
    if "y_sd" in context.data:
        sds = zip(encoding.target_sds, encoding.targets, context.data["y_sd"].T, strict=True)
        rows += [_column(name, f"sd of {target}", own) for name, target, own in sds]
    if "sample_weight" in context.data:
        rows.append(_column(encoding.weight or "weight", "weight", context.data["sample_weight"]))
    shown = table(("column", "role", "mean", "sd", "min", "median", "max"), rows)
    inside = [facts(said), shown]
    if encoding.classes is not None:
        counts = np.bincount(y[:, 0].astype(int), minlength=len(encoding.classes))
        shares = [
            (label, f"{count:,}", f"{count / len(y):.1%}")
            for label, count in zip(encoding.classes, counts, strict=True)
        ]
        inside.append(table((f"class of {encoding.targets[0]}", "rows", "share"), shares))
    return section("data", "Data", *inside)


def sampler_section(context: ReportContext) -> Html:
    """Statistics of the sampler for each chain."""
    ensemble, diagnosis = context.ensemble, context.diagnosis
    info = ensemble.sample_stats
    if not info:  # an imported run
        said = paragraph("The run has no statistics of its sampler.")
        return section("sampler", "Sampler behavior", said)
    rows = [
        (
            f"chain {chain}",
            f"{diagnosis.acceptance_rate[chain]:.2f}",
            f"{int(diagnosis.divergences[chain])}",
            f"{diagnosis.ebfmi[chain]:.2f}",
            f"{info['step_size'][chain].mean():.3g}",
            f"{info['num_gradients'][chain].mean():.1f}",
        )
        for chain in range(ensemble.num_chains)
    ]
    head = ("", "acceptance", "divergences", "E-BFMI", "step size", "gradients per network")
    inside = [
        paragraph(
            "Divergences are trajectories that failed numerically: up to 1 % of the networks is "
            "acceptable. An E-BFMI below 0.3 means that tails may be missed."
        ),
        table(head, rows),
    ]
    ax = draw_log_density(ensemble.reports, context.manifest["burn_in"])
    if ax is not None:
        caption = (
            "Log-density of each chain. Converged chains vary around the same level, without a "
            "trend."
        )
        inside.append(figures(drawn(ax, "Log-density of each chain against transitions", caption)))
    return section("sampler", "Sampler behavior", *inside)


def functions_section(context: ReportContext) -> Html:
    """R-hat, effective sample sizes and traces of predictions."""
    ensemble, diagnosis = context.ensemble, context.diagnosis
    rhat = np.nan_to_num(diagnosis.rhat, nan=np.inf).reshape(len(diagnosis.rhat), -1)
    worst, output = (int(each) for each in np.unravel_index(np.argmax(rhat), rhat.shape))
    place = context.points.row_name(worst)
    shown = []
    if np.isfinite(diagnosis.rhat).any():
        ax = draw_histogram(diagnosis.rhat, "R-hat", RHAT_LIMIT, least=0.998)
        shown.append(drawn(ax, "R-hat of all points", "R-hat: near 1 if chains agree."))
    if np.isfinite(diagnosis.ess).any():
        least = np.minimum(diagnosis.ess, diagnosis.ess_tail)
        ax = draw_histogram(least, "effective sample size", ESS_LIMIT, least=0.0)
        caption = "Number of independent networks that are worth as much, in bulk or tails."
        shown.append(drawn(ax, "Effective sample sizes of all points", caption))
    point = context.points.x[worst]
    show = context.progress
    ax = plots.trace(ensemble, point, output=output, ax=new_axes(), progress=show)
    ax.set_ylabel(f"prediction of {context.outputs[output]}")  # the caption says where
    caption = f"Prediction of each chain where the chains agree least, at {place}."
    shown.append(drawn(ax, "Trace of the prediction of each chain", caption))
    if ensemble.num_chains > 1:
        ax = plots.ranks(ensemble, point, output=output, ax=new_axes(), progress=show)
        ax.set_xlabel("rank of the prediction")
        caption = "Ranks of each chain's draws there: flat, within the band, if chains agree."
        shown.append(drawn(ax, "Rank histogram of each chain", caption))
    ax = plots.autocorrelation(
        ensemble, context.points.x, labels=context.labels, ax=new_axes(), progress=show
    )
    shown.append(
        drawn(
            ax,
            "Autocorrelation of predictions",
            "The faster it falls, the more independent the draws are.",
        )
    )
    return section(
        "functions",
        "Do chains agree?",
        paragraph(
            f"Single weights of a network have no meaning, so chains are compared by what their "
            f"networks predict, at {len(context.points.x)} points."
        ),
        figures(*shown),
    )


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
