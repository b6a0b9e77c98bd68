"""Ensembles: predictions, diagnoses and scores of the sampled networks."""
