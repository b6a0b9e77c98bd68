"""Benchmarks: ours and others' side by side, as ratios; run by `make bench`."""
