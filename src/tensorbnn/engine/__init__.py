"""How a likelihood and its gradient are computed fast."""
