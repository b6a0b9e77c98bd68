"""A run: chains, burn-in, saving and reading back."""
