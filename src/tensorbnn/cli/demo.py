"""``tensorbnn demo``: the paper's sparse example."""

import argparse
from pathlib import Path

from tensorbnn.cli import summaries
from tensorbnn.cli.options import RESULT, Command, Option
from tensorbnn.cli.output import print_result
from tensorbnn.demo import run_demo


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
        | summaries.convergence(demo.diagnosis, options.words)
        | {"figure": str(demo.figure)}
        | summaries.where(demo.run)
    )
    facts = {"run": str(demo.run), "figure": str(demo.figure), "networks": len(demo.ensemble)}
    facts |= {"seconds": demo.seconds} | summaries.convergence_facts(demo.diagnosis, options.words)
    print_result(options, lines, facts)
    return 0


COMMAND = Command(
    "demo",
    "sample the paper's sparse example and draw its figure",
    (
        Option("out", "folder for figure and run", Path, default=Path("demo"), path="directory"),
        Option("chains", "number of chains", int, default=4),
        Option("burn_in", "transitions that are not saved", int, default=1000),
        Option("draws", "networks saved from each chain", int, default=1000),
        Option("seed", "seed of all random numbers", int, default=0),
        *RESULT,
    ),
    run,
)
