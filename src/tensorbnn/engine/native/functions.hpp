// Elementary functions of vectors, each to a few roundings, with the infinities and NaNs of IEEE.
#pragma once

#include "vector.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

// 2^n for whole n, given as n + 1.5 * 2^mantissa, whose low bits are n.
template <class T>
TENSORBNN_INLINE Vector<T> power_of_two(Integers<T> n) {
  return (Vector<T>)((n + Types<T>::bias) << Types<T>::mantissa);
}

// x = n log 2 + r with |r| <= log(2) / 2.
template <class T>
struct Reduced {
  Vector<T> r;
  Integers<T> n;
};

template <class T>
TENSORBNN_INLINE Reduced<T> reduce_by_log_two(Vector<T> x) {
  constexpr bool single = sizeof(T) == 4;
  constexpr T magic = single ? T(12582912.0) : T(6755399441055744.0);
  const Vector<T> shifted = x * T(1.4426950408889634) + magic;
  const Vector<T> n = shifted - magic;
  const T high = single ? T(0.693359375) : T(6.93145751953125e-1);
  const T low = single ? T(-2.12194440e-4) : T(1.42860682030941723212e-6);
  return {(x - n * high) - n * low, (Integers<T>)shifted - (Integers<T>)broadcast<T>(magic)};
}

// exp(r) - 1 for |r| <= log(2) / 2.
template <class T>
TENSORBNN_INLINE Vector<T> small_expm1(Vector<T> r) {
  Vector<T> p;
  if constexpr (sizeof(T) == 4) {
    p = broadcast<T>(1.9875691500e-4f);  // Cephes, expf
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
  } else {
    p = broadcast<T>(1.0 / 6227020800.0);  // the series, to r^13 / 13!
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
  }
  return (r * r) * p + r;
}

// Bounds beyond which exp is infinite or zero; a NaN is kept.
template <class T>
TENSORBNN_INLINE Vector<T> clamp_for_exp(Vector<T> x) {
  constexpr T above = sizeof(T) == 4 ? T(89) : T(710), below = sizeof(T) == 4 ? T(-104) : T(-746);
  return clamp<T>(x, below, above);
}

template <class T>
TENSORBNN_INLINE Vector<T> exp(Vector<T> x) {
  const Reduced<T> reduced = reduce_by_log_two<T>(clamp_for_exp<T>(x));
  // In two factors, since 2^n alone may be out of range when the result is not.
  const Integers<T> half = reduced.n >> 1;
  const Vector<T> one_plus = small_expm1<T>(reduced.r) + T(1);
  return one_plus * power_of_two<T>(half) * power_of_two<T>(reduced.n - half);
}

// exp(x) - 1 for x <= 0, without the loss of digits near zero.
template <class T>
TENSORBNN_INLINE Vector<T> expm1_of_negative(Vector<T> x) {
  constexpr T below = sizeof(T) == 4 ? T(-50) : T(-100);
  x = x < below ? broadcast<T>(below) : x;
  const Reduced<T> reduced = reduce_by_log_two<T>(x);
  const Vector<T> scale = power_of_two<T>(reduced.n);
  return small_expm1<T>(reduced.r) * scale + (scale - T(1));
}

template <class T>
TENSORBNN_INLINE Vector<T> sigmoid(Vector<T> x) {
  const Vector<T> e = exp<T>(-absolute<T>(x));
  const Vector<T> r = reciprocal<T>(e + T(1));
  return x < T(0) ? e * r : r;
}

// 2 atanh(s) / s - 2 as a function of the square of s, for s <= 1/3.
template <class T>
TENSORBNN_INLINE Vector<T> atanh_series(Vector<T> square) {
  constexpr int terms = sizeof(T) == 4 ? 8 : 17;
  Vector<T> p = broadcast<T>(T(2.0 / (2 * terms + 1)));
#pragma GCC unroll 17
  for (int k = terms - 1; k >= 1; --k) p = p * square + T(2.0 / (2 * k + 1));
  return p * square;
}

// log(1 + u) for 0 <= u <= 1, to its own rounding however small u is.
template <class T>
TENSORBNN_INLINE Vector<T> log1p_of_fraction(Vector<T> u) {
  const Vector<T> s = u / (u + T(2));
  return s * atanh_series<T>(s * s) + (s + s);
}

// log(x) for x >= 1.
template <class T>
TENSORBNN_INLINE Vector<T> log_above_one(Vector<T> x) {
  const Integers<T> exponent = ((Integers<T>)x >> Types<T>::mantissa) - Types<T>::bias;
  const Vector<T> fraction = (Vector<T>)((Integers<T>)x - (exponent << Types<T>::mantissa));
  const Vector<T> result =
      log1p_of_fraction<T>(fraction - T(1)) +
      __builtin_convertvector(exponent, Vector<T>) * T(0.6931471805599453);
  const Vector<T> difference = x - x;  // NaN where x is not finite
  return difference == T(0) ? result : x;
}

template <class T>
TENSORBNN_INLINE Vector<T> softplus(Vector<T> x) {
  const Vector<T> positive = x <= T(0) ? Vector<T>{} : x;
  return positive + log1p_of_fraction<T>(exp<T>(-absolute<T>(x)));
}

TENSORBNN_INLINE Vector<float> tanh_single(Vector<float> x) {
  // The rational function of Eigen and XLA; beyond the bound it is 1 to a rounding.
#if defined(__FMA__)
  constexpr float bound = 7.99881172180175781f;
#else
  constexpr float bound = 7.90531110763549805f;
#endif
  x = clamp<float>(x, -bound, bound);
  const Vector<float> s = x * x;
  Vector<float> p = s * -2.76076847742355e-16f + 2.00018790482477e-13f;
  p = s * p + -8.60467152213735e-11f;
  p = s * p + 5.12229709037114e-08f;
  p = s * p + 1.48572235717979e-05f;
  p = s * p + 6.37261928875436e-04f;
  p = s * p + 4.89352455891786e-03f;
  Vector<float> q = s * 1.19825839466702e-06f + 1.18534705686654e-04f;
  q = s * q + 2.26843463243900e-03f;
  q = s * q + 4.89352518554385e-03f;
  return (x * p) * reciprocal<float>(q);
}

TENSORBNN_INLINE Vector<double> tanh_double(Vector<double> x) {
  // Cephes: a rational function near zero, the exponential elsewhere.
  const Vector<double> s = x * x;
  Vector<double> p = s * -9.64399179425052238628e-1 + -9.92877231001918586564e1;
  p = s * p + -1.61468768441708447952e3;
  Vector<double> q = s + 1.12811678491632931402e2;
  q = s * q + 2.23548839060100448583e3;
  q = s * q + 4.84406305325125486048e3;
  const Vector<double> near = x + x * s * (p / q);
  const Vector<double> magnitude = absolute<double>(x);
  const Vector<double> e = exp<double>(-2.0 * magnitude);
  const Vector<double> far = (1.0 - e) / (1.0 + e);
  const Vector<double> signed_far = x < 0.0 ? -far : far;
  return magnitude < 0.625 ? near : signed_far;
}

template <class T>
TENSORBNN_INLINE Vector<T> tanh(Vector<T> x) {
  if constexpr (sizeof(T) == 4)
    return tanh_single(x);
  else
    return tanh_double(x);
}

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
