"""The text of every finding, and of a verdict, which combines findings."""

import inspect
import json
import pickle

import pytest

from tensorbnn import findings
from tensorbnn.findings import (
    Agree,
    Approximate,
    Disagree,
    Divergences,
    EnergyErrors,
    Finding,
    HyperparametersDisagree,
    InBurnIn,
    KineticTemperature,
    LowAcceptance,
    NotMoved,
    OneChain,
    RunLonger,
    SlowEnergies,
    TooFewDraws,
    Verdict,
    VerdictKind,
    WeightsUntrusted,
)

STEPS = "the energy errors of its steps are up to {} per root of the dimension in 95% of the draws "
TEXTS = [
    (
        Agree(1.0042, 812.4),
        "trustworthy: R-hat is at most 1.004 and the ESS at least 812 in bulk and tails",
    ),
    (
        TooFewDraws(3, 4),
        "run longer: a diagnosis needs at least 4 draws of each chain, and there are 3",
    ),
    (
        InBurnIn(120, 1000),
        "these are networks of burn-in, not draws from the posterior: a limit stopped the run at "
        "transition 120 of 1,000: resume the run with more time, or use a smaller network or a "
        "shorter burn-in",
    ),
    (
        RunLonger(2.34, 1.02, 171.0, 1.01, 400.0),
        "run about 2.4 times longer: R-hat is up to 1.020 (aim: below 1.01) and the ESS down to "
        "171 (aim: 400)",
    ),
    (
        Disagree(2, 3, 1.25, ("0.25", "2"), "x ="),
        "chains disagree at 2 of 3 rows (R-hat up to 1.25, worst at x = 0.25, 2): run longer, with "
        "a longer burn-in; if they stay apart they sit in different modes: start them from "
        "`pretrain`, use longer trajectories, or a smaller network",
    ),
    (
        Disagree(5, 9, None, ("7", "6", "5", "4"), "rows", odd_chain=2),
        "chains disagree at 5 of 9 rows (worst at rows 7, 6, 5, 4, ...): chain 2 differs from the "
        "others, which agree: look at its trace; sample again with a longer burn-in or another "
        "seed, and trust none of the chains until all agree",
    ),
    (
        Disagree(1, 3, 1.1, ("July",), "", is_early=True),
        "chains disagree at 1 of 3 rows (R-hat up to 1.10, worst at July): the second halves of "
        "the chains agree, so the burn-in was too short: sample again with a longer one",
    ),
    (
        NotMoved((0, 1), 2),
        "no chain has moved: use smaller steps, or a longer burn-in in which to find them",
    ),
    (
        NotMoved((1,), 2),
        "chain 1 has not moved: use smaller steps, or a longer burn-in in which to find them",
    ),
    (
        NotMoved((1, 2, 3), 4),
        "chains 1, 2 and 3 have not moved: use smaller steps, or a longer burn-in in which to find "
        "them",
    ),
    (OneChain(), "one chain alone can't show that it has converged: run at least two"),
    (
        WeightsUntrusted(0.6, 0.5),
        "but the weights can't be trusted (k-hat 0.60, limit 0.5), so neither can these numbers: "
        "sample the other model, by tb.sample(posterior, start=ensemble)",
    ),
    (
        Divergences(0.1),
        "but 10.0% of the draws had a divergent trajectory, so part of the posterior may be "
        "missed: use smaller steps (a higher `target_acceptance`, or lower bounds)",
    ),
    (
        LowAcceptance((3,), 4, 0.04),
        "chain 3 accepted only 4% of the proposals or less: use smaller steps",
    ),
    (
        SlowEnergies((0, 1), 2, 0.1, 0.3),
        "energies of all chains change too slowly (E-BFMI down to 0.10, 0.3 is the limit), so that "
        "tails may be missed: means are fine, but for extreme quantiles run longer, and look for a "
        "hyper-parameter that comes close to zero",
    ),
    (
        HyperparametersDisagree(1, 2, 1.5, "likelihood.sd"),
        "chains disagree about 1 of 2 hyper-parameters (R-hat up to 1.50, of likelihood.sd): don't "
        "interpret these",
    ),
    (
        EnergyErrors("MCLMC", 0.004, 0.95, 0.1, "GHMC"),
        "MCLMC is not exact: " + STEPS.format("0.004") + "(limit 0.1), so its bias should be small",
    ),
    (
        EnergyErrors("MCLMC", 0.3, 0.95, 0.1, "GHMC"),
        "but MCLMC is not exact: "
        + STEPS.format("0.3")
        + "(limit 0.1), so its bias may be large: use smaller steps, or an exact sampler such as "
        "tb.GHMC()",
    ),
    (
        KineticTemperature("SGHMC", 1.01, 0.05),
        "SGHMC is approximate (kinetic temperature 1.010, 1 where exact), and its bias does not "
        "show: compare with a run with half the step size",
    ),
    (
        KineticTemperature("SGHMC", 1.2, 0.05),
        "but SGHMC is approximate, and a kinetic temperature of 1.200 instead of 1 shows its bias: "
        "use smaller steps, larger batches or more friction",
    ),
    (
        Approximate(-1.0, 0.1, 0.3, 2 / 3),
        "a variational approximation, not a sample of the posterior (ELBO -1.00 ± 0.10): k-hat is "
        "0.30, so the two are close",
    ),
    (
        Approximate(-1.0, 0.1, 0.9, 2 / 3),
        "a variational approximation, not a sample of the posterior (ELBO -1.00 ± 0.10): k-hat is "
        "0.90, above 0.67, so the two differ, and means and sds may be wrong: compare them with "
        "those of tb.sample",
    ),
]


def test_every_type_has_an_example():
    types = {
        each
        for name, each in inspect.getmembers(findings, inspect.isclass)
        if issubclass(each, Finding) and each is not Finding and name[0] != "_"
    }
    assert types == {type(each) for each, _ in TEXTS}


@pytest.mark.parametrize(("finding", "text"), TEXTS, ids=lambda each: type(each).__name__)
def test_the_text(finding, text):
    assert str(finding) == text
    assert pickle.loads(pickle.dumps(finding)) == finding


def test_a_verdict_lists_all_findings():
    verdict = Verdict(VerdictKind.USABLE, (Agree(1.0, 500.0), Divergences(0.1)), {"rhat": 1.0})
    divergences = verdict.findings[1]
    line = f"usable with care: {verdict.findings[0].facts}"
    assert str(verdict) == f"{line}\n- {divergences.advice()}"
    assert not verdict.trustworthy
    assert pickle.loads(pickle.dumps(verdict)) == verdict
    assert json.loads(json.dumps([each.to_dict() for each in verdict.findings])) == [
        {"kind": "Agree", "doubtful": False, "rhat": 1.0, "ess": 500.0, "remedy": None},
        {"kind": "Divergences", "doubtful": True, "share": 0.1, "remedy": "safer_steps"},
    ]
