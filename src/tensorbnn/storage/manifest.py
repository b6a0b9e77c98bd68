"""``run.json``: what was run, with a checksum. Every field is checked before it is used.

Networks, layers, priors, likelihoods and samplers are frozen dataclasses, which are written as
their class name and their fields. Reading looks the name up in a fixed table and in the user's
`custom_objects`. No other class can be named, and nothing is executed.
"""

import dataclasses
import json
import math
import numbers
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tensorbnn.errors import DamagedFileError, DescriptionError, NotARunError
from tensorbnn.inference.adaptive_hmc import AdaptiveHMC
from tensorbnn.inference.ghmc import GHMC
from tensorbnn.inference.hmc import HMC
from tensorbnn.inference.mclmc import MCLMC
from tensorbnn.inference.mean_field import MeanField
from tensorbnn.inference.nuts import NUTS
from tensorbnn.inference.sampler import MAX_SEED, MAX_TRANSITIONS, Sampler
from tensorbnn.inference.sghmc import SGHMC
from tensorbnn.model.catalog import CLASSES
from tensorbnn.model.likelihoods import Likelihood
from tensorbnn.model.network import Network
from tensorbnn.model.scaling import Scaling
from tensorbnn.storage.files import canonical, check_format, check_inside, digest

SAMPLERS: tuple[type, ...] = (HMC, AdaptiveHMC, GHMC, NUTS, MCLMC, SGHMC, MeanField)
KNOWN = {known.__name__: known for known in (*CLASSES, *SAMPLERS)}
STATUSES = ("running", "complete", "interrupted", "stopped")
# What determines the chains of a run; the number of draws may grow.
_IDENTITY = (
    "network", "likelihood", "scaling", "dtype", "engine", "data", "sampler", "burn_in", "thin",
    "networks_per_file", "seed", "sample_hyperparameters", "pooled",
)  # fmt: skip
# A list of numbers, which is written on one line.
_NUMBERS = re.compile(r"\[\n([-+.\d\seE,]*)\]")


def describe(value: Any) -> Any:
    """JSON-ready description of a network, layer, prior, likelihood, sampler or plain value.

    Examples
    --------
    >>> from tensorbnn.model.hyper import Hyper
    >>> from tensorbnn.model.priors import Normal
    >>> describe(Normal(0.0, Hyper(1.0)))
    {'type': 'Normal', 'loc': 0.0, 'scale': {'type': 'Hyper', 'start': 1.0, 'prior': None}}
    """
    if isinstance(value, Network):
        layers = [describe(layer) for layer in value.layers]
        return {"type": "Network", "inputs": value.inputs, "layers": layers}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own, fields = type(value), dataclasses.fields(value)
        if (KNOWN | {"Network": Network}).get(own.__name__, own) is not own:
            raise TypeError(
                f"the class {own.__module__}.{own.__qualname__} can't be saved with a run, because "
                f"the library also has a class {own.__name__}: give yours another name"
            )
        described = {field.name: describe(getattr(value, field.name)) for field in fields}
        return {"type": own.__name__} | described
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    if isinstance(value, tuple | list):
        return [describe(each) for each in value]
    raise TypeError(
        f"{value!r:.80} can't be saved with a run: your own layers, priors, likelihoods and "
        "samplers must be frozen dataclasses whose fields are numbers, strings or such dataclasses"
    )


def restore(description: Any, custom_objects: Mapping[str, type], *kinds: type) -> Any:
    """The object that `describe` described; `custom_objects` are the user's classes by name.

    A list of descriptions gives the objects, which must be of these `kinds`, in order.
    """
    try:
        unknown = sorted(_names(description) - {"Network"} - set(KNOWN) - set(custom_objects))
        if unknown:
            wanted = ", ".join(f'"{name}": {name}' for name in unknown)
            raise DescriptionError(
                f"this run uses classes that are not part of the library, {', '.join(unknown)}: "
                f"load it with `custom_objects={{{wanted}}}`"
            )
        found = _restore(description, custom_objects)
    except RecursionError:
        raise DescriptionError("run.json is nested too deeply") from None
    for kind, each in zip(kinds, found if len(kinds) > 1 else [found], strict=False):
        if not isinstance(each, kind):
            raise DescriptionError(f"this run describes a {kind.__name__} as {each!r:.80}")
    return found


def restore_model(
    manifest: Mapping[str, Any], custom_objects: Mapping[str, type]
) -> tuple[Network, Likelihood, Scaling]:
    """The model of a run; `custom_objects` are the user's classes by name."""
    described = [manifest[name] for name in ("network", "likelihood", "scaling")]
    found: tuple[Network, Likelihood, Scaling] = restore(described, custom_objects, *_MODEL)
    return found


def sampler_class(
    manifest: Mapping[str, Any], custom_objects: Mapping[str, type]
) -> type[Sampler] | None:
    """The class of a run's sampler, if the library or `custom_objects` have it."""
    found = (KNOWN | dict(custom_objects)).get(str(manifest["sampler"].get("type")))
    return found if isinstance(found, type) and issubclass(found, Sampler) else None


def pack_manifest(manifest: Mapping[str, Any]) -> bytes:
    """The text of ``run.json``."""
    checked = {**manifest, "sha256": _checksum(manifest)}
    text = json.dumps(checked, indent=2, allow_nan=False)
    text = _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    return f"{text}\n".encode()


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of the run directory `path`, checked."""
    file = path / "run.json"
    if not file.is_file():
        raise NotARunError(path)
    check_inside(file, path)
    try:
        manifest = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(file, f"is damaged: {error}; {_DRAWS_ARE_WHOLE}") from error
    except OSError as error:
        raise DamagedFileError(file, f"can't be read: {error}") from error
    found: Any = manifest.get("format") if isinstance(manifest, dict) else None
    if not _is_count(found, 1) or not isinstance(manifest.get("sha256"), str):
        raise DamagedFileError(file, "was not written by this library")
    check_format(file, found)
    if manifest.pop("sha256") != _checksum(manifest):
        raise DamagedFileError(
            file, f"is damaged or was changed: its checksum does not match; {_DRAWS_ARE_WHOLE}"
        )
    check_fields(file, manifest)
    return manifest


def check_fields(file: Path, manifest: Mapping[str, Any]) -> None:
    """Raise if a field of the manifest is missing or invalid; unknown fields are ignored."""
    for name, (is_good, wanted) in FIELDS.items():
        if name not in manifest:
            raise DamagedFileError(file, f"is damaged: the field `{name}` is missing")
        if not is_good(manifest[name]):
            raise DamagedFileError(
                file, f"is invalid: `{name}` must be {wanted}, got {manifest[name]!r:.80}"
            )


def identity(manifest: Mapping[str, Any]) -> str:
    """A short name of what determines the draws; runs with the same one have the same draws."""
    fields = [manifest[name] for name in _IDENTITY]
    return digest(canonical(fields).encode())[:16]


def check_notes(notes: Mapping[str, Any] | None) -> dict[str, Any]:
    """The user's notes as JSON returns them, or an error."""
    try:
        if notes is not None and not isinstance(notes, Mapping):
            raise TypeError("not a dict")
        kept: dict[str, Any] = json.loads(canonical(dict(notes or {})))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"`notes` must be a dict of strings, finite numbers, lists and dicts ({error}), "
            f"got {notes!r:.80}"
        ) from error
    return kept


_DRAWS_ARE_WHOLE = "the draws, in chain-*/draws-*.safetensors, are not affected"


def _checksum(manifest: Mapping[str, Any]) -> str | None:
    try:
        return digest(canonical(manifest).encode())
    except (ValueError, RecursionError):  # NaN, which is never written
        return None


_Check = tuple[Callable[[Any], bool], str]
"""Whether a value is valid, and what a valid value is."""


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _count(least: int, most: int = 2**63 - 1) -> _Check:
    wanted = f"a whole number from {least} to {most}"
    return lambda value: _is_count(value, least) and value <= most, wanted


def _one_of(*values: str) -> _Check:
    return lambda value: isinstance(value, str) and value in values, f"one of {list(values)}"


def _of_type(kind: type, wanted: str) -> _Check:
    return lambda value: isinstance(value, kind), wanted


def _or_null(check: _Check) -> _Check:
    return lambda value: value is None or check[0](value), f"null, or {check[1]}"


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_data(value: Any) -> bool:
    sha256 = value.get("sha256") if isinstance(value, dict) else None
    return isinstance(sha256, str) and re.fullmatch("[0-9a-f]{64}", sha256) is not None


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 1 and all(_is_count(n, 1) for n in value)


def _is_metrics(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict | None) for each in value.values())


_MODEL = (Network, Likelihood, Scaling)
_DESCRIPTION = _of_type(dict, "a description")
FIELDS: dict[str, _Check] = {
    "format": _count(1),
    "created": _of_type(str, "a date"),
    **dict.fromkeys(("library", "jax", "blackjax"), _of_type(str, "a version")),
    **dict.fromkeys(("network", "likelihood", "scaling", "sampler"), _DESCRIPTION),
    **dict.fromkeys(("chains", "draws", "networks_per_file", "report_every"), _count(1)),
    "burn_in": _count(0, MAX_TRANSITIONS),
    "thin": _count(1, MAX_TRANSITIONS),
    "seed": _count(0, MAX_SEED),
    **dict.fromkeys(("sample_hyperparameters", "pooled"), _of_type(bool, "true or false")),
    "status": _one_of(*STATUSES),
    "dtype": _one_of("float32", "float64"),
    "engine": _one_of("jax", "native"),
    "instruction_set": _or_null(_of_type(str, "a name")),
    "output_shape": (_is_shape, "[] or [outputs]"),
    "data": _or_null((_is_data, "shapes and a SHA-256")),
    "metrics": (_is_metrics, "descriptions by name"),
    "notes": _of_type(dict, "a dict"),
    "until": _or_null(_DESCRIPTION),
    "max_minutes": _or_null((_is_positive, "a positive number")),
    "max_gradients": _or_null(_count(1)),
}


def _names(description: Any) -> set[str]:
    """Names of all classes in a description."""
    if isinstance(description, list):
        return set().union(*(_names(each) for each in description))
    if not isinstance(description, dict):
        return set()
    inside: set[str] = set().union(*(_names(each) for each in description.values()))
    return inside | {str(description.get("type"))}


def _restore(description: Any, custom_objects: Mapping[str, type]) -> Any:
    if isinstance(description, list):
        return tuple(_restore(each, custom_objects) for each in description)
    if not isinstance(description, dict):
        return description
    given = {
        name: _restore(value, custom_objects)
        for name, value in description.items()
        if name != "type"
    }
    name = str(description.get("type"))
    try:
        if name == "Network":
            return Network(*given.pop("layers"), **given)
        if name in custom_objects:  # a new field of the class has its default
            return custom_objects[name](**given)
        if missing := {field.name for field in dataclasses.fields(KNOWN[name])} - given.keys():
            raise TypeError(f"{sorted(missing)} missing")
        return KNOWN[name](**given)
    except RecursionError:
        raise
    except Exception as error:  # a class may raise anything for fields that it did not write
        reason = f"this run describes an invalid {name}: {error}"
        raise DescriptionError(reason) from error
