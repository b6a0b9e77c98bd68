"""The verbs: `sample`, `load`, `resume`, `fit_variational`, and how far a run is to go."""
