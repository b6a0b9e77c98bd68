"""The command line: ``tensorbnn demo``."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from tensorbnn.demo import Demo, run_demo
from tensorbnn.runs.files import RunError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0 if it succeeded, 1 if it failed, 130 if it was interrupted."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except (ValueError, TypeError, ImportError, OSError, RunError) as error:
        print(f"tensorbnn: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tensorbnn: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tensorbnn", description="Bayesian neural networks, sampled."
    )
    parser.add_argument("--version", action="version", version=f"tensorbnn {version('tensorbnn')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    demo = commands.add_parser(
        "demo",
        help="sample the paper's sparse example and draw its figure",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--out", type=Path, default=Path("demo"), help="folder for figure and run")
    demo.add_argument("--chains", type=int, default=4, help="number of chains")
    demo.add_argument("--burn-in", type=int, default=1000, help="transitions that are not saved")
    demo.add_argument("--draws", type=int, default=1000, help="networks saved from each chain")
    demo.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    demo.set_defaults(command=_demo)
    return parser


def _demo(options: argparse.Namespace) -> int:
    demo = run_demo(
        options.out,
        chains=options.chains,
        burn_in=options.burn_in,
        draws=options.draws,
        seed=options.seed,
    )
    print(_summary(demo))
    return 0


def _summary(demo: Demo) -> str:
    ensemble, diagnosis = demo.ensemble, demo.diagnosis
    gradients = int(ensemble.info["num_steps"].sum())
    acceptance = " ".join(f"{value:.2f}" for value in diagnosis.acceptance)
    lines = {
        "networks": f"{len(ensemble):,} from {ensemble.num_chains} chains",
        "time": f"{demo.seconds:.1f} s for burn-in and {gradients:,} gradients after it",
        "acceptance": f"{acceptance} (each chain)",
        "divergences": f"{int(diagnosis.divergences.sum())} transitions",
        "R-hat": f"at most {np.nanmax(diagnosis.rhat):.3f} over {len(diagnosis.rhat)} points",
        "ESS": f"at least {np.nanmin(diagnosis.ess):,.0f} over the same points",
        "verdict": diagnosis.verdict,
        "figure": str(demo.figure),
        "run": f"{demo.run}  (read it with tb.load({str(demo.run)!r}))",
    }
    return "\n".join(f"{name:<12} {text}" for name, text in lines.items())
