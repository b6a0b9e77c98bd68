"""The command line: ``tensorbnn demo``, ``resume``, ``import`` and ``doctor``."""

import argparse
import dataclasses
import sys
import time
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from tensorbnn.demo import Demo, run_demo
from tensorbnn.doctor import doctor
from tensorbnn.ensemble.converged import Converged
from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.interop.original import import_original
from tensorbnn.model.likelihoods import Gaussian
from tensorbnn.resuming import restore_until, resume
from tensorbnn.runs.files import RunError
from tensorbnn.runs.store import DirectoryStore

# Rows of the training data at which a run is diagnosed, at most.
DIAGNOSED_ROWS = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0 if it succeeded, 1 if it failed, 130 if it was interrupted.

    One that is stopped by SIGTERM exits with 143.
    """
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
    again = commands.add_parser("resume", help="go on with a run that was stopped, or extend it")
    again.add_argument("path", type=Path, help="the run directory")
    again.add_argument("--draws", type=int, help="networks of each chain in all, or at least")
    again.add_argument("--rhat", type=float, help="go on until R-hat of predictions is below this")
    again.add_argument("--ess", type=float, help="go on until their ESS is at least this")
    again.add_argument("--max-minutes", type=float, help="stop after so many minutes")
    again.add_argument(
        "--max-gradients", type=int, help="stop a chain that has spent so many, burn-in included"
    )
    again.set_defaults(command=_resume)
    doctor = commands.add_parser("doctor", help="say what this installation computes with")
    doctor.set_defaults(command=_doctor)
    old = commands.add_parser("import", help="turn a run of TensorBNN into one of this library")
    old.add_argument("old", type=Path, help="the run directory of TensorBNN")
    old.add_argument("new", type=Path, help="the run directory to make")
    old.add_argument("--sd", type=float, help="the noise, where it was Gaussian and known")
    old.add_argument("--overwrite", action="store_true", help="replace a run that is there")
    old.set_defaults(command=_import)
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


def _resume(options: argparse.Namespace) -> int:
    began = time.monotonic()
    ensemble = resume(
        options.path,
        draws=options.draws,
        until=_until(options),
        max_minutes=options.max_minutes,
        max_gradients=options.max_gradients,
    )
    lines = _networks(ensemble) | {"time": f"{time.monotonic() - began:.1f} s since it went on"}
    lines |= _sampler(ensemble)
    data = DirectoryStore(options.path).data()
    if data is not None:
        rows = data["x"][:: -(-len(data["x"]) // DIAGNOSED_ROWS)]
        lines |= _convergence(ensemble.diagnose(rows))
    print(_text(lines | _where(options.path)))
    return 0


def _doctor(options: argparse.Namespace) -> int:
    del options
    print(_text(doctor()))
    return 0


def _until(options: argparse.Namespace) -> Converged | None:
    """What predictions are to reach, where the options change it; the rest as the run says."""
    given = {
        name: value for name in ("rhat", "ess") if (value := getattr(options, name)) is not None
    }
    if not given:
        return None
    recorded = restore_until(DirectoryStore(options.path)) or Converged()
    return dataclasses.replace(recorded, **given)


def _import(options: argparse.Namespace) -> int:
    likelihood = None if options.sd is None else Gaussian(sd=options.sd)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ensemble = import_original(
            options.old, options.new, likelihood=likelihood, overwrite=options.overwrite
        )
    for warning in caught:
        print(f"tensorbnn: {warning.message}", file=sys.stderr)
    network = ensemble.network
    layers = f"{network.inputs} inputs, {', '.join(network.names)}, {network.outputs} outputs"
    model = {"layers": layers, "likelihood": str(ensemble.likelihood)}
    print(_text(_networks(ensemble) | model | _where(options.new)))
    return 0


def _summary(demo: Demo) -> str:
    gradients = int(demo.ensemble.info["num_steps"].sum())
    spent = f"{demo.seconds:.1f} s for burn-in and {gradients:,} gradients after it"
    return _text(
        _networks(demo.ensemble)
        | {"time": spent}
        | _sampler(demo.ensemble)
        | _convergence(demo.diagnosis)
        | {"figure": str(demo.figure)}
        | _where(demo.run)
    )


def _networks(ensemble: Ensemble) -> dict[str, str]:
    plural = "" if ensemble.num_chains == 1 else "s"
    return {"networks": f"{len(ensemble):,} from {ensemble.num_chains} chain{plural}"}


def _sampler(ensemble: Ensemble) -> dict[str, str]:
    if not ensemble.info:  # of a run that was imported
        return {}
    acceptance = " ".join(f"{value:.2f}" for value in ensemble.info["acceptance"].mean(axis=1))
    return {
        "acceptance": f"{acceptance} (each chain)",
        "divergences": f"{int(ensemble.info['divergent'].sum())} transitions",
    }


def _convergence(diagnosis: Diagnosis) -> dict[str, str]:
    return {
        "R-hat": f"at most {np.nanmax(diagnosis.rhat):.3f} over {len(diagnosis.rhat)} points",
        "ESS": f"at least {np.nanmin(diagnosis.ess):,.0f} over the same points",
        "verdict": diagnosis.verdict,
    }


def _where(run: Path) -> dict[str, str]:
    return {"run": f"{run}  (read it with tb.load({str(run)!r}))"}


def _text(lines: dict[str, str]) -> str:
    return "\n".join(f"{name:<12} {text}" for name, text in lines.items())
