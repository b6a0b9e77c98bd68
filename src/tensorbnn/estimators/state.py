"""The contents of a pickled estimator: a format version, JSON texts and arrays.

Descriptions (priors, samplers, networks) are written as in ``run.json``, draws as the arrays of a
run. As in every pickle, your own classes are stored by name and must be importable where the pickle
is read.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorbnn.ensemble.diagnostics import Convergence, Diagnosis
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.errors import RunError
from tensorbnn.findings import Finding, Verdict, VerdictKind
from tensorbnn.model.network import Network
from tensorbnn.sampling.converged import Converged
from tensorbnn.storage.manifest import KNOWN, describe, restore
from tensorbnn.storage.store import MemoryStore

# The version of the format; since 2, there have only been additions.
STATE_FORMAT = 2
_FORMAT_KEY = "_tensorbnn_format"
_TYPES = {**KNOWN, "Converged": Converged}


def pack_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of an estimator in the form that a pickle holds."""
    return {name: pack(each) for name, each in state.items()} | {_FORMAT_KEY: STATE_FORMAT}


def unpack_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that `pack_state` packed; raises if the pickle has another format."""
    rest = dict(state)
    found = rest.pop(_FORMAT_KEY, 1)
    if found != STATE_FORMAT:
        which = "a newer" if isinstance(found, int) and found > STATE_FORMAT else "an older"
        raise RunError(
            f"this pickle of an estimator has format {found!r:.20}, but this version of the "
            f"library reads format {STATE_FORMAT}: use {which} version of the library"
        )
    try:
        return {name: unpack(each) for name, each in rest.items()}
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"this pickle of an estimator is damaged: {type(error).__name__}: {error}"
        raise RunError(reason) from error


def pack(value: Any) -> Any:
    """A description, an ensemble or a diagnosis as texts and arrays; other values unchanged.

    Examples
    --------
    >>> from tensorbnn.model.priors import Normal
    >>> pack(Normal(0.0, 2.0))["text"]
    '{"type": "Normal", "loc": 0.0, "scale": 2.0}'
    >>> unpack(pack(Normal(0.0, 2.0)))
    Normal(loc=0.0, scale=2.0)
    """
    if isinstance(value, Ensemble):
        return {"kind": "ensemble", **_pack_ensemble(value)}
    if isinstance(value, Diagnosis):
        return {"kind": "diagnosis", **_pack_diagnosis(value)}
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return value
    try:
        described = describe(value)
    except TypeError:  # for example a user's sampler that contains a function
        return value
    return {"kind": "description", "text": json.dumps(described), "custom": _custom(value)}


def unpack(state: Any) -> Any:
    """The value that `pack` packed."""
    kind = state.get("kind") if isinstance(state, dict) else None
    if kind == "ensemble":
        return _unpack_ensemble(state)
    if kind == "diagnosis":
        return _unpack_diagnosis(state)
    if kind != "description":
        return state
    return restore(json.loads(state["text"]), {**_TYPES, **state["custom"]})


def _pack_ensemble(ensemble: Ensemble) -> dict[str, Any]:
    store, model = ensemble._store, (ensemble.network, ensemble.likelihood)
    facts = {
        "chains": ensemble.num_chains,
        "burn_in": store.manifest["burn_in"],
        "status": store.manifest["status"],
        "sampler": store.manifest["sampler"],  # verdicts mention that a sampler is approximate
        "sample_hyperparameters": store.manifest["sample_hyperparameters"],
        "output_shape": store.manifest["output_shape"],
        "network": describe(ensemble.network),
        "likelihood": describe(ensemble.likelihood),
        "scaling": describe(ensemble.scaling),
        "dtype": ensemble.dtype,
    }
    return {
        "text": json.dumps({"manifest": facts, "reports": store.reports()}),
        "chunks": [
            [store.read_chunk(chain, index, "") for index in store.chunk_sizes(chain)]
            for chain in range(ensemble.num_chains)
        ],
        "burn_in": [store.read_burn_in(chain) for chain in range(ensemble.num_chains)],
        "data": store.data(),
        "custom": {name: each for part in model for name, each in _custom(part).items()},
    }


def _unpack_ensemble(state: Mapping[str, Any]) -> Ensemble:
    known = json.loads(state["text"])
    store = MemoryStore(known["manifest"], state["data"])
    for chain, chunks in enumerate(state["chunks"]):
        for index, arrays in enumerate(chunks):
            store.write_chunk(chain, index, arrays)
    for chain, arrays in enumerate(state["burn_in"]):
        if arrays:
            store.write_burn_in(chain, arrays)
    store.replace_reports(known["reports"])
    return Ensemble._from_store(store, state["custom"])


def _pack_diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    fields = {each.name: getattr(diagnosis, each.name) for each in dataclasses.fields(diagnosis)}
    hypers = {name: np.stack(each) for name, each in fields.pop("hyperparameters").items()}
    verdict: Verdict = fields.pop("verdict")
    found = [(type(each).__name__, vars(each)) for each in verdict.findings]
    said = {"kind": verdict.kind.value, "findings": found, "numbers": dict(verdict.numbers)}
    return {"text": json.dumps(said), "arrays": fields, "hyperparameters": hypers}


def _unpack_diagnosis(state: Mapping[str, Any]) -> Diagnosis:
    hypers = {name: Convergence(*each) for name, each in state["hyperparameters"].items()}
    said, found = json.loads(state["text"]), []
    kinds = {each.__name__: each for each in _kinds(Finding)}
    for name, values in said["findings"]:
        known = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        found.append(kinds[name](**known))
    verdict = Verdict(VerdictKind(said["kind"]), tuple(found), said["numbers"])
    return Diagnosis(**state["arrays"], hyperparameters=hypers, verdict=verdict)


def _kinds(kind: type[Finding]) -> Iterator[type[Finding]]:
    """All subclasses of a finding, from every module."""
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


def _custom(value: Any) -> dict[str, type]:
    """Classes in a description that are not the library's, by name."""
    if isinstance(value, Network):
        value = value.layers
    if isinstance(value, tuple | list):
        return {name: each for part in value for name, each in _custom(part).items()}
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return {}
    cls = type(value)
    own = {} if _TYPES.get(cls.__name__) is cls else {cls.__name__: cls}
    inside = [getattr(value, field.name) for field in dataclasses.fields(value)]
    return own | _custom(inside)
