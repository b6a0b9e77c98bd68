"""Benchmarks of tensorbnn and other libraries, side by side (`make bench`)."""
