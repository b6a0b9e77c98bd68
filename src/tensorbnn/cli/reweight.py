"""``tensorbnn reweight``: weight the networks of a run for another prior or likelihood."""

import argparse
from pathlib import Path

import numpy as np

from tensorbnn.cli.options import OVERWRITE, RESULT, RUN, Command, Option, other_model
from tensorbnn.cli.output import NOT_TRUSTWORTHY, print_result
from tensorbnn.cli.saved_run import check_free_file, open_run, reweighted
from tensorbnn.tables.writing import TableWriter


def run(options: argparse.Namespace) -> int:
    """Compute the weights, and print the effective number of networks."""
    if options.out is not None:
        check_free_file(options.out, overwrite=options.overwrite)
    saved = open_run(options.run)
    progress = not options.quiet
    other = reweighted(saved, options.prior, options.likelihood, progress=progress)
    found = other._weights
    if found is None:
        raise ValueError("give another --prior, another --likelihood, or both")
    lines = {
        "networks": f"{len(other):,}",
        "effective": f"{found.ess:,.1f} networks of equal weight",
        "k-hat": f"{found.pareto_k:.2f} (trustworthy up to {found.pareto_k_limit:.2g})",
        "evidence": f"log ratio {found.log_evidence_ratio:+.3f}, of this model to the run's",
    }
    facts = {"run": str(options.run), "networks": len(other)}
    numbers = "ess", "pareto_k", "pareto_k_limit", "log_evidence_ratio"
    facts |= {name: getattr(found, name) for name in numbers}
    facts["trustworthy"] = bool(found.trustworthy)
    if options.out is not None:
        chains, draws = np.indices(found.weights.shape)
        columns = chains.ravel(), draws.ravel(), found.weights.ravel()
        with TableWriter(options.out) as table:
            table.write(dict(zip(("chain", "draw", "weight"), columns, strict=True)))
        lines["weights"] = str(options.out)
    print_result(options, lines, facts)
    return 0 if found.trustworthy else NOT_TRUSTWORTHY


COMMAND = Command(
    "reweight",
    "evaluate the same networks under another prior or likelihood",
    (
        RUN,
        *other_model("reweight to"),
        Option("out", "a table to write the weights to", Path, path="file"),
        OVERWRITE,
        *RESULT,
    ),
    run,
    description="Weights with which the networks of a run represent another model. The exit code "
    f"is 0 if the weights can be trusted, and {NOT_TRUSTWORTHY} if they can't (k-hat too high).",
)
