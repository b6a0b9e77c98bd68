"""Every test and doctest runs with JAX's strict checks: no silent promotion of type or rank."""

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
