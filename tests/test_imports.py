"""Data flows one way: a module imports only from modules that stand above it in this list."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

ORDER = [
    "tensorbnn.warning",
    "tensorbnn.model",
    "tensorbnn.model.transforms",
    "tensorbnn.model.hyper",
    "tensorbnn.model.priors",
    "tensorbnn.model.layers",
    "tensorbnn.model.relevance",
    "tensorbnn.model.network",
    "tensorbnn.model.layout",
    "tensorbnn.model.checks",
    "tensorbnn.model.scaling",
    "tensorbnn.model.likelihoods",
    "tensorbnn.model.classes",
    "tensorbnn.model.measured",
    "tensorbnn.model.counts",
    "tensorbnn.model.robust",
    "tensorbnn.model.heteroscedastic",
    "tensorbnn.model.weighted",
    "tensorbnn.model.summary",
    "tensorbnn.model.catalogue",
    "tensorbnn.model.shapes",
    "tensorbnn.data",
    "tensorbnn.engine",
    "tensorbnn.engine.forward",
    "tensorbnn.engine.perturbed",
    "tensorbnn.engine.kernels",
    "tensorbnn.engine.library",
    "tensorbnn.engine.native",
    "tensorbnn.engine.trajectory",
    "tensorbnn.engine.choice",
    "tensorbnn.density",
    "tensorbnn.posterior",
    "tensorbnn.progress",
    "tensorbnn.inference",
    "tensorbnn.inference.target",
    "tensorbnn.inference.sampler",
    "tensorbnn.inference.adaptation",
    "tensorbnn.inference.length_search",
    "tensorbnn.inference.tuning",
    "tensorbnn.inference.hmc",
    "tensorbnn.inference.ghmc",
    "tensorbnn.inference.nuts",
    "tensorbnn.inference.mclmc",
    "tensorbnn.inference.sghmc_tuning",
    "tensorbnn.inference.sghmc",
    "tensorbnn.inference.hyper_moves",
    "tensorbnn.inference.trajectory_adapter",
    "tensorbnn.inference.adaptive_hmc",
    "tensorbnn.inference.cycles",
    "tensorbnn.inference.pretrain",
    "tensorbnn.inference.mean_field",
    "tensorbnn.inference.variational",
    "tensorbnn.runs",
    "tensorbnn.storage.manifest",
    "tensorbnn.storage.files",
    "tensorbnn.storage.lock",
    "tensorbnn.storage.manifest",
    "tensorbnn.storage.report_lines",
    "tensorbnn.storage.chunks",
    "tensorbnn.storage.store",
    "tensorbnn.storage.creation",
    "tensorbnn.storage.directory",
    "tensorbnn.sampling.interrupt",
    "tensorbnn.sampling.plan",
    "tensorbnn.sampling.reporting",
    "tensorbnn.sampling.advance",
    "tensorbnn.sampling.checkpoint",
    "tensorbnn.sampling.pooling",
    "tensorbnn.sampling.draws_file",
    "tensorbnn.sampling.chains",
    "tensorbnn.sampling.local",
    "tensorbnn.sampling.recipe",
    "tensorbnn.sampling.worker",
    "tensorbnn.sampling.executor",
    "tensorbnn.ensemble",
    "tensorbnn.ensemble.autocorrelation",
    "tensorbnn.ensemble.statistics",
    "tensorbnn.ensemble.verdict",
    "tensorbnn.ensemble.approximation",
    "tensorbnn.ensemble.diagnostics",
    "tensorbnn.sampling.converged",
    "tensorbnn.ensemble.metrics",
    "tensorbnn.ensemble.mixture",
    "tensorbnn.ensemble.draws",
    "tensorbnn.ensemble.prediction",
    "tensorbnn.sampling.growing",
    "tensorbnn.ensemble.scores",
    "tensorbnn.ensemble.pointwise",
    "tensorbnn.ensemble.ratios",
    "tensorbnn.ensemble.reweight",
    "tensorbnn.ensemble.arviz",
    "tensorbnn.ensemble.sensitivity",
    "tensorbnn.ensemble.ensemble",
    "tensorbnn.interop",
    "tensorbnn.interop.original_files",
    "tensorbnn.interop.original_layers",
    "tensorbnn.interop.original",
    "tensorbnn.sampling",
    "tensorbnn.sampling.stopping",
    "tensorbnn.sampling.until",
    "tensorbnn.sampling.running",
    "tensorbnn.sampling.storing",
    "tensorbnn.sampling.api",
    "tensorbnn.sampling.restoring",
    "tensorbnn.sampling.resume",
    "tensorbnn.sampling.variational",
    # The front-ends.
    "tensorbnn.classic.names",
    "tensorbnn.classic.dtypes",
    "tensorbnn.classic.layers",
    "tensorbnn.classic.likelihoods",
    "tensorbnn.classic.metrics",
    "tensorbnn.classic.training",
    "tensorbnn.classic.predicting",
    "tensorbnn.classic.pretraining",
    "tensorbnn.classic",
    "tensorbnn.estimators.state",
    "tensorbnn.estimators.base",
    "tensorbnn.estimators.regressor",
    "tensorbnn.estimators.classifier",
    "tensorbnn.estimators",
    "tensorbnn.plots.figure",
    "tensorbnn.plots.predictions",
    "tensorbnn.plots.training",
    "tensorbnn.plots.functions",
    "tensorbnn.plots.convergence",
    "tensorbnn.plots.scores",
    "tensorbnn.plots.posteriors",
    "tensorbnn.plots.sensitivity",
    "tensorbnn.plots",
    "tensorbnn.demo",
    "tensorbnn.doctor",
    "tensorbnn.tables",
    "tensorbnn.tables.reading",
    "tensorbnn.tables.columns",
    "tensorbnn.tables.decimals",
    "tensorbnn.tables.encoding",
    "tensorbnn.tables.naming",
    "tensorbnn.tables.writing",
    "tensorbnn.report.html",
    "tensorbnn.report.style",
    "tensorbnn.report.figures",
    "tensorbnn.report.advice",
    "tensorbnn.report.subject",
    "tensorbnn.report.model",
    "tensorbnn.report.sampling",
    "tensorbnn.report.predictions",
    "tensorbnn.report.priors",
    "tensorbnn.report.page",
    "tensorbnn.report",
    "tensorbnn.cli.output",
    "tensorbnn.cli.arguments",
    "tensorbnn.cli.expressions",
    "tensorbnn.cli.modelling",
    "tensorbnn.cli.settings",
    "tensorbnn.cli.opened",
    "tensorbnn.cli.points",
    "tensorbnn.cli.summaries",
    "tensorbnn.cli.demo",
    "tensorbnn.cli.oddities",
    "tensorbnn.cli.fit",
    "tensorbnn.cli.resume",
    "tensorbnn.cli.predict",
    "tensorbnn.cli.diagnose",
    "tensorbnn.cli.reweight",
    "tensorbnn.cli.report",
    "tensorbnn.cli.info",
    "tensorbnn.cli.import_",
    "tensorbnn.cli.doctor",
    "tensorbnn.cli.completion",
    "tensorbnn.cli.program",
    "tensorbnn.cli",
    "tensorbnn.__main__",
    "tensorbnn",
]


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((SOURCE / "tensorbnn").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(text: str, module: str, *, is_package: bool) -> list[tuple[int, str]]:
    """Line and name of every import of the package's modules, those inside functions too."""
    package = module if is_package else module.rpartition(".")[0]
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                base = package.split(".")[: len(package.split(".")) - node.level + 1]
                origin = ".".join([*base, origin] if origin else base)
            for alias in node.names:
                # `from tensorbnn.model import layers` imports a module, not what is in one.
                inner = f"{origin}.{alias.name}"
                found.append((node.lineno, inner if inner in MODULES else origin))
    return [(line, name) for line, name in found if name.split(".")[0] == "tensorbnn"]


def test_every_module_has_its_place():
    missing = sorted(set(MODULES) - set(ORDER))
    assert not missing, f"add {missing} to ORDER in {Path(__file__).name}, below what they import"
    gone = sorted(set(ORDER) - set(MODULES))
    assert not gone, f"remove {gone} from ORDER in {Path(__file__).name}"


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module):
    assert module in ORDER, f"add {module} to ORDER, below what it imports"
    path = MODULES[module]
    above = set(ORDER[: ORDER.index(module)])
    for line, name in imported(path.read_text(), module, is_package=path.stem == "__init__"):
        assert name in above, (
            f"{path.relative_to(SOURCE)}:{line} imports {name}, which does not stand above {module}"
        )


def test_all_ways_to_import_are_seen():
    text = """
import numpy, tensorbnn.cli
from tensorbnn import plots, Dense
from tensorbnn.model import layers as described
from . import priors
from .priors import Normal
from ..engine import forward
def late():
    from tensorbnn.posterior import Posterior
"""
    assert [name for _, name in imported(text, "tensorbnn.model.network", is_package=False)] == [
        "tensorbnn.cli",
        "tensorbnn.plots",
        "tensorbnn",
        "tensorbnn.model.layers",
        "tensorbnn.model.priors",
        "tensorbnn.model.priors",
        "tensorbnn.engine.forward",
        "tensorbnn.posterior",
    ]
    same = imported("from .layers import Dense", "tensorbnn.model", is_package=True)
    assert same == [(1, "tensorbnn.model.layers")]


def test_importing_the_package_is_light():
    heavy = {
        *("matplotlib", "pandas", "xarray", "sklearn", "arviz_stats", "arviz_base"),
        *("blackjax", "optax", "scipy.stats", "tensorbnn.plots", "tensorbnn.cli"),
        *("dask", "distributed", "pyarrow", "tensorbnn.report", "tensorbnn.tables"),
    }
    code = "import sys, tensorbnn; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    loaded = set(result.stdout.split())
    assert "tensorbnn.posterior" in loaded
    assert loaded & heavy == set()
