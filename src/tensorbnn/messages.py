"""What a user is told, and what to do: each front-end has its own words for the same remedies."""

import enum
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Remedy(enum.Enum):
    """What to do; the value is the wording of Python."""

    TWO_CHAINS = "run at least two"
    FIND_STEPS = "use smaller steps, or a longer burn-in in which to find them"
    LONGER_BURN_IN = "sample again with a longer one"
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
    LONGER_TAILS = "run longer, and look for a hyper-parameter that comes close to zero"
    DO_NOT_INTERPRET = "don't interpret these"
    COMPARE_SAMPLE = "compare them with those of tb.sample"
    READ = "reading with tb.load is possible at any time"


@dataclass(frozen=True)
class Resume:
    """Go on with the run at `path`, with another value of an option if one is named."""

    path: Path
    option: str | None = None
    value: str = ""


class Option(str):
    """The name of an option."""

    __slots__ = ()


class Words:
    """What a front-end calls options and remedies: these are the words of Python."""

    def option(self, name: str, value: str | None = None) -> str:
        return f"`{name}`" if value is None else f"`{name}={value!r}`"

    def remedy(self, remedy: Remedy | Resume) -> str:
        if isinstance(remedy, Remedy):
            return str(remedy.value)
        aim = "" if remedy.option is None else f", {remedy.option}={remedy.value}"
        return f"tb.resume({str(remedy.path)!r}{aim})"

    def point(self, row: int, name: str) -> str:
        """What `row`, of the points at which predictions are compared, is called; `name` by us."""
        return name

    def reading(self, path: Path) -> str:
        """How a run is read."""
        return f"import tensorbnn as tb\nensemble = tb.load({str(path)!r})"

    def __getitem__(self, name: str) -> str:
        return self.option(name)


PYTHON = Words()

words_in_use: ContextVar[Words] = ContextVar("words_in_use", default=PYTHON)
"""Those in which a run that is interrupted says how to go on, since nobody else can."""


class Message:
    """What a user is told: a template, filled in with fields, in the words of a front-end.

    In `text`, ``{name}`` is an attribute, and ``{words[name]}`` what the option `name` is called.
    """

    @property
    def text(self) -> str:
        """The template."""
        raise NotImplementedError

    def message(self, words: Words = PYTHON) -> str:
        return self.text.format_map(_Worded(self, words))

    def __str__(self) -> str:
        return self.message()


class _Worded(dict[str, Any]):
    """Attributes of a message, those that are remedies or messages themselves in words."""

    def __init__(self, of: Message, words: Words) -> None:
        super().__init__(words=words)
        self._of, self._words = of, words

    def __missing__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if isinstance(value, Message):
            return value.message(self._words)
        if isinstance(value, Option):
            return self._words.option(value)
        return self._words.remedy(value) if isinstance(value, Remedy | Resume) else value


class Raised(Message):
    """An exception or warning whose fields are set once, and come back from another process."""

    def message(self, words: Words = PYTHON) -> str:
        if type(self).text is Message.text:  # made of a sentence
            return super(Message, self).__str__()
        return super().message(words)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _fields(self) and name in self.__dict__:
            raise AttributeError(f"`{name}` of a {type(self).__name__} can't be changed")
        super().__setattr__(name, value)

    def __reduce__(self) -> Any:
        if not _fields(self):
            return super().__reduce__()
        rest = dict(self.__dict__)
        return _remake, (type(self), {name: rest.pop(name) for name in _fields(self)}), rest or None


def _fields(raised: Raised) -> tuple[str, ...]:
    return getattr(raised, "__match_args__", ())


def _remake(kind: type[Raised], fields: dict[str, Any]) -> Raised:
    return kind(**fields)


@dataclass(frozen=True)
class _GoOn(Message):
    limit: str
    resume: Resume | None

    @property
    def text(self) -> str:
        if self.resume is not None:
            return "go on with {resume}"
        return "give more {option}, and a {words[path]} for a run that can go on"

    @property
    def option(self) -> Option:
        return Option(self.limit)


class Limited(Raised):
    """Something about the option `limit`, which has ended a run."""

    limit: str
    resume: Resume | None
    """How the run goes on; ``None`` where it is not saved."""

    @property
    def option(self) -> Option:
        """The option."""
        return Option(self.limit)

    @property
    def then(self) -> Message:
        """What to do to have more draws."""
        return _GoOn(self.limit, self.resume)
