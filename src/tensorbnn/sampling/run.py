"""A run: everything that defines its chains, and the loop that runs them to their end.

Chains run to the number of draws in the plan. With a stopping rule, the plan then grows by a
quarter at a time until the rule is satisfied.
"""

import contextlib
import dataclasses
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.errors import RunError
from tensorbnn.inference.sampler import Sampler
from tensorbnn.messages import Message, Resume, words_in_use
from tensorbnn.posterior import Posterior
from tensorbnn.progress import Bar, say
from tensorbnn.sampling.interrupt import StopRequest, catch_signals
from tensorbnn.sampling.monitor import Monitor
from tensorbnn.sampling.plan import CHECKPOINT_SECONDS, Plan
from tensorbnn.sampling.reporting import Reporting
from tensorbnn.sampling.stopping import Outcome, StoppingRule, stopped_early
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.store import Store
from tensorbnn.warning import Interrupted, warn


class Backend(Protocol):
    """What runs the chains. It also keeps their states between two plans."""

    @property
    def doing(self) -> str:
        """What it does first, for the progress bar."""

    @property
    def transitions(self) -> int:
        """Transitions of all chains together."""

    def advance(self, run: "Run", stop: StopRequest, bar: Bar) -> Outcome:
        """Run every chain to the end of the plan, or until `stop`."""


@dataclass
class Run:
    """Everything that defines what chains do, and where their draws go."""

    posterior: Posterior
    sampler: Sampler
    plan: Plan
    rule: StoppingRule
    reporting: Reporting
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """A chain is saved at least this often."""
    diagnoses: int = 0
    """How often predictions are diagnosed after the run, within its limit of time."""
    store: Store = field(init=False)

    def save(self, path: Path, *, overwrite: bool) -> None:
        """Copy a run in memory to a new run directory."""
        from tensorbnn.sampling.restore import save_run

        save_run(self, path, overwrite=overwrite)

    def run(self, backend: Backend, *, progress: bool) -> Ensemble:
        """Run all chains to the end of the plan, and extend it until the rule is satisfied.

        An interrupt or a limit stops them, and all their draws are saved. How the run ended is
        recorded, with a warning if it ended too early, and the store is closed.
        """
        done, deadline = backend.transitions, self.rule.deadline
        total = self.plan.chains * self.plan.transitions
        bar = Bar(backend.doing, total, done=done, show=progress, delay=0.0, deadline=deadline)
        with contextlib.closing(self.store):
            monitor = Monitor(self, bar, watch=progress)
            stop = StopRequest(deadline=deadline, reserve=monitor.seconds_needed)
            with self.recording_errors(), catch_signals(stop), bar, monitor:
                while True:
                    outcome = backend.advance(self, stop, bar)
                    if self.rule.until is None or not outcome.complete:
                        break
                    outcome = outcome._replace(complete=monitor.converged())
                    if outcome.complete or stop.requested:
                        break
                    self.extend()
                outcome = outcome._replace(signal=stop.signal)
                if not outcome.complete and outcome.signal is None:
                    limit = self.rule.limit_of(outcome.gradients)
                    estimate = monitor.estimate() if limit is not None and outcome.draws else None
                    outcome = outcome._replace(limit=limit, estimate=estimate)
            stopped = "interrupted" if outcome.limit is None else "stopped"
            self.store.update(status="complete" if outcome.complete else stopped)
        self._warn(outcome)
        return Ensemble._from_posterior(self.store, self.posterior, self.sampler)

    @property
    def path(self) -> Path | None:
        """The run directory, as it was given."""
        return self.store.path if isinstance(self.store, DirectoryStore) else None

    def is_over(self, transitions: int, gradients: int) -> bool:
        """Whether a chain with this many transitions and gradients is complete, or at a limit."""
        return transitions >= self.plan.transitions or self.rule.is_spent(gradients)

    def extend(self) -> None:
        """Extend the plan by a quarter."""
        before = self.plan
        self.plan = dataclasses.replace(before, draws=-(-5 * before.draws // 4))
        # First the new length: readers don't look for a last report that is trimmed.
        self.store.update(draws=self.plan.draws, status="running")
        self.trim_reports(dict.fromkeys(range(before.chains), before.transitions))

    def trim_reports(self, reached: Mapping[int, int]) -> None:
        """Remove reports that will be written again, and those that a longer run does not have.

        `reached` are transitions by chain.
        """
        every, end = self.reporting.every, self.plan.transitions
        self.store.replace_reports(
            [
                report
                for report in self.store.reports(skip_damaged=True)
                if report["transition"] <= reached.get(report["chain"], -1)
                and (report["transition"] % every == 0 or report["transition"] == end)
            ]
        )

    @contextlib.contextmanager
    def recording_errors(self) -> Iterator[None]:
        """Record in the store that an error has stopped the run."""
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(RunError):  # the first error is the one to show
                self.store.update(status="interrupted")
            if isinstance(error, KeyboardInterrupt) and self.path is not None:
                _say(StoppedAtOnce(Resume(self.path)))
            raise

    def _warn(self, outcome: Outcome) -> None:
        """Raise or warn if the run did not reach its end."""
        if outcome.signal is not None:
            self._answer_signal(outcome, outcome.signal)
        warning = stopped_early(outcome, self.rule, self.plan, self.path)
        if warning is not None:
            warn(warning)

    def _answer_signal(self, outcome: Outcome, number: int) -> None:
        """Report the draws so far, and end the program unless Ctrl-C stopped a run in memory."""
        if self.path is not None:
            resume = None if outcome.complete else Resume(self.path)
            _say(Stopped(self.path, outcome.draws, self.plan.draws, resume))
            _raise_signal(number)
        if number == signal.SIGTERM or not outcome.draws:
            _raise_signal(number)
        warn(Interrupted(outcome.draws, self.plan.draws))


@dataclass(frozen=True)
class Stopped(Message):
    """A signal has stopped a run that is saved at `path`; `resume` unless it was complete."""

    path: Path
    draws: int
    planned: int
    resume: Resume | None

    @property
    def text(self) -> str:
        if self.resume is None:
            return "stopped, but all {planned:,} draws of each chain are saved in {path}"
        return (
            "stopped after {draws:,} of {planned:,} draws of each chain, which are saved; "
            "continue with {resume}"
        )


@dataclass(frozen=True)
class StoppedAtOnce(Message):
    """A second Ctrl-C has stopped a run that is saved."""

    text = "stopped at once; continue with {resume} from the last checkpoint"
    resume: Resume


def _say(message: Message) -> None:
    say(message.message(words_in_use.get()))


def _raise_signal(number: int) -> NoReturn:
    """What Python and shells expect of a program that a signal has stopped."""
    if number == signal.SIGTERM:
        raise SystemExit(128 + number)
    raise KeyboardInterrupt
