"""Time and memory of predictions: milliseconds per network, and the peak of a process.

    python -m benchmarks.predict

The first line is a case for which the time of the authors' code is known (1-10-10-1, 61 rows, 100
networks; 4.5 ms per network). The others show that memory is bounded: each runs in its own process,
and reports by how much its peak of memory rises.
"""

import resource
import subprocess
import sys
import time

import numpy as np

import tensorbnn as tb
from tensorbnn.ensemble.ensemble import Ensemble
from tensorbnn.storage.store import MemoryStore

NETWORKS_PER_FILE = 100
STATISTICS = {
    "mean and sd": lambda p: (p.mean, p.sd),
    "interval": lambda p: p.interval(0.9, noise=False),
    "interval with noise": lambda p: p.interval(0.9),
}
CASES = [
    (10_000, 1_000, "mean and sd"),
    (10_000, 4_000, "mean and sd"),
    (10_000, 4_000, "interval"),
    (10_000, 2_000, "interval with noise"),
    (10, 1_000_000, "mean and sd"),
    (10, 1_000_000, "interval"),
]


def made(networks: int) -> Ensemble:
    """An ensemble of random networks in memory."""
    layers = [tb.Dense(10), tb.Tanh(), tb.Dense(10), tb.Tanh(), tb.Dense(1)]
    network, rng = tb.Network(*layers, inputs=1), np.random.default_rng(0)
    store = MemoryStore({"chains": 1}, None)
    for index, first in enumerate(range(0, networks, NETWORKS_PER_FILE)):
        count = min(NETWORKS_PER_FILE, networks - first)
        chunk = {
            f"parameters/{name}": rng.normal(size=(count, *each.shape)).astype(np.float32)
            for name, each in network.parameters.items()
        }
        store.write_chunk(0, index, chunk)
    return Ensemble(store, network, tb.Gaussian(sd=0.1), "float32")


def milliseconds(repetitions: int = 30) -> float:
    """Median time per network for 100 networks and 61 rows."""
    ensemble, x, times = made(100), np.linspace(-1, 1, 61), []
    for _ in range(repetitions + 1):
        began = time.perf_counter()
        ensemble.predict(x, progress=False).samples  # noqa: B018
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:])) * 1000 / 100


def child(networks: int, rows: int, statistic: str) -> None:
    """Run one case, after a small prediction, so that imports and compilation do not count."""
    ensemble = made(networks)
    STATISTICS[statistic](ensemble.predict([0.0, 1.0], progress=False))
    x = np.linspace(-1, 1, rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    STATISTICS[statistic](ensemble.predict(x, progress=False))
    seconds = time.perf_counter() - began
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    case = f"{networks:>7,} networks {rows:>9,} rows  {statistic:<20}"
    print(f"{case} {seconds:6.1f} s {megabytes:6.0f} MB more")


def main() -> None:
    """Run all cases, each in its own process."""
    print(f"{milliseconds():.4f} ms a network (100 networks, 61 rows)", flush=True)
    for case in CASES:
        command = [sys.executable, "-m", "benchmarks.predict", *map(str, case)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    else:
        main()
