"""Sections of a report: predictions against the truth, and their calibration."""

import numpy as np

from tensorbnn import plots
from tensorbnn.data import Dataset
from tensorbnn.ensemble.class_scores import ClassScores
from tensorbnn.ensemble.prediction import Prediction
from tensorbnn.ensemble.scores import Scores
from tensorbnn.report.context import ReportContext
from tensorbnn.report.figures import (
    draw_against_truth,
    draw_confusion,
    drawn,
    new_axes,
)
from tensorbnn.report.html import Html, figures, paragraph, section, table

# Number of points of the curve that shows a run with one input.
GRID = 200


def predictions_section(context: ReportContext) -> Html:
    """Predicted against true values, or the confusion of classes."""
    x = context.judged.x
    prediction = context.thinned.predict(x, progress=context.progress)
    shown = _classes if context.ensemble.likelihood.predicts_classes else _numbers
    return section(
        "predictions",
        "Predictions against the truth",
        paragraph(f"For {context.judged_name}. {_warning(context)}"),
        figures(*_curves(context), *shown(context, prediction)),
    )


def calibration_section(context: ReportContext) -> Html:
    """Scores and calibration."""
    judged = context.judged
    scores = context.thinned.evaluate(
        judged.x,
        judged.targets,
        y_sd=judged.y_sd,
        sample_weight=judged.sample_weight,
        progress=context.progress,
    )
    ax = plots.calibration(scores, labels=context.labels, ax=new_axes(4.2))
    caption = "On the diagonal if uncertainties are right; the gray band shows chance deviations."
    shown = [drawn(ax, "Calibration: predicted against observed", caption)]
    if isinstance(scores, Scores):
        bins = int(np.clip(len(judged) // 20, 5, 20))
        ax = plots.pit(scores, bins=bins, labels=context.labels, ax=new_axes(4.2))
        caption = "Positions of targets in their predictive distributions: flat if these are right."
        shown.append(drawn(ax, "Histogram of the probability integral transform", caption))
    return section(
        "calibration",
        "Calibration",
        paragraph(f"For {context.judged_name}. {_warning(context)}"),
        table(("score", "value", "means"), _scores(context, scores)),
        figures(*shown),
    )


def _warning(context: ReportContext) -> str:
    if context.unseen is None:
        return "This is a fair test if these rows are not in the training data."
    if context.unseen:
        return "The networks were not fitted to them."
    return (
        "The networks were fitted to them, so this tells little about new data: fit with "
        f"{context.words.option('validation', '0.2')}, or give a table of other rows with "
        f"{context.words.option('validation')}."
    )


def _curves(context: ReportContext) -> list[Html]:
    """The fitted curve, if there is one input."""
    classes = context.ensemble.likelihood.predicts_classes
    if context.ensemble.network.inputs > 1 or classes or context.data is None:
        return []
    x, sds = context.data["x"][:, 0], context.data.get("y_sd")
    data = Dataset(x, context.data["y"], y_sd=sds)
    pad = 0.1 * float(np.ptp(x)) or 1.0  # for a constant column
    grid = np.linspace(x.min() - pad, x.max() + pad, GRID)
    prediction = context.thinned.predict(grid, progress=context.progress)
    found = []
    for output, name in enumerate(context.encoding.targets):
        ax = new_axes()
        plots.bands(prediction, data=data, output=output, labels=context.labels, ax=ax)
        caption = "The mean of the networks, and one and two standard deviations over them."
        if sds is not None:
            of = context.encoding.target_sds[output]
            caption += f" Bars are the standard deviations of the data, {of}."
        found.append(drawn(ax, f"Predicted {name} against {context.encoding.columns[0]}", caption))
    return found


def _numbers(context: ReportContext, prediction: Prediction) -> list[Html]:
    true, true_sd = context.judged.targets, context.judged.y_sd
    sd, caption = prediction.sd, "Bars are one standard deviation over networks."
    if true_sd is not None:
        caption = "Bars are one standard deviation: of the data across, over networks upright."
    if prediction.knows_noise and np.all(np.isfinite(prediction.sd_total)):
        sd = prediction.sd_total
        caption = "Bars are one standard deviation of a new target: networks and noise together."
        if true_sd is not None:
            caption = (
                "Bars are one standard deviation: of the data across, of a new target upright."
            )
    mean, sd = (each.reshape(true.shape) for each in (prediction.mean, sd))
    found = []
    for output, name in enumerate(context.encoding.targets):
        across = None if true_sd is None else true_sd[:, output]
        ax = draw_against_truth(mean[:, output], sd[:, output], true[:, output], name, across)
        found.append(drawn(ax, f"Predicted against true {name}", caption))
    return found


def _classes(context: ReportContext, prediction: Prediction) -> list[Html]:
    true = context.judged.targets
    if true.shape[1] > 1:  # several binary outputs, which have no single class
        return []
    mean = prediction.mean.reshape(prediction.num_rows, -1)
    true = true[:, 0].astype(int)
    binary = mean.shape[1] == 1
    taken = (mean[:, 0] > 0.5).astype(int) if binary else mean.argmax(axis=1)
    numbered = tuple(str(code) for code in range(2 if binary else mean.shape[1]))
    labels = context.encoding.classes or numbered
    caption = "True class (down) and predicted class (across) of the rows."
    return [drawn(draw_confusion(taken, true, labels), "Confusion of classes", caption)]


def _scores(context: ReportContext, scores: Scores | ClassScores) -> list[tuple[str, str, str]]:
    if isinstance(scores, ClassScores):
        return [
            ("log score", f"{scores.log_score:.4g}", "mean log probability of the true class"),
            ("accuracy", f"{scores.accuracy:.1%}", "rows whose most probable class is right"),
            ("Brier score", f"{scores.brier:.4g}", "lower is better"),
            ("calibration error", f"{scores.ece:.3f}", "mean error of the probabilities"),
        ]
    found = [("log score", f"{scores.log_score:.4g}", "mean log density; higher is better")]
    rmse, crps, coverage = (
        np.atleast_1d(each) for each in (scores.rmse, scores.crps, scores.coverage)
    )
    for output, name in enumerate(context.encoding.targets):
        of = f" of {name}" if len(context.encoding.targets) > 1 else ""
        found += [
            (f"RMSE{of}", f"{rmse[output]:.4g}", f"in units of {name}"),
            (f"CRPS{of}", f"{crps[output]:.4g}", "lower is better"),
            (
                f"coverage{of}",
                f"{coverage[output]:.1%}",
                f"of the targets lie in their {scores.level:.0%} intervals",
            ),
        ]
    return found
