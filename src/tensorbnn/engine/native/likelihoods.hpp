// Likelihoods over a tile: the sum of `Kernel`, and the gradient with respect to the outputs.
#pragma once

#include "functions.hpp"
#include "network.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

// Targets of a tile of `rows` rows. Standard deviations of a MeasuredGaussian are `sds` rows of the
// array after them.
template <class T, bool Chains>
struct Targets {
  const T* values;
  size_t stride;
  int rows, sds;

  Targets from(int output) const { return {values + output * stride, stride, rows, sds}; }

  // The number of lanes of a vector that are rows.
  TENSORBNN_INLINE int count(int vector) const {
    if constexpr (Chains) return lanes<T>;
    const int left = rows - vector * lanes<T>;
    return left < lanes<T> ? left : lanes<T>;
  }

  TENSORBNN_INLINE Vector<T> at(int output, int vector) const {
    if constexpr (Chains) return broadcast<T>(values[output * stride + vector]);
    const T* from = values + output * stride + vector * lanes<T>;
    const int valid = count(vector);
    return valid == lanes<T> ? load(from) : load_some(from, valid);
  }
};

// Widths of the noise, one for all outputs or one each, and their sums.
template <class T, bool Chains>
struct Noise {
  const T* widths;
  double* sums;
  bool own;  // whether each output has its own

  TENSORBNN_INLINE Vector<T> width(int output) const {
    return parameter<T, Chains>(widths + output * step<T, Chains>);
  }

  TENSORBNN_INLINE void add(int output, Vector<T> total) const {
    double* const to = sums + output * step<T, Chains>;
    if constexpr (Chains)
      for (int lane = 0; lane < lanes<T>; ++lane) to[lane] += static_cast<double>(total[lane]);
    else
      *to += sum<T>(total);
  }
};

// Add to `total` and write d for lanes that are rows; for the others d is zero.
template <class T, bool Chains>
TENSORBNN_INLINE void settle(Vector<T> term, Vector<T> slope, int count, Vector<T>& total, T* d) {
  if (Chains || count == lanes<T>) {
    total += term;
    store(d, slope);
  } else {
    total += keep_first<T>(term, count);
    store(d, keep_first<T>(slope, count));
  }
}

template <class T, bool Chains>
Vector<T> gaussian(const Shape& shape, const Targets<T, Chains>& targets, const T* f, Vector<T> sd,
                   T* d) {
  const Vector<T> precision = T(1) / sd;
  Vector<T> total = {};
  for (int j = 0; j < shape.units; ++j)
    for (int n = 0; n < shape.vectors; ++n) {
      const size_t at = j * shape.stride + n * lanes<T>;
      const Vector<T> z = (targets.at(j, n) - load(f + at)) * precision;
      settle<T, Chains>(z * z, z * precision, targets.count(n), total, d + at);
    }
  return total;
}

// Each target has a standard deviation, multiplied by `factor`.
template <class T, bool Chains>
Vector<T> measured_gaussian(const Shape& shape, const Targets<T, Chains>& targets, const T* f,
                            Vector<T> factor, T* d) {
  Vector<T> total = {};
  for (int j = 0; j < shape.units; ++j)
    for (int n = 0; n < shape.vectors; ++n) {
      const size_t at = j * shape.stride + n * lanes<T>;
      const Vector<T> sd = factor * targets.at(targets.sds + j, n);
      const Vector<T> z = (targets.at(j, n) - load(f + at)) / sd;
      settle<T, Chains>(z * z, z / sd, targets.count(n), total, d + at);
    }
  return total;
}

template <class T, bool Chains>
Vector<T> bernoulli(const Shape& shape, const Targets<T, Chains>& targets, const T* f, T* d) {
  Vector<T> total = {};
  for (int j = 0; j < shape.units; ++j)
    for (int n = 0; n < shape.vectors; ++n) {
      const size_t at = j * shape.stride + n * lanes<T>;
      const Vector<T> logit = load(f + at), y = targets.at(j, n);
      settle<T, Chains>(y * logit - softplus<T>(logit), y - sigmoid<T>(logit), targets.count(n),
                        total, d + at);
    }
  return total;
}

template <class T, bool Chains>
Vector<T> categorical(const Shape& shape, const Targets<T, Chains>& targets, const T* f, T* d) {
  Vector<T> total = {};
  for (int n = 0; n < shape.vectors; ++n) {
    const T* logits = f + n * lanes<T>;
    Vector<T> largest = load(logits);
    for (int j = 1; j < shape.units; ++j)
      largest = larger<T>(load(logits + j * shape.stride), largest);
    Vector<T> mass = {};
    for (int j = 0; j < shape.units; ++j)
      mass += exp<T>(load(logits + j * shape.stride) - largest);
    const Vector<T> log_mass = log_above_one<T>(mass);
    for (int j = 0; j < shape.units; ++j) {
      const Vector<T> log_probability = load(logits + j * shape.stride) - largest - log_mass;
      const Vector<T> y = targets.at(j, n);
      settle<T, Chains>(y * log_probability, y - exp<T>(log_probability), targets.count(n), total,
                        d + j * shape.stride + n * lanes<T>);
    }
  }
  return total;
}

template <class T, bool Chains>
Vector<T> likelihood(Likelihood kind, const Shape& shape, const Targets<T, Chains>& targets,
                     const T* f, Vector<T> sd, T* d) {
  switch (kind) {
    case Likelihood::Gaussian: return gaussian<T, Chains>(shape, targets, f, sd, d);
    case Likelihood::MeasuredGaussian:
      return measured_gaussian<T, Chains>(shape, targets, f, sd, d);
    case Likelihood::Bernoulli: return bernoulli<T, Chains>(shape, targets, f, d);
    default: return categorical<T, Chains>(shape, targets, f, d);
  }
}

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
