"""Sections of a report: scales of inputs, hyper-parameters, and sensitivity to the prior."""

import warnings

import numpy as np

from tensorbnn import plots
from tensorbnn.density import Model
from tensorbnn.ensemble.sensitivity import find_numbers
from tensorbnn.model.hyper import Hyper, Prior
from tensorbnn.model.layers import AbstractDense
from tensorbnn.report.context import ReportContext
from tensorbnn.report.figures import drawn, legend_texts, new_axes, plain_ticks
from tensorbnn.report.html import Html, figures, paragraph, section, table
from tensorbnn.tables.reading import counted

# Factors of the prior's width, and the number of rows at which predictions are shown.
FACTORS = (0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.4)
ROWS = 5


def relevances_section(context: ReportContext) -> Html:
    """Which inputs matter, if inputs have scales."""
    ensemble, columns = context.ensemble, context.encoding.columns
    labels = context.labels
    ax = plots.relevances(ensemble, labels=labels, ax=new_axes(0.9 + 0.36 * len(columns)))
    plain_ticks(ax)
    caption = "Median, middle 50 % and middle 90 % of the draws of each chain."
    return section(
        "relevances",
        "Which inputs matter",
        paragraph(
            "Each input is multiplied by a learned scale. Only ratios matter: an input whose scale "
            "is a few per cent of the largest tells hardly anything about the target that the "
            "others don't. If two inputs are alike, either may have the larger scale."
        ),
        figures(drawn(ax, "Scale of each input", caption)),
    )


def hyperparameters_section(context: ReportContext) -> Html:
    """Posteriors of the hyper-parameters, chain by chain."""
    ensemble, found = context.ensemble, context.diagnosis.hyperparameters
    if not found:
        said = paragraph("The model has none: all numbers of its priors and likelihood are fixed.")
        return section("hyperparameters", "Hyper-parameters", said)
    rows = []
    for name, values in ensemble.hyperparameters.items():
        low, high = np.quantile(values, [0.05, 0.95])
        spread = f"{values.mean():.4g}", f"{values.std():.3g}", f"{low:.4g} to {high:.4g}"
        mixing = f"{float(found[name].rhat):.3f}", f"{float(found[name].ess):,.0f}"
        rows.append((name, *spread, *mixing))
    ax = plots.hyperparameters(ensemble, ax=new_axes(0.9 + 0.36 * len(rows)))
    caption = "Median, middle 50 % and middle 90 % of the draws of each chain."
    return section(
        "hyperparameters",
        "Hyper-parameters",
        paragraph(
            "They may mix more slowly than predictions. Do not interpret those with an R-hat above "
            "1.05."
        ),
        table(("name", "mean", "sd", "90 %", "R-hat", "ESS"), rows),
        figures(drawn(ax, "Hyper-parameters of each chain", caption)),
    )


def sensitivity_section(context: ReportContext) -> Html:
    """How predictions change with the width of the prior."""
    title = "Prior sensitivity"
    name, width = _width(context)
    if name is None:
        said = "The layers have no common prior width to change."
        return section("sensitivity", title, paragraph(said))
    points = context.points.evenly(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the figure marks what can't be trusted
        found = context.thinned.sensitivity(
            points.x,
            name,
            [factor * width for factor in FACTORS],
            progress=context.progress,
        )
    figure = new_axes(6.0).figure
    figure.clear()
    axes = figure.subplots(3, 1, sharex=True)
    panels = plots.sensitivity(found, labels=context.labels, axes=axes)
    for place, text in enumerate(legend_texts(panels[0]), start=1):
        text.set_text(f"point {place}")  # the caption says which
    good_ones = found.trustworthy
    good = int(good_ones.sum())
    said = f"The networks of this run are enough for {good} of {len(FACTORS)} values (white)."
    if good:
        moved, sd = np.ptp(found.mean[good_ones], axis=0), found.sd[good_ones].mean(axis=0)
        moved = np.divide(moved, sd, out=np.zeros_like(moved), where=sd > 0)
        said += f" For these, means change by at most {moved.max():.2f} standard deviations."
    places = [f"{place}: {name}" for place, name in enumerate(points.names or (), start=1)]
    caption = (
        f"Mean and standard deviation of the prediction of {context.outputs[0]} at "
        f"{counted(len(points), 'point')}, and the effective sample size, against {name} (in "
        f"the run: {width:g}). Points are {'; '.join(places)}."
    )
    return section(
        "sensitivity",
        title,
        paragraph(
            "How predictions would change with another width of the prior of the weights, by "
            f"reweighting the same networks. {said}"
        ),
        figures(drawn(panels[0], "Predictions against the width of the prior", caption)),
    )


def _width(context: ReportContext) -> tuple[str | None, float]:
    """A pattern that matches the widths of all weight priors, and their common value."""
    layers = context.ensemble.network.layers
    widths = {_scale(each.weight_prior) for each in layers if isinstance(each, AbstractDense)}
    if len(widths) != 1 or None in widths:
        return None, 0.0
    ending, width = widths.pop() or ("", 0.0)
    pattern = f"*.weights.scale{ending}"
    try:
        find_numbers(Model(context.ensemble.network, context.ensemble.likelihood), pattern)
    except ValueError:
        return None, 0.0
    return pattern, width


def _scale(prior: Prior) -> tuple[str, float] | None:
    """The number to vary: the scale itself, or the center of its prior if it is learned."""
    scale = getattr(prior, "scale", None)
    if isinstance(scale, Hyper):
        center = getattr(scale.prior, "loc", None)
        return (".loc", float(center)) if isinstance(center, int | float) and center > 0 else None
    return ("", float(scale)) if isinstance(scale, int | float) else None
