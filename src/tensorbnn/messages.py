"""Messages and remedies for the user, with wording that each front-end can adapt."""

import contextlib
import enum
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, dataclass_transform


class Remedy(enum.Enum):
    """What to do; the value is the wording for Python users."""

    TWO_CHAINS = "run at least two"
    FIND_STEPS = "use smaller steps, or a longer burn-in in which to find them"
    LONGER_BURN_IN = "sample again with a longer one"
    FINISH_BURN_IN = "resume the run with more time, or use a smaller network or a shorter burn-in"
    ODD_CHAIN = (
        "look at its trace; sample again with a longer burn-in or another seed, and trust none of "
        "the chains until all agree"
    )
    SEPARATE_MODES = (
        "run longer, with a longer burn-in; if they stay apart they sit in different modes: start "
        "them from `pretrain`, use longer trajectories, or a smaller network"
    )
    SAMPLE_OTHER = "sample the other model, by tb.sample(posterior, start=ensemble)"
    SAMPLE_OTHER_FROM_HERE = (
        "sample it, starting from here, by tb.sample(posterior, start=ensemble) with a posterior "
        "of the other model"
    )
    SAFER_STEPS = "use smaller steps (a higher `target_acceptance`, or lower bounds)"
    SMALLER_STEPS = "use smaller steps"
    HALF_STEPS = "compare with a run with half the step size"
    LESS_NOISE = "use smaller steps, larger batches or more friction"
    LONGER_TAILS = (
        "means are fine, but for extreme quantiles run longer, and look for a hyper-parameter that "
        "comes close to zero"
    )
    DO_NOT_INTERPRET = "don't interpret these"
    COMPARE_SAMPLE = "compare them with those of tb.sample"
    READ = "reading with tb.load is possible at any time"
    STANDARDIZE = "give tb.Posterior `standardize=True`, or change the unit"
    MISSING_VALUES = (
        "leave these rows out, or replace the code and add a column of 0 and 1 that says where"
    )
    CHECK_VALUE = "correct it or leave the row out, or take the logarithm of such a column"
    LEAVE_COLUMN_OUT = "leave out what never varies"
    KEEP_ONE_COLUMN = "keep one of them"
    NO_MEASUREMENT = "if it is no measurement leave it out"
    CATEGORIES = "if their order means nothing, give a column of 0 and 1 for each value"
    VARYING_TARGETS = "check that these are the targets"
    FINER_TYPE = "give tb.Posterior dtype='float64', or a larger sd"
    LARGER_NOISE = "give a larger sd"
    MORE_ROWS = "give more rows"
    NOISE_FLOOR = "fix it (`sd=0.01`), or give it a prior with a floor such as tb.Uniform(0.01, 1)"
    OTHER_PRIOR = "give it a wider prior, or change the unit of the data"
    LEARN_NOISE = "learn it, as tb.Gaussian(sd=tb.Hyper(0.1)) does, or give a larger one"
    UNEVEN_NOISE = "try tb.HeteroscedasticGaussian"
    TRANSFORM = "try the logarithm of the targets, or another transform that makes them even"
    HEAVY_TAILS = "try tb.StudentTNoise"


@dataclass(frozen=True)
class Resume:
    """Resume the run at `path`, optionally with a new value of one option."""

    path: Path | None
    """``None`` for a run in memory."""
    option: str | None = None
    value: str = ""


class Words:
    """How a front-end names options and remedies; this class has the wording for Python."""

    def option(self, name: str, value: str | None = None) -> str:
        return f"`{name}`" if value is None else f"`{name}={value!r}`"

    def remedy(self, remedy: Remedy | Resume) -> str:
        if isinstance(remedy, Remedy):
            return str(remedy.value)
        aim = "" if remedy.option is None else f", {remedy.option}={remedy.value}"
        run = "ensemble" if remedy.path is None else repr(str(remedy.path))
        return f"tb.resume({run}{aim})"

    def point(self, row: int, name: str) -> str:
        """The label of `row`, a point at which predictions are compared; `name` by default."""
        return name

    def columns(self, argument: str, columns: Sequence[int], of: int) -> str:
        """The names of some of the `of` columns of ``x`` or ``y``."""
        if of == 1:
            return f"`{argument}`"
        return f"column{'s' * (len(columns) > 1)} {listed(list(map(str, columns)))} of `{argument}`"

    def in_row(self, row: int) -> str:
        """The location of a value, as part of a sentence."""
        return f" in row {row}"

    def reading(self, path: Path) -> str:
        """The call or command that reads a run."""
        return f"import tensorbnn as tb\nensemble = tb.load({str(path)!r})"

    def __getitem__(self, name: str) -> str:
        return self.option(name)


def listed(names: Sequence[str], most: int = 6) -> str:
    """Join at most this many names for use in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


PYTHON = Words()

words_in_use: ContextVar[Words] = ContextVar("words_in_use", default=PYTHON)
"""The wording in use, for example to name columns or to say how to resume a run."""


@contextlib.contextmanager
def use_words(words: Words) -> Iterator[None]:
    """Use the wording of a front-end inside the block."""
    token = words_in_use.set(words)
    try:
        yield
    finally:
        words_in_use.reset(token)


class Message:
    """A message: a template filled in with fields, in the wording of a front-end.

    In `text`, ``{name}`` is an attribute, and ``{words[name]}`` is the name of an option.
    """

    @property
    def text(self) -> str:
        """The template; empty for an exception created from a sentence."""
        return ""

    def message(self, words: Words = PYTHON) -> str:
        return self.text.format_map(_Worded(self, words)) if self.text else super().__str__()

    def __str__(self) -> str:
        return self.message()


class _Worded(dict[str, Any]):
    """Attributes of a message, with remedies and nested messages converted to text."""

    def __init__(self, of: Message, words: Words) -> None:
        super().__init__(words=words)
        self._of, self._words = of, words

    def __missing__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if isinstance(value, Message):
            return value.message(self._words)
        return self._words.remedy(value) if isinstance(value, Remedy | Resume) else value


@dataclass_transform(eq_default=False)
class Raised(Message):
    """An exception or warning with fixed fields, which can be sent between processes.

    Subclasses become dataclasses without a decorator.
    """

    __match_args__: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__match_args__ and name in self.__dict__:
            raise AttributeError(f"`{name}` of a {type(self).__name__} can't be changed")
        super().__setattr__(name, value)

    def __reduce__(self) -> Any:
        rest = dict(self.__dict__)
        fields = {name: rest.pop(name) for name in self.__match_args__}
        return partial(type(self), **fields), (), rest or None
