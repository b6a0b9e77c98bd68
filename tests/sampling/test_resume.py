"""A run that was stopped anywhere is bit-identical to an uninterrupted one when it is resumed."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest

import tensorbnn as tb
from tensorbnn.cli import main
from tensorbnn.errors import DamagedStateError, LockedError, NoDrawsError, NotARunError, StateError
from tensorbnn.progress import Bar
from tensorbnn.sampling.chains import ChainGroup
from tensorbnn.sampling.interrupt import StopRequest
from tensorbnn.sampling.local import LocalBackend
from tensorbnn.sampling.restore import read_checkpoints, restore_run
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import pack_manifest, read_manifest
from tensorbnn.warning import (
    DamageWarning,
    FilesLeftOut,
    Interrupted,
    MetricsLost,
    OtherVersion,
    ReportsLeftOut,
)
from tests.raising import raises, warns
from tests.sampled import sample_run

pytestmark = pytest.mark.slow

X = np.linspace(-1, 1, 9)
Y = np.sin(2 * X)
ADAPTIVE = tb.AdaptiveHMC(
    num_steps_start=5,
    num_steps_min=2,
    num_steps_max=10,
    num_steps_increment=1,
    step_size_options=10,
    random_steps=3,
)
SAMPLERS = {"hmc": tb.HMC(max_steps=20), "adaptive": ADAPTIVE}
# 14 transitions of burn-in, 5 draws of 3 transitions each, files of 2 draws.
PLAN = {"burn_in": 14, "draws": 5, "thin": 3, "networks_per_file": 2, "chains": 2}
REPORTS = {"report_every": 4, "metrics": [tb.MeanSquaredError()], "validation": (X / 2, Y / 2)}


def posterior(**options):
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), X, Y, **options)


def draw(path, sampler="hmc", target=None, **options):
    given = {"path": path, "progress": False} | PLAN | REPORTS | options
    return sample_run(posterior() if target is None else target, SAMPLERS[sampler], **given)


def go_on(path, **options):
    return tb.resume(path, **({"progress": False} | options))


def contents(path):
    """Every file of a run whose bytes must be the same."""
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.glob("chain-*/*")}


def numbers(reports):
    return [{name: each for name, each in r.items() if name != "seconds"} for r in reports]


def assert_same(path, reference):
    assert contents(path) == contents(reference)
    mine, other = tb.load(path), tb.load(reference)
    for group in ("parameters", "hyperparameters", "sample_stats"):
        one, two = getattr(mine, group), getattr(other, group)
        assert one.keys() == two.keys()
        assert all(np.array_equal(one[name], two[name], equal_nan=True) for name in one)
    assert numbers(mine.reports) == numbers(other.reports)
    changing = ("created",)
    manifests = [read_manifest(each) for each in (path, reference)]
    one, two = ({k: v for k, v in each.items() if k not in changing} for each in manifests)
    assert one == two


@pytest.fixture(scope="module", params=SAMPLERS)
def reference(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / request.param
    draw(path, request.param)
    return path


@pytest.fixture(scope="module")
def hmc_reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "hmc"
    draw(path)
    return path


@pytest.fixture
def one_transition_a_call(monkeypatch):
    monkeypatch.setattr(LocalBackend, "call_seconds", 0.0)


def stop_after(monkeypatch, transitions):
    """Chains stop by themselves after this many transitions, as after Ctrl-C."""

    def stop(group):
        if group.at.transitions >= transitions:
            group.stop.request()

    monkeypatch.setattr(ChainGroup, "after_call", stop)


@pytest.mark.usefixtures("one_transition_a_call")
@pytest.mark.parametrize("transitions", [1, 4, 13, 14, 15, 16, 17, 20, 22, 28])
def test_stopped_after_any_transition(reference, tmp_path, monkeypatch, transitions):
    """In burn-in, at its end, within a draw, at the end of a file, at a report."""
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_after(patch, transitions)
        try:
            draw(path, reference.name)
        except tb.RunError as error:
            assert "holds no draws yet" in str(error)  # noqa: PT017
    assert read_manifest(path)["status"] == "interrupted"
    reached = [int(DirectoryStore(path).read_state(chain)["transitions"]) for chain in range(2)]
    assert transitions in reached
    go_on(path)
    assert_same(path, reference)


@pytest.mark.usefixtures("one_transition_a_call")
def test_stopped_again_and_again(reference, tmp_path, monkeypatch):
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with raises(NoDrawsError, damaged=False):
            draw(path, reference.name)
        while read_manifest(path)["status"] != "complete":
            try:
                go_on(path)
            except tb.RunError as error:
                assert "holds no draws yet" in str(error)  # noqa: PT017
            time.sleep(0)
    assert_same(path, reference)


# Two chains may each leave an incomplete line, the first of which is then not the last line.
@pytest.mark.filterwarnings("ignore:.*metrics.jsonl is damaged in:UserWarning")
@pytest.mark.parametrize("torn", [True, False], ids=["torn", "whole"])
@pytest.mark.usefixtures("one_transition_a_call")
def test_a_disk_that_is_full_from_any_write_on(hmc_reference, tmp_path, monkeypatch, torn):
    """Every file is saved after each call; the disk is full from the n-th write on, for many n."""
    pace = {"checkpoint_seconds": 1e-9}
    for number in itertools.count(start=int(torn), step=3):
        path = tmp_path / f"run-{number}"
        count = itertools.count()

        def full(descriptor, content, count=count, number=number):
            if next(count) >= number:
                os.write(descriptor, bytes(content)[: len(content) // 2 if torn else 0])
                raise OSError(28, "No space left on device")
            assert os.write(descriptor, content) == len(content)

        with monkeypatch.context() as patch:
            for module in ("files", "lock"):
                patch.setattr(f"tensorbnn.storage.{module}.write_bytes", full)
            try:
                draw(path, **pace)
                break
            except tb.RunError as error:
                assert "No space left" in str(error)  # noqa: PT017
                created = (path / "run.json").exists()
                assert not created or "continue from there with tb.resume" in str(error)  # noqa: PT017
        if created:
            check_readable(path, hmc_reference)
            go_on(path)
        else:
            draw(path)
        assert_same(path, hmc_reference)
    assert number > 60
    assert_same(path, hmc_reference)


def check_readable(path, reference):
    """What was drawn can be read, or an error reports that nothing was drawn."""
    assert not list(path.rglob("*.tmp"))
    try:
        kept = tb.load(path)
    except tb.RunError as error:
        assert "holds no draws yet" in str(error)  # noqa: PT017
        return
    whole = tb.load(reference).parameters["dense_0.weights"]
    assert np.array_equal(kept.parameters["dense_0.weights"], whole[:, : kept.num_draws])


def test_draws_that_the_state_does_not_count_are_drawn_again(hmc_reference, tmp_path, monkeypatch):
    """Killed between the two files of a checkpoint, with a longer file of draws."""
    path = tmp_path / "run"
    original = DirectoryStore.write_state

    def write_state(self, chain, arrays):
        if arrays["transitions"] > 20:
            raise tb.RunError("killed")
        original(self, chain, arrays)

    monkeypatch.setattr(DirectoryStore, "write_state", write_state)
    with pytest.raises(tb.RunError, match="killed"):
        draw(path, checkpoint_seconds=1e-9)
    monkeypatch.undo()
    drawn = [sum(DirectoryStore(path).chunk_sizes(chain).values()) for chain in range(2)]
    assert max(drawn) == 3  # the state, after at most 20 transitions, counts 2
    go_on(path)
    assert_same(path, hmc_reference)


@pytest.mark.parametrize("options", [{"draws": 3}, {"draws": 4}, {"draws": 1}])
def test_a_longer_run_is_the_run_that_was_longer_from_the_start(reference, tmp_path, options):
    path = tmp_path / "run"
    draw(path, reference.name, **options)
    longer = go_on(path, draws=5)
    assert longer.num_draws == 5
    assert_same(path, reference)


def test_a_complete_run_is_returned_as_it_is(hmc_reference):
    before = contents(hmc_reference)
    again = go_on(hmc_reference, posterior=posterior(), draws=5)
    assert again.num_draws == go_on(hmc_reference).num_draws == 5
    assert contents(hmc_reference) == before


def test_double_precision_with_hyper_parameters_held(tmp_path):
    """Held hyper-parameters come from starting values, which are not given again."""
    options = {
        "target": posterior(dtype="float64"),
        "sample_hyperparameters": False,
        "start": {"likelihood.sd": 0.3},
    }
    draw(tmp_path / "run", draws=2, **options)
    go_on(tmp_path / "run", draws=5)
    draw(tmp_path / "reference", **options)
    assert_same(tmp_path / "run", tmp_path / "reference")


def test_the_prior(tmp_path):
    prior = tb.Posterior(posterior().network, tb.Gaussian(sd=0.1))
    plain = {"metrics": None, "validation": None}
    for name, draws in (("run", 2), ("reference", 5)):
        draw(tmp_path / name, target=prior, draws=draws, **plain)
    go_on(tmp_path / "run", draws=5)
    assert_same(tmp_path / "run", tmp_path / "reference")


def test_all_chains_at_once_as_on_an_accelerator(tmp_path, monkeypatch):
    """There, chains with equally many transitions continue together; the same, to rounding."""
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    options = {"sampler": "hmc", "burn_in": 3}
    draw(tmp_path / "run", draws=2, **options)
    go_on(tmp_path / "run", draws=3)
    whole = draw(tmp_path / "reference", draws=3, **options)
    mine = tb.load(tmp_path / "run")
    np.testing.assert_allclose(
        mine.parameters["dense_0.weights"], whole.parameters["dense_0.weights"], rtol=1e-4
    )


def test_chains_with_different_numbers_of_transitions(tmp_path, monkeypatch, hmc_reference):
    """Some chains can be run by themselves, and a complete one is left as it is."""
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with raises(NoDrawsError, damaged=False):
            draw(path)
    for chains in ([1], [1], [0, 1]):
        run = restore_run(DirectoryStore(path))
        backend = LocalBackend(read_checkpoints(run, run.store, chains))
        reached = backend.advance(run, StopRequest(), Bar("", 1, show=False))
        assert (reached.draws, reached.complete) == (5, True)
    go_on(path)
    assert_same(path, hmc_reference)


@pytest.fixture
def short(tmp_path):
    draw(tmp_path / "run", draws=2)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"posterior": posterior(dtype="float64")}, "`dtype` is 'float32' in .*you gave 'float64'"),
        (
            {"posterior": tb.Posterior(posterior().network, tb.Gaussian(sd=tb.Hyper(0.1)), X, X)},
            "`data` is .*sha256",
        ),
        (
            {"posterior": tb.Posterior(posterior().network, tb.Gaussian(), X, Y)},
            "`likelihood` is .*, but you gave",
        ),
        ({"draws": 1}, "`draws` is 1, but .* already has 2 draws of a chain: .* at least 2"),
        ({"draws": 0}, "`draws` must be a whole number of at least 1, got 0"),
        ({"draws": 5, "checkpoint_seconds": 0}, "`checkpoint_seconds` must be a positive number"),
        ({"draws": 5, "metrics": [tb.Accuracy()]}, r"`metrics` has \['accuracy'\], but the run"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_would_change_the_chain_is_refused(short, options, message):
    before = contents(short)
    with pytest.raises(ValueError, match=message):
        go_on(short, **options)
    assert contents(short) == before
    assert read_manifest(short)["status"] == "complete"
    assert not (short / "run.lock").exists()


def test_bad_types_and_places(short, tmp_path):
    with pytest.raises(TypeError, match=r"`posterior` must be a tb\.Posterior"):
        go_on(short, posterior=X)
    with pytest.raises(NotARunError):
        go_on(tmp_path)


def test_data_that_are_not_kept_are_asked_for(tmp_path, hmc_reference):
    path = tmp_path / "run"
    draw(path, draws=2, store_data=False)
    with pytest.raises(ValueError, match="does not keep its data: give them as `posterior`"):
        go_on(path, draws=5)
    go_on(path, draws=5, posterior=posterior(), validation=REPORTS["validation"])
    assert_same(path, hmc_reference)


def test_other_data_in_the_run_are_noticed(short, tmp_path):
    other = tb.Posterior(posterior().network, tb.Gaussian(sd=tb.Hyper(0.1)), X, X)
    draw(tmp_path / "other", target=other, draws=1)
    (tmp_path / "other" / "data.safetensors").replace(short / "data.safetensors")
    with pytest.raises(tb.RunError, match=r"data.safetensors does not hold the data of this run"):
        go_on(short, draws=3)
    (short / "data.safetensors").write_bytes(b"")
    with pytest.raises(tb.RunError, match=r"data.safetensors is damaged"):
        go_on(short, draws=3)
    assert tb.load(short).num_draws == 2


def test_a_damaged_state_or_last_file_stops_the_chain_alone(short):
    draws = short / "chain-01" / "draws-00000.safetensors"
    go_on(short, draws=3)
    draws.write_bytes(draws.read_bytes()[:-1])
    bad = r"chain-01.draws-00000.safetensors is damaged.*still readable are draws 2 to 2 of chain 1"
    with (
        pytest.warns(DamageWarning, match=bad),
        pytest.raises(tb.RunError, match=r"chain-01.draws-00000.safetensors is damaged"),
    ):
        go_on(short, draws=4)  # this file is full: nothing of it is needed
    assert read_manifest(short)["status"] == "complete"
    with pytest.raises(tb.RunError, match=r"chain-01.draws-00000.safetensors is damaged"):
        tb.load(short)
    with warns(FilesLeftOut, number=1):
        kept = tb.load(short, skip_damaged=True)
    assert kept.num_draws == 2
    state = short / "chain-01" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-1])
    with raises(DamagedStateError, chain=1):
        go_on(short, draws=5)
    assert not (short / "run.lock").exists()


def test_a_resume_that_fails_does_not_leave_a_run_that_seems_to_be_running(short, monkeypatch):
    def fail(*_):
        raise tb.RunError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("tensorbnn.sampling.run.Run.trim_reports", fail)
        with pytest.raises(tb.RunError, match="no space left"):
            go_on(short, draws=3)
    assert read_manifest(short)["status"] == "interrupted"
    assert not (short / "run.lock").exists()
    assert go_on(short).num_draws == 3


def test_a_state_of_another_version_is_refused(short):
    store = DirectoryStore(short)
    state = store.read_state(1)
    for changed, message in [
        ({k: v for k, v in state.items() if k != "state/gradient"}, "state/gradient is missing"),
        (state | {"state/momentum": np.ones(3)}, "it has state/momentum, which this one does not"),
        (state | {"state/iteration": np.ones(3)}, "state/iteration is float64"),
    ]:
        store.write_state(1, changed)
        with pytest.raises(StateError, match=message):
            go_on(short, draws=5)


def test_a_state_from_before_interweaving_is_refused_in_a_line_and_its_draws_are_read(tmp_path):
    path = tmp_path / "run"
    weights = draw(path, "adaptive", draws=2).parameters["dense_0.weights"]
    store = DirectoryStore(path)
    for chain in range(PLAN["chains"]):
        new = store.read_state(chain)
        old = {name: each for name, each in new.items() if not name.startswith("state/weaving.")}
        assert len(old) < len(new)
        del old["state/settings.interweaves"]
        store.write_state(chain, old)
    with pytest.raises(StateError, match="is missing") as told:
        go_on(path, draws=5)
    assert "\n" not in str(told.value)
    assert not (path / "run.lock").exists()
    assert np.array_equal(tb.load(path).parameters["dense_0.weights"], weights)


def test_another_version_of_jax_is_mentioned(short):
    (short / "run.json").write_bytes(pack_manifest(read_manifest(short) | {"jax": "0.1"}))
    with warns(OtherVersion, name="jax", then="0.1"):
        assert go_on(short, draws=3).num_draws == 3


def test_another_version_of_blackjax_is_mentioned_where_it_matters(short, tmp_path):
    old = {"blackjax": "0.1"}
    (short / "run.json").write_bytes(pack_manifest(read_manifest(short) | old))
    assert go_on(short, draws=3).num_draws == 3  # by HMC, which is this library's own
    run = tmp_path / "nuts"
    given = {"chains": 1, "burn_in": 5, "draws": 2, "progress": False, "path": run}
    tb.sample(posterior(), tb.NUTS(), **given)
    (run / "run.json").write_bytes(pack_manifest(read_manifest(run) | old))
    with warns(OtherVersion, name="blackjax", then="0.1") as told:
        assert tb.resume(run, draws=3, progress=False).num_draws == 3
    assert told[0].filename == __file__


def test_a_run_that_is_being_written_is_refused(short):
    writer = DirectoryStore.open_to_write(short)
    with pytest.raises(LockedError):
        go_on(short, draws=5)
    writer.close()
    assert go_on(short, draws=3).num_draws == 3


def worst(predictions, targets):
    return np.abs(predictions - targets).max()


def test_metrics_of_the_users_own_are_given_again_or_left_out(tmp_path):
    for name, draws in (("run", 2), ("left", 2), ("reference", 5)):
        draw(tmp_path / name, draws=draws, metrics=[tb.MeanSquaredError(), worst])
    with warns(MetricsLost, names=["worst"]):
        left = go_on(tmp_path / "left", draws=5)
    assert "training.worst" in left.reports[0]
    assert "training.worst" not in left.reports[-1]
    go_on(tmp_path / "run", draws=5, metrics=[worst])
    assert_same(tmp_path / "run", tmp_path / "reference")


def test_validation_data_that_are_not_kept_are_given_again_or_left_out(tmp_path):
    for name, draws in (("run", 2), ("left", 2), ("reference", 5)):
        draw(tmp_path / name, draws=draws, store_data=False)
    again = {"draws": 5, "posterior": posterior()}
    with warns(MetricsLost, names=()):
        left = go_on(tmp_path / "left", **again)
    assert "validation.mean_squared_error" in left.reports[0]
    assert "validation.mean_squared_error" not in left.reports[-1]
    go_on(tmp_path / "run", validation=REPORTS["validation"], **again)
    assert_same(tmp_path / "run", tmp_path / "reference")


def test_seconds_of_reports_continue(short):
    before = {each["chain"]: each["seconds"] for each in tb.load(short).reports}
    later = [each for each in go_on(short, draws=5).reports if each["transition"] > 20]
    assert later
    assert all(each["seconds"] >= before[each["chain"]] for each in later)


def test_a_damaged_report_does_not_prevent_a_resume(short):
    file = short / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], b"rubbish\n", *lines[1:]]) + b'{"torn')
    with pytest.warns(ReportsLeftOut, match="line 2"):
        longer = go_on(short, draws=3)
    assert len(longer.reports) == 2 * 6


def test_leftovers_of_a_killed_writer_are_cleaned(short):
    leftover = short / "chain-00" / ".state.safetensors.0123.tmp"
    leftover.write_bytes(b"half")
    (short / "run.lock").write_text("{}")
    go_on(short, draws=3)
    assert not leftover.exists()
    assert not (short / "run.lock").exists()


@dataclass(frozen=True)
class Scaled(tb.Layer):
    factor: float = 2.0

    def apply(self, parameters, h):
        return self.factor * h


@dataclass(frozen=True)
class Mine(tb.Sampler):
    """A sampler of the user's own."""

    step_size: float = 0.01

    def init(self, target, positions, burn_in):
        return tb.HMC(step_size=self.step_size, num_steps=3).init(target, positions, burn_in)

    @property
    def step(self):
        return tb.HMC().step


def test_classes_of_the_users_own(tmp_path):
    network = tb.Network(tb.Dense(3), Scaled(), tb.Dense(1), inputs=1)
    target = tb.Posterior(network, tb.Gaussian(sd=0.1), X, Y)
    options = {"chains": 2, "burn_in": 2, "progress": False}
    for name, draws in (("run", 2), ("other", 2), ("reference", 4)):
        tb.sample(target, Mine(), draws=draws, path=tmp_path / name, **options)
    with pytest.raises(ValueError, match="classes that are not part of the library, Scaled"):
        go_on(tmp_path / "run", draws=4)
    go_on(tmp_path / "run", draws=4, custom_objects={"Scaled": Scaled, "Mine": Mine})
    go_on(tmp_path / "other", draws=4, posterior=target, custom_objects={"Mine": Mine})
    for name in ("run", "other"):
        assert contents(tmp_path / name) == contents(tmp_path / "reference")


def test_an_ensemble_sees_new_draws_when_asked(short):
    early = tb.load(short)
    before, prediction = early.parameters["dense_0.weights"], early.predict(X)
    go_on(short, draws=5)
    assert early.num_draws == 2
    assert np.array_equal(early.sample_stats["acceptance_rate"].shape, (2, 2))
    assert early.refresh() is early
    assert early.num_draws == 5
    assert np.array_equal(early.parameters["dense_0.weights"][:, :2], before)
    assert prediction.samples.shape[0] == 4
    assert early.predict(X).samples.shape[0] == 10


# Signals.


def interrupt_soon(*numbers, after, pause=0.3):
    """Send signals to this process once `after` is true."""

    def send():
        while not after():
            time.sleep(0.01)
        for number in numbers:
            os.kill(os.getpid(), number)
            time.sleep(pause)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.fixture
def interruptible():
    """In the background of a shell, interrupts are ignored unless a handler is set."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_memory_returns_what_there_is():
    seen = []

    def look(predictions, targets):
        seen.append(1)
        return 0.0

    thread = interrupt_soon(signal.SIGINT, after=lambda: len(seen) > 100, pause=0)
    with warns(Interrupted, planned=10**8):
        run = draw(None, draws=10**8, metrics=[look], networks_per_file=100)
    thread.join()
    whole = draw(None, draws=min(run.num_draws, 20), networks_per_file=100)
    weights = run.parameters["dense_0.weights"][:, : whole.num_draws]
    assert np.array_equal(weights, whole.parameters["dense_0.weights"])


@pytest.mark.usefixtures("interruptible", "one_transition_a_call")
def test_ctrl_c_in_memory_before_the_first_draw(monkeypatch):
    calls = []
    monkeypatch.setattr(ChainGroup, "after_call", lambda group: calls.append(group.chains))
    thread = interrupt_soon(signal.SIGINT, after=lambda: calls, pause=0)
    with pytest.raises(KeyboardInterrupt):
        draw(None, burn_in=10**8)
    thread.join()


@pytest.mark.usefixtures("interruptible")
def test_a_second_ctrl_c_does_not_wait(tmp_path, monkeypatch, capsys, hmc_reference):
    path, blocked, release = tmp_path / "run", [], threading.Event()

    def block(group):
        if group.at.transitions >= 10:
            blocked.append(1)
            release.wait(30)

    monkeypatch.setattr(ChainGroup, "after_call", block)
    thread = interrupt_soon(signal.SIGINT, signal.SIGINT, after=lambda: len(blocked) == 2)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        draw(path)
    assert time.monotonic() - began < 20
    thread.join()
    before = contents(path)
    release.set()
    time.sleep(0.3)
    assert contents(path) == before  # what is still running writes nothing more
    assert "stopped at once; continue with tb.resume" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    go_on(path)
    assert_same(path, hmc_reference)


def test_signals_are_left_alone_in_other_threads(tmp_path):
    handlers = []

    def seen(predictions, targets):
        handlers.append(signal.getsignal(signal.SIGTERM))
        return 0.0

    thread = threading.Thread(target=lambda: draw(tmp_path / "run", metrics=[seen]))
    thread.start()
    thread.join()
    assert set(handlers) == {signal.getsignal(signal.SIGTERM)}


SCRIPT = """
import sys
import numpy as np
import tensorbnn as tb
x = np.linspace(-1, 1, 9)
network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(1), inputs=1)
posterior = tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), x, np.sin(2 * x))
tb.sample(posterior, chains=2, burn_in=20, draws=10**8, path=sys.argv[1],
          progress=False)
"""
UNBLOCK = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def test_sigterm_and_ctrl_c_save_and_print_how_to_resume(tmp_path):
    """SIGTERM for a script, then Ctrl-C for the command that resumes its run."""
    path = tmp_path / "run"
    command = "from tensorbnn.cli import main; import sys; sys.exit(main(['resume', sys.argv[1]]))"
    for code, number, status in [
        (SCRIPT, signal.SIGTERM, 143),
        (UNBLOCK + command, signal.SIGINT, 130),
    ]:
        drawn = len(list(path.glob("chain-0*/draws-*")))
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 60
        while len(list(path.glob("chain-0*/draws-*"))) < drawn + 4:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
        assert process.returncode == status, error
        kept = tb.load(path)
        assert f"stopped after {kept.num_draws:,} of 100,000,000 draws of each chain" in error
        how = (
            f"tb.resume({str(path)!r})" if number == signal.SIGTERM else f"tensorbnn resume {path}"
        )
        assert f"continue with {how}\n" in error
        manifest = read_manifest(path)
        assert manifest["status"] == "interrupted"
        assert not (path / "run.lock").exists()
    fresh = tb.sample(posterior(), chains=2, burn_in=20, draws=150, progress=False)
    weights = kept.parameters["dense_0.weights"]
    assert np.array_equal(weights[:, :150], fresh.parameters["dense_0.weights"])


# The command.


def test_the_command_resumes_and_prints_a_summary(short, capsys, hmc_reference):
    assert main(["resume", str(short), "--draws", "5"]) == 0
    text = capsys.readouterr().out
    for word in ("10 from 2 chains", "acceptance", "R-hat", "ESS", "verdict", "time", str(short)):
        assert word in text
    assert_same(short, hmc_reference)
    assert main(["resume", str(short), "--draws", "1"]) == 1
    assert "already has 5 draws of a chain" in capsys.readouterr().err
    assert main(["resume", str(short / "nowhere")]) == 1
    assert "there is no run" in capsys.readouterr().err
    assert main(["resume", str(short / "chain-00")]) == 1
    assert "is not a run: it has no run.json" in capsys.readouterr().err


def test_the_command_has_targets_and_limits(short, capsys):
    options = ["--rhat", "9", "--ess", "6", "--max-minutes", "10", "--max-gradients", "100000"]
    assert main(["resume", str(short), *options]) == 0
    assert "R-hat" in capsys.readouterr().out
    manifest = read_manifest(short)
    described = {"type": "Converged", "rhat": 9.0, "ess": 6.0, "x": None, "fraction": 1.0}
    assert manifest["until"] == described
    assert (manifest["max_minutes"], manifest["max_gradients"]) == (10.0, 100000)
    assert manifest["status"] == "complete"
    assert manifest["draws"] > 2
    assert main(["resume", str(short), "--ess", "7"]) == 0  # the rest as before
    assert read_manifest(short)["until"] == described | {"ess": 7.0}
    assert main(["resume", str(short), "--rhat", "1"]) == 1
    assert "--rhat must be a number above 1" in capsys.readouterr().err


def test_the_lock_names_the_writer(tmp_path):
    found = []

    def look(predictions, targets):
        if (tmp_path / "run" / "run.lock").exists():
            found.append(json.loads((tmp_path / "run" / "run.lock").read_text()))
        return 0.0

    draw(tmp_path / "run", metrics=[look])
    assert found[0]["pid"] == os.getpid()
    assert not (tmp_path / "run" / "run.lock").exists()
