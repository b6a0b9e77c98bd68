"""Fast computation of a likelihood and its gradient."""
