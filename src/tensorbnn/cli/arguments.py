"""Values of options, and options that several commands have."""

import argparse
from pathlib import Path


def whole_numbers(text: str) -> tuple[int, ...]:
    """``50,50`` as numbers, each at least 1; an empty text is none."""
    try:
        found = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = (0,)
    if any(each < 1 for each in found):
        raise argparse.ArgumentTypeError(f"must be whole numbers such as 50,50, got {text!r}")
    return found


def probabilities(text: str) -> tuple[float, ...]:
    """``0.05,0.5,0.95`` as numbers between 0 and 1."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < each < 1 for each in found):
        raise argparse.ArgumentTypeError(
            f"must be numbers between 0 and 1 such as 0.05,0.5,0.95, got {text!r}"
        )
    return found


def fraction(text: str) -> float:
    """A number from 0 to below 1."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1:
        raise argparse.ArgumentTypeError(f"must be a number such as 0.2, got {text!r}")
    return found


def add_run(parser: argparse.ArgumentParser) -> None:
    """The run that a command is about."""
    parser.add_argument("run", type=Path, help="the run directory")


def add_other_model(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Another prior or likelihood, by re-weighting."""
    parser.add_argument("--prior", help=f"{purpose} this prior of weights and biases")
    parser.add_argument("--likelihood", help=f"{purpose} this likelihood")
