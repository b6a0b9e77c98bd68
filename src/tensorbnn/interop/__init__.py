"""Read runs of other programs."""
