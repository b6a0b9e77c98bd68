"""The model: descriptions of networks, priors and likelihoods that hold no arrays."""
