"""`make golden`: an earlier commit and the present tree, the same draws bit for bit?

Both run the same scenarios on this machine, side by side: ``scenarios_base.py`` has the names of
the earlier commit, ``scenarios.py`` the present ones. Then every array, report and printed result
is compared, and, file by file, every run that was stopped and resumed with the one that was not.
Exits with 1 if anything differs.

Most of the time is compilation. To compile what has not changed only once, set
``JAX_COMPILATION_CACHE_DIR`` and ``JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0``.
"""

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import numpy as np
from safetensors import safe_open

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "golden"
SCRIPT = Path(__file__).with_name("scenarios.py")
BASE_SCRIPT = Path(__file__).with_name("scenarios_base.py")
# What may differ between versions or from run to run, by name, in JSON at any depth.
NOISE = {"seconds", "created", "library", "sha256", "check"}
SHOWN = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only scenarios whose names contain one of these")
    parser.add_argument("--base", required=True, help="the commit to compare with")
    options = parser.parse_args()
    began = time.monotonic()
    base = prepare(options.base)
    names = chosen(options.words)
    trees = {"base": base, "present": ROOT / "src"}
    for tree in trees:
        shutil.rmtree(FOLDER / tree, ignore_errors=True)
    run_all(trees, names)
    rows = [(name, *compare_scenario(name)) for name in names]
    report(rows, time.monotonic() - began)
    sys.exit(any(differences for *_, differences in rows))


def prepare(commit):
    """Install the package as it was at `commit`, its native engine compiled, into a folder."""
    found = git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if found.returncode:
        sys.exit(
            f"golden: this clone does not have commit {commit}: `git fetch --unshallow`, or name "
            "another one by `make golden GOLDEN_BASE=...`"
        )
    commit = found.stdout.decode().strip()
    python, jaxlib = sys.implementation.cache_tag, importlib.metadata.version("jaxlib")
    target = FOLDER / f"{commit[:12]}-{python}-jaxlib-{jaxlib}"
    if not target.exists():
        print(f"golden: compiling {commit[:12]}", flush=True)
        source, unfinished = FOLDER / "source", target.with_suffix(".tmp")
        for each in (source, unfinished):
            shutil.rmtree(each, ignore_errors=True)
        source.mkdir(parents=True)
        archive = git("archive", commit).stdout
        subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--target", unfinished, source], check=True)
        shutil.rmtree(source)
        unfinished.rename(target)
    for package in (target, ROOT / "src"):
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        if not (package / f"tensorbnn/engine/_native{suffix}").exists():
            sys.exit(f"golden: {package} has no native engine, which needs a C++ compiler")
    return target


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True)


def environment(tree):
    """Of a user: without the flags that tests set."""
    return {**os.environ, "PYTHONPATH": str(tree), "XLA_FLAGS": ""}


def chosen(words):
    code = "import scenarios; print(*scenarios.SCENARIOS)"
    names = subprocess.run(
        [sys.executable, "-c", code],
        cwd=SCRIPT.parent,
        env=environment(ROOT / "src"),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split()
    found = [name for name in names if not words or any(word in name for word in words)]
    if not found:
        sys.exit(
            f"golden: no scenario is called {' or '.join(words)}; there are {', '.join(names)}"
        )
    return found


def run_all(trees, names):
    """The scenarios with both trees at the same time, a process for each."""
    processes = {}
    for tree, package in trees.items():
        (FOLDER / tree).mkdir(parents=True)
        script = BASE_SCRIPT if tree == "base" else SCRIPT
        processes[tree] = subprocess.Popen(
            [sys.executable, script, package, ".", *names],
            cwd=FOLDER / tree,
            env=environment(package),
            stdout=subprocess.PIPE,
            text=True,
        )
    threads = [threading.Thread(target=echo, args=each) for each in processes.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for tree, process in processes.items():
        if process.wait():
            sys.exit(f"golden: the scenarios of {tree} ended with exit code {process.returncode}")


def echo(tree, process):
    for line in process.stdout:
        print(f"{tree:<8} {line}", end="", flush=True)


# Comparison: each function returns a number of arrays, and what differs.


def compare_scenario(name):
    """Numbers of files and of arrays, and all differences."""
    base, present = (FOLDER / tree / name for tree in ("base", "present"))
    pairs = [("", base, present)]
    files = arrays = 0
    differences = []
    for root in (base, present):
        tree = root.parent.name
        if tree == "present":
            pairs += [("cut: ", cut.with_suffix(""), cut) for cut in root.glob("*.cut")]
        errors = [file.read_text() for file in root.glob("error.txt")]
        differences += [f"{tree}: {each.splitlines()[-1]}" for each in errors]
    for label, one, other in pairs:
        names = [files_of(each, within_runs=bool(label)) for each in (one, other)]
        differences += [f"{label}{file} is only in one" for file in sorted(names[0] ^ names[1])]
        if not names[0]:
            differences.append(f"{label}no files")
        for file in sorted(names[0] & names[1]):
            count, found = compare_files(one / file, other / file)
            files, arrays = files + 1, arrays + count
            differences += [f"{label}{file}: {each}" for each in found]
    return files, arrays, differences


def files_of(folder, *, within_runs):
    """Relative paths of all files; those of run directories only if requested."""
    files = {file for file in folder.rglob("*") if file.is_file()}
    if not within_runs:
        runs = {file.parent for file in files if file.name == "run.json"}
        files = {file for file in files if runs.isdisjoint(file.parents)}
    return {file.relative_to(folder) for file in files}


def compare_files(one, other):
    if one.suffix in (".npz", ".safetensors"):
        return compare_arrays(*(read_arrays(each) for each in (one, other)))
    if one.suffix in (".json", ".jsonl"):
        values = [read_json(each) for each in (one, other)]
        grown = one.name != "run.json"  # results may have gained names, files of a run may not
        return 0, compare_json(*values, "", grown)
    return 0, [] if one.read_bytes() == other.read_bytes() else ["other bytes"]


def read_arrays(file):
    if file.suffix == ".npz":
        with np.load(file) as content:
            return dict(content)
    with safe_open(file, framework="numpy") as content:
        return {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118


def compare_arrays(one, other):
    differences = [f"{name} is only in one" for name in sorted(one.keys() ^ other.keys())]
    shared = sorted(one.keys() & other.keys())
    for name in shared:
        a, b = one[name], other[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            differences.append(f"{name} is {a.dtype}{a.shape}, and {b.dtype}{b.shape}")
        elif a.tobytes() != b.tobytes():
            bits = [np.ascontiguousarray(each).view(f"V{each.dtype.itemsize}") for each in (a, b)]
            differences.append(f"{name}: {np.sum(bits[0] != bits[1])} of {a.size} numbers differ")
    return len(shared), differences


def read_json(file):
    if file.suffix == ".json":
        return json.loads(file.read_text())
    # Of two reports for the same transition the later one counts.
    reports = map(json.loads, file.read_text().split("\n")[:-1])
    return {f"{each['chain']}/{each['transition']}": each for each in reports}


def compare_json(one, other, place, grown):
    if place.endswith("/verdict") and isinstance(one, str) and isinstance(other, dict):
        return []  # it has become data
    if isinstance(one, dict) and isinstance(other, dict):
        names = one.keys() if grown else one.keys() | other.keys()
        differences = []
        for name in sorted(names - NOISE):
            if name in one and name in other:
                differences += compare_json(one[name], other[name], f"{place}/{name}", grown)
            else:
                differences.append(f"{place}/{name} is only in one")
        return differences
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        places = [compare_json(*pair, f"{place}/{number}", grown) for number, pair in pairs]
        return [difference for found in places for difference in found]
    # Both have come from JSON, which holds every bit of a number.
    return [] if json.dumps(one) == json.dumps(other) else [f"{place}: {one!r}, and {other!r}"]


def report(rows, seconds):
    width = max(len(name) for name, *_ in rows)
    print(f"\n{'scenario':<{width}}  files  arrays  differences")
    for name, files, arrays, differences in rows:
        print(f"{name:<{width}}  {files:>5}  {arrays:>6}  {len(differences) or 'none'}")
        for each in differences[:SHOWN]:
            print(f"    {each[:300]}")
        if len(differences) > SHOWN:
            print(f"    and {len(differences) - SHOWN} more")
    failed = sum(bool(differences) for *_, differences in rows)
    files, arrays = (sum(row[place] for row in rows) for place in (1, 2))
    verdict = f"{failed} DIFFER" if failed else "all the same"
    print(
        f"golden: {len(rows)} scenarios, {files:,} files, {arrays:,} arrays in {seconds:.0f} s: "
        f"{verdict}"
    )


if __name__ == "__main__":
    main()
