"""Maps between a constrained quantity and the real line, with their log-Jacobians.

Samplers move on the whole real line. A positive quantity ``v`` (a scale, a rate, a noise sd) is
sampled as ``u = log v``; its density in ``u`` then carries ``log |dv/du| = u``.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

Support = Literal["real", "positive"]


class Transform(NamedTuple):
    """A smooth one-to-one map from the real line onto the values a quantity may take, elementwise.

    `log_jacobian` is ``log |d value / d real|`` at an unconstrained point.
    """

    from_real: Callable[[Array], Array]
    to_real: Callable[[Array], Array]
    log_jacobian: Callable[[Array], Array]


_TRANSFORMS: dict[Support, Transform] = {
    "real": Transform(lambda real: real, lambda value: value, jnp.zeros_like),
    "positive": Transform(jnp.exp, jnp.log, lambda real: real),
}


def transform_to(support: Support) -> Transform:
    """The map from the real line onto `support` (``"real"`` or ``"positive"``).

    Examples
    --------
    >>> f"{transform_to('positive').from_real(jnp.asarray(1.0)):.3f}"
    '2.718'
    """
    return _TRANSFORMS[support]
