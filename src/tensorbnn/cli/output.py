"""Output of the commands: readable lines, or with ``--json`` an object for scripts.

Results go to standard output; progress, warnings and errors to standard error.
"""

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensorbnn.cli.messages import printable, render
from tensorbnn.data import Dataset
from tensorbnn.ensemble.diagnostics import Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.messages import Words
from tensorbnn.tables.reading import counted, names_of

# The exit code of a command whose result can't be trusted.
NOT_TRUSTWORTHY = 3


def print_result(
    options: argparse.Namespace, lines: Mapping[str, str], facts: Mapping[str, Any]
) -> None:
    """Print `facts` as JSON with ``--json``, `lines` otherwise."""
    if options.json:
        print(json.dumps(plain(facts), indent=2, allow_nan=False))
    else:
        print(text(lines))


def text(lines: Mapping[str, str]) -> str:
    """Format one line for each name."""
    width = max([12, *map(len, lines)])
    return "\n".join(
        printable(f"{name:<{width}} {' '.join(value.splitlines())}".rstrip())
        for name, value in lines.items()
    )


def plain(value: Any) -> Any:
    """`value` in the types of JSON: lists for arrays, ``None`` for NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | tuple | list):
        return [plain(each) for each in np.asarray(value, object).tolist()]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def predicted(table: Mapping[str, Any], of: str = "") -> str:
    """Describe the targets and inputs of the table from which a run was made.

    Examples
    --------
    >>> table = {"inputs": [{"name": "x"}], "targets": ["y"], "target_sds": ["y_sd"]}
    >>> predicted(table, of=" of data.csv")
    'y of data.csv from x, with standard deviations from y_sd'
    """
    inputs = names_of([each["name"] for each in table["inputs"]])
    found = f"{', '.join(table['targets'])}{of} from {inputs}"
    sds = dict.fromkeys(table.get("target_sds", ()))  # targets may share one
    if sds:
        found += f", with standard deviations from {', '.join(sds)}"
    return found if table.get("weight") is None else f"{found}, weighted by {table['weight']}"


def sampled(ensemble: Ensemble, time: str | None = None) -> dict[str, str]:
    """The number of networks, the time to sample them, and the statistics of the sampler."""
    lines = {"networks": f"{len(ensemble):,} from {counted(ensemble.num_chains, 'chain')}"}
    if time is not None:
        lines["time"] = time
    if ensemble.sample_stats:
        acceptance = " ".join(
            f"{value:.2f}" for value in ensemble.sample_stats["acceptance_rate"].mean(axis=1)
        )
        lines["acceptance"] = f"{acceptance} (each chain)"
        lines["divergences"] = counted(int(ensemble.sample_stats["diverging"].sum()), "draw")
    return lines


def diagnose(ensemble: Ensemble, points: Dataset, *, progress: bool) -> Diagnosis:
    """A diagnosis at `points`."""
    return ensemble.diagnose(points.x, names=points.names, progress=progress)


def convergence(diagnosis: Diagnosis, words: Words) -> tuple[dict[str, str], dict[str, Any]]:
    """R-hat, effective sample size and the verdict, as lines and as facts for scripts."""
    verdict, said = diagnosis.verdict, render(diagnosis.verdict, words)
    rhat = _worst(np.max, diagnosis.rhat)
    ess, ess_tail = _worst(np.min, diagnosis.ess), _worst(np.min, diagnosis.ess_tail)
    points, lines = f"over {counted(len(diagnosis.rhat), 'point')}", {}
    if rhat is not None:  # a single chain has none
        lines["R-hat"] = f"at most {rhat:.3f} {points}"
    if ess is not None:
        lines["ESS"] = f"at least {ess:,.0f} {points}"
    return lines | {"verdict": said}, {
        "trustworthy": verdict.trustworthy,
        "kind": verdict.kind.value,
        "verdict": said,
        "findings": [{**each.to_dict(), "text": each.message(words)} for each in verdict.findings],
        "rhat_max": rhat,
        "ess_min": ess,
        "ess_tail_min": ess_tail,
        "acceptance_rate": diagnosis.acceptance_rate,
        "divergences": diagnosis.divergences,
        "ebfmi": diagnosis.ebfmi,
    }


def score(
    ensemble: Ensemble, validation: Dataset | None, *, progress: bool
) -> tuple[dict[str, str], dict[str, Any]]:
    """Scores on the held-out rows, as lines and as facts; empty if there are none."""
    if validation is None or not ensemble.num_draws:
        return {}, {}
    prediction = ensemble.predict(validation.x, progress=progress)
    rows = {"y_sd": validation.y_sd, "sample_weight": validation.sample_weight}
    found = prediction.log_score(validation.targets, **rows)
    return {"log score": f"{found:.3f} per held-out row"}, {"log_score": found}


def where(run: Path) -> dict[str, str]:
    """The location of the run."""
    return {"run": f"{run}  (read it with tb.load({str(run)!r}))"}


def _worst(choose: Any, values: Any) -> float | None:
    known = values[np.isfinite(values)]
    return float(choose(known)) if known.size else None
