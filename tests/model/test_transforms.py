import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tensorbnn.model.hyper import TRANSFORMS
from tensorbnn.posterior import precision

POINTS = np.array([-30.0, -2.0, -1e-3, 0.0, 1e-3, 0.5, 30.0])
SUPPORTS = ["real", "positive"]
DTYPES = ["float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("support", SUPPORTS)
def test_to_real_undoes_from_real(support, dtype):
    transform = TRANSFORMS[support]
    with precision(dtype):
        real = jnp.asarray(POINTS, dtype)
        back = transform.to_real(transform.from_real(real))
    assert back.dtype == dtype
    # A relative error of one rounding in exp(u) is an absolute one in its logarithm.
    tolerance = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(back, real, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("support", SUPPORTS)
def test_from_real_undoes_to_real(support, dtype):
    transform = TRANSFORMS[support]
    with precision(dtype):
        value = jnp.asarray(np.exp(POINTS), dtype)
        back = transform.from_real(transform.to_real(value))
    assert back.dtype == dtype
    # A rounding of log v, which is up to 30 here, is a relative error of v.
    np.testing.assert_allclose(back, value, rtol=4 * 30 * np.finfo(dtype).eps)


@pytest.mark.parametrize("support", SUPPORTS)
@precision("float64")
def test_log_jacobian_is_the_log_of_the_derivative(support):
    transform = TRANSFORMS[support]
    real = jnp.asarray(POINTS)
    derivative = jax.vmap(jax.grad(transform.from_real))(real)
    np.testing.assert_allclose(
        transform.log_jacobian(real), jnp.log(jnp.abs(derivative)), rtol=1e-14, atol=1e-14
    )


@precision("float64")
def test_positive_is_the_exponential():
    positive, real = TRANSFORMS["positive"], jnp.asarray(POINTS)
    np.testing.assert_allclose(positive.from_real(real), np.exp(POINTS), rtol=1e-14)
    np.testing.assert_allclose(positive.to_real(jnp.asarray([0.5, 2.0])), np.log([0.5, 2.0]))


def test_real_changes_nothing():
    identity, real = TRANSFORMS["real"], jnp.asarray(POINTS, "float32")
    assert jnp.array_equal(identity.from_real(real), real)
    assert jnp.array_equal(identity.to_real(real), real)
    assert jnp.array_equal(identity.log_jacobian(real), jnp.zeros_like(real))
