"""How the posterior is sampled: flat vectors and a density, nothing of networks."""
