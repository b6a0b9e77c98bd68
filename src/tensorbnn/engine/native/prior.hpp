// Priors and trajectories as plain numbers: shared by the code of every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numbers.hpp"

namespace tensorbnn {

struct Entry {
  size_t start, size;  // in the position
  Family family;
  LocationKind location_kind;
  bool positive;   // the value is exp(u)
  bool heavy;      // sinh(z) replaces z
  bool truncated;  // a prior on the real line, truncated to positive values
  int location_from, scale_from;  // a hyper-parameter, or -1
  double df, prior_location, prior_scale;  // the last two where truncated
};

// Hyper-parameters come first, each after those it depends on; then parameters.
struct Prior {
  int num_hypers, num_entries;
  int num_widths;
  int sd_from[most_widths];  // the hyper-parameter that is a width of the noise, or -1
  double constant;           // of the log-density
  Entry entries[most_entries];
};

// One chain, or one per lane, with the chains as the last axis of every array.
template <class T>
struct Trajectory {
  const Prior* prior;
  size_t dimension;
  const T *numbers, *sd, *step_size;
  bool own_sizes;  // whether each coordinate has its own step size
  const int32_t* steps;
  T *position, *momentum, *gradient, *log_density;  // before, and after
  T *values, *by_values;                            // work arrays for natural values and a gradient
  // Log-likelihood of natural values with its gradient. `value` has one number per chain,
  // `sd_gradient` one per width, as `sd`; both may be null.
  void (*likelihood)(void* context, const T* values, const T* sd, T* by_values, double* value,
                     T* sd_gradient);
  void* context;
};

}  // namespace tensorbnn
