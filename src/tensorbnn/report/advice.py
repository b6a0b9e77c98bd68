"""What the library says of its arguments in Python, said of the options of the commands."""

import re
import shlex

# Arguments in Python, and the options that stand for them.
_OPTIONS = {
    "max_minutes": "--minutes",
    "max_gradients": "--max-gradients",
    "burn_in": "--burn-in",
    "draws": "--draws",
    "target_acceptance": "--target-acceptance",
    "chains": "--chains",
    "every": "--every",
    "rhat": "--rhat",
    "ess": "--ess",
    "until": "--ess (or --rhat)",
}
# What the library advises in Python, and what a user of the commands can do.
_ADVICE = {
    "sample it, starting from here, by tb.sample(posterior, start=ensemble) with a posterior of "
    "the other model": "fit it anew, by `tensorbnn fit`",
    "sample the other model, by tb.sample(posterior, start=ensemble)": "fit the other model anew",
    "sample the other model, tb.sample(posterior, start=ensemble)": "fit the other model anew",
    "reading with tb.load is possible at any time": "tensorbnn info, diagnose, predict and report "
    "can read it at any time",
    "run longer, with a longer burn-in;": "run longer (tensorbnn resume), or fit again with a "
    "longer --burn-in;",
    "start them from `pretrain`, use longer trajectories, or a smaller network": "fit a smaller "
    "network (--hidden), or with another --seed",
    "sample again with a longer one": "fit again with a longer --burn-in",
    "sample again with a longer burn-in or another seed": "fit again with a longer --burn-in or "
    "another --seed",
    "has converged: run at least two": "has converged: fit again with --chains 2 or more",
    "use smaller steps, or a longer burn-in in which to find them": "fit again with a longer "
    "--burn-in, or with smaller steps (a higher --target-acceptance)",
    "use smaller steps (a higher `target_acceptance`, or lower bounds)": "fit again with smaller "
    "steps (a higher --target-acceptance)",
    "or less: use smaller steps": "or less: fit again with smaller steps (a higher "
    "--target-acceptance)",
}
# As the library writes it: with the path alone, or with one number more.
_RESUME = re.compile(
    r"tb\.resume\('(?P<path>[^']+)'(, (?P<name>\w+)=(?P<value>[\w.+-]+))?\)"
    r"( or: tensorbnn resume '?(?P=path)'?)?"
)


def as_options(message: str) -> str:
    """What the library says of its arguments, said of the options that stand for them.

    Examples
    --------
    >>> as_options("`burn_in` must be ..., got -1")
    '--burn-in must be ..., got -1'
    >>> as_options("go on with tb.resume('my run', max_minutes=10)")
    "go on with tensorbnn resume 'my run' --minutes 10"
    """
    message = _RESUME.sub(_resume, message)
    for python, advice in _ADVICE.items():
        message = message.replace(python, advice)
    for name, option in _OPTIONS.items():
        message = message.replace(f"`{name}`", option)
    return message


def _resume(found: re.Match[str]) -> str:
    path, name, value = found["path"], found["name"], found["value"]
    aim = f" {_OPTIONS.get(name, name)} {value}" if name else ""
    return f"tensorbnn resume {shlex.quote(path)}{aim}"
