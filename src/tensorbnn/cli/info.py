"""``tensorbnn info``: describe a run and its progress, even while it is running."""

import argparse
import shlex
from typing import Any

from tensorbnn.cli.options import RESULT, RUN, Command
from tensorbnn.cli.output import predicted, print_result
from tensorbnn.cli.saved_run import open_store
from tensorbnn.model.summary import summary
from tensorbnn.storage.directory import DirectoryStore
from tensorbnn.storage.manifest import restore
from tensorbnn.tables.encoding import noted_table, restore_encoding


def run(options: argparse.Namespace) -> int:
    """Print information from the files of the run; nothing is computed."""
    store = open_store(options.run)
    manifest, status = store.manifest, store.manifest["status"]
    chains = range(manifest["chains"])
    if status == "running" and not store.is_being_written():
        status = "killed"
    size = [file.stat().st_size for file in store.path.rglob("*") if file.is_file()]
    facts = {
        "run": str(store.path),
        "status": status,
        "writer": store.writer() if status == "running" else None,
        "chains": manifest["chains"],
        "draws": min(sum(store.chunk_sizes(chain).values()) for chain in chains),
        "draws_planned": manifest["draws"],
        "transitions": [store.transitions(chain) for chain in chains],
        "transitions_planned": manifest["burn_in"] + manifest["draws"] * manifest["thin"],
        "megabytes": sum(size) / 1e6,
        "manifest": manifest,
    }
    ends = ", ".join(f"{done:,}" for done in facts["transitions"])
    begun = "imported" if "imported" in manifest else "started"
    lines = {
        "status": _status(store, status),
        "progress": f"transitions {ends} of {facts['transitions_planned']:,} (each chain)",
        "draws": f"{facts['draws']:,} of {manifest['draws']:,} of each chain",
        "network": _summary(manifest["network"]),
        "likelihood": _summary(manifest["likelihood"]),
        "sampler": summary(manifest["sampler"]),
        "seed": str(manifest["seed"]),
        "size": f"{facts['megabytes']:,.1f} MB",
        begun: f"{manifest['created']} by tensorbnn "
        f"{manifest['library']} on jax {manifest['jax']}, {manifest['dtype']}",
    }
    table = noted_table(manifest["notes"])
    if table is not None:
        restore_encoding(table)  # raises if it can't be read
        lines["table"] = predicted(table, of=f" of {table.get('file', '?')}")
    if isinstance(manifest["notes"].get("command"), str):
        lines["command"] = manifest["notes"]["command"]
    print_result(options, lines, facts)
    return 0


def _status(store: DirectoryStore, status: str) -> str:
    if status == "running":
        writer = store.writer() or {"pid": "?", "host": "?", "since": "?"}
        return f"running, process {writer['pid']} on {writer['host']} since {writer['since']}"
    if status == "complete":
        return "complete"
    words = {"killed": "killed while it was running", "stopped": "stopped by a limit"}
    resume = f"tensorbnn resume {shlex.quote(str(store.path))}"
    return f"{words.get(status, status)}; continue it with: {resume}"


def _summary(described: Any) -> str:
    try:
        return summary(restore(described, {}))
    except ValueError:  # a class that the user wrote
        return str(described)


COMMAND = Command("info", "show what a run is and how far it is", (RUN, *RESULT), run)
