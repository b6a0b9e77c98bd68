"""``tensorbnn import``: turn a run of TensorBNN into one of this library."""

import argparse
import warnings
from pathlib import Path
from typing import Any

from tensorbnn.cli import summaries
from tensorbnn.cli.opened import check_free_run
from tensorbnn.cli.output import add_json, complain, print_result
from tensorbnn.interop.original import import_original
from tensorbnn.model.likelihoods import Gaussian
from tensorbnn.model.summary import summary


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "import",
        help="turn a run of TensorBNN into one of this library",
        description="Turn a run directory of TensorBNN, which stays as it is, into one of this "
        "library. It can't be resumed.",
    )
    parser.add_argument("old", type=Path, help="the run directory of TensorBNN")
    parser.add_argument("new", type=Path, help="the run directory to make")
    parser.add_argument("--sd", type=float, help="the noise, where it was Gaussian and known")
    parser.add_argument(
        "--overwrite", "--force", action="store_true", help="replace a run that is at new"
    )
    add_json(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Import, and say what was found."""
    check_free_run(options.new, force=options.overwrite, option="directory")
    likelihood = None if options.sd is None else Gaussian(sd=options.sd)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ensemble = import_original(
            options.old, options.new, likelihood=likelihood, overwrite=options.overwrite
        )
    for warning in caught:  # here a likelihood is given by its noise
        told = str(warning.message).replace("the `likelihood` of the run", "the noise by --sd")
        complain(f"warning: {told}")
    model = {
        "network": summary(ensemble.network),
        "likelihood": summary(ensemble.likelihood),
    }
    facts = {"run": str(options.new), "networks": len(ensemble)} | model
    print_result(
        options, summaries.networks(ensemble) | model | summaries.where(options.new), facts
    )
    return 0
