"""``tensorbnn demo``: the paper's sparse example."""

import argparse
from pathlib import Path
from typing import Any

from tensorbnn.cli import summaries
from tensorbnn.cli.output import add_json, print_result
from tensorbnn.demo import run_demo


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "demo",
        help="sample the paper's sparse example and draw its figure",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for figure and run")
    parser.add_argument("--chains", type=int, default=4, help="number of chains")
    parser.add_argument("--burn-in", type=int, default=1000, help="transitions that are not saved")
    parser.add_argument("--draws", type=int, default=1000, help="networks saved from each chain")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    add_json(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Sample, draw, and say what came of it."""
    demo = run_demo(
        options.out,
        chains=options.chains,
        burn_in=options.burn_in,
        draws=options.draws,
        seed=options.seed,
        progress=not options.quiet,
    )
    gradients = int(demo.ensemble.info["num_steps"].sum())
    spent = f"{demo.seconds:.1f} s for burn-in and {gradients:,} gradients after it"
    lines = (
        summaries.networks(demo.ensemble)
        | {"time": spent}
        | summaries.sampler(demo.ensemble)
        | summaries.convergence(demo.diagnosis)
        | {"figure": str(demo.figure)}
        | summaries.where(demo.run)
    )
    facts = {"run": str(demo.run), "figure": str(demo.figure), "networks": len(demo.ensemble)}
    facts |= {"seconds": demo.seconds} | summaries.convergence_facts(demo.diagnosis)
    print_result(options, lines, facts)
    return 0
