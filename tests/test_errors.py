"""Every exception and warning: its text, written from its fields, and a trip to another process."""

import inspect
import pickle
from pathlib import Path

import pytest

import tensorbnn as tb
from tensorbnn import errors, findings, messages, warning
from tensorbnn.data_findings import CountsRows
from tensorbnn.messages import Remedy, Resume

RUN = Path("my run")
DAMAGED = errors.DamagedFileError(Path("chain-01/draws-00000.safetensors"), "is missing")
ESTIMATE = warning.Point(3, "0.25", 1.25, 40.0)

MORE = Resume(RUN, "max_minutes", "10")
TEXTS = [
    (
        errors.OptionError("step_size", "a positive number", -1.0),
        "`step_size` must be a positive number, got -1.0",
    ),
    (
        errors.OptionError("level", "between 0 and 1", 2, "lie"),
        "`level` must lie between 0 and 1, got 2",
    ),
    (
        errors.OptionTypeError("network", "a tb.Network", "Dense"),
        "`network` must be a tb.Network, got 'Dense'",
    ),
    (
        errors.RunMismatchError(RUN, "dtype", 0, "1" * 400),
        "`dtype` is 0 in the run my run, but you gave '" + 299 * "1" + "...: a run can't change "
        "it; start a new one with tb.sample",
    ),
    (errors.DescriptionError("no number can be made of 'x'"), "no number can be made of 'x'"),
    (
        errors.PathTakenError(RUN, "run"),
        "my run already holds a run: read it with tb.load('my run'), continue it with "
        "tb.resume('my run'), choose another `path`, or replace it with `overwrite=True`",
    ),
    (
        errors.PathTakenError(RUN, "current directory"),
        "my run is the current directory, or around it, and can't be replaced from inside: go to "
        "another one first",
    ),
    (
        errors.PathTakenError(RUN, "something else"),
        "my run exists and is not a run of this library: choose another `path`",
    ),
    (errors.NotARunError(RUN), "my run is not a run: it has no run.json"),
    (
        errors.OtherModelError("it has other parameters: put numbers in their place"),
        "it has other parameters: put numbers in their place, or sample the other model, by "
        "tb.sample(posterior, start=ensemble)",
    ),
    (
        errors.FewerDrawsError(1, 2, RUN),
        f"`draws` is 1, but {RUN} already has 2 draws of a chain: `draws` counts all of them, so "
        "give at least 2",
    ),
    (
        errors.FewerDrawsError(1, 2, None),
        "`draws` is 1, but the ensemble already has 2 draws of a chain: `draws` counts all of "
        "them, so give at least 2",
    ),
    (
        errors.DataNotKeptError(),
        "the run did not keep its training data (`store_data=False`): give them as "
        "`tb.load(path, data=(x, y))`",
    ),
    (errors.RunError("a sentence {that is kept}"), "a sentence {that is kept}"),
    (errors.SamplingError("a sentence"), "a sentence"),
    (errors.DescriptionError("run.json names no layer"), "run.json names no layer"),
    (
        errors.NoDrawsError(damaged=True),
        "no draws can be read: every file is damaged in some chain",
    ),
    (
        errors.NoDrawsError(damaged=False),
        "the run holds no draws yet: its chains are still burning in, or were stopped before the "
        "first draws were saved",
    ),
    (DAMAGED, "chain-01/draws-00000.safetensors is missing"),
    (
        errors.DamagedDrawsError(DAMAGED, RUN, {1: {0: 100, 1: 100, 3: 50}, 2: {}}, 100, 3),
        "chain-01/draws-00000.safetensors is missing; still readable are draws 0 to 199, 300 to "
        "349 of chain 1 and none of chain 2 and all draws of 3 other chains: tb.load('my run', "
        "skip_damaged=True) takes the draws that all chains have",
    ),
    (
        errors.DamagedStateError(DAMAGED, 1, RUN),
        "chain-01/draws-00000.safetensors is missing; without it chain 1 can't continue, but draws "
        "stay readable by tb.load('my run')",
    ),
    (
        errors.StateError(2, "state/key is missing"),
        "the state of chain 2 was saved by another version of the sampler (state/key is missing), "
        "so that the run can't continue from it; its draws stay readable by tb.load, and "
        "tb.sample(posterior, start=tb.load(path)) samples anew from where they end",
    ),
    (
        errors.WriteError(RUN / "run.json", "[Errno 28] No space left on device", RUN),
        "my run/run.json can't be written: [Errno 28] No space left on device; files written "
        "before it are whole. When that is repaired, continue from there with tb.resume('my run')",
    ),
    (
        errors.LockedError("the run x", {"pid": 3, "host": "here", "since": "2026", "started": 1}),
        "the run x is being written by process 3 on here, since 2026: wait for it or stop it; "
        "reading with tb.load is possible at any time",
    ),
    (
        errors.LockedError("the run x", None),
        "the run x is being written by another process: wait for it or stop it; reading with "
        "tb.load is possible at any time",
    ),
    (
        errors.MetricError("own", "training", 10, 1, "ValueError: bad"),
        "the metric `own` failed on the training data at transition 10 of chain 1: ValueError: bad",
    ),
    (
        errors.ExecutorError(RUN, "`executor` is broken", "BrokenExecutor: gone"),
        "`executor` is broken (BrokenExecutor: gone); what workers print says why. A script that "
        'starts processes needs `if __name__ == "__main__":`, and workers must be able to import '
        "its classes and functions. All that was saved is whole; continue with tb.resume('my run')",
    ),
    (
        errors.ExecutorError(RUN, "", "RuntimeError: shut down", refused=True),
        "`executor` takes no chain (RuntimeError: shut down). All that was saved is whole; "
        "continue with tb.resume('my run')",
    ),
    (
        errors.NotSharedError(RUN, "node1"),
        "my run, as the worker on node1 sees it, is not the run that was started: `path` must be "
        "a directory that all workers share",
    ),
    (
        errors.NotSharedError(RUN, "node1", is_run=True),
        "my run, as the worker on node1 sees it, is not the run that was started: `path` must be "
        "a directory that all workers share; or whoever started the chain is gone, then "
        "continue with tb.resume",
    ),
    (warning.RunWarning("a sentence"), "a sentence"),
    (warning.ConvergenceWarning("a sentence"), "a sentence"),
    (
        warning.StoppedByLimit("max_gradients", 5000, 20, 100, Resume(None, "max_gradients", "9")),
        "stopped by `max_gradients` (5,000) after 20 of 100 draws of each chain; continue with "
        "tb.resume(ensemble, max_gradients=9)",
    ),
    (
        warning.StoppedInBurnIn("max_minutes", 0.5, 120, 1000, Resume(RUN, "max_minutes", "0.5")),
        "stopped by `max_minutes` (0.5) after 120 of 1,000 transitions of burn-in: you get "
        "networks of burn-in, which are not draws from the posterior; continue with "
        "tb.resume('my run', max_minutes=0.5)",
    ),
    (
        warning.BurnInTooSlow(0.5, 12.34),
        "burn-in will take about 12 minutes, which is more than `max_minutes` (0.5) leaves time "
        "for: raise it, or use a smaller network or a shorter `burn_in`",
    ),
    (
        warning.StoppedUnconverged(
            "max_minutes", 10.0, 300, 1000, Resume(RUN, "max_minutes", "10"),
            rhat=1.01, ess=400.0, points=100, short=2, worst=[ESTIMATE], times=1.21,
        ),
        "stopped by `max_minutes` (10) after 300 draws of each chain: at 2 of 100 x predictions "
        "are not known as well as wanted (R-hat below 1.01, ESS of at least 400): R-hat 1.250 and "
        "ESS 40 at 0.25; and 1 more; about 1.3 times as many draws are needed; continue with "
        "tb.resume('my run', max_minutes=10)",
    ),
    (
        warning.StoppedUnconverged("max_minutes", 10.0, 3, 10, MORE, 1.01, 400.0, 100, 0),
        "stopped by `max_minutes` (10) after 3 draws of each chain, too few to judge predictions "
        "by; continue with tb.resume('my run', max_minutes=10)",
    ),
    (
        warning.StoppedUnsatisfied("max_minutes", 10.0, 300, 1000, MORE, times=2.0),
        "stopped by `max_minutes` (10) after 300 draws of each chain, before `until` was "
        "satisfied; about 2 times as many draws are needed; continue with tb.resume('my run', "
        "max_minutes=10)",
    ),
    (
        warning.StoppedUnsatisfied("max_minutes", 10.0, 300, 1000, MORE),
        "stopped by `max_minutes` (10) after 300 draws of each chain, before `until` was "
        "satisfied; continue with tb.resume('my run', max_minutes=10)",
    ),
    (
        warning.Interrupted(20, 100),
        "interrupted: the ensemble has the 20 of 100 draws that all chains have",
    ),
    (
        warning.ChainRestarted(1, "accepted 0.0% of its proposals", 1200),
        "chain 1 accepted 0.0% of its proposals after 1,200 transitions of burn-in, and was "
        "started again from another point",
    ),
    (
        warning.DataWarning(CountsRows("x", (1,), 3)),
        "column 1 of `x` only counts the rows: if it is no measurement leave it out",
    ),
    (
        warning.CoarsePrecision(1e9, "float32", 64.0),
        "log-densities are about 1e+09, which float32 rounds to multiples of 64, too coarsely to "
        "accept or reject by: give tb.Posterior dtype='float64', or a noise that suits the targets "
        "(`standardize=True`, or one that is learned)",
    ),
    (
        warning.OtherVersion("jax", "0.1", "0.2"),
        "the run was begun with version 0.1 of jax, this is 0.2: draws from here on may differ in "
        "their last bits from those of an uninterrupted run",
    ),
    (
        warning.OtherVersion("instruction set", "avx2", "avx512"),
        "the run was begun with the instruction set avx2, this machine uses avx512: draws from "
        "here on may differ in their last bits from those of an uninterrupted run",
    ),
    (
        warning.DamageWarning(DAMAGED),
        "the run continues, but chain-01/draws-00000.safetensors is missing",
    ),
    (
        warning.FilesLeftOut(2, "the file x is missing"),
        "2 damaged files are left out, in all chains: the file x is missing, ...",
    ),
    (
        warning.ReportsLeftOut(errors.DamagedFileError(Path("m"), "is damaged in line 1")),
        "m is damaged in line 1: left out",
    ),
    (
        warning.MetricsLost(["own"]),
        "the metrics ['own'] are functions of your own and no longer reported: give them again "
        "with `metrics`",
    ),
    (
        warning.MetricsLost(),
        "the run does not keep its validation data, on which metrics are no longer reported: give "
        "them again with `validation`",
    ),
    (
        warning.ReweightingWarning(1000, 100.4, 0.9, 0.67, 10, too_few=False),
        "these weights can't be trusted: Pareto k-hat is 0.90, above 0.67, and the 1000 networks "
        "are worth only 100: the other model is too far from the one that was sampled: sample it, "
        "starting from here, by tb.sample(posterior, start=ensemble) with a posterior of the other "
        "model",
    ),
    (
        warning.ReweightingWarning(100, 90.0, 0.6, 0.5, 10, too_few=True),
        "these weights can't be trusted: Pareto k-hat is 0.60, above 0.5, and the 100 networks, "
        "though worth 90, are too few to tell: more draws may settle it; if they don't, the other "
        "model is too far from the one that was sampled: sample it, starting from here, by "
        "tb.sample(posterior, start=ensemble) with a posterior of the other model",
    ),
    (
        warning.ReweightingWarning(5, 4.0, float("nan"), 0.0, 10, too_few=True),
        "these weights can't be trusted: 5 networks are too few to tell, 10 are needed: more draws "
        "may settle it; if they don't, the other model is too far from the one that was sampled: "
        "sample it, starting from here, by tb.sample(posterior, start=ensemble) with a posterior "
        "of the other model",
    ),
    (
        warning.LagWarning(20, 3, 10),
        "the autocorrelation has not died down within 20 draws at 3 of 10 rows, so that its length "
        "is underestimated: look at larger lags (`max_lag`), or run longer",
    ),
    (warning.OriginalRunWarning("a sentence"), "a sentence"),
    (
        warning.NoiseAssumed(0.1),
        "the run does not say how targets scatter: tb.Gaussian(sd=0.1) is assumed. It matters for "
        "noise, scores and other likelihoods; give the `likelihood` of the run",
    ),
]  # fmt: skip


def public(module, kind):
    return {
        each
        for name, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, kind) and each.__module__ == module.__name__ and name[0] != "_"
    }


def test_every_type_has_an_example():
    types = public(errors, Exception) | public(warning, Warning)
    assert types == {type(each) for each, _ in TEXTS}


def test_every_type_is_public():
    types = public(errors, Exception) | public(warning, Warning)
    assert all(getattr(tb, each.__name__) is each for each in types)
    assert {each.__name__ for each in types} <= set(tb.__all__)


@pytest.mark.parametrize(("raised", "text"), TEXTS, ids=lambda each: type(each).__name__)
def test_the_text(raised, text):
    assert str(raised) == text


@pytest.mark.parametrize(
    "raised", [each for each, _ in TEXTS], ids=lambda each: type(each).__name__
)
def test_it_survives_a_trip_to_another_process(raised):
    raised.add_note("in chain 3")
    found = pickle.loads(pickle.dumps(raised))
    assert type(found) is type(raised)
    assert (str(found), repr(found), found.__notes__) == (
        str(raised), repr(raised), raised.__notes__
    )  # fmt: skip
    names = getattr(raised, "__match_args__", ())
    assert [repr(getattr(found, name)) for name in names] == [
        repr(getattr(raised, name)) for name in names
    ]


def test_fields_are_set_once():
    with pytest.raises(AttributeError, match="`reason` of a DamagedFileError can't be changed"):
        errors.DamagedFileError(RUN, "is missing").reason = "is there"
    with pytest.raises(AttributeError):
        findings.OneChain().anything = 1


def test_front_ends_have_their_own_words():
    class Own(messages.Words):
        def option(self, name):
            return f"--{name}"

        def remedy(self, remedy):
            return "resume it" if isinstance(remedy, Resume) else super().remedy(remedy)

    raised = warning.StoppedInBurnIn("max_minutes", 1, 2, 10, Resume(RUN))
    assert raised.message(Own()).startswith("stopped by --max_minutes (1) after")
    assert raised.message(Own()).endswith("; continue with resume it")
    inside = warning.DamageWarning(errors.LockedError("x", None))
    assert inside.message(Own()).endswith(Remedy.READ.value)


def test_warnings_with_equal_fields_are_equal():
    both = [warning.ChainRestarted(1, "was stuck", 10), warning.ChainRestarted(1, "was stuck", 10)]
    assert len(dict.fromkeys(both)) == 1
    assert both[0] != warning.ChainRestarted(2, "was stuck", 10)


def test_warnings_are_collected():
    with warning.collect_warnings() as found:
        warning.warn(warning.Interrupted(1, 2))
    assert found == [warning.Interrupted(1, 2)]
