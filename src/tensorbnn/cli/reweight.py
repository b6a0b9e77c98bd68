"""``tensorbnn reweight``: what networks are worth under another prior or likelihood."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from tensorbnn.cli.arguments import add_other_model, add_run
from tensorbnn.cli.opened import open_run, other_weights
from tensorbnn.cli.output import NOT_TRUSTWORTHY, add_json, print_result
from tensorbnn.tables.writing import TableWriter, check_free


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "reweight",
        help="ask the same networks about another prior or likelihood",
        description="Weights with which the networks of a run stand for another model. Exits with "
        f"0 if they can be trusted, with {NOT_TRUSTWORTHY} if they can't (k-hat too high).",
    )
    add_run(parser)
    add_other_model(parser, "weigh for")
    parser.add_argument("--out", type=Path, help="a table to write the weights to")
    parser.add_argument("--force", action="store_true", help="replace a file that is at --out")
    add_json(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Weigh, and say what the weights are worth."""
    if options.out is not None:
        check_free(options.out, force=options.force)
    opened = open_run(options.run)
    progress = not options.quiet
    weights = other_weights(opened, options.prior, options.likelihood, progress=progress)
    if weights is None:
        raise ValueError("give another --prior, another --likelihood, or both")
    lines = {
        "networks": f"{len(weights):,}",
        "effective": f"{weights.effective_size:,.1f} networks of equal weight",
        "k-hat": f"{weights.pareto_k:.2f} (trustworthy up to {weights.pareto_k_limit:.2g})",
        "evidence": f"log ratio {weights.log_evidence_ratio:+.3f}, of this model to the run's",
    }
    facts = {
        "run": str(options.run),
        "networks": len(weights),
        "effective_size": weights.effective_size,
        "pareto_k": weights.pareto_k,
        "pareto_k_limit": weights.pareto_k_limit,
        "log_evidence_ratio": weights.log_evidence_ratio,
        "trustworthy": bool(weights.trustworthy),
    }
    if options.out is not None:
        chains, draws = np.indices((opened.ensemble.num_chains, opened.ensemble.num_draws))
        with TableWriter(options.out) as table:
            columns = {"chain": chains.ravel(), "draw": draws.ravel(), "weight": weights.weights}
            table.write(columns)
        lines["weights"] = str(options.out)
    print_result(options, lines, facts)
    return 0 if weights.trustworthy else NOT_TRUSTWORTHY
