"""The functions `sample`, `load`, `resume` and `fit_variational`, and when a run stops."""
