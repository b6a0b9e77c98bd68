"""Exceptions with fields, from which ``str()`` is made; they survive pickling.

An option that can't be is an `OptionError`, what goes wrong with a run a `RunError`. Warnings are
in `warning.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tensorbnn.messages import Limited, Option, Raised, Remedy, Resume


class _Named(Raised):
    """Something about the option `name`."""

    name: str

    @property
    def option(self) -> Option:
        return Option(self.name)


class _AtPath(Raised):
    """Something about the run at `path`."""

    path: Path

    @property
    def quoted(self) -> str:
        return repr(str(self.path))

    @property
    def resume(self) -> Resume:
        return Resume(self.path)


@dataclass(eq=False)
class OptionError(_Named, ValueError):
    """An option that is not what is `wanted`, which names other options as ``{words[name]}``."""

    name: str
    wanted: str
    got: Any
    verb: str = "be"

    @property
    def text(self) -> str:
        wanted = self.wanted if "{words[" in self.wanted else "{wanted}"
        return f"{{option}} must {{verb}} {wanted}, got {{got!r}}"


class OptionTypeError(OptionError, TypeError):
    """An option of another type than is `wanted`."""


@dataclass(eq=False)
class RunMismatchError(_Named, ValueError):
    """An option that is not what the run at `path` was begun with."""

    text = (
        "the run {path} has another {option}: {then} there, {now} here. A run goes on as it was "
        "begun; for another chain start a new run with tb.sample"
    )
    path: Path
    name: str
    there: Any
    here: Any

    @property
    def then(self) -> str:
        return _short(self.there)

    @property
    def now(self) -> str:
        return _short(self.here)


@dataclass(eq=False)
class PathTakenError(_AtPath, FileExistsError):
    """A path that is not free for a new run."""

    path: Path
    holds: Literal["run", "current directory", "something else"]

    @property
    def text(self) -> str:
        return _TAKEN[self.holds]


_TAKEN = {
    "run": "{path} already holds a run: read it with tb.load({quoted}), go on with it with "
    "{resume}, choose another {words[path]}, or replace it with `overwrite=True`",
    "current directory": "{path} is the current directory, or around it, and can't be replaced "
    "from inside: go to another one first",
    "something else": "{path} exists and is not a run of this library: choose another "
    "{words[path]}",
}


@dataclass(eq=False)
class NotARunError(Raised, FileNotFoundError):
    """A path at which there is no run."""

    text = "{path} is not a run: it has no run.json"
    path: Path


@dataclass(eq=False)
class OtherModelError(Raised, ValueError):
    """A model that the networks of a run can't be re-weighted to."""

    text = "{reason}, or {remedy}"
    reason: str
    remedy = Remedy.SAMPLE_OTHER


@dataclass(eq=False)
class FewerDrawsError(Raised, ValueError):
    """A run has more draws of a chain than it is to have."""

    text = (
        "{words[draws]} is {draws}, but {path} has {drawn} draws of a chain already: "
        "{words[draws]} counts all of them, give at least {drawn}"
    )
    draws: int
    drawn: int
    path: Path


class DataNotKeptError(Raised, ValueError):
    """The run did not keep its training data, which are needed."""

    text = (
        "the run did not keep its training data (`store_data=False`): give them as "
        "{words[data=(x, y)]}"
    )


class RunError(Raised, RuntimeError):
    """A run that can't be read, written or continued."""


class SamplingError(RunError):
    """A run that has nothing to predict with, though nothing is wrong with its files."""


@dataclass(eq=False)
class LimitBeforeDrawsError(Limited, SamplingError):
    """A limit that came before the first draw of some chain."""

    text = (
        "{option} ({value:,g}) came before the first draw (after {burn_in:,} transitions of "
        "burn-in) of some chain: there is nothing to predict with yet; {then}"
    )
    limit: str
    value: float
    burn_in: int
    resume: Resume | None


@dataclass(eq=False)
class NoDrawsError(RunError):
    """A run without draws that can be read."""

    damaged: bool
    """Whether there are some, but in no file that all chains have."""

    @property
    def text(self) -> str:
        if self.damaged:
            return "no draws can be read: every file is damaged in some chain"
        return (
            "the run holds no draws yet: its chains are still burning in, or were stopped before "
            "the first draws were saved"
        )


@dataclass(eq=False)
class DamagedFileError(RunError):
    """A file that is not what was written, or not there."""

    text = "{file} {reason}"
    file: Path
    reason: str


@dataclass(eq=False)
class DamagedDrawsError(_AtPath, RunError):
    """Draws of the run at `path` that can't be read, and which can."""

    text = (
        "{error}; still readable are {readable}: tb.load({quoted}, skip_damaged=True) takes the "
        "draws that all chains have"
    )
    error: DamagedFileError
    path: Path
    whole: Mapping[int, Mapping[int, int]]
    """The sizes of the files that can be read, by number, of each chain with some that can't."""
    size: int
    """Draws in a full file."""
    others: int
    """Number of chains without damage."""

    @property
    def readable(self) -> str:
        """The draws that can be read, in words."""
        parts = []
        for chain, sizes in sorted(self.whole.items()):
            spans: list[tuple[int, int]] = []
            for index, count in sizes.items():
                first = index * self.size
                begin = spans.pop()[0] if spans and spans[-1][1] == first else first
                spans.append((begin, first + count))
            draws = ", ".join(f"{first} to {end - 1}" for first, end in spans)
            parts.append(f"draws {draws} of chain {chain}" if draws else f"none of chain {chain}")
        plural = "" if self.others == 1 else "s"
        rest = [f"all draws of {self.others} other chain{plural}"] if self.others else []
        return " and ".join([*parts, *rest])


@dataclass(eq=False)
class DamagedStateError(_AtPath, RunError):
    """A chain of the run at `path` that can't go on, since its state can't be read."""

    text = (
        "{error}; without it chain {chain} can't go on, but draws stay readable by "
        "tb.load({quoted})"
    )
    error: DamagedFileError
    chain: int
    path: Path


@dataclass(eq=False)
class StateError(RunError):
    """A state that another version of the sampler has saved."""

    text = (
        "the state of chain {chain} was saved by another version of the sampler ({difference}), "
        "so that the run can't go on from it; its draws stay readable by tb.load, and "
        "tb.sample(posterior, start=tb.load(path)) samples anew from where they end"
    )
    chain: int
    difference: str


@dataclass(eq=False)
class WriteError(_AtPath, RunError):
    """A file that can't be written, such as on a full disk."""

    text = (
        "{file} can't be written: {reason}; files written before it are whole. When that is "
        "repaired, go on from there with {resume}"
    )
    file: Path
    reason: str
    path: Path


@dataclass(eq=False)
class LockedError(RunError):
    """Somebody else is writing: the `holder` of the lock, as far as its file says."""

    text = "{what} is being written by {who}: wait for it or stop it; {remedy}"
    what: str
    holder: Mapping[str, Any] | None
    remedy = Remedy.READ

    @property
    def who(self) -> str:
        if self.holder is None:
            return "another process"
        return "process {pid} on {host}, since {since}".format_map(self.holder)


@dataclass(eq=False)
class MetricError(Raised, RuntimeError):
    """A metric that failed."""

    text = (
        "the metric `{metric}` failed on the {rows} data at epoch {epoch} of chain {chain}: "
        "{reason}"
    )
    metric: str
    rows: str
    epoch: int
    chain: int
    reason: str


@dataclass(eq=False)
class ExecutorError(_AtPath, RunError):
    """An executor that takes no chains (`refused`), or whose workers are lost."""

    path: Path
    what: str
    reason: str
    refused: bool = False

    @property
    def text(self) -> str:
        whole = "All that was saved is whole; go on with {resume}"
        if self.refused:
            return "{words[executor]} takes no chain ({reason}). " + whole
        return (
            "{what} ({reason}); what workers print says why. A script that starts processes needs "
            '`if __name__ == "__main__":`, and workers must be able to import its classes and '
            "functions. " + whole
        )


@dataclass(eq=False)
class NotSharedError(RunError):
    """A path at which a worker does not see the run."""

    path: Path
    host: str
    is_run: bool = False
    """Whether there is a run, which may be the one whose coordinator is gone."""

    @property
    def text(self) -> str:
        gone = "; or whoever started the chain is gone, then go on with tb.resume"
        return (
            "{path}, as the worker on {host} sees it, is not the run that was started: "
            "{words[path]} must be a directory that all workers share"
        ) + gone * self.is_run


@dataclass(eq=False)
class OtherVersionsError(RunError):
    """A worker that has other versions of the libraries than the run was started with."""

    text = (
        "the worker on {host} has {here}, but the run was started with {there}: install the same "
        "versions, or the chains would not be the same"
    )
    host: str
    here: Mapping[str, str]
    there: Mapping[str, str]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."
