"""Forged runs are read, or refused at once with an error of the library."""

import copy
import json
import shutil
import time
import warnings

import numpy as np
import pytest
from safetensors import safe_open

import tensorbnn as tb
from tensorbnn import errors
from tensorbnn.errors import DamagedFileError
from tensorbnn.sampling.api import begin_run
from tensorbnn.sampling.run import Run
from tensorbnn.storage.files import pack_arrays
from tensorbnn.storage.manifest import identity, pack_manifest, read_manifest
from tests.data.make_format_2 import FOLDER, IN_BURN_IN

REMOVED = object()
DEEP = json.loads("[" * 400 + "]" * 400)
BAD = (
    *(REMOVED, None, True, -1, 0, 1.5, 10**9, 10**30, -1e308, "", "x", "../../etc/passwd"),
    *([], [[1]], {}, {"type": "HMC"}, {"type": "Nothing"}, {"type": ["Dense"]}, DEEP),
)
SECONDS = 2.0


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("forged") / "run"
    x = np.linspace(-1, 1, 8)
    prior = tb.StudentT(4.0, 0.0, tb.Hyper(0.5, tb.HalfNormal(1.0)))
    network = tb.Network(tb.Dense(2, bias_prior=prior), tb.LeakyReLU(0.1), tb.Dense(1), inputs=1)
    likelihood = tb.Gaussian(sd=tb.Hyper(0.1))
    posterior = tb.Posterior(network, likelihood, x, 3 * x, standardize=True)
    options = {"until": tb.Converged(rhat=9, ess=5), "metrics": [tb.MeanSquaredError()]}
    options |= {"max_gradients": 10**6, "max_minutes": 10, "report_every": 2}
    sampler = tb.HMC(step_size=0.01, num_steps=2)
    plan = {"chains": 2, "burn_in": 2, "draws": 4, "networks_per_file": 3}
    made, backend = begin_run(posterior, sampler, path=path, notes={"a": 1}, **plan, **options)
    made.run(backend, progress=False)
    return path


@pytest.fixture
def run(original, tmp_path):
    return shutil.copytree(original, tmp_path / "run")


@pytest.fixture(autouse=True)
def nothing_is_sampled(monkeypatch):
    """So that runs that are not refused end at once."""
    monkeypatch.setattr(Run, "run", lambda self, backend, progress: self.store.close())


def places(value, path=()):
    """The places of everything in a JSON value."""
    items = {dict: lambda: value.items(), list: lambda: enumerate(value)}.get(type(value), list)()
    for key, each in items:
        yield (*path, key)
        yield from places(each, (*path, key))


def changed(manifest, place, value):
    manifest = copy.deepcopy(manifest)
    inside = manifest
    for key in place[:-1]:
        inside = inside[key]
    if value is REMOVED:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    return manifest


def sign(run, manifest):
    """Write `manifest`, and make all other files belong to it, as a forger would."""
    (run / "run.json").write_bytes(pack_manifest(manifest))
    try:
        name = identity(manifest)
    except KeyError:
        return
    for file in run.glob("chain-*/*.safetensors"):
        arrays, facts = unpack(file)
        file.write_bytes(pack_arrays(arrays, facts.pop("kind"), facts | {"run": name}))


def unpack(file):
    """The arrays of a file, and its metadata."""
    with safe_open(file, framework="numpy") as content:
        arrays = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
        facts = json.loads(content.metadata()["tensorbnn"])
    return arrays, {name: facts[name] for name in facts.keys() - {"format", "arrays", "sha256"}}


def outcome(read, *arguments, **options):
    """The problem if `read` raises a foreign error or takes too long; otherwise ``None``."""
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(*arguments, **options)
    except Exception as error:
        if type(error).__module__ != errors.__name__:
            return f"{type(error).__name__}: {error}"
    seconds = time.process_time() - began
    return f"{seconds:.1f} s" if seconds > SECONDS else None


def attack(run):
    found = outcome(lambda: tb.load(run).data), outcome(tb.resume, run, draws=5, progress=False)
    return [each for each in found if each is not None]


def forgeries(manifest):
    seen = set()
    for place in places(manifest):
        value = manifest
        for key in place[:-1]:
            value = value[key]
        # The same field of the same class is attacked once.
        kind = (value.get("type"), place[-1]) if isinstance(value, dict) else place
        if kind[0] is None or kind not in seen:
            seen.add(kind)
            yield place


@pytest.mark.slow
def test_a_forged_manifest_gives_no_foreign_error(original, tmp_path):
    manifest, failures = read_manifest(original), []
    run = shutil.copytree(original, tmp_path / "run")
    for place in forgeries(manifest):
        for bad in BAD:
            sign(run, changed(manifest, place, bad))
            shown = "removed" if bad is REMOVED else repr(bad)[:40]
            failures += [f"{place} {shown}: {each}" for each in attack(run)]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("field", ["units", "inputs"])
def test_sizes_are_compared_with_the_files_before_memory_is_allocated(run, field):
    manifest, most = read_manifest(run), 10**9
    place = ("network", "inputs") if field == "inputs" else ("network", "layers", 0, "units")
    sign(run, changed(manifest, place, most))
    with pytest.raises(tb.RunError, match=r"has dense_0.weights of shape .*10{9}.* files hold"):
        tb.load(run)
    with pytest.raises(DamagedFileError, match=r"a network of [\d,]+ parameters, but chain 0 has"):
        tb.resume(run, draws=5, progress=False)


@pytest.mark.parametrize("field", ["chains", "draws", "networks_per_file", "report_every"])
def test_counts_are_compared_with_the_files(run, field):
    sign(run, read_manifest(run) | {field: 10**9, "status": "complete"})
    assert outcome(tb.load, run, skip_damaged=True) is None
    assert outcome(tb.load, run) is None
    if field != "report_every":
        with pytest.raises(tb.RunError, match=r"is missing|don't hold|but \d+ were written"):
            tb.load(run)


def test_a_chain_that_run_json_does_not_count_is_named(run):
    sign(run, read_manifest(run) | {"chains": 1})
    with pytest.raises(DamagedFileError, match="chain-01 is not one of the 1 chains"):
        tb.load(run)


def bad_arrays(array):
    """Arrays in place of an array of a file."""
    numbers = array.astype(np.float64)
    yield from (array[None], np.zeros((0,), array.dtype), np.zeros((3, 3, 3), array.dtype))
    yield from (numbers * np.nan, np.full_like(array, 1, dtype=np.uint8))
    if array.dtype.kind in "iu":
        yield from (np.full_like(array, -5), np.full_like(array, 2**31 - 1))
        yield np.full(array.shape, 2**62, np.int64)
    else:
        yield np.full_like(array, np.nan)
    yield None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["state", "draws-00000", "data"])
def test_forged_arrays_give_no_foreign_error(name, original, tmp_path):
    run = shutil.copytree(original, tmp_path / "run")
    file = run / (f"{name}.safetensors" if name == "data" else f"chain-01/{name}.safetensors")
    arrays, facts = unpack(file)
    kind, failures = facts.pop("kind"), []
    for each in arrays:
        for bad in bad_arrays(arrays[each]):
            forged = {**arrays, each: bad} if bad is not None else dict(arrays)
            if bad is None:
                del forged[each]
            file.write_bytes(pack_arrays(forged, kind, facts))
            shown = "removed" if bad is None else f"{bad.dtype}{bad.shape}"
            failures += [f"{each} {shown}: {found}" for found in attack(run)]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("name", ["state", "draws-00000"])
def test_forged_headers_give_no_foreign_error(name, run):
    file = run / f"chain-01/{name}.safetensors"
    content = file.read_bytes()
    arrays, facts = unpack(file)
    kind, failures = facts.pop("kind"), []
    headers = [facts | {key: bad} for key in facts for bad in BAD if bad is not REMOVED]
    forged = [pack_arrays(arrays, kind, each) for each in headers]
    forged += [pack_arrays(arrays, kind, facts | {"format": bad}) for bad in BAD[1:]]
    forged += [b"\xff" * 8 + content[8:], (10**9).to_bytes(8, "little") + content[8:], content[:8]]
    forged += [content[:8] + b"[" * 500, (2).to_bytes(8, "little") + b"{}"]
    for bad in forged:
        file.write_bytes(bad)
        failures += attack(run)
    assert not failures, "\n".join(failures)


def test_a_number_that_is_none_is_refused(run):
    for text in ("NaN", "Infinity", "1e999"):
        content = (run / "run.json").read_text().replace('"draws": 4', f'"draws": {text}')
        (run / "run.json").write_text(content)
        for read in (tb.load, tb.resume):
            with pytest.raises(DamagedFileError):
                read(run)


def test_data_of_another_run_are_not_mistaken_for_those_of_this_one(run):
    file = run / "data.safetensors"
    arrays, facts = unpack(file)
    file.write_bytes(pack_arrays(arrays | {"y": arrays["y"] + 1}, facts.pop("kind"), facts))
    with pytest.raises(tb.RunError, match="are not those it was sampled with"):
        tb.load(run).loo()


@pytest.mark.slow
def test_forged_networks_of_burn_in_give_no_foreign_error(tmp_path):
    run = shutil.copytree(FOLDER / IN_BURN_IN, tmp_path / "run")
    file = run / "chain-01/burn-in.safetensors"
    arrays, facts = unpack(file)
    kind, failures = facts.pop("kind"), []
    for each in ("transition", "parameters/dense_0.biases"):
        for bad in bad_arrays(arrays[each]):
            forged = {name: array for name, array in arrays.items() if name != each}
            forged |= {} if bad is None else {each: bad}
            file.write_bytes(pack_arrays(forged, kind, facts))
            failures += attack(run)
    assert not failures, "\n".join(failures)
