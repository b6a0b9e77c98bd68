"""``tensorbnn import``: turn a run of TensorBNN into one of this library."""

import argparse
from pathlib import Path

from tensorbnn.cli.options import RESULT, Command, Option
from tensorbnn.cli.output import networks, print_result, where
from tensorbnn.cli.saved_run import check_free_run
from tensorbnn.interop.original import import_original
from tensorbnn.model.likelihoods import Gaussian
from tensorbnn.model.summary import summary


def run(options: argparse.Namespace) -> int:
    """Import, and say what was found."""
    check_free_run(options.new, force=options.overwrite, option="directory")
    likelihood = None if options.sd is None else Gaussian(sd=options.sd)
    ensemble = import_original(
        options.old, options.new, likelihood=likelihood, overwrite=options.overwrite
    )
    model = {"network": summary(ensemble.network), "likelihood": summary(ensemble.likelihood)}
    facts = {"run": str(options.new), "networks": len(ensemble)} | model
    print_result(options, networks(ensemble) | model | where(options.new), facts)
    return 0


COMMAND = Command(
    "import",
    "turn a run of TensorBNN into one of this library",
    (
        Option("old", "the run directory of TensorBNN", Path, kind="positional", path="directory"),
        Option("new", "the run directory to make", Path, kind="positional", path="directory"),
        Option("sd", "the noise, where it was Gaussian and known", float, python="likelihood"),
        Option("overwrite", "replace a run that is at new", kind="switch", also=("--force",)),
        *RESULT,
    ),
    run,
    description="Turn a run directory of TensorBNN, which stays as it is, into one of this "
    "library. It can't be resumed.",
)
