"""The bias of MCLMC on every posterior with a known exact answer, as a Markdown table.

    python -m benchmarks.mclmc_bias [--draws 20000] [--target-energy-error 0.01]

For every statistic of a case (means, squares, probabilities, of weights, hyper-parameters and
outputs) the bias is the sample's mean minus the exact one, in standard deviations of what is
averaged; its standard error is one over the root of the effective sample size. The table shows the
largest bias in units of its error (|z|), and that statistic's bias. Of ten unbiased statistics, the
largest |z| is below 3 in 97 % of all cases.
"""

import argparse

import numpy as np

import tensorbnn as tb
from tests import oracle_cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--target-energy-error", type=float, default=tb.MCLMC().target_energy_error)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sampler = tb.MCLMC(target_energy_error=options.target_energy_error)
    print("| case | step size | energy error, 95 % | ESS | largest z | its bias (sds) |")
    print("|---|---|---|---|---|---|")
    for name, make in oracle_cases.CASES.items():
        case = make()
        run = tb.sample(
            case.posterior,
            sampler,
            burn_in=1000,
            draws=options.draws,
            seed=options.seed,
            progress=False,
        )
        statistics = case.statistics(run)
        worst = max(statistics, key=lambda each: abs(each.z))
        error = np.quantile(run.sample_stats["energy_error_rms"], 0.95)
        print(
            f"| {name} | {run.sample_stats['step_size'].mean():.3f} | {error:.3f} "
            f"| {min(each.ess for each in statistics):,.0f} | {abs(worst.z):.1f} "
            f"| {worst.z / np.sqrt(worst.ess):+.3f} ± {1 / np.sqrt(worst.ess):.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
