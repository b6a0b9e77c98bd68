// A model as plain numbers, shared by the code of every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "prior.hpp"

namespace tensorbnn {

// Whether each unit has a slope, which is a parameter.
inline bool has_slopes(Activation activation) {
  return activation == Activation::PReLU || activation == Activation::SquarePReLU;
}

// Whether the likelihood has widths of the noise.
inline bool has_widths(Likelihood likelihood) {
  return likelihood == Likelihood::Gaussian || likelihood == Likelihood::MeasuredGaussian;
}

// Rows of the array of targets; a MeasuredGaussian has standard deviations after the values.
inline int num_targets(Likelihood likelihood, int outputs) {
  return likelihood == Likelihood::MeasuredGaussian ? 2 * outputs : outputs;
}

// A dense layer (if `dense`) and the activation of its outputs. The last four activations need
// their inputs in the backward pass, so they are separate stages without a dense layer.
struct Stage {
  bool dense;
  Activation activation;
  int inputs, outputs;
  size_t weights, biases, slopes;  // offsets in the parameters
  double slope;
};

struct Network {
  int num_stages;
  Stage stages[most_stages];
  int inputs, outputs, targets;  // targets: rows of the array of targets
  int widths;                    // of the noise: one for all outputs, or one each
  size_t num_parameters;
  Likelihood likelihood;
};

// Some rows of data, feature-major. Inputs can be read up to the next multiple of 16 rows.
template <class T>
struct Rows {
  const T* inputs;
  size_t input_stride;
  const T* targets;
  size_t target_stride;
  int count;
};

// The code of one instruction set.
//
// `rows` adds the statistic of some rows to `sum` (the log-likelihood for Bernoulli and
// Categorical; for Gaussian and MeasuredGaussian the squares of (target - output) / sd, one sum per
// width in `sd`) and the gradient of the log-likelihood to `gradient`. `work` has `work_size`
// numbers; a tile has `tile` vectors.
template <class T>
struct Kernel {
  int lanes;
  void (*rows)(const Network&, const Rows<T>&, int tile, const T* parameters, const T* sd,
               T* work, T* gradient, double* sum);
  // The same for one chain per lane: parameters, gradient, sd and sum have the chains as their last
  // axis. There is at least one row, and the gradient need not be zero before.
  void (*chains)(const Network&, const Rows<T>&, int tile, const T* parameters, const T* sd,
                 T* work, T* gradient, double* sum);
  // Whole trajectories, of one chain and of one chain per lane.
  void (*follow_one)(const Trajectory<T>&);
  void (*follow_chains)(const Trajectory<T>&);
};

// Numbers in the work array of a tile.
inline size_t work_size(const Network& network, int tile, int lanes) {
  size_t units = network.inputs, widest = network.inputs;
  for (int s = 0; s < network.num_stages; ++s) {
    const size_t outputs = network.stages[s].outputs;
    units += outputs;
    widest = outputs > widest ? outputs : widest;
  }
  return (units + 2 * widest) * tile * lanes;
}

const Kernel<float>* avx512_single();
const Kernel<double>* avx512_double();
const Kernel<float>* avx2_single();
const Kernel<double>* avx2_double();
const Kernel<float>* portable_single();
const Kernel<double>* portable_double();

}  // namespace tensorbnn
