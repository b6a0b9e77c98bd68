// The numbers shared by Python and this library, counted from 0 in this order. `engine/kernels.py`
// has the same ones; they are compared when the library is loaded.
#pragma once

#include <cstdint>

namespace tensorbnn {

#define TENSORBNN_ACTIVATIONS(each)                                             \
  each(Activation, Identity)                                                    \
  each(Activation, Tanh)                                                        \
  each(Activation, Sigmoid)                                                     \
  each(Activation, Exp)                                                         \
  each(Activation, ReLU)                                                        \
  each(Activation, ELU)                                                         \
  each(Activation, LeakyReLU)   /* its slope above zero; others are Sloped */   \
  each(Activation, Sloped)      /* a fixed slope of any sign */                 \
  each(Activation, PReLU)       /* one slope a unit, a parameter */             \
  each(Activation, SquarePReLU) /* the same, squared */                         \
  each(Activation, Softmax)

#define TENSORBNN_LIKELIHOODS(each) \
  each(Likelihood, Gaussian)        \
  each(Likelihood, Bernoulli)       \
  each(Likelihood, Categorical)     \
  each(Likelihood, MeasuredGaussian)

// A log-normal prior is a Normal prior of the logarithm.
#define TENSORBNN_FAMILIES(each) \
  each(Family, Normal)           \
  each(Family, Laplace)          \
  each(Family, Cauchy)           \
  each(Family, StudentT)         \
  each(Family, Exponential)      \
  each(Family, HalfNormal)       \
  each(Family, GammaPrecision)

// The location from a hyper-parameter: its value, or the logarithm of it or of its inverse.
#define TENSORBNN_LOCATION_KINDS(each) \
  each(LocationKind, Value)            \
  each(LocationKind, Logarithm)        \
  each(LocationKind, NegativeLogarithm)

#define TENSORBNN_ENUMERATOR(kind, name) name,
enum class Activation : int64_t { TENSORBNN_ACTIVATIONS(TENSORBNN_ENUMERATOR) };
enum class Likelihood : int64_t { TENSORBNN_LIKELIHOODS(TENSORBNN_ENUMERATOR) };
enum class Family : int64_t { TENSORBNN_FAMILIES(TENSORBNN_ENUMERATOR) };
enum class LocationKind : int64_t { TENSORBNN_LOCATION_KINDS(TENSORBNN_ENUMERATOR) };
#undef TENSORBNN_ENUMERATOR

#define TENSORBNN_ONE_MORE(kind, name) +1
constexpr int64_t num_activations = 0 TENSORBNN_ACTIVATIONS(TENSORBNN_ONE_MORE);
constexpr int64_t num_likelihoods = 0 TENSORBNN_LIKELIHOODS(TENSORBNN_ONE_MORE);
constexpr int64_t num_families = 0 TENSORBNN_FAMILIES(TENSORBNN_ONE_MORE);
#undef TENSORBNN_ONE_MORE

constexpr int most_stages = 128, most_hypers = 256, most_entries = 512;

// Each output may have its own width of the noise: a standard deviation, or a factor.
constexpr int most_widths = 256;

// With enough chains and at most this many rows, there is one chain per lane.
constexpr int most_rows_of_chains = 64;

// Numbers that describe a stage of a network, and an entry of a prior.
constexpr int stage_numbers = 4, entry_numbers = 9, entry_other_numbers = 3;

}  // namespace tensorbnn
