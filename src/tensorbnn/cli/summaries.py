"""What several commands say of a run: its networks, its sampler, its convergence."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensorbnn.cli.messages import render
from tensorbnn.data import Dataset
from tensorbnn.ensemble.diagnostics import LEAST_DRAWS, Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.findings import VerdictKind
from tensorbnn.messages import Words
from tensorbnn.tables.reading import counted, names_of

TOO_SHORT = f"run longer: fewer than {LEAST_DRAWS} draws of each chain can't be judged"


def predicted(table: Mapping[str, Any], of: str = "") -> str:
    """What is predicted from what, of the table that a run has noted.

    Examples
    --------
    >>> table = {"inputs": [{"name": "x"}], "targets": ["y"], "target_sds": ["y_sd"]}
    >>> predicted(table, of=" of data.csv")
    'y of data.csv from x, with standard deviations from y_sd'
    """
    inputs = names_of([each["name"] for each in table["inputs"]])
    found = f"{', '.join(table['targets'])}{of} from {inputs}"
    sds = dict.fromkeys(table.get("target_sds", ()))  # targets may share one
    return f"{found}, with standard deviations from {', '.join(sds)}" if sds else found


def networks(ensemble: Ensemble) -> dict[str, str]:
    """How many there are."""
    return {"networks": f"{len(ensemble):,} from {counted(ensemble.num_chains, 'chain')}"}


def sampler(ensemble: Ensemble) -> dict[str, str]:
    """What the sampler did; nothing for a run without its records."""
    if not ensemble.info:
        return {}
    acceptance = " ".join(f"{value:.2f}" for value in ensemble.info["acceptance"].mean(axis=1))
    return {
        "acceptance": f"{acceptance} (each chain)",
        "divergences": counted(int(ensemble.info["divergent"].sum()), "transition"),
    }


def diagnose(ensemble: Ensemble, points: Dataset, *, progress: bool) -> Diagnosis | None:
    """A diagnosis at `points`; ``None`` where chains are too short for one."""
    if ensemble.num_draws < LEAST_DRAWS:
        return None
    return ensemble.diagnose(points.x, names=points.names, progress=progress)


def convergence(diagnosis: Diagnosis | None, words: Words) -> dict[str, str]:
    """R-hat, effective sample size and the verdict."""
    if diagnosis is None:
        return {"verdict": TOO_SHORT}
    lines = {}
    if np.isfinite(diagnosis.rhat).any():  # not for one chain
        worst = np.nanmax(diagnosis.rhat)
        lines["R-hat"] = f"at most {worst:.3f} over {counted(len(diagnosis.rhat), 'point')}"
    if np.isfinite(diagnosis.ess).any():
        least = np.nanmin(diagnosis.ess)
        lines["ESS"] = f"at least {least:,.0f} over {counted(len(diagnosis.ess), 'point')}"
    return lines | {"verdict": render(diagnosis.verdict, words)}


def convergence_facts(diagnosis: Diagnosis | None, words: Words) -> dict[str, Any]:
    """The same for scripts."""
    if diagnosis is None:
        kind = VerdictKind.NOT_YET.value
        return {"trustworthy": False, "kind": kind, "verdict": TOO_SHORT, "findings": []}
    verdict = diagnosis.verdict
    return {
        "trustworthy": verdict.trustworthy,
        "kind": verdict.kind.value,
        "verdict": render(verdict, words),
        "findings": [each.to_dict() for each in verdict.findings],
        "rhat_max": _worst(np.max, diagnosis.rhat),
        "ess_min": _worst(np.min, diagnosis.ess),
        "ess_tail_min": _worst(np.min, diagnosis.ess_tail),
        "acceptance": diagnosis.acceptance,
        "divergences": diagnosis.divergences,
        "ebfmi": diagnosis.ebfmi,
    }


def wants_more(diagnosis: Diagnosis | None) -> bool:
    """Whether a longer run may be all that it takes."""
    longer = VerdictKind.NOT_YET, VerdictKind.DISAGREE
    return diagnosis is None or diagnosis.verdict.kind in longer


def where(run: Path) -> dict[str, str]:
    """Where the run is."""
    return {"run": f"{run}  (read it with tb.load({str(run)!r}))"}


def quoted(path: Path) -> str:
    """A path as a shell takes it."""
    return shlex.quote(str(path))


def _worst(choose: Any, values: Any) -> float | None:
    known = values[np.isfinite(values)]
    return float(choose(known)) if known.size else None
