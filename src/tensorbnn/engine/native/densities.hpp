// Densities of the priors without their constants, as in `model/priors.py`.
#pragma once

#include "functions.hpp"
#include "network.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

// The log-density of one coordinate without its constant, and its derivative.
template <class T>
struct Term {
  Vector<T> value, slope;
};

template <class T>
TENSORBNN_INLINE Vector<T> sign_of(Vector<T> z) {
  return z > T(0) ? broadcast<T>(T(1)) : (z < T(0) ? broadcast<T>(T(-1)) : Vector<T>{});
}

// sinh and cosh, up to the overflow of cosh in T.
template <class T>
struct Hyperbolic {
  Vector<T> sinh, cosh;
};

template <class T>
TENSORBNN_INLINE Hyperbolic<T> hyperbolic(Vector<T> z) {
  constexpr T bound = sizeof(T) == 4 ? T(88) : T(709);
  Vector<T> magnitude = absolute<T>(z);
  magnitude = magnitude > bound ? broadcast<T>(bound) : magnitude;
  const Reduced<T> reduced = reduce_by_log_two<T>(magnitude);
  const Vector<T> power = power_of_two<T>(reduced.n);
  const Vector<T> t = small_expm1<T>(reduced.r) * power + (power - T(1));  // exp(|z|) - 1
  const Vector<T> inverse = T(1) / (t + T(1));
  const Vector<T> sinh = T(0.5) * (t + t * inverse);
  return {z < T(0) ? -sinh : sinh, T(0.5) * ((t + T(1)) + inverse)};
}

template <class T>
TENSORBNN_INLINE Vector<T> log_cosh(Vector<T> z) {
  const Vector<T> magnitude = absolute<T>(z);
  return magnitude + log1p_of_fraction<T>(exp<T>(T(-2) * magnitude)) - T(0.6931471805599453);
}

// A function of z alone: location and scale cancel.
template <class T>
TENSORBNN_INLINE Term<T> standard_term(Family family, T df, Vector<T> z) {
  switch (family) {
    case Family::Normal: return {T(-0.5) * z * z, -z};
    case Family::Laplace: return {-absolute<T>(z), -sign_of<T>(z)};
    case Family::Cauchy: return {-log_cosh<T>(z), -tanh<T>(z)};
    case Family::StudentT: {
      const Hyperbolic<T> h = hyperbolic<T>(z);
      const Vector<T> square = h.sinh * h.sinh / df;
      const Vector<T> slope = (df + T(1)) / df * h.sinh * h.cosh / (T(1) + square);
      return {T(-0.5) * (df + T(1)) * log_above_one<T>(T(1) + square) + log_cosh<T>(z),
              tanh<T>(z) - slope};
    }
    case Family::Exponential: {
      const Vector<T> e = exp<T>(z);
      return {z - e, T(1) - e};
    }
    case Family::HalfNormal: {
      const Vector<T> square = exp<T>(T(2) * z);
      return {z - T(0.5) * square, T(1) - square};
    }
    default: {  // GammaPrecision
      const Vector<T> precision = exp<T>(T(-2) * z);
      return {-df * (z + T(0.5) * precision), df * (precision - T(1))};
    }
  }
}

// A function of u, for a prior with these numbers, truncated to positive values exp(u).
template <class T>
TENSORBNN_INLINE Term<T> truncated_term(const Entry& entry, Vector<T> u, Vector<T> value) {
  const T scale = static_cast<T>(entry.prior_scale), df = static_cast<T>(entry.df);
  const Vector<T> x = (value - static_cast<T>(entry.prior_location)) / scale;
  Term<T> of_x;
  switch (entry.family) {
    case Family::Normal: of_x = {T(-0.5) * x * x, -x}; break;
    case Family::Laplace: of_x = {-absolute<T>(x), -sign_of<T>(x)}; break;
    case Family::Cauchy:
      of_x = {-log_above_one<T>(T(1) + x * x), T(-2) * x / (T(1) + x * x)};
      break;
    default:  // StudentT
      of_x = {T(-0.5) * (df + T(1)) * log_above_one<T>(T(1) + x * x / df),
              -(df + T(1)) * x / (df + x * x)};
  }
  return {of_x.value + u, of_x.slope * value / scale + T(1)};
}

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
