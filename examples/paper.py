"""The paper's figures, a table of their numbers, and a check of the paper's claims about them.

    python examples/paper.py            # about a quarter of an hour on two cores
    python examples/paper.py --quick    # a minute: every step, nothing converged

Two data sets, sparse and variable; for each, networks sampled from the posterior, and draws from
the mean-field Gaussian of `tb.fit_variational`. Writes three figures and ``results.json`` to a
folder, and the table to the page that shows them. Exits with an error if a claim of the paper does
not hold for these numbers.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from paper_cases import inputs, make_posterior, paper_sampler, pretrain, truth

import tensorbnn as tb
from tensorbnn import plots

CASES = ("sparse", "variable")
GRID = np.linspace(-3, 3, 301)
POINTS = GRID[::5]
# Markers around the tables of the page.
BEGIN, END = "<!-- results of make paper -->\n", "<!-- end of results -->\n"


class Length(NamedTuple):
    """How long a case is sampled."""

    chains: int
    burn_in: int
    draws: int
    thin: int


class Band(NamedTuple):
    """Mean and sd over networks at some inputs."""

    x: np.ndarray
    mean: np.ndarray
    sd: np.ndarray


class Statement(NamedTuple):
    """A claim of the paper, whether it holds here, and the numbers behind it."""

    text: str
    holds: bool
    numbers: str


# Fits


def sample_case(
    case: str, sampler: Any, length: Length, options: argparse.Namespace
) -> tb.Ensemble:
    posterior = make_posterior(case, hidden_layers(options))
    epochs = 10 if options.quick else 100
    start = pretrain(posterior, length.chains, options.seed, epochs)
    aim = {"until": tb.Converged(x=POINTS), "max_minutes": options.minutes}
    return tb.sample(
        posterior,
        sampler,
        start=start,
        **length._asdict(),
        **({} if options.quick else aim),
        seed=options.seed,
        path=options.runs / f"{case}-sampled",
        overwrite=True,
    )


def fit_case(case: str, options: argparse.Namespace) -> tb.Ensemble:
    """As in the paper: 1000 epochs at most, a patience of 100, rates of 0.01, 0.001 and 0.0001."""
    return tb.fit_variational(
        make_posterior(case, hidden_layers(options)),
        draws=100 if options.quick else 2000,
        epochs=25 if options.quick else 1000,
        patience=100,
        seed=options.seed,
        path=options.runs / f"{case}-variational",
        overwrite=True,
    )


def hidden_layers(options: argparse.Namespace) -> int:
    """The paper's three, or one, which compiles faster."""
    return 1 if options.quick else 3


def make_sampler(name: str, *, quick: bool) -> Any:
    """``paper``, ``default``, or the name of a sampler of the library."""
    if name == "paper":
        return paper_sampler(20 if quick else 10_000)
    if name == "default":
        return tb.HMC(max_steps=20) if quick else None
    if not hasattr(getattr(tb, name, None), "init"):
        raise SystemExit(
            f"there is no sampler {name}: use paper, default, or a sampler's name, such as HMC"
        )
    return getattr(tb, name)()


# Numbers


def regions(case: str) -> dict[str, np.ndarray]:
    """Inputs at the data, midway between neighbors that are far apart, and outside."""
    x = inputs(case)
    thin = x if case == "sparse" else np.linspace(-1, 1, 7)
    at_data = x if case == "sparse" else np.concatenate([thin, x[:2048:32]])
    return {
        "at the data": at_data,
        "between them": (thin[1:] + thin[:-1]) / 2,
        "at ±2.5": np.array([-2.5, 2.5]),
        "at ±3": np.array([-3.0, 3.0]),
    }


def band(ensemble: tb.Ensemble, x: np.ndarray) -> Band:
    prediction = ensemble.predict(x, progress=False)
    return Band(x, prediction.mean, prediction.sd)


def spreads(ensemble: tb.Ensemble, case: str) -> dict[str, float]:
    return {name: float(band(ensemble, x).sd.mean()) for name, x in regions(case).items()}


def numbers_of(ensemble: tb.Ensemble, case: str, seconds: float) -> dict[str, Any]:
    """The numbers of one fit; R-hat and ESS over 61 points of [-3, 3]."""
    diagnosis = ensemble.diagnose(POINTS, progress=False)
    within = np.abs(POINTS) <= 2
    curve = band(ensemble, GRID)
    near = np.abs(GRID) <= 2
    error = truth(GRID) - curve.mean
    numbers: dict[str, Any] = {
        "networks": len(ensemble),
        "seconds": seconds,
        "verdict": str(diagnosis.verdict),
        "spread": spreads(ensemble, case),
        "rmse": float(np.sqrt(np.mean(error[near] ** 2))),
        "covered": float(np.mean(np.abs(error[near]) < 2 * curve.sd[near])),
    }
    fitted = ensemble.approximation
    if fitted is not None:
        return numbers | {
            "elbo": fitted.elbo,
            "elbo_error": fitted.elbo_error,
            "pareto_k": f"{fitted.pareto_k:.0f}",  # may be infinite, which JSON does not know
        }
    return numbers | {
        "gradients": int(ensemble.sample_stats["num_gradients"].sum()),
        "acceptance": float(diagnosis.acceptance_rate.mean()),
        "rhat": float(np.nanmax(diagnosis.rhat)),
        "rhat_within": float(np.nanmax(diagnosis.rhat[within])),
        "ess": float(np.nanmin(diagnosis.ess)),
        "ess_within": float(np.nanmin(diagnosis.ess[within])),
    }


# Claims of the paper


def statements(ensembles: dict[tuple[str, str], tb.Ensemble]) -> list[Statement]:
    found = []
    for case in CASES:
        found += on_spread(case, spreads(ensembles[case, "sampled"], case))
    sparse = ensembles["sparse", "sampled"]
    for name, gap in {"first two": (-2.0, -1.6), "last two": (1.6, 2.0)}.items():
        found += on_gap(name, gap, sparse)
    for case in CASES:
        both = [spreads(ensembles[case, kind], case) for kind in ("sampled", "variational")]
        found.append(on_difference(case, *both))
    return found


def on_spread(case: str, spread: dict[str, float]) -> list[Statement]:
    values = list(spread.values())
    shown = ", ".join(f"{value:.3f} {name}" for name, value in spread.items())
    return [
        Statement(
            f"{case}: the sd at the training points is at most half of that elsewhere",
            values[0] <= 0.5 * min(values[1:]),
            f"mean sd {values[0]:.3f} there, at least {min(values[1:]):.3f} elsewhere",
        ),
        Statement(
            f"{case}: the sd grows with the distance from them",
            bool(np.all(np.diff(values) > 0)),
            f"mean sd {shown}",
        ),
    ]


def on_gap(name: str, gap: tuple[float, float], ensemble: tb.Ensemble) -> list[Statement]:
    """Between two neighboring points, where the curve dips far below both."""
    inside = band(ensemble, np.linspace(*gap, 41)[1:-1])
    ends = band(ensemble, np.array(gap))
    curve = truth(inside.x)
    chord = np.interp(inside.x, gap, truth(np.array(gap)))
    missed = np.abs(curve - inside.mean) / inside.sd
    dip, bend = np.abs(curve - chord).max(), np.abs(inside.mean - chord).max()
    return [
        Statement(
            f"sparse: between the {name} points the two-sd band misses the true curve",
            bool(missed.max() > 2),
            f"up to {missed.max():.1f} sd away, and outside the band on {np.mean(missed > 2):.0%} "
            "of the way",
        ),
        Statement(
            f"sparse: between the {name} points the mean is nearly a straight line",
            bool(bend < 0.5 * dip),
            f"the mean departs from it by at most {bend:.2f}, the true curve by {dip:.2f}",
        ),
        Statement(
            f"sparse: between the {name} points the sd is larger than at them",
            bool(inside.sd.max() > ends.sd.max()),
            f"sd up to {inside.sd.max():.3f}, at the points {ends.sd.max():.3f}",
        ),
    ]


def on_difference(case: str, sampled: dict[str, float], fitted: dict[str, float]) -> Statement:
    ratios = {name: fitted[name] / sampled[name] for name in sampled}
    most = max(ratios.values(), key=lambda ratio: abs(np.log(ratio)))
    shown = ", ".join(f"{ratio:.2f} {name}" for name, ratio in ratios.items())
    return Statement(
        f"{case}: the variational sd differs somewhere by more than a factor of two",
        bool(abs(np.log(most)) > np.log(2)),
        f"ratio to the sampled sd: {shown}",
    )


# Figures and the table


def draw_figures(ensembles: dict[tuple[str, str], tb.Ensemble], out: Path) -> None:
    import matplotlib.pyplot as plt

    for name in ("data", "sampled", "variational"):
        figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
        for case, ax in zip(CASES, axes, strict=True):
            if name != "data":
                prediction = ensembles[case, name].predict(GRID, progress=False)
                plots.bands(prediction, ax=ax)
            draw_data(case, ax)
            ax.set(title=case, ylim=(-5, 5) if name != "data" else None)
            ax.legend(frameon=False, loc="lower center", ncols=3, fontsize="small")
        figure.savefig(out / f"{name}.png", dpi=100)
        plt.close(figure)


def draw_data(case: str, ax: Any) -> None:
    """The true curve in red and the data as blue dots, as in the paper."""
    ax.plot(GRID, truth(GRID), color="tab:red", lw=1.2, label="truth")
    x = inputs(case)
    thin, dense = (x, x[:0]) if case == "sparse" else (x[-7:], x[:-7])
    ax.plot(thin, truth(thin), "o", color="tab:blue", ms=4.5, label="data", zorder=3)
    ax.plot(dense, truth(dense), "o", color="tab:blue", ms=1.2, zorder=3)
    ax.set(xlabel="x", ylabel="y", xlim=(-3, 3))


ROWS = {
    "sampler": lambda n: n["sampler"],
    "networks": lambda n: f"{n['networks']:,}",
    "time": lambda n: f"{n['seconds'] / 60:.1f} min",
    "gradients after burn-in": lambda n: f"{n['gradients']:,}",
    "acceptance": lambda n: f"{n['acceptance']:.2f}",
    "largest R-hat": lambda n: f"{n['rhat']:.3f} ({n['rhat_within']:.3f} within the data)",
    "smallest ESS": lambda n: f"{n['ess']:.0f} ({n['ess_within']:.0f} within the data)",
    "ELBO": lambda n: f"{n['elbo']:.0f} ± {n['elbo_error']:.0f}",
    "k-hat": lambda n: n["pareto_k"],
    "sd at the data": lambda n: f"{n['spread']['at the data']:.3f}",
    "sd between them": lambda n: f"{n['spread']['between them']:.3f}",
    "sd at ±2.5": lambda n: f"{n['spread']['at ±2.5']:.2f}",
    "sd at ±3": lambda n: f"{n['spread']['at ±3']:.2f}",
    "error of the mean within the data": lambda n: f"{n['rmse']:.2f}",
    "truth within two sd there": lambda n: f"{n['covered']:.0%}",
}


def render(results: dict[str, Any]) -> str:
    """The table and the statements, as Markdown."""
    fits = results["fits"]
    lines = [f"| | {' | '.join(fits)} |", f"|---|{'---|' * len(fits)}"]
    for name, show in ROWS.items():
        cells = []
        for numbers in fits.values():
            try:
                cells.append(show(numbers))
            except KeyError:  # a sample has no ELBO, and so on
                cells.append("")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| claim of the paper | holds | numbers |", "|---|---|---|"]
    for each in results["statements"]:
        lines.append(f"| {each['text']} | {'yes' if each['holds'] else 'NO'} | {each['numbers']} |")
    return "\n".join(lines) + "\n"


def update_page(page: Path, text: str) -> None:
    """Replace the tables of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    if not after:
        raise SystemExit(f"{page} has no place for the results")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    mpl.use("Agg")
    options.out.mkdir(parents=True, exist_ok=True)
    lengths = {
        "sparse": Length(options.chains, options.sparse_burn_in, options.sparse_draws, 10),
        "variable": Length(options.chains, options.variable_burn_in, options.variable_draws, 1),
    }
    ensembles, fits = {}, {}
    for case in CASES:
        name = getattr(options, case)
        length = Length(2, 20, 20, 1) if options.quick else lengths[case]
        began = time.monotonic()
        sampled = sample_case(case, make_sampler(name, quick=options.quick), length, options)
        middle = time.monotonic()
        fitted = fit_case(case, options)
        end = time.monotonic()
        ensembles |= {(case, "sampled"): sampled, (case, "variational"): fitted}
        for kind, seconds in (("sampled", middle - began), ("variational", end - middle)):
            found = numbers_of(ensembles[case, kind], case, seconds)
            fits[f"{case}, {kind}"] = {"sampler": name if kind == "sampled" else "Flipout"} | found
    checked = [each._asdict() for each in statements(ensembles)]
    results = {"seed": options.seed, "fits": fits, "statements": checked}
    draw_figures(ensembles, options.out)
    (options.out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    text = render(results)
    if options.page is not None:
        update_page(options.page, text)
    print(text)
    for name, numbers in fits.items():
        print(f"{name}: {numbers['verdict']}")
    wrong = [each["text"] for each in checked if not each["holds"]]
    for each in wrong:
        print(f"does not hold: {each}", file=sys.stderr)
    if options.quick:
        print("quick: nothing has converged, so these numbers are not checked")
        return 0
    return 1 if wrong else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    samplers = "paper, default, or the name of a sampler of the library, such as HMC"
    parser.add_argument("--sparse", default="paper", metavar="SAMPLER", help=samplers)
    parser.add_argument("--variable", default="default", metavar="SAMPLER", help=samplers)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--sparse-burn-in", type=int, default=1000, help="transitions")
    parser.add_argument("--sparse-draws", type=int, default=500, help="every tenth, at least")
    parser.add_argument("--variable-burn-in", type=int, default=500, help="transitions")
    parser.add_argument("--variable-draws", type=int, default=1000, help="at least")
    parser.add_argument("--minutes", type=float, default=20, help="time limit of each case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="every step, as short as possible")
    parser.add_argument(
        "--out", type=Path, default=Path("docs/paper"), help="folder of the figures"
    )
    parser.add_argument("--page", type=Path, help="the page whose tables to replace")
    parser.add_argument("--runs", type=Path, default=Path("runs/paper"), help="folder of the runs")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
