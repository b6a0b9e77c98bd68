"""Reports come when they are due, with the right numbers, and change nothing; the display."""

import re
import sys
import threading
import time
from io import StringIO

import jax
import numpy as np
import pytest
from rich.console import Console

import tensorbnn as tb
from tensorbnn import progress
from tensorbnn.engine import forward
from tensorbnn.errors import MetricError, WriteError
from tensorbnn.progress import Bar, log_line, rows_table
from tensorbnn.sampling.local import LocalBackend
from tensorbnn.sampling.reporting import cells
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.store import MemoryStore
from tensorbnn.warning import ReportsLeftOut
from tests.sampled import sample_run

pytestmark = pytest.mark.slow

X, XV = np.linspace(-1, 1, 9), np.linspace(-2, 2, 5)
Y, YV = np.sin(2 * X), np.sin(2 * XV)
# No adaptation, so that burn-in and draws are one chain; large steps, so that some diverge.
FIXED = tb.HMC(step_size=0.12, num_steps=3, num_steps_jitter=0.7)


def posterior(**options):
    network = tb.Network(tb.Dense(3), tb.Tanh(), tb.Dense(1), inputs=1)
    return tb.Posterior(network, tb.Gaussian(sd=tb.Hyper(0.1)), X, Y, **options)


def draw(target=None, **options):
    defaults = {"chains": 2, "burn_in": 20, "draws": 12, "progress": False}
    return sample_run(posterior() if target is None else target, **(defaults | options))


def same_draws(first: tb.Ensemble, second: tb.Ensemble) -> bool:
    return all(
        one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)
        for one, two in (
            (getattr(first, group), getattr(second, group))
            for group in ("parameters", "hyperparameters", "sample_stats")
        )
    )


def numbers(reports):
    """Reports without the only number that differs from run to run."""
    return [{name: each for name, each in r.items() if name != "seconds"} for r in reports]


def squared_error(run, chain, index, x, y):
    own = {name: values[chain, index].astype(float) for name, values in run.parameters.items()}
    hidden = np.tanh(x[:, None] @ own["dense_0.weights"] + own["dense_0.biases"])
    outputs = hidden @ own["dense_1.weights"] + own["dense_1.biases"]
    return np.mean((outputs[:, 0] - y) ** 2)


@pytest.fixture(scope="module")
def every_epoch():
    return draw(sampler=FIXED, burn_in=0, draws=59)


@pytest.mark.parametrize(
    ("burn_in", "thin", "report_every"), [(0, 1, 10), (23, 4, 10), (23, 12, 5), (19, 20, 100)]
)
def test_reports_are_right_step_by_step(every_epoch, tmp_path, burn_in, thin, report_every):
    """Against a run that saves every transition; reports fall within draws, too."""
    draws = (59 - burn_in) // thin
    end = burn_in + draws * thin
    options = {"metrics": [tb.MeanSquaredError()], "validation": (XV, YV)}
    plan = {"burn_in": burn_in, "thin": thin, "draws": draws, "report_every": report_every}
    run = draw(sampler=FIXED, networks_per_file=2, path=tmp_path / "run", **options, **plan)
    epochs = [*range(report_every, end, report_every), end]
    assert [(r["chain"], r["transition"]) for r in run.reports] == [
        (chain, transition) for chain in range(2) for transition in epochs
    ]
    info, seconds = every_epoch.sample_stats, 0.0
    for report, since in zip(run.reports, 2 * [0, *epochs[:-1]], strict=True):
        chain, transition = report["chain"], report["transition"]
        rows = (chain, slice(since, transition))
        assert report["phase"] == ("burn-in" if transition <= burn_in else "sampling")
        assert report["acceptance_rate"] == pytest.approx(
            info["acceptance_rate"][rows].mean(), rel=1e-5
        )
        assert report["divergences"] == info["diverging"][rows].sum()
        assert report["num_gradients"] == pytest.approx(info["num_gradients"][rows].mean())
        assert report["step_size"] == info["step_size"][chain, transition - 1]
        assert report["lp"] == info["lp"][chain, transition - 1]
        for name, (x, y) in {"training": (X, Y), "validation": (XV, YV)}.items():
            expected = squared_error(every_epoch, chain, transition - 1, x, y)
            assert report[f"{name}.mean_squared_error"] == pytest.approx(expected, rel=1e-4)
        assert list(report)[-1] == "seconds"
        seconds = report["seconds"] if since == 0 else seconds
        assert report["seconds"] >= seconds > 0
        seconds = report["seconds"]


def test_the_reference_has_what_is_to_be_counted(every_epoch):
    assert 0 < every_epoch.sample_stats["diverging"].sum() < 100
    assert len(np.unique(every_epoch.sample_stats["num_gradients"])) > 2


def test_reports_of_an_adapting_chain_add_up():
    fine = draw(report_every=1, metrics=[tb.MeanSquaredError()]).reports
    coarse = draw(report_every=10, metrics=[tb.MeanSquaredError()]).reports
    assert [report["transition"] for report in coarse] == 2 * [10, 20, 30, 32]
    assert [report["phase"] for report in coarse] == 2 * [*2 * ["burn-in"], *2 * ["sampling"]]
    for report in coarse:
        size = 10 if report["transition"] % 10 == 0 else 2
        last = 32 * report["chain"] + report["transition"]
        parts = fine[last - size : last]
        assert report["divergences"] == sum(part["divergences"] for part in parts)
        for name in ("acceptance_rate", "num_gradients"):
            mean = np.mean([part[name] for part in parts])
            assert report[name] == pytest.approx(mean, rel=1e-5)
        for name in ("step_size", "lp", "training.mean_squared_error"):
            assert report[name] == parts[-1][name]


def test_reports_do_not_change_the_draws():
    plain = draw(thin=2)
    assert "training.mean_squared_error" not in plain.reports[0]
    for report_every in (1, 3, 1000):
        options = {"metrics": [tb.MeanSquaredError()], "validation": (XV, YV)}
        assert same_draws(plain, draw(thin=2, report_every=report_every, **options))


def test_reports_do_not_depend_on_the_lengths_of_calls(monkeypatch):
    options = {"thin": 3, "report_every": 8, "metrics": [tb.MeanSquaredError()]}
    usual = draw(**options)
    monkeypatch.setattr(LocalBackend, "call_seconds", 0.0)  # one transition a call
    single = draw(**options)
    assert numbers(single.reports) == numbers(usual.reports)
    assert same_draws(single, usual)


def test_memory_and_directory_report_the_same(tmp_path):
    options = {"report_every": 7, "metrics": [tb.MeanSquaredError()]}
    memory = draw(**options)
    run = draw(**options, path=tmp_path / "run")
    assert numbers(run.reports) == numbers(memory.reports)
    assert tb.load(tmp_path / "run").reports == run.reports
    manifest = DirectoryStore(tmp_path / "run").manifest
    described = {"type": "MeanSquaredError"}
    assert manifest["metrics"] == {"mean_squared_error": described}
    assert manifest["report_every"] == 7


def test_validation_data_are_kept_with_the_run(tmp_path):
    draw(path=tmp_path / "run", metrics=[tb.MeanSquaredError()], validation=(XV, YV))
    store = DirectoryStore(tmp_path / "run")
    np.testing.assert_allclose(store.data()["validation_x"][:, 0], XV, rtol=1e-6)
    np.testing.assert_allclose(store.data()["validation_y"], YV, rtol=1e-6)
    assert store.manifest["data"]["shapes"] == {"x": [9, 1], "y": [9]}


def test_metrics_see_expected_targets_in_the_order_of_the_rows(monkeypatch):
    """Probabilities and labels; rows in tiles and a rest, as large data are arranged."""
    monkeypatch.setattr(forward, "TILE_ABOVE", 0)
    monkeypatch.setattr(forward, "TILE_ELEMENTS", 1)
    x = np.linspace(-2, 2, 37)
    labels = np.digitize(x, [-1, 1])
    target = tb.Posterior(tb.Network(tb.Dense(3), inputs=1), tb.Categorical(), x, labels)
    seen = []

    def keep(predictions, targets):
        seen.append((predictions.copy(), targets.copy()))
        return 0.0

    run = draw(target, chains=1, draws=5, metrics=[keep, tb.Accuracy()], report_every=1000)
    assert len(seen) == 2  # once to try it, then at the end
    expected = run.predict(x).samples[-1]
    np.testing.assert_allclose(seen[-1][0], expected, rtol=1e-5)
    np.testing.assert_array_equal(seen[-1][1][:, 0], labels)
    accuracy = np.mean(expected.argmax(axis=1) == labels)
    assert run.reports[-1]["training.accuracy"] == pytest.approx(accuracy)


def test_double_precision_with_hyper_parameters_held():
    options = {"metrics": [tb.MeanSquaredError()], "sample_hyperparameters": False}
    run = draw(posterior(dtype="float64"), **options)
    expected = squared_error(run, 1, -1, X, Y)
    assert run.reports[-1]["training.mean_squared_error"] == pytest.approx(expected, rel=1e-12)


def test_all_chains_at_once_as_on_an_accelerator(monkeypatch):
    options = {"sampler": FIXED, "burn_in": 3, "draws": 2, "report_every": 2}
    options["metrics"] = [tb.MeanSquaredError()]
    alone = draw(**options).reports
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    together = draw(**options).reports
    assert [(r["chain"], r["transition"]) for r in together] == [
        (c, e) for c in (0, 1) for e in (2, 4, 5)
    ]
    for one, other in zip(alone, together, strict=True):
        for name in ("acceptance_rate", "lp", "training.mean_squared_error"):
            assert one[name] == pytest.approx(other[name], rel=1e-3)


def bias(predictions, targets):
    return np.mean(predictions - targets)


def test_metrics_of_the_users_own():
    run = draw(metrics=[bias, bias, lambda p, y: np.nan, lambda p, y: np.inf], validation=(XV, YV))
    names = [name for name in run.reports[0] if "." in name]
    own = ["bias", "bias_2", "<lambda>", "<lambda>_2"]
    assert names == [f"{kind}.{name}" for kind in ("training", "validation") for name in own]
    expected = run.predict(X).samples[11].mean() - Y.mean()
    assert run.reports[0]["training.bias"] == pytest.approx(expected, abs=1e-5)
    assert run.reports[0]["training.<lambda>"] is None
    assert run.reports[0]["training.<lambda>_2"] is None


def failing(good_calls):
    calls = []

    def fragile(predictions, targets):
        calls.append(1)
        if len(calls) > good_calls:
            raise KeyError("no such thing")
        return 1.0

    return fragile


@pytest.mark.parametrize(("thin", "draws"), [(1, 20), (4, 5), (7, 2)])
def test_a_metric_that_fails_does_not_lose_the_run(tmp_path, thin, draws):
    """It is called at the start, at 10 and at 20; the fourth call fails, within a draw."""
    options = {"chains": 1, "burn_in": 10, "thin": thin, "report_every": 10}
    message = r"metric `fragile` failed on the training data at transition 30 of chain 0: KeyError"
    with pytest.raises(MetricError, match=message):
        draw(**options, draws=10**8, metrics=[failing(3)], path=tmp_path / "run")
    kept = tb.load(tmp_path / "run")
    assert kept.num_draws == draws
    assert same_draws(kept, draw(**options, draws=draws))
    assert [report["transition"] for report in kept.reports] == [10, 20]
    store = DirectoryStore(tmp_path / "run")
    assert store.manifest["status"] == "interrupted"
    assert store.read_state(0)["transitions"] == 30
    longer = tb.resume(tmp_path / "run", draws=draws + 3, metrics=[failing(100)], progress=False)
    assert same_draws(longer, draw(**options, draws=draws + 3))
    end = 10 + (draws + 3) * thin
    assert [report["transition"] for report in longer.reports] == [*range(10, end, 10), end]


@pytest.mark.parametrize("metric", [failing(0), lambda p, y: p, lambda p, y: "good"])
def test_a_metric_that_never_works_is_refused_before_the_run(tmp_path, metric):
    message = r"at transition 0 of chain 0: (KeyError|.*return one number)"
    with pytest.raises(MetricError, match=message):
        draw(path=tmp_path / "run", metrics=[metric], draws=10**8)
    assert not (tmp_path / "run").exists()


def test_reports_can_be_read_during_the_run(tmp_path):
    path, seen = tmp_path / "run", []

    def watch():
        while not (path / "run.json").exists():
            time.sleep(0.001)
        while DirectoryStore(path).manifest["status"] == "running":
            seen.append(DirectoryStore(path).reports())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    run = draw(path=path, burn_in=1000, draws=10, report_every=5, metrics=[tb.MeanSquaredError()])
    watcher.join()
    whole = {(report["chain"], report["transition"]): report for report in run.reports}
    assert any(0 < len(early) < len(whole) for early in seen)
    for early in seen:
        assert all(report == whole[report["chain"], report["transition"]] for report in early)


@pytest.fixture
def directory(tmp_path):
    draw(path=tmp_path / "run", draws=1)
    (tmp_path / "run" / "metrics.jsonl").unlink()
    store = DirectoryStore(tmp_path / "run")
    for chain in range(2):  # whose states count no reports
        store.write_state(chain, store.read_state(chain) | {"reported": np.asarray(0)})
    return store


@pytest.fixture(params=["memory", "directory"])
def store(request):
    if request.param == "memory":
        return MemoryStore({"chains": 2}, None)
    return request.getfixturevalue("directory")


def test_reports_are_sorted_and_the_latest_of_an_epoch_counts(store):
    assert store.reports() == []
    for chain, transition, value in [(1, 5, 0.5), (0, 5, None), (1, 10, 2), (1, 5, "again")]:
        store.append_report({"chain": chain, "transition": transition, "value": value})
    assert [tuple(report.values()) for report in store.reports()] == [
        *((0, 5, None), (1, 5, "again"), (1, 10, 2))
    ]


def test_an_incomplete_line_is_ignored(directory):
    reports = [{"chain": 0, "transition": transition, "name": "ä"} for transition in range(1, 4)]
    directory.append_report(reports[0])
    file = directory.path / "metrics.jsonl"
    first = file.read_bytes()
    directory.append_report(reports[1])
    second = file.read_bytes()[len(first) :]
    for cut in range(1, len(second)):
        file.write_bytes(first + second[:cut])
        assert directory.reports() == reports[:1]
    file.write_bytes(first + second[:9])
    directory.append_report(reports[2])
    with pytest.warns(ReportsLeftOut, match="line 2"):
        assert directory.reports(skip_damaged=True) == [reports[0], reports[2]]


def test_a_damaged_line_is_named(directory):
    for transition in range(1, 5):
        directory.append_report({"chain": 0, "transition": transition, "acceptance_rate": 0.5})
    file = directory.path / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], lines[1].replace(b"0.5", b"0.6"), *lines[2:]]))
    with pytest.raises(tb.RunError, match=r"metrics.jsonl is damaged in line 2; .* the other 3"):
        directory.reports()
    with pytest.warns(ReportsLeftOut, match="line 2"):
        assert [each["transition"] for each in directory.reports(skip_damaged=True)] == [1, 3, 4]
    file.write_bytes(b"".join([b"[]\n", *lines, b"null\n", b"{}\n", b"\xff\n"]))
    with pytest.raises(tb.RunError, match=r"is damaged in 4 lines, first line 1"):
        directory.reports()


def test_an_unwritable_file_is_named(directory):
    (directory.path / "metrics.jsonl").mkdir()
    with pytest.raises(WriteError):
        directory.append_report({"chain": 0, "transition": 1})


REPORT = {
    "chain": 2,
    "transition": 12345,
    "phase": "sampling",
    "acceptance_rate": 0.9123,
    "divergences": 12,
    "num_gradients": 321.6,
    "step_size": 0.003134,
    "lp": -3.0,
    "training.mean_squared_error": 0.012345,
    "training.bias": None,
    "validation.mean_squared_error": 0.5,
    "seconds": 1.0,
}


def test_a_report_as_cells():
    assert cells(REPORT) == {
        "chain": "2",
        "phase": "sampling",
        "transition": "12,345",
        "accepted": "0.91",
        "step size": "0.00313",
        "gradients": "322",
        "divergent": "12",
        "mean squared error (validation)": "0.0123 (0.5)",
        "bias": "-",
    }


def terminal(width=100):
    return Console(file=StringIO(), width=width, force_terminal=True, color_system=None)


def rendered(rows, width=120):
    console = Console(file=StringIO(), width=width)
    for each in rows_table(rows, width):
        console.print(each)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_table_of_chains():
    waiting = {"chain": "3", "phase": "waiting"}
    one = {"chain": "0", "phase": "burn-in", "transition": "1,000", "[b]bias": "0.5"}
    lines = rendered({3: waiting, 0: one})
    # Word by word: versions of rich differ in how wide they take a heading with brackets to be.
    assert [line.split() for line in lines] == [
        ["chain", "phase", "transition", "[b]bias"],
        ["0", "burn-in", "1,000", "0.5"],
        ["3", "waiting"],
    ]


def test_a_narrow_terminal_folds_headings_between_words():
    *headings, numbers = rendered({0: cells(REPORT)}, width=98)
    expected = ["2", "sampling", "12,345", "0.91", "0.00313", "322", "12", "0.0123", "(0.5)", "-"]
    assert numbers.split() == expected
    last = "chain phase transition accepted step size gradients divergent (validation) bias"
    assert [" ".join(line.split()) for line in headings] == ["mean squared error", last]
    assert all(len(line) <= 98 for line in (*headings, numbers))


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_narrower_one_leaves_columns_out_and_says_which(width):
    lines = rendered({0: cells(REPORT)}, width=width)
    note = next(index for index, line in enumerate(lines) if line.startswith("(too narrow for"))
    left_out = " ".join(lines[note:]).removeprefix("(too narrow for ")[:-1].split(", ")
    shown = {name: text for name, text in cells(REPORT).items() if name not in left_out}
    assert lines[note - 1].split() == " ".join(shown.values()).split()
    words = {word for name in shown for word in name.split()}
    assert {word for line in lines[: note - 1] for word in line.split()} == words
    assert all(len(line) <= width for line in lines)
    assert left_out[-1] == {80: "step size", 60: "gradients", 40: "bias"}[width]
    assert rendered({0: cells(REPORT)}, width=1)  # nonsense, but no error


def test_of_many_chains_the_eight_set_last_are_shown():
    rows = {chain: {"chain": str(chain), "phase": "waiting"} for chain in reversed(range(11))}
    assert [line.split()[0] for line in rendered(rows)[1:]] == [*map(str, range(8)), "..."]
    rows[10] = rows.pop(10)
    lines = rendered(rows)
    assert [line.split()[0] for line in lines[1:]] == [*map(str, range(7)), "10", "..."]
    assert lines[-1] == "... and 3 more"


def test_the_live_display_before_and_after():
    console = terminal()
    with Bar("compiling", 10, show=True, delay=0.0, console=console) as bar:
        bar.row(0, {"chain": "0", "phase": "waiting"})
        time.sleep(0.6)
        bar.row(0, {"chain": "0", "phase": "done"})
        bar.advance(10, "a note")
    text = console.file.getvalue()
    assert text.index("waiting") < text.index("100%") < text.index("a note") < text.index("done")


def test_the_live_display_of_a_run(monkeypatch):
    console = terminal()
    monkeypatch.setattr(progress, "_standard_error", lambda: console)
    draw(chains=2, metrics=[tb.MeanSquaredError()], validation=(XV, YV), progress=True)
    text = console.file.getvalue()
    for word in ("compiling", "sampling", "gradients/s a core", "in all"):
        assert word in text
    last = text[text.rindex("chain ") :]
    assert "mean squared error (validation)" in last
    assert len(re.findall(r"done +32 ", last)) == 2
    assert "100%" in text


def test_nothing_is_shown_before_the_delay_or_unasked():
    for console in (terminal(), Console(file=StringIO())):
        with Bar("working", 3, show=True, console=console) as bar:
            bar.advance(3)
        with Bar("working", 3, show=False, delay=0.0, console=console) as bar:
            bar.row(0, {"chain": "0"})
            bar.advance(3)
        assert console.file.getvalue() == ""


def test_an_environment_variable_switches_all_bars_off(monkeypatch):
    for value, is_shown in (("0", False), ("1", True)):
        monkeypatch.setenv("TENSORBNN_PROGRESS", value)
        console = Console(file=StringIO(), width=40)
        with Bar("sampling", 3, show=True, delay=0.0, console=console) as bar:
            bar.advance(3)
        assert ("sampling" in console.file.getvalue()) == is_shown


def test_a_log_gets_one_line_at_the_end():
    console = Console(file=StringIO(), width=20)
    with Bar("compiling", 4000, show=True, delay=0.0, console=console) as bar:
        bar.describe("[sampling]")
        bar.row(0, {"chain": "0"})
        bar.advance(1000, "acceptance 0.90")
        bar.advance(3000, "acceptance 0.91")
    line = "[sampling] 100 %, 4,000 of 4,000, acceptance 0.91, 0:00:00 in all\n"
    assert console.file.getvalue() == line


def test_a_log_gets_a_line_every_thirty_seconds(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    console = Console(file=StringIO(), get_time=lambda: now[0])
    with Bar("sampling", 10, show=True, delay=0.0, console=console) as bar:
        for _ in range(5):
            now[0] += 14.0
            bar.advance(1)
    assert console.file.getvalue().splitlines() == [
        "sampling 30 %, 3 of 10, 0:01:38 left",
        "sampling 50 %, 5 of 10, 0:01:10 left",
    ]


def test_the_time_left_is_that_of_steps_as_they_are_now(monkeypatch):
    """Ten seconds of short steps, then steps ten times as long: speed of work stays the same."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "LATELY_SECONDS", 5.0)
    console = Console(file=StringIO(), get_time=lambda: now[0])
    lines = []
    with Bar("sampling", 1000, show=True, delay=0.0, console=console) as bar:
        for second in range(20):
            short = second < 10
            now[0] += 1.0
            bar.advance(10 if short else 1, work=100, growing=short)
            lines.append(log_line(bar._display.tasks[0]))
        bar.set_total(200, "R-hat 1.02")
        lines.append(log_line(bar._display.tasks[0]))
    # After ten seconds, 900 steps of 0.1 seconds seem to be left; after twenty, 890 of a second.
    assert lines[9] == "sampling 10 %, 100 of 1,000, at least 0:01:30 left"
    assert lines[19] == "sampling 11 %, 110 of 1,000, 0:14:50 left"
    assert lines[20] == "sampling 55 %, 110 of 200, R-hat 1.02, 0:01:30 left"


def test_a_limit_that_comes_first_is_shown(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    console = Console(file=StringIO(), get_time=lambda: now[0])
    options = {"show": False, "delay": 0.0, "console": console, "deadline": 1100.0}
    with Bar("sampling", 100, **options) as bar:
        for left in ("0:01:40 to the limit", "0:01:30 to the limit", "0:00:00 left"):
            assert log_line(bar._display.tasks[0]).endswith(left)
            now[0] += 10.0
            bar.advance(1 if left.startswith("0:01:40") else 98)


def test_a_run_in_a_log_or_unasked(capfd):
    draw(progress=True)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("sampling 100 %, 64 of 64, acceptance ")
    draw(progress=False)
    assert capfd.readouterr() == ("", "")


class Gone(StringIO):
    """A terminal that was closed, or a log on a disk that is full."""

    def __init__(self, *, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal

    def write(self, text):
        raise OSError(5, "Input/output error")

    def flush(self):
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_broken_display_does_not_stop_the_run(monkeypatch, terminal):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", Gone(terminal=terminal))
    assert draw(progress=True).num_draws == 12
    progress.say("stopped")


def test_a_time_beyond_all_calendars_is_shown(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    console = Console(file=StringIO(), get_time=lambda: now[0])
    with Bar("sampling", 10**20, show=True, delay=0.0, console=console) as bar:
        for _ in range(2):
            now[0] += 100.0
            bar.advance(1)
    assert console.file.getvalue().endswith("115740740 days, 17:46:40 left\n")
