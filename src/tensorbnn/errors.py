"""Exceptions with fields, from which ``str()`` is made; they survive pickling.

An option that can't be is an `OptionError`, what goes wrong with a run a `RunError`. Warnings are
in `warning.py`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tensorbnn.messages import PYTHON, Message, Raised, Remedy, Resume, Words


class OptionError(Raised, ValueError):
    """An option that is not what is `wanted`, which names other options as ``{words[name]}``."""

    name: str
    wanted: str
    got: Any
    verb: str = "be"

    def message(self, words: Words = PYTHON) -> str:
        wanted = self.wanted.format(words=words) if "{words[" in self.wanted else self.wanted
        return f"{words.option(self.name)} must {self.verb} {wanted}, got {self.got!r}"


class OptionTypeError(OptionError, TypeError):
    """An option of another type than is `wanted`."""


class RunMismatchError(Raised, ValueError):
    """An option that differs from that of the run at `path`."""

    path: Path
    name: str
    there: Any
    here: Any

    def message(self, words: Words = PYTHON) -> str:
        return (
            f"{words.option(self.name)} is {_short(self.there)} in the run {self.path}, but you "
            f"gave {_short(self.here)}: a run can't change it; start a new one with tb.sample"
        )


class PathTakenError(Raised, FileExistsError):
    """A path that is not free for a new run."""

    path: Path
    holds: Literal["run", "current directory", "other files", "something else"]
    names: tuple[str, ...] = ()
    """The other files in the run at `path`."""

    def message(self, words: Words = PYTHON) -> str:
        if self.holds == "current directory":
            return (
                f"{self.path} is the current directory, or around it, and can't be replaced from "
                "inside: go to another one first"
            )
        if self.holds == "other files":
            named = ", ".join(self.names[:5]) + ", ..." * (len(self.names) > 5)
            return (
                f"the run {self.path} holds files that the library did not write ({named}), and is "
                f"not replaced: move them away, or choose another {words['path']}"
            )
        if self.holds == "something else":
            return (
                f"{self.path} exists and is not a run of this library: choose another "
                f"{words['path']}"
            )
        return (
            f"{self.path} already holds a run: read it with tb.load({str(self.path)!r}), continue "
            f"it with {words.remedy(Resume(self.path))}, choose another {words['path']}, or "
            "replace it with `overwrite=True`"
        )


class NotARunError(Raised, FileNotFoundError):
    """A path at which there is no run."""

    text = "{path} is not a run: it has no run.json"
    path: Path


class OtherModelError(Raised, ValueError):
    """A model that the networks of a run can't be re-weighted to."""

    text = "{reason}, or {remedy}"
    remedy = Remedy.SAMPLE_OTHER
    reason: str


class FewerDrawsError(Raised, ValueError):
    """A run already has more draws of a chain than you want it to have."""

    text = (
        "{words[draws]} is {draws}, but {run} already has {drawn} draws of a chain: "
        "{words[draws]} counts all of them, so give at least {drawn}"
    )
    draws: int
    drawn: int
    path: Path | None
    """``None`` for a run in memory."""

    @property
    def run(self) -> str:
        return "the ensemble" if self.path is None else str(self.path)


class DataNotKeptError(Raised, ValueError):
    """The run did not keep its training data, which are needed."""

    text = (
        "the run did not keep its training data (`store_data=False`): give them as "
        "{words[tb.load(path, data=(x, y))]}"
    )


class RunError(Message, RuntimeError):
    """A run that can't be read, written or continued."""


class SamplingError(RunError):
    """A run that has nothing to predict with, though nothing is wrong with its files."""


class NoDrawsError(Raised, SamplingError):
    """A run without draws that can be read."""

    damaged: bool
    """Whether there are some, but in no file that all chains have."""

    @property
    def text(self) -> str:
        if self.damaged:
            return "no draws can be read: every file is damaged in some chain"
        why = "its chains are still burning in, or were stopped before the first draws were saved"
        return f"the run holds no draws yet: {why}"


class DamagedFileError(Raised, RunError):
    """A file that is not what was written, or not there."""

    text = "{file} {reason}"
    file: Path
    reason: str


class DescriptionError(Raised, RunError, ValueError):
    """A description of a model, sampler or rule from which no object can be made."""

    text = "{reason}"
    reason: str


class DamagedDrawsError(Raised, RunError):
    """Draws of the run at `path` that can't be read, and which can."""

    error: DamagedFileError
    path: Path
    whole: Mapping[int, Mapping[int, int]]
    """The sizes of the files that can be read, by number, of each chain with some that can't."""
    size: int
    """Draws in a full file."""
    others: int
    """Number of chains without damage."""

    def message(self, words: Words = PYTHON) -> str:
        parts = []
        for chain, sizes in sorted(self.whole.items()):
            spans: list[tuple[int, int]] = []
            for index, count in sizes.items():
                first = index * self.size
                begin = spans.pop()[0] if spans and spans[-1][1] == first else first
                spans.append((begin, first + count))
            draws = ", ".join(f"{first} to {end - 1}" for first, end in spans)
            parts.append(f"draws {draws} of chain {chain}" if draws else f"none of chain {chain}")
        if self.others:
            parts.append(f"all draws of {self.others} other chain{'s' * (self.others > 1)}")
        return (
            f"{self.error.message(words)}; still readable are {' and '.join(parts)}: "
            f"tb.load({str(self.path)!r}, skip_damaged=True) takes the draws that all chains have"
        )


class DamagedStateError(Raised, RunError):
    """A chain of the run at `path` that can't continue, because its state can't be read."""

    error: DamagedFileError
    chain: int
    path: Path

    def message(self, words: Words = PYTHON) -> str:
        return (
            f"{self.error.message(words)}; without it chain {self.chain} can't continue, but draws "
            f"stay readable by tb.load({str(self.path)!r})"
        )


class StateError(Raised, RunError):
    """A state that another version of the sampler has saved."""

    text = (
        "the state of chain {chain} was saved by another version of the sampler ({difference}), "
        "so that the run can't continue from it; its draws stay readable by tb.load, and "
        "tb.sample(posterior, start=tb.load(path)) samples anew from where they end"
    )
    chain: int
    difference: str


class WriteError(Raised, RunError):
    """A file that can't be written, such as on a full disk."""

    file: Path
    reason: str
    path: Path

    def message(self, words: Words = PYTHON) -> str:
        return (
            f"{self.file} can't be written: {self.reason}; files written before it are whole. When "
            f"that is repaired, continue from there with {words.remedy(Resume(self.path))}"
        )


class LockedError(Raised, RunError):
    """Somebody else is writing: the `holder` of the lock, as far as its file says."""

    text = "{what} is being written by {who}: wait for it or stop it; {remedy}"
    remedy = Remedy.READ
    what: str
    holder: Mapping[str, Any] | None

    @property
    def who(self) -> str:
        if self.holder is None:
            return "another process"
        return "process {pid} on {host}, since {since}".format_map(self.holder)


class MetricError(Raised, RuntimeError):
    """A metric that failed."""

    text = (
        "the metric `{metric}` failed on the {rows} data at transition {transition} of chain "
        "{chain}: {reason}"
    )
    metric: str
    rows: str
    transition: int
    chain: int
    reason: str


class ExecutorError(Raised, RunError):
    """An executor that takes no chains (`refused`), or whose workers are lost."""

    path: Path
    what: str
    reason: str
    refused: bool = False

    def message(self, words: Words = PYTHON) -> str:
        whole = f"All that was saved is whole; continue with {words.remedy(Resume(self.path))}"
        if self.refused:
            return f"{words['executor']} takes no chain ({self.reason}). {whole}"
        return (
            f"{self.what} ({self.reason}); what workers print says why. A script that starts "
            'processes needs `if __name__ == "__main__":`, and workers must be able to import its '
            f"classes and functions. {whole}"
        )


class NotSharedError(Raised, RunError):
    """A path at which a worker does not see the run."""

    text = (
        "{path}, as the worker on {host} sees it, is not the run that was started: "
        "{words[path]} must be a directory that all workers share{gone}"
    )
    path: Path
    host: str
    is_run: bool = False
    """Whether there is a run, which may be the one whose coordinator is gone."""

    @property
    def gone(self) -> str:
        return "; or whoever started the chain is gone, then continue with tb.resume" * self.is_run


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."
