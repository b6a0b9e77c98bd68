"""Sections of a report: the verdict, the sampler, and whether chains agree about functions."""

import numpy as np

from tensorbnn import plots
from tensorbnn.ensemble.verdict import ESS_LIMIT, RHAT_LIMIT
from tensorbnn.report.context import ReportContext
from tensorbnn.report.figures import draw_histogram, draw_log_density, drawn, name_outputs, new_axes
from tensorbnn.report.html import Html, element, figures, paragraph, section, table


def verdict_box(context: ReportContext) -> Html:
    """Whether to believe it, in a box at the top."""
    good = context.diagnosis.trustworthy
    title = "Converged: the sample can be trusted" if good else "Not yet to be trusted"
    look = f"verdict {'good' if good else 'bad'}"
    return element("div", element("strong", title), context.verdict, id="verdict", class_=look)


def sampler_section(context: ReportContext) -> Html:
    """What each chain did."""
    ensemble, diagnosis = context.ensemble, context.diagnosis
    info = ensemble.info
    if not info:  # of a run that another program has made
        said = paragraph("The run has no records of its sampler.")
        return section("sampler", "Sampler behaviour", said)
    rows = [
        (
            f"chain {chain}",
            f"{diagnosis.acceptance[chain]:.2f}",
            f"{int(diagnosis.divergences[chain])}",
            f"{diagnosis.ebfmi[chain]:.2f}",
            f"{info['step_size'][chain].mean():.3g}",
            f"{info['num_steps'][chain].mean():.1f}",
        )
        for chain in range(ensemble.num_chains)
    ]
    head = ("", "acceptance", "divergences", "E-BFMI", "step size", "gradients a network")
    inside = [
        paragraph(
            "Divergences are trajectories that went astray: up to 1 % of the networks is no "
            "trouble. An E-BFMI below 0.3 would say that tails may be missed."
        ),
        table(head, rows),
    ]
    ax = draw_log_density(ensemble.reports, context.manifest["burn_in"])
    if ax is not None:
        caption = (
            "Log-density of the network each chain is at. Chains that have arrived wander around "
            "the same level, without a trend."
        )
        inside.append(figures(drawn(ax, "Log-density of each chain against transitions", caption)))
    return section("sampler", "Sampler behaviour", *inside)


def functions_section(context: ReportContext) -> Html:
    """R-hat, effective sizes and traces of predictions."""
    ensemble, diagnosis = context.ensemble, context.diagnosis
    worst = context.worst_row
    place = context.points.row_name(worst)
    output = int(np.argmax(np.nan_to_num(diagnosis.rhat[worst], nan=np.inf)))
    shown = []
    if np.isfinite(diagnosis.rhat).any():
        ax = draw_histogram(diagnosis.rhat, "R-hat", RHAT_LIMIT, least=0.998)
        shown.append(drawn(ax, "R-hat of all points", "R-hat: near 1 where chains agree."))
    if np.isfinite(diagnosis.ess).any():
        least = np.minimum(diagnosis.ess, diagnosis.ess_tail)
        ax = draw_histogram(least, "effective sample size", ESS_LIMIT, least=0.0)
        caption = "How many independent networks the sample is worth, in bulk or tails."
        shown.append(drawn(ax, "Effective sample sizes of all points", caption))
    point = context.points.x[worst]
    show = context.progress
    ax = plots.trace(ensemble, point, output=output, ax=new_axes(), progress=show)
    ax.set_ylabel(f"prediction of {context.outputs[output]}")  # the caption says where
    caption = f"What each chain predicts where they agree least, at {place}."
    shown.append(drawn(ax, "Trace of the prediction of each chain", caption))
    if ensemble.num_chains > 1:
        ax = plots.ranks(ensemble, point, output=output, ax=new_axes(), progress=show)
        ax.set_xlabel("rank of the prediction")
        caption = "Ranks of each chain's draws there: flat, within the band, where chains agree."
        shown.append(drawn(ax, "Rank histogram of each chain", caption))
    ax = plots.autocorrelation(ensemble, context.points.x, ax=new_axes(), progress=show)
    name_outputs(ax, context.outputs)
    shown.append(drawn(ax, "Autocorrelation of predictions", "How fast a chain forgets."))
    return section(
        "functions",
        "Do chains agree?",
        paragraph(
            f"Weights of a network have no meaning of their own, so chains are compared by what "
            f"their networks predict, at {len(context.points.x)} points."
        ),
        figures(*shown),
    )
