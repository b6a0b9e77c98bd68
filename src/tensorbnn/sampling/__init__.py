"""The verbs: `sample`, `load`, `resume`, `variational`, and how far a run is to go."""
