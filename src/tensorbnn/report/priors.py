"""Sections of a report: scales of inputs, hyper-parameters, and how much the prior matters."""

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

# The prior's width is moved by these factors, and predictions are shown at so many rows.
FACTORS = (0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.4)
ROWS = 5


def relevances_section(context: ReportContext) -> Html:
    """Which inputs matter, where they have scales."""
    ensemble, columns = context.ensemble, context.encoding.columns
    labels = context.labels
    ax = plots.relevances(ensemble, labels=labels, ax=new_axes(0.9 + 0.36 * len(columns)))
    plain_ticks(ax)
    caption = "Median, half and nine tenths of the draws, of each chain by itself."
    return section(
        "relevances",
        "Which inputs matter",
        paragraph(
            "Each input is multiplied by a scale that is learned. Only ratios count: an input "
            "whose scale is a few per cent of the largest hardly tells anything about the target "
            "that the others don't. Where two inputs are alike, either may have the large one."
        ),
        figures(drawn(ax, "Scale of each input", caption)),
    )


def hyperparameters_section(context: ReportContext) -> Html:
    """What was learned about them, chain by chain."""
    ensemble, found = context.ensemble, context.diagnosis.hyperparameters
    if not found:
        said = paragraph("The model has none: all numbers of priors and likelihood are fixed.")
        return section("hyperparameters", "Hyper-parameters", said)
    rows = []
    for name, values in ensemble.hyperparameters.items():
        low, high = np.quantile(values, [0.05, 0.95])
        spread = f"{values.mean():.4g}", f"{values.std():.3g}", f"{low:.4g} to {high:.4g}"
        mixing = f"{float(found[name].rhat):.3f}", f"{float(found[name].ess):,.0f}"
        rows.append((name, *spread, *mixing))
    ax = plots.hyperparameters(ensemble, ax=new_axes(0.9 + 0.36 * len(rows)))
    caption = "Median, half and nine tenths of the draws, of each chain by itself."
    return section(
        "hyperparameters",
        "Hyper-parameters",
        paragraph(
            "They may mix more slowly than predictions do, which decide; those with an R-hat above "
            "1.05 should not be interpreted."
        ),
        table(("name", "mean", "sd", "90 %", "R-hat", "ESS"), rows),
        figures(drawn(ax, "Hyper-parameters of each chain", caption)),
    )


def sensitivity_section(context: ReportContext) -> Html:
    """How predictions move with the width of the prior."""
    title = "Prior sensitivity"
    name, width = _width(context)
    if name is None:
        said = "The layers have no prior width in common that could be moved."
        return section("sensitivity", title, paragraph(said))
    points = context.points.evenly(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the picture marks what can't be trusted
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
    said = f"At {good} of {len(FACTORS)} values the networks of this run can tell (white)."
    if good:
        moved, sd = np.ptp(found.mean[good_ones], axis=0), found.sd[good_ones].mean(axis=0)
        moved = np.divide(moved, sd, out=np.zeros_like(moved), where=sd > 0)
        said += f" There means move by at most {moved.max():.2f} standard deviations."
    places = [f"{place}: {name}" for place, name in enumerate(points.names or (), start=1)]
    caption = (
        f"Mean and standard deviation of the prediction of {context.outputs[0]} at "
        f"{counted(len(points), 'point')}, and how many networks are left, against {name} (the "
        f"run: {width:g}). Points are {'; '.join(places)}."
    )
    return section(
        "sensitivity",
        title,
        paragraph(
            "How predictions would move had the prior of the weights another width, by "
            f"re-weighting the same networks. {said}"
        ),
        figures(drawn(panels[0], "Predictions against the width of the prior", caption)),
    )


def _width(context: ReportContext) -> tuple[str | None, float]:
    """The pattern that names the widths of all weights' priors, and their common value."""
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
    """What is moved: a scale that is a number, or the center of the prior of one that is not."""
    scale = getattr(prior, "scale", None)
    if isinstance(scale, Hyper):
        center = getattr(scale.prior, "loc", None)
        return (".loc", float(center)) if isinstance(center, int | float) and center > 0 else None
    return ("", float(scale)) if isinstance(scale, int | float) else None
