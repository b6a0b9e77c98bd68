import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from tensorbnn.model.hyper import Interval, transform
from tensorbnn.posterior import precision

POINTS = np.array([-30.0, -2.0, -1e-3, 0.0, 1e-3, 0.5, 30.0])
SUPPORTS = ["real", "positive"]
BETWEEN = Interval(-1.5, 3.0)
DTYPES = ["float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("support", SUPPORTS)
def test_to_real_undoes_from_real(support, dtype):
    onto = transform(support)
    with precision(dtype):
        real = jnp.asarray(POINTS, dtype)
        back = onto.to_real(onto.from_real(real))
    assert back.dtype == dtype
    # A relative error of one rounding in exp(u) is an absolute one in its logarithm.
    tolerance = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(back, real, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("support", SUPPORTS)
def test_from_real_undoes_to_real(support, dtype):
    onto = transform(support)
    with precision(dtype):
        value = jnp.asarray(np.exp(POINTS), dtype)
        back = onto.from_real(onto.to_real(value))
    assert back.dtype == dtype
    # A rounding of log v, which is up to 30 here, is a relative error of v.
    np.testing.assert_allclose(back, value, rtol=4 * 30 * np.finfo(dtype).eps)


@pytest.mark.parametrize("support", SUPPORTS)
@precision("float64")
def test_log_jacobian_is_the_log_of_the_derivative(support):
    onto = transform(support)
    real = jnp.asarray(POINTS)
    derivative = jax.vmap(jax.grad(onto.from_real))(real)
    np.testing.assert_allclose(
        onto.log_jacobian(real), jnp.log(jnp.abs(derivative)), rtol=1e-14, atol=1e-14
    )


@precision("float64")
def test_positive_is_the_exponential():
    positive, real = transform("positive"), jnp.asarray(POINTS)
    np.testing.assert_allclose(positive.from_real(real), np.exp(POINTS), rtol=1e-14)
    np.testing.assert_allclose(positive.to_real(jnp.asarray([0.5, 2.0])), np.log([0.5, 2.0]))


def test_real_changes_nothing():
    identity, real = transform("real"), jnp.asarray(POINTS, "float32")
    assert jnp.array_equal(identity.from_real(real), real)
    assert jnp.array_equal(identity.to_real(real), real)
    assert jnp.array_equal(identity.log_jacobian(real), jnp.zeros_like(real))


@pytest.mark.parametrize("dtype", DTYPES)
def test_between_two_numbers_is_the_logistic_function(dtype):
    onto = transform(BETWEEN)
    with precision(dtype):
        real = jnp.asarray([-5.0, -0.3, 0.0, 2.0, 5.0], dtype)
        value = onto.from_real(real)
        back, log_jacobian = onto.to_real(value), onto.log_jacobian(real)
        derivative = jax.vmap(jax.grad(onto.from_real))(real)
    assert value.dtype == back.dtype == log_jacobian.dtype == dtype
    np.testing.assert_allclose(value, -1.5 + 4.5 * special.expit(np.float64(real)), rtol=1e-5)
    # Near a bound, where the share is 1 / 150, a rounding of 3 is one of 150 in the logit.
    tolerance = 1000 * np.finfo(dtype).eps
    np.testing.assert_allclose(back, real, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(log_jacobian, np.log(derivative), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_far_out_values_stay_between_and_have_a_way_back(dtype):
    onto = transform(BETWEEN)
    with precision(dtype):
        value = onto.from_real(jnp.asarray([-1e4, 1e4], dtype))
        assert value.tolist() == [-1.5, 3.0]
        assert np.all(np.isfinite(onto.to_real(value)))
