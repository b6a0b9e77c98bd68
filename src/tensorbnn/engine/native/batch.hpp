// Log-likelihoods with gradients, or trajectories, of a batch of chains: divides the work into
// pieces for the code of the instruction set in use.
#pragma once

#include <functional>

#include "network.hpp"

namespace tensorbnn {

// Training data as the library arranges them: whole tiles, and the rest.
template <class T>
struct Data {
  const T* tile_inputs;   // (tiles, inputs, tile rows)
  const T* tile_targets;  // (tiles, targets, tile rows)
  int tiles, tile_rows;
  Rows<T> rest;

  int64_t rows() const { return static_cast<int64_t>(tiles) * tile_rows + rest.count; }
};

// Runs a function on another thread.
using Schedule = std::function<void(std::function<void()>)>;

struct Threads {
  int count;
  Schedule schedule;
};

// Arrays have the chains as their first axis. `sd` is (chains, widths); only Gaussian and
// MeasuredGaussian read it and write its gradient.
template <class T>
struct Batch {
  int chains;
  const T* parameters;
  const T* sd;
  T* value;
  T* gradient;
  T* sd_gradient;
};

// Trajectories of a batch of chains; `position` to `gradient` are overwritten.
template <class T>
struct Trajectories {
  int chains;
  size_t dimension;
  const T *numbers, *sd;  // (chains, entries, 2) and (chains, widths)
  const T* step_size;     // (chains, sizes)
  size_t sizes;           // 1, or the dimension: a diagonal mass
  const int32_t* steps;
  T *position, *momentum, *log_density, *gradient;
};

template <class T>
void follow(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
            const Threads& threads, const Prior& prior, const Trajectories<T>& batch);

template <class T>
void log_likelihood(const Kernel<T>& kernel, const Network& network, const Data<T>& data,
                    const Threads& threads, const Batch<T>& batch);

}  // namespace tensorbnn
