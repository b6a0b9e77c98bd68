"""The report: its sections in order, written as one self-contained file."""

import datetime
from importlib.metadata import version
from pathlib import Path

from tensorbnn.data import Dataset
from tensorbnn.messages import PYTHON, Words
from tensorbnn.report import model, predictions, priors
from tensorbnn.report.context import ReportContext, read_context
from tensorbnn.report.html import Html, code, document, element, facts, paragraph, section
from tensorbnn.report.style import STYLE
from tensorbnn.storage.files import write_file

CITATION = """\
@article{tensorbnn,
  title   = {TensorBNN: Bayesian Inference for Neural Networks using TensorFlow},
  author  = {Kronheim, B. S. and Kuchera, M. P. and Prosper, H. B.},
  journal = {arXiv preprint arXiv:2009.14393},
  year    = {2020}
}"""
SECTIONS = {
    "model": ("Model", model.model_section),
    "data": ("Data", model.data_section),
    "sampler": ("Sampler", model.sampler_section),
    "functions": ("Agreement", model.functions_section),
    "predictions": ("Predictions", predictions.predictions_section),
    "calibration": ("Calibration", predictions.calibration_section),
    "relevances": ("Inputs", priors.relevances_section),
    "hyperparameters": ("Hyper-parameters", priors.hyperparameters_section),
    "sensitivity": ("Prior sensitivity", priors.sensitivity_section),
}


def write_report(
    run: Path,
    file: Path,
    *,
    judged: Dataset | None = None,
    judged_name: str = "",
    words: Words = PYTHON,
    progress: bool = True,
) -> ReportContext:
    """Write a page about a run; an existing file is replaced.

    Predictions are scored on the rows `judged`, which `judged_name` describes. By default, these
    are held-out rows of the run, or training rows if it has none. Advice uses the wording `words`.
    """
    context = read_context(run, judged, judged_name, words=words, progress=progress)
    page = make_page(context).encode()
    try:
        write_file(file, page)
    except OSError as error:
        raise OSError(f"{file} can't be written: {error.strerror}") from error
    return context


def make_page(context: ReportContext) -> str:
    """The page as text."""
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    title = f"{', '.join(context.encoding.targets)}: {context.path.resolve().name}"
    shown = dict(SECTIONS)
    if context.ensemble.relevances is None:
        del shown["relevances"]
    links = {name: short for name, (short, _) in shown.items()} | {"reproduce": "Reproduce"}
    head = element(
        "header",
        element("h1", title),
        paragraph(
            f"{len(context.ensemble):,} sampled networks; report of {made} by tensorbnn "
            f"{version('tensorbnn')}",
            class_="soft",
        ),
        element("nav", *(element("a", short, href=f"#{name}") for name, short in links.items())),
    )
    sections = [make(context) for _, make in shown.values()]
    body = element("main", model.verdict_box(context), *sections, _reproduce(context))
    return document(f"{title} (tensorbnn)", STYLE, head, body)


def _reproduce(context: ReportContext) -> Html:
    manifest = context.manifest
    command = manifest["notes"].get("command")
    if isinstance(command, str):
        made = [paragraph("The run was made with"), code(command)]
    elif "imported" in manifest:
        made = [paragraph(f"The run was sampled by {manifest['imported']} and imported.")]
    else:
        made = [paragraph("The run was made in Python; all options are in its run.json.")]
    said = {
        "Library": f"tensorbnn {manifest['library']}, jax {manifest['jax']}",
        "Precision": f"{manifest['dtype']}, engine {manifest['engine']}",
        "Seed": str(manifest["seed"]),
        "Begun": manifest["created"],
        "Status": str(manifest["status"]),
    }
    return section(
        "reproduce",
        "How to reproduce and cite",
        facts(said),
        *made,
        paragraph("Read it with"),
        code(context.words.reading(context.path)),
        paragraph(
            "The same seed gives the same networks on the same kind of machine with the same "
            "versions. Please cite the paper whose model this is:"
        ),
        code(CITATION),
    )
