"""Run the benchmark: all parts, each in its own process.

    python -m benchmarks                       # everything: about 17 minutes on two quiet cores
    python -m benchmarks --only leapfrog
    python -m benchmarks --data folder         # a UCI table too: folder/concrete.csv
    python -m benchmarks --instruction-set avx2 --only growth   # as on an older processor
    python -m benchmarks --quick               # a smoke test, whose numbers mean nothing

Contestants take turns, so that a disturbance of the machine affects all of them: read ratios, not
seconds. The results of a whole run go to ``benchmarks/results`` as JSON, Markdown and a figure;
those of some parts only to the folder given with ``--out``.
"""

import argparse
import datetime
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import figure, machine, tables
from benchmarks.options import Options

# How many cores each part uses; None means all.
PARTS = {"leapfrog": 1, "growth": 1, "threads": None, "costs": None, "efficiency": None}
RESULTS = Path(__file__).parent / "results"
# Instruction sets of the native engine, and what XLA may then use.
INSTRUCTION_SETS = {"avx512": "AVX512", "avx2": "AVX2", "portable": "SSE4_2"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    options = _parser().parse_args(arguments)
    if options.part:
        _measure(options)
        return 0
    _check(options)
    if options.instruction_set:
        os.environ["TENSORBNN_INSTRUCTION_SET"] = options.instruction_set
        limit = INSTRUCTION_SETS[options.instruction_set]
        os.environ["XLA_FLAGS"] = f"--xla_cpu_max_isa={limit}"
    console, about = Console(), machine.describe()
    console.print(machine.sentence(about), soft_wrap=True)
    began, found = time.monotonic(), {}
    for part in options.only:
        for table in _run(part, options):
            found[table.name] = table
            console.print(tables.terminal(table))
        console.print(f"{part}: {time.monotonic() - began:.0f} s since the start\n")
    out = options.out or (None if _is_partial(options) else RESULTS)
    if out is not None:
        save(found, about, out)
        console.print(f"results are in {out}")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Check that all that was requested can be measured, before it takes a quarter of an hour."""
    if os.environ.get("XLA_FLAGS"):
        raise SystemExit("XLA_FLAGS is set: unset it, so that XLA runs as it does for a user")
    if options.data and not (options.data / "concrete.csv").is_file():
        raise SystemExit(f"there is no concrete.csv in {options.data}: give another --data folder")
    needed = ("tensorflow", "tensorflow_probability", "tf_keras") if options.tensorflow else ()
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit(
            f"--tensorflow needs {', '.join(missing)}: {sys.executable} -m pip install "
            "tensorflow-cpu tensorflow-probability tf-keras"
        )


def _is_partial(options: argparse.Namespace) -> bool:
    """Whether the results are only part of a whole run, which they must not replace."""
    return options.quick or bool(options.instruction_set) or set(options.only) != set(PARTS)


def save(found: dict[str, tables.Table], about: dict[str, Any], folder: Path) -> None:
    """Write JSON, Markdown and the figure."""
    folder.mkdir(parents=True, exist_ok=True)
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    content = {"date": date, "machine": about, "tables": [t._asdict() for t in found.values()]}
    (folder / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    drawn = figure.draw(found, folder / "results.png")
    lines = ["# Benchmark", "", f"{date[:10]}. {machine.sentence(about)}.", ""]
    lines += ["Made by `make bench`.", ""] + (["![](results.png)", ""] if drawn else [])
    text = "\n".join(lines) + "\n" + "\n".join(tables.markdown(each) for each in found.values())
    (folder / "results.md").write_text(text)


def _run(part: str, options: argparse.Namespace) -> list[tables.Table]:
    """Run a part in its own process, which limits its cores before it imports JAX."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "tables.json"
        command = [sys.executable, "-m", "benchmarks", "--part", part, "--out", str(out)]
        command += ["--quick"] * options.quick + ["--tensorflow"] * options.tensorflow
        command += ["--data", str(options.data)] if options.data else []
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(f"{part} has failed: see above; --only {part} runs it alone")
        return [tables.from_json(each) for each in json.loads(out.read_text())]


def _measure(options: argparse.Namespace) -> None:
    machine.use_cores(PARTS[options.part] or machine.cores())
    module = importlib.import_module(f"benchmarks.{options.part}")
    found = module.measure(Options(options.quick, options.data, options.tensorflow))
    options.out.write_text(json.dumps([table._asdict() for table in found]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure tensorbnn and others side by side."
    )
    add = parser.add_argument
    add("--only", type=_parts, default=list(PARTS), metavar=",".join(PARTS), help="default: all")
    add("--quick", action="store_true", help="a smoke test")
    add("--data", type=Path, help="a folder with concrete.csv, its target last")
    add("--tensorflow", action="store_true", help="also TensorFlow Probability, if it is installed")
    add(
        "--instruction-set",
        choices=INSTRUCTION_SETS,
        help="instruction set of both engines (default: the best)",
    )
    add(
        "--out",
        type=Path,
        help="folder for the results (default for a whole run: benchmarks/results)",
    )
    add("--part", choices=PARTS, help=argparse.SUPPRESS)
    return parser


def _parts(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown parts {', '.join(unknown)}: choose from {', '.join(PARTS)}"
        )
    return names


if __name__ == "__main__":
    sys.exit(main())
