"""Exceptions with fields, from which ``str()`` builds the message; they can be pickled.

An invalid option raises an `OptionError`, a problem with a run a `RunError`. Warnings are in
`warning.py`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tensorbnn.messages import PYTHON, Message, Raised, Remedy, Resume, Words


class OptionError(Raised, ValueError):
    """An option is not as `wanted`, where ``{words[name]}`` names other options."""

    name: str
    wanted: str
    got: Any
    verb: str = "be"

    def message(self, words: Words = PYTHON) -> str:
        wanted = self.wanted.format(words=words) if "{words[" in self.wanted else self.wanted
        return f"{words.option(self.name)} must {self.verb} {wanted}, got {self.got!r}"


class OptionTypeError(OptionError, TypeError):
    """An option of the wrong type."""


class RunMismatchError(Raised, ValueError):
    """An option that differs from its value in the run at `path`."""

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
    """A path that already exists, so that no new run can be created there."""

    path: Path
    holds: Literal["run", "current directory", "other files", "something else"]
    names: tuple[str, ...] = ()
    """Files in the directory that don't belong to a run."""

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
    """A path that holds no run."""

    text = "{path} is not a run: it has no run.json"
    path: Path


class OtherModelError(Raised, ValueError):
    """A model to which a run can't be reweighted."""

    text = "{reason}, or {remedy}"
    remedy = Remedy.SAMPLE_OTHER
    reason: str


class FewerDrawsError(Raised, ValueError):
    """A run already has more draws per chain than you requested."""

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
    """The run was saved without its training data, which are needed."""

    text = (
        "the run did not keep its training data (`store_data=False`): give them as "
        "{words[tb.load(path, data=(x, y))]}"
    )


class RunError(Message, RuntimeError):
    """A run can't be read, written or continued."""


class SamplingError(RunError):
    """A run that can't predict, although its files are intact."""


class NoDrawsError(Raised, SamplingError):
    """A run without readable draws."""

    damaged: bool
    """Whether there are draws, but every file is damaged in some chain."""

    @property
    def text(self) -> str:
        if self.damaged:
            return "no draws can be read: every file is damaged in some chain"
        why = "its chains are still burning in, or were stopped before the first draws were saved"
        return f"the run holds no draws yet: {why}"


class DamagedFileError(Raised, RunError):
    """A file that is damaged or missing."""

    text = "{file} {reason}"
    file: Path
    reason: str


class DescriptionError(Raised, RunError, ValueError):
    """A description from which a model, sampler or stopping rule can't be restored."""

    text = "{reason}"
    reason: str


class DamagedDrawsError(Raised, RunError):
    """Some draws of the run at `path` are unreadable; the fields say which can be read."""

    error: DamagedFileError
    path: Path
    whole: Mapping[int, Mapping[int, int]]
    """For each damaged chain, the sizes of its readable files by file number."""
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
    """A chain of the run at `path` can't continue, because its state is unreadable."""

    error: DamagedFileError
    chain: int
    path: Path

    def message(self, words: Words = PYTHON) -> str:
        return (
            f"{self.error.message(words)}; without it chain {self.chain} can't continue, but draws "
            f"stay readable by tb.load({str(self.path)!r})"
        )


class StateError(Raised, RunError):
    """A state that was saved by another version of the sampler."""

    text = (
        "the state of chain {chain} was saved by another version of the sampler ({difference}), "
        "so that the run can't continue from it; its draws stay readable by tb.load, and "
        "tb.sample(posterior, start=tb.load(path)) samples anew from where they end"
    )
    chain: int
    difference: str


class WriteError(Raised, RunError):
    """A file can't be written, for example because the disk is full."""

    file: Path
    reason: str
    path: Path

    def message(self, words: Words = PYTHON) -> str:
        return (
            f"{self.file} can't be written: {self.reason}; files written before it are whole. When "
            f"that is repaired, continue from there with {words.remedy(Resume(self.path))}"
        )


class LockedError(Raised, RunError):
    """Another process is writing; `holder` is the owner of the lock, if its file names one."""

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
    """An executor that rejected the chains (`refused`), or lost its workers."""

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
    """A worker can't see the run at this path."""

    text = (
        "{path}, as the worker on {host} sees it, is not the run that was started: "
        "{words[path]} must be a directory that all workers share{gone}"
    )
    path: Path
    host: str
    is_run: bool = False
    """Whether a run exists there, perhaps one whose coordinator has exited."""

    @property
    def gone(self) -> str:
        return "; or whoever started the chain is gone, then continue with tb.resume" * self.is_run


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."
