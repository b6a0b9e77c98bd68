"""Samplers of a density over flat vectors, which need not know networks."""
